"""Laws of owners of host time for arbitrary traces."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import corpus_files
from tests.analyzers.host.reading_owners import assert_adds_up
from tests.random_traces import Plan, duration, plans, thread, time
from tests.reading import read_built
from traceanalyzer.analyzers import host
from traceanalyzer.structure import recording
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.owners import OwnerIndex, owner_index
from traceanalyzer.structure.recording.program_steps import program_steps

FRAMES = (
    "train.py(10): main",
    "model.py(20): forward",
    "model.py(30): preprocess",
    "torch/nn/functional.py(5): linear",
    "transformers/generation/utils.py(9): generate",
    "threading.py(3): wait",
    "<built-in function sleep>",
    "nn.Module: Block_0",
)
NOT_OF_THE_HOST = frozenset({"unrecorded_work", "pending", "device_gap"})
frames = st.lists(st.tuples(st.sampled_from(FRAMES), time, duration, thread), max_size=10)
evaluations = st.lists(st.tuples(time, duration), max_size=4)


def context_of(plan: Plan, calls: list[tuple[str, int, int, int]], passes: list[tuple[int, int]]) -> Context:
    trace = plan.build()
    for name, start, dur, tid in calls:
        if name.startswith("nn.Module"):
            trace.module(name.removeprefix("nn.Module: "), start, dur, tid=tid)
        else:
            trace.python_function(name, start, dur, tid=tid)
    for number, (start, dur) in enumerate(passes):
        trace.op("autograd::engine::evaluate_function: X", start, dur, sequence=number, fwd_thread=1, tid=4202)
        trace.op("aten::forward", start + 3, 2, sequence=number, tid=4201)
    return Context(read_built(trace))


def assert_tiles(index: OwnerIndex) -> None:
    """The segments follow each other and tile the steps that count."""
    segments, kept = index.timeline, index.critical.kept
    assert (segments.end_ns > segments.start_ns).all()
    assert (segments.start_ns[1:] >= segments.end_ns[:-1]).all()
    assert int((segments.end_ns - segments.start_ns).sum()) == kept.length
    assert (kept.within(segments.start_ns, segments.end_ns) == segments.end_ns - segments.start_ns).all()
    assert segments.owner.min(initial=0) >= -1
    assert segments.owner.max(initial=-1) < len(index.owners)


def assert_laws(context: Context) -> None:
    index = context.cached(owner_index)
    assert bool(index.critical.kept) == (host.ANALYSES[0].missing(context) is None)
    found = host.analyze(context)
    assert_adds_up(found)
    assert_tiles(index)
    typical = program_steps(context).typical
    length = int((typical.end_ns - typical.start_ns).sum())
    assert found.time_ns in (length, 0 if index.critical.main < 0 else length)
    said = recording.analyze(context).typical
    own = sum(cause.ns_per_step for cause in (said.idle if said else ()) if cause.cause not in NOT_OF_THE_HOST)
    assert (found.idle_ns or 0) == pytest.approx(own * found.steps, abs=1e-3)


@given(plans, frames, evaluations)
def test_exclusive_times_add_up_and_segments_tile_the_steps(
    plan: Plan, calls: list[tuple[str, int, int, int]], passes: list[tuple[int, int]]
) -> None:
    assert_laws(context_of(plan, calls, passes))


@given(plans, frames, evaluations)
def test_a_moment_of_the_timeline_has_the_owner_that_the_index_tells(
    plan: Plan, calls: list[tuple[str, int, int, int]], passes: list[tuple[int, int]]
) -> None:
    index = context_of(plan, calls, passes).cached(owner_index)
    segments = index.timeline
    middle = (segments.start_ns + segments.end_ns) // 2
    assert index.at(segments.thread, middle).tolist() == segments.owner.tolist()


@pytest.mark.corpus
def test_laws_hold_in_the_corpus(corpus: Path, corpus_name: str) -> None:
    assert_laws(corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz"))


@pytest.mark.corpus
@pytest.mark.parametrize("folder", ["pairs", "ranks", "serving"])
def test_laws_hold_in_the_field(corpus: Path, folder: str) -> None:
    """Of ranks of one run and of one program at several sizes, the first is enough."""
    files = sorted((corpus / "field" / folder).glob("*.json.gz"))
    first = {re.sub(r"\d+(?=\.json)", "", file.name): file for file in reversed(files)}
    assert len(first) >= 1
    for file in first.values():
        assert_laws(corpus_files.context_of(file))
