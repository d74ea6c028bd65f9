"""Which module does the time of a backward pass belong to?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analyzers.memory.report_with import report_with
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import modules
from traceanalyzer.analyzers.modules import Modules, Unattributed
from traceanalyzer.sections import modules as section
from traceanalyzer.structure.context import Context

ENGINE = 4297
EVALUATE = "autograd::engine::evaluate_function: "
NOTHING = Unattributed(0, 0, 0)


def analyzed(trace: TraceBuilder) -> Modules:
    return modules.analyze(Context(read_built(trace)))


def forward(trace: TraceBuilder, *, flows: bool, sequence: bool = True) -> None:
    """`Net` calls `A` and `B`, then a loss function that is in no module; backward on another thread."""
    trace.module("Net_0", 0, 100)
    for number, (name, start) in enumerate((("A_0", 10), ("B_0", 50))):
        trace.module(name, start, 30)
        trace.op("aten::wrapper", start + 3, 25, sequence=number if sequence else None)
        trace.op("aten::mm", start + 5, 20, sequence=number if sequence else None)
    trace.op("aten::loss", 110, 10, sequence=2 if sequence else None)
    for number, (start, source) in enumerate(((300, 110), (400, 55), (500, 15))):
        seq = 2 - number if sequence else None
        trace.op(f"{EVALUATE}XBackward0", start, 50, sequence=seq, fwd_thread=1, tid=ENGINE)
        trace.op("XBackward0", start + 5, 40, sequence=seq, fwd_thread=1, tid=ENGINE)
        trace.op("aten::mm", start + 10, 20, tid=ENGINE)
        trace.launch_kernel("grad", start + 1000, 10 + number, at=start + 12, tid=ENGINE)
        if flows:
            trace.fwdbwd((source, trace.tid), (start + 5, ENGINE))


def accumulate(trace: TraceBuilder, start: int) -> None:
    trace.op(f"{EVALUATE}torch::autograd::AccumulateGrad", start, 20, tid=ENGINE)
    trace.op("torch::autograd::AccumulateGrad", start + 2, 15, tid=ENGINE)
    trace.launch_kernel("add", start + 1000, 3, at=start + 5, tid=ENGINE)


@pytest.mark.parametrize(("flows", "sequence"), [(True, True), (True, False), (False, True)])
def test_backward_belongs_to_the_module_of_its_forward_operator(flows: bool, sequence: bool) -> None:
    trace = TraceBuilder()
    forward(trace, flows=flows, sequence=sequence)
    found = analyzed(trace)
    rows = {
        row.name: (
            row.backward_functions,
            row.backward_host_self_ns,
            row.backward_host_total_ns,
            row.backward_device_self_ns,
            row.backward_device_total_ns,
        )
        for row in found.rows
    }
    assert rows == {
        "Net_0": (0, 0, 100_000, 0, 23_000),
        "A_0": (1, 50_000, 50_000, 12_000, 12_000),
        "B_0": (1, 50_000, 50_000, 11_000, 11_000),
    }
    assert found.backward_outside == Unattributed(1, 50_000, 10_000)
    assert found.backward_unlinked == NOTHING
    assert found.outside_device_ns == 0


def test_without_flows_and_numbers_nothing_is_lost() -> None:
    trace = TraceBuilder()
    forward(trace, flows=False, sequence=False)
    found = analyzed(trace)
    assert found.backward_unlinked == Unattributed(3, 150_000, 33_000)
    assert found.backward_outside == NOTHING
    assert not any(row.backward_functions for row in found.rows)


def test_gradients_are_added_where_they_were_computed() -> None:
    trace = TraceBuilder()
    accumulate(trace, 250)  # nothing before it
    forward(trace, flows=True)
    accumulate(trace, 460)  # after B's
    accumulate(trace, 480)
    accumulate(trace, 560)  # after A's
    found = analyzed(trace)
    functions = {row.name: (row.backward_functions, row.backward_device_self_ns) for row in found.rows}
    assert functions == {"Net_0": (0, 0), "A_0": (2, 15_000), "B_0": (3, 17_000)}
    assert found.backward_unlinked == Unattributed(1, 20_000, 3_000)


def test_gradients_follow_only_on_their_own_thread_and_level() -> None:
    trace = TraceBuilder()
    trace.module("A_0", 0, 30)
    trace.op("aten::mm", 5, 20, sequence=4)
    trace.op(f"{EVALUATE}MmBackward0", 100, 40, sequence=4, fwd_thread=1, tid=ENGINE)
    trace.op(f"{EVALUATE}torch::autograd::AccumulateGrad", 150, 20, tid=ENGINE + 1)
    trace.op("my_range", 200, 50, tid=ENGINE)
    trace.op(f"{EVALUATE}torch::autograd::AccumulateGrad", 210, 20, tid=ENGINE)
    found = analyzed(trace)
    assert found.rows[0].backward_functions == 1
    assert found.backward_unlinked == Unattributed(2, 40_000, 0)


def test_functions_without_the_engines_range() -> None:
    """Until torch 1.8 the function itself was all there was."""
    trace = TraceBuilder()
    trace.module("A_0", 0, 30)
    trace.op("aten::mm", 5, 20, sequence=4)
    trace.op("MmBackward", 100, 40, sequence=4, fwd_thread=1, tid=ENGINE)
    trace.op("aten::mm", 110, 20, tid=ENGINE)
    trace.launch_kernel("grad", 200, 9, at=115, tid=ENGINE)
    (row,) = analyzed(trace).rows
    assert (row.backward_functions, row.backward_host_self_ns, row.backward_device_self_ns) == (1, 40_000, 9_000)


def test_of_operators_with_one_number_the_last_before_counts() -> None:
    """Operators that need no gradient take no number: they show that of the next one that does."""
    trace = TraceBuilder()
    trace.module("Buffer_0", 0, 30)
    trace.op("aten::add_", 5, 20, sequence=4)
    trace.module("Linear_0", 40, 30)
    trace.op("aten::linear", 45, 20, sequence=4)
    trace.op("MmBackward0", 100, 40, sequence=4, fwd_thread=1, tid=ENGINE)
    trace.module("Later_0", 200, 30)
    trace.op("aten::linear", 205, 20, sequence=4)
    assert {row.name: row.backward_functions for row in analyzed(trace).rows} == {
        "Buffer_0": 0,
        "Linear_0": 1,
        "Later_0": 0,
    }


def test_a_number_of_two_threads_tells_nothing_but_a_flow_does() -> None:
    trace = TraceBuilder()
    trace.module("A_0", 0, 30)
    trace.op("aten::mm", 5, 20, sequence=4)
    trace.op("aten::mm", 5, 20, sequence=4, tid=99)
    trace.op("MmBackward0", 100, 40, sequence=4, fwd_thread=1, tid=ENGINE)
    assert analyzed(trace).backward_unlinked == Unattributed(1, 40_000, 0)
    trace.fwdbwd((5, trace.tid), (100, ENGINE))
    assert analyzed(trace).rows[0].backward_functions == 1


def test_a_checkpoint_runs_forward_again_inside_of_backward() -> None:
    trace = TraceBuilder()
    trace.module("Net_0", 0, 50)
    trace.op("CheckpointFunction", 5, 40, sequence=7)
    trace.op(f"{EVALUATE}CheckpointFunctionBackward", 100, 200, sequence=7, fwd_thread=1, tid=ENGINE)
    trace.module("Block_0", 110, 40, tid=ENGINE)
    trace.op("aten::mm", 115, 20, sequence=8, tid=ENGINE)
    trace.launch_kernel("again", 1000, 5, at=120, tid=ENGINE)
    trace.op(f"{EVALUATE}MmBackward0", 160, 30, sequence=8, fwd_thread=1, tid=ENGINE)
    trace.launch_kernel("grad", 1100, 7, at=170, tid=ENGINE)
    trace.launch_kernel("other", 1200, 11, at=210, tid=ENGINE)
    found = analyzed(trace)
    rows = {row.name: row for row in found.rows}
    assert (rows["Block_0"].device_self_ns, rows["Block_0"].backward_device_self_ns) == (5_000, 7_000)
    assert (rows["Net_0"].backward_device_self_ns, rows["Net_0"].backward_host_self_ns) == (11_000, 130_000)
    assert [(place.name, place.parent) for place in found.tree] == [("Net_0", None), ("Block_0", None)]


def test_backward_inside_a_module_is_no_forward_time() -> None:
    """A trainer that is a module itself, on a CPU: the engine runs on the same thread."""
    trace = TraceBuilder()
    trace.module("Trainer_0", 0, 500)
    trace.module("Linear_0", 10, 50, module=1)
    trace.op("aten::mm", 20, 20, sequence=3)
    trace.launch_kernel("forward", 1000, 5, at=25)
    trace.op(f"{EVALUATE}MmBackward0", 100, 60, sequence=3, fwd_thread=1)
    trace.launch_kernel("grad", 1100, 7, at=110)
    rows = {row.name: row for row in analyzed(trace).rows}
    assert (rows["Trainer_0"].device_total_ns, rows["Trainer_0"].backward_device_total_ns) == (5_000, 7_000)
    assert rows["Linear_0"].backward_device_self_ns == 7_000


def test_the_section_has_backward_and_what_is_in_no_module() -> None:
    trace = TraceBuilder()
    forward(trace, flows=True)
    ranking = next(part for part in section.build(report_with("modules", analyzed(trace)), 5) if part.id == "modules")
    assert [message.params for message in ranking.messages] == [{"functions": 1, "device": 10_000}]
    titles = [column.title.id for column in ranking.tables[0].columns]
    assert "column-backward-self" in titles


span = st.tuples(st.integers(0, 300), st.integers(1, 150), st.sampled_from([4201, ENGINE]))


@given(
    st.lists(st.tuples(st.sampled_from(["A_0", "B_0", "B_1"]), span), max_size=8),
    st.lists(st.tuples(span, st.integers(0, 4), st.booleans()), max_size=10),
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from([4201, ENGINE])), max_size=8),
)
def test_device_time_is_divided_without_a_rest(
    calls: Sequence[tuple[str, tuple[int, int, int]]],
    operators: Sequence[tuple[tuple[int, int, int], int, bool]],
    launches: Sequence[tuple[int, int]],
) -> None:
    trace = TraceBuilder()
    for name, (start, dur, tid) in calls:
        trace.module(name, start, dur, tid=tid)
    for (start, dur, tid), number, is_backward in operators:
        name = f"{EVALUATE}X" if is_backward else "aten::x"
        trace.op(name, start, dur, sequence=number, fwd_thread=int(is_backward), tid=tid)
    for at, tid in launches:
        trace.launch_kernel("k", at + 500, 5, at=at, tid=tid)
    trace.kernel("without a launch", 2000, 13)
    found = analyzed(trace)
    parts = [row.device_self_ns + row.backward_device_self_ns for row in found.rows]
    rest = found.outside_device_ns + found.backward_outside.device_ns + found.backward_unlinked.device_ns
    assert sum(parts) + rest == found.device_ns == 5_000 * len(launches) + 13_000
    evaluated = sum(is_backward for _, _, is_backward in operators)
    functions = sum(row.backward_functions for row in found.rows)
    assert functions + found.backward_outside.functions + found.backward_unlinked.functions == evaluated
    for view in (found.rows, found.tree):
        assert sum(row.device_self_ns + row.backward_device_self_ns for row in view) == sum(parts)
    for place in found.tree:
        assert place.backward_device_self_ns <= place.backward_device_total_ns
        assert place.device_self_ns <= place.device_total_ns
