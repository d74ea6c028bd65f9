"""Sequences of operators that repeat."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host
from tests.reading import read_built
from traceanalyzer.analyzers import repeats
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.repeats import Repeat

BODY = ("aten::select", "aten::mul", "aten::add_")


def analyzed(trace: TraceBuilder) -> tuple[Repeat, ...]:
    return repeats.analyze(Context(read_built(trace))).rows


def looping(names: Sequence[str], parent: str | None = None) -> TraceBuilder:
    """A step that calls operators of 10 us each, within an operator or range of the program's own."""
    trace = TraceBuilder()
    host = Host(trace)
    with host.annotation("ProfilerStep#2"):
        if parent is None:
            _call(host, names)
        else:
            with host.op(parent):
                _call(host, names)
    return trace


def _call(host: Host, names: Sequence[str]) -> None:
    for name in names:
        host.leaf(name, 10)


def test_a_sequence_starts_where_a_piece_is_taken() -> None:
    (row,) = analyzed(looping([*BODY[1:], *BODY * 12, "aten::sum"]))
    assert row.operators == BODY
    assert (row.runs, row.turns, row.most_turns, row.steps) == (1, 12, 12, 1)
    assert row.host_ns == 36 * 10_000
    assert (row.parent, row.idle_ns, row.is_carrying) == (None, None, False)


@pytest.mark.parametrize(("turns", "found"), [(9, 0), (10, 1)])
def test_ten_turns_are_needed(turns: int, found: int) -> None:
    assert len(analyzed(looping(BODY * turns))) == found


def test_something_between_ends_a_run() -> None:
    assert analyzed(looping([*BODY * 9, "aten::sum", *BODY * 9])) == ()
    (row,) = analyzed(looping([*BODY * 10, "aten::sum", *BODY * 11]))
    assert (row.runs, row.turns, row.most_turns) == (2, 21, 11)


def test_no_piece_no_repeat() -> None:
    assert analyzed(looping(["aten::mul", "aten::add_"] * 20)) == ()


def test_the_shortest_period_wins() -> None:
    (row,) = analyzed(looping(["aten::select", "aten::neg"] * 40))
    assert row.operators == ("aten::select", "aten::neg")


@pytest.mark.parametrize(
    ("parent", "found"),
    [
        ("forward", 1),
        ("aten::batch_norm", 0),
        ("SelectBackward0", 0),
        ("DistributedDataParallel.forward", 0),
        ("Optimizer.step#SGD.step", 0),
    ],
)
def test_only_the_program_loops(parent: str, found: int) -> None:
    assert len(analyzed(looping(BODY * 12, parent))) == found


@pytest.mark.parametrize("name", ["aten::addmm", "aten::cat", "aten::_thnn_fused_lstm_cell", "aten::item"])
def test_loops_that_may_carry_a_state_are_marked(name: str) -> None:
    (row,) = analyzed(looping(["aten::select", name] * 12))
    assert row.is_carrying
