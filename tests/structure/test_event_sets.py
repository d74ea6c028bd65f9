"""Sets of events are descriptions: small, equal for equal events, and searched for once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.copies import within_memory
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet, Occurrences, event_set

searched: list[str] = []


@event_set
def named(context: Context, name: str, *, is_last: bool = False) -> Iterator[Occurrences]:
    """The operators with a name."""
    searched.append(name)
    nodes = np.flatnonzero(context.host.name == context.trace.names.code(name))
    yield Occurrences.of_nodes(context, name, nodes[-1:] if is_last else nodes)


@pytest.fixture
def context() -> Context:
    """Two copies that make tensors contiguous, before another operator."""
    trace = TraceBuilder()
    for start in (0, 100):
        trace.op("aten::contiguous", start, 40)
        trace.op("aten::copy_", start + 10, 20)
    trace.op("aten::mm", 200, 50)
    return Context(read_built(trace))


def test_searches_once_for_equal_sets(context: Context) -> None:
    searched.clear()
    (found,) = named("aten::copy_").found(context)
    assert found.start_ns.tolist() == [10_000, 110_000]
    assert named("aten::copy_").found(context)[0] is found
    assert searched == ["aten::copy_"]
    (last,) = named("aten::copy_", is_last=True).found(context)
    assert last.start_ns.tolist() == [110_000]
    assert named("aten::copy_") != named("aten::copy_", is_last=True) != named("aten::mm", is_last=True)


def test_survives_the_way_to_another_process(context: Context) -> None:
    rows = within_memory.analyze(context).rows
    there = within_memory.copies_at(rows)
    back = pickle.loads(pickle.dumps(there))
    assert back == there
    assert back.found(context) is there.found(context), "found again by the same key"
    assert [each.start_ns.tolist() for each in back.found(context)] == [[0, 100_000]]


def test_is_as_small_in_a_long_recording() -> None:
    sizes = set()
    for copies in (2, 300):
        trace = TraceBuilder()
        for number in range(copies):
            trace.op("aten::copy_", 100 * number, 50)
        context = Context(read_built(trace))
        there = named("aten::copy_")
        assert len(there.found(context)[0].start_ns) == copies
        sizes.add(len(pickle.dumps(there)))
    assert len(sizes) == 1


def test_names_alone_find_nothing(context: Context) -> None:
    assert EventSet.operator("aten::mm").found(context) == ()
