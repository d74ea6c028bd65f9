"""Launches of real traces beside the queue lengths of Holistic Trace Analysis 0.5.0."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tests import corpus_files
from traceanalyzer.analyzers import launches
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace

pytestmark = pytest.mark.corpus

UNKNOWN_TO_HTA = ("hipModuleLaunchKernel", "hipMemset")
"""HTA goes by the names of functions and lacks these, so their kernels are in no queue of its."""
TIES = 0.001
"""Calls and starts at the same microsecond: HTA's order among them is that of an unstable sort, ours calls first."""


def without(trace: Trace, names: tuple[str, ...]) -> Trace:
    """The trace without some functions of the runtime."""
    kept = ~np.isin(trace.launches.name, [trace.names.code(name) for name in names])
    return replace(trace, launches=trace.launches.take(kept))


def test_queue_lengths_equal_those_of_hta(corpus: Path, corpus_name: str) -> None:
    with gzip.open(corpus / "expected" / f"{corpus_name}.json.gz") as file:
        expected = json.load(file)
    wanted = {row["stream"]: row for row in (expected.get("hta") or {}).get("queue_length_summary") or ()}
    trace = without(corpus_files.trace_of(corpus / "corpus" / f"{corpus_name}.json.gz"), UNKNOWN_TO_HTA)  # type: ignore[arg-type]
    context = Context(trace)
    if not wanted or launches.ANALYSES[0].missing(context) is not None:
        pytest.skip("nothing to compare: HTA has no queue, or we see no device activity (mtia_ccp_events)")
    found = {queue.stream: queue for queue in launches.analyze(context).queues}
    assert set(found) == set(wanted)
    tolerance = TIES if expected["integer_us"] else 1e-9
    if corpus_name == "train_v100_ns_timestamps":
        tolerance = 0.001  # a quarter of a microsecond of float noise in HTA reorders calls and starts
    for stream, row in wanted.items():
        assert 2 * found[stream].launches == row["queue_length_count"]
        assert found[stream].max_length == row["queue_length_max"]
        mean = row["queue_length_mean"]
        assert found[stream].mean_length_at_events == pytest.approx(mean, rel=tolerance)


def test_graph_kernels_are_in_no_figure_about_single_launches(corpus: Path) -> None:
    found = launches.analyze(corpus_files.context_of(corpus / "corpus" / "sglang_decode_graph_mi300.json.gz"))
    assert (found.graphs.launches, found.graphs.kernels) == (1, 544)
    assert found.launched_kernels == 11
    assert found.graphs.kernel_share == pytest.approx(0.9888, abs=1e-4)


def test_a_launcher_far_ahead_waits_for_room_in_the_queue(corpus: Path) -> None:
    found = launches.analyze(corpus_files.context_of(corpus / "corpus" / "train_v100_ns_timestamps.json.gz"))
    assert found.queues[0].max_length == 1022
    # All calls of more than ten times the median find 1,012 launches or more before them.
    assert (found.blocked.calls, found.blocked.full_length) == (925, 1001)
    assert found.blocked.time_ns == pytest.approx(227e6, rel=0.01)


def test_other_queues_of_the_corpus_are_never_full(corpus: Path, corpus_name: str) -> None:
    context = corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    if launches.ANALYSES[0].missing(context) is not None:
        pytest.skip("nothing to compare: no launches with their kernels")
    blocked = launches.analyze(context).blocked.calls
    assert (blocked > 0) == (corpus_name == "train_v100_ns_timestamps")
