"""Sequences of operators that repeat."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host
from tests.reading import read_built
from traceanalyzer.analyzers.operators import loops
from traceanalyzer.analyzers.operators.loops import Repeat
from traceanalyzer.structure.context import Context

BODY = ("aten::select", "aten::mul", "aten::add_")


def analyzed(trace: TraceBuilder) -> tuple[Repeat, ...]:
    return loops.analyze(Context(read_built(trace))).rows


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


def test_what_ends_a_backward_pass_is_no_loop_of_the_program() -> None:
    """DistributedDataParallel goes through its list of used parameters on the thread of autograd."""
    trace = TraceBuilder()
    main, engine = Host(trace), Host(trace, at=200, tid=4202)
    with main.annotation("ProfilerStep#2"):
        main.leaf("aten::mm", sequence=7)
        main.leaf("aten::mul", 3000)
    with engine.op("autograd::engine::evaluate_function: MmBackward0", sequence=7, fwd_thread=1):
        engine.leaf("aten::mm", 30)
    _call(engine, ["aten::select"] * 40)
    assert analyzed(trace) == ()


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
        ("acme::my_operator", 0),
        ("SelectBackward0", 0),
        ("MyFunctionBackward", 0),
        ("BackwardLoop", 1),
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


def test_what_autograd_evaluates_for_a_loop_is_its_own() -> None:
    """Twelve turns of two operators and one operator after them; backward on a thread of its own, last to first."""
    trace, engine = TraceBuilder(), 4297
    trace.step(2, 0, 2000)
    for turn in range(12):
        trace.op("aten::select", 20 * turn, 10)
        trace.op("aten::mul", 20 * turn + 10, 10, sequence=turn)
    trace.op("aten::sum", 240, 10, sequence=12)
    for number, sequence in enumerate(range(12, -1, -1)):
        name = "autograd::engine::evaluate_function: XBackward0"
        trace.op(name, 300 + 100 * number, 50, sequence=sequence, fwd_thread=1, tid=engine)
    trace.launch_kernel("k", 1500, 30, at=1502, tid=engine)  # in the evaluation of the first turn
    (row,) = analyzed(trace)
    assert (row.turns, row.host_ns, row.backward_ns) == (12, 240_000, 12 * 50_000)
    assert row.idle_ns == 240_000 + 12 * 50_000 - 30_000
