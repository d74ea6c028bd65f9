"""Overlap against Holistic Trace Analysis, and sets of device times against TraceLens, on real traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import corpus_files
from traceanalyzer.analyzers import communication
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import Bool
from traceanalyzer.trace.tables import Category

pytestmark = pytest.mark.corpus

WITH_COLLECTIVES = {"ddp_a100_nccl_rank0", "sampled_rank0_of_128", "sampled_rank1_of_128"}

FLOAT_NOISE_MS = {"train_v100_ns_timestamps": 0.03}
"""TraceLens keeps times as float64 microseconds; where they count from 1970, each is off by up to 0.25 us."""


def expected(folder: Path, name: str) -> dict[str, Any]:
    with gzip.open(folder / "expected" / f"{name}.json.gz", "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found


def context_of(folder: Path, name: str) -> Context:
    return corpus_files.context_of(folder / "corpus" / f"{name}.json.gz")


def test_overlap_is_htas(corpus: Path, corpus_name: str) -> None:
    """`comm_comp_overlap` in percent with two digits; HTA has no value without communication."""
    hta = expected(corpus, corpus_name).get("hta")
    theirs = hta["comm_comp_overlap"] if hta else []
    context = context_of(corpus, corpus_name)
    if communication.ANALYSES[0].missing(context) is not None:
        assert corpus_name not in WITH_COLLECTIVES
        assert all(row["comp_comm_overlap_pctg"] is None for row in theirs)
        return
    (device,) = communication.on_devices(context).devices
    assert device.whole.overlap_share is not None
    assert round(100 * device.whole.overlap_share, 2) == theirs[0]["comp_comm_overlap_pctg"]


def test_all_collectives_of_ddp_are_described(corpus: Path) -> None:
    """Worked out from the file: buckets of 2 ranks in 3 steps, their elements in the args of the kernels."""
    found = communication.on_devices(context_of(corpus, "ddp_a100_nccl_rank0"))
    assert found.calls == 21
    assert found.calls_without_size == 0
    assert {(r.operation, r.dtype, r.message_bytes, r.calls) for r in found.rows} == {
        *(("all_reduce", "Float", 4 * n, 3) for n in (2049000, 7875584, 6563840, 6637568, 2431040)),
        ("broadcast", "Float", 4 * 53120, 3),
        ("broadcast", "Long", 8 * 53, 3),
    }
    assert all(row.bus_gb_per_s == row.algorithm_gb_per_s for row in found.rows)  # 2 (2 - 1) / 2 is 1
    assert [step.calls for step in found.steps] == [7, 7, 7]


def test_older_traces_name_operations_but_no_sizes(corpus: Path) -> None:
    """Every kernel there is called SendRecv; the host events show its purpose."""
    found = communication.on_devices(context_of(corpus, "sampled_rank0_of_128"))
    assert {(r.operation, r.calls, r.message_bytes) for r in found.rows} == {
        ("all_to_all", 4, None),
        ("all_reduce", 4, None),
        ("all_gather", 2, None),
    }


def test_device_times_are_tracelens(corpus: Path, corpus_name: str) -> None:
    """`gpu_timeline`: sets of times over the whole trace, to 2 us, with fills among computation as there."""
    tracelens = expected(corpus, corpus_name).get("tracelens")
    if not tracelens:
        pytest.skip("nothing to compare: TraceLens does not read it")
    theirs = {row[0]: row[1] for row in tracelens["gpu_timeline_ms"]["rows"]}
    ours = _timeline(context_of(corpus, corpus_name).trace)
    tolerance = FLOAT_NOISE_MS.get(corpus_name, 0.002)
    assert ours
    for name, value in ours.items():
        assert value == pytest.approx(theirs[name], abs=tolerance), name


def _timeline(trace: Trace) -> dict[str, float]:
    """Milliseconds by TraceLens' names."""
    device = trace.device
    end = device.start_ns + device.dur_ns
    communicates, copies = communication_kernels(Context(trace)), device.category == Category.MEMCPY

    def times(rows: Bool) -> Intervals:
        return Intervals.union(device.start_ns[rows], end[rows])

    computation, exchange, copying = times(~communicates & ~copies), times(communicates), times(copies)
    busy = times(np.ones(len(device), np.bool_))
    total = int(end.max() - device.start_ns.min())
    found = {
        "computation_time": computation.length,
        "exposed_comm_time": (exchange - computation).length,
        "exposed_memcpy_time": (copying - computation - exchange).length,
        "busy_time": busy.length,
        "idle_time": total - busy.length,
        "total_time": total,
        "total_comm_time": exchange.length,
        "total_memcpy_time": copying.length,
    }
    return {name: value / 1e6 for name, value in found.items()}
