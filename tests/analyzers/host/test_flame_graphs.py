"""Flame graphs, worked out by hand in microseconds, and laws that tie them to the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from tests import corpus_files
from tests.analyzers.host.test_owner_laws import context_of, evaluations, frames
from tests.builders import TraceBuilder
from tests.random_traces import Plan, plans
from tests.reading import read_built
from traceanalyzer.analyzers import host as host_owners
from traceanalyzer.analyzers.host import HostOwners
from traceanalyzer.analyzers.host.flame_graphs import (
    DEVICE,
    HOST,
    IDLE,
    UNKNOWN_OWNER,
    FlameGraph,
    of_recording,
    of_steps,
)
from traceanalyzer.structure.context import Context


def drawn(graph: FlameGraph | None) -> dict[str, float]:
    """Time in microseconds of each stack, names with `>` between them."""
    assert graph is not None
    names = [" > ".join(frame.name for frame in stack) for stack in graph.stacks]
    assert len(set(names)) == len(names)
    return {name: weight / 1000 for name, weight in zip(names, graph.weights, strict=True)}


def a_step(length: int = 100) -> TraceBuilder:
    trace = TraceBuilder()
    trace.step(0, 0, length)
    return trace


def context(trace: TraceBuilder) -> Context:
    return Context(read_built(trace))


def test_owners_then_operators_then_calls_and_on_the_device_the_kernel() -> None:
    """The device is busy from 30 to 50 and idle for want of work before and after it."""
    trace = a_step()
    trace.annotation("## forward ##", 10, 60)
    trace.module("Linear_0", 20, 40)
    trace.op("aten::linear", 22, 30)
    trace.op("aten::addmm", 24, 20)
    trace.launch_kernel("gemm", 30, 20, at=25, call_dur=5)
    found = of_steps(context(trace))
    assert (found.steps, [graph.quantity for graph in found.graphs]) == (1, [HOST, DEVICE, IDLE])
    module = "## forward ## > Linear"
    operators = f"{module} > aten::linear > aten::addmm"
    assert drawn(found.of(HOST)) == {
        "[unknown]": 10 + 30,
        "## forward ##": 10 + 10,
        module: 2 + 8,
        f"{module} > aten::linear": 2 + 8,
        operators: 1 + 14,
        f"{operators} > cudaLaunchKernel": 5,
    }
    assert drawn(found.of(DEVICE)) == {f"{operators} > gemm": 20}
    assert drawn(found.of(IDLE)) == {
        "[unknown]": 10 + 30,
        "## forward ##": 10 + 10,
        module: 2 + 8,
        f"{module} > aten::linear": 2 + 2,
        operators: 1,
        f"{operators} > cudaLaunchKernel": 5,
    }
    host = found.of(HOST)
    assert host is not None
    assert {stack[-1].name: owners for stack, owners in zip(host.stacks, host.owners, strict=True)} == {
        "[unknown]": 1,
        "## forward ##": 1,
        "Linear": 2,
        "aten::linear": 2,
        "aten::addmm": 2,
        "cudaLaunchKernel": 2,
    }


def test_stacks_are_depth_first_and_what_happens_first_comes_first() -> None:
    trace = a_step()
    for start in (0, 50):
        trace.annotation("late name, early time", start, 20)
        trace.annotation("inner", start + 5, 5)
        trace.annotation("early name, late time", start + 20, 30)
    assert list(drawn(of_steps(context(trace)).of(HOST)).items()) == [
        ("late name, early time", 30),
        ("late name, early time > inner", 10),
        ("early name, late time", 60),
    ]


def test_work_of_autograd_stands_on_the_stack_of_the_thread_that_waits_for_it() -> None:
    trace = a_step()
    trace.python_function("train.py(9): train", 0, 100)
    trace.op("aten::addmm", 10, 10, sequence=7)
    trace.launch_kernel("gemm", 16, 4, at=12)
    trace.annotation("backward", 30, 60)
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 40, 30, sequence=7, fwd_thread=1, tid=4202)
    trace.op("AddmmBackward0", 41, 28, sequence=7, fwd_thread=1, tid=4202)
    trace.op("aten::mm", 45, 20, tid=4202)
    trace.launch_kernel("gemm_nt", 55, 25, at=50, call_dur=5, tid=4202)
    found = of_steps(context(trace))
    engine = "train > backward > autograd > AddmmBackward0"
    host = drawn(found.of(HOST))
    assert {name: time for name, time in host.items() if "backward" in name} == {
        "train > backward": 10 + 20,
        engine: 2 + 8,  # the evaluation and the function in it have one name
        f"{engine} > aten::mm": 15,
        f"{engine} > aten::mm > cudaLaunchKernel": 5,
    }
    assert drawn(found.of(DEVICE)) == {
        "train > aten::addmm > gemm": 4,
        f"{engine} > aten::mm > gemm_nt": 25,
    }
    assert_equals_tables(context(trace))


def test_a_function_that_launches_work_while_another_thread_is_critical_is_in_both() -> None:
    """It takes none of the critical time, which is the program's until autograd's thread gets an evaluation."""
    trace = a_step()
    trace.python_function("model.py(30): prepare", 0, 30, tid=4202)
    trace.launch_kernel("gemm", 40, 50, at=20, call_dur=0, tid=4202)
    trace.op("aten::addmm", 10, 2, sequence=7)
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 60, 20, sequence=7, fwd_thread=1, tid=4202)
    found = context(trace)
    assert drawn(of_steps(found).of(DEVICE)) == {"prepare > gemm": 50}
    assert [(row.name, row.host_ns, row.device_ns) for row in host_owners.analyze(found).rows if row.device_ns] == [
        ("prepare", 0, 50_000)
    ]
    assert_equals_tables(found)


def test_an_operator_that_calls_a_function_of_the_program_is_not_below_that_function() -> None:
    """A custom operator whose implementation is Python: what the function calls is the function's."""
    trace = a_step()
    trace.python_function("train.py(9): train", 0, 100)
    trace.op("my::operator", 10, 60)
    trace.python_function("kernels.py(5): implementation", 20, 40)
    trace.op("aten::add", 30, 10)
    assert drawn(of_steps(context(trace)).of(HOST)) == {
        "train": 10 + 30,
        "train > my::operator": 10 + 10,
        "train > implementation": 10 + 20,
        "train > implementation > aten::add": 10,
    }


def test_operators_that_are_owners_or_call_themselves_stand_there_once() -> None:
    trace = a_step()
    trace.op("aten::linear", 0, 50)
    trace.op("aten::linear", 10, 30)
    trace.op("aten::mm", 20, 10)
    found = of_steps(context(trace)).of(HOST)
    assert drawn(found) == {"aten::linear": 40, "aten::linear > aten::mm": 10, "[unknown]": 50}


def test_an_operator_that_outlasts_its_owner_takes_none_of_the_time_after_it() -> None:
    trace = a_step(60)
    trace.annotation("outer", 0, 60)
    trace.annotation("inner", 10, 20)
    trace.op("aten::mm", 20, 20)  # a clock that is not exact
    assert drawn(of_steps(context(trace)).of(HOST)) == {
        "outer": 10 + 30,
        "outer > inner": 10,
        "outer > inner > aten::mm": 10,
    }


def test_further_threads_have_flame_graphs_of_their_own() -> None:
    trace = a_step()
    trace.annotation("work", 0, 100)
    trace.launch_kernel("k", 30, 60, at=20)
    trace.launch_kernel("k", 92, 2, at=85)
    trace.annotation("copy thread", 20, 50, tid=77)
    trace.memcpy("HtoD", 64, 40, 7, at=75, call_dur=5, tid=77, pinned=True, stream=9)
    found = of_steps(context(trace))
    assert [(graph.quantity, graph.thread) for graph in found.graphs] == [
        (HOST, None),
        (DEVICE, None),
        (IDLE, None),
        (HOST, "77"),
        (DEVICE, "77"),
    ]
    assert drawn(found.graphs[3]) == {"copy thread": 50, "cudaMemcpyAsync": 5}
    assert drawn(found.graphs[4]) == {"cudaMemcpyAsync > Memcpy HtoD (Pinned -> Device)": 7}
    assert_equals_tables(context(trace))


def test_the_whole_recording_has_what_lies_outside_of_typical_steps() -> None:
    trace = TraceBuilder()
    trace.annotation("start", 0, 500)
    for number in range(4):
        trace.step(number, 1000 + 100 * number, 100)
        trace.annotation("work", 1000 + 100 * number, 100)
        trace.launch_kernel("k", 1050 + 100 * number, 30, at=1020 + 100 * number)
    steps, recording = of_steps(context(trace)), of_recording(context(trace))
    assert recording.steps is None
    assert "start" not in drawn(steps.of(HOST))
    host = drawn(recording.of(HOST))
    assert host["start"] == 500
    assert host["[unknown]"] == 500
    assert sum(host.values()) == 1400
    assert drawn(recording.of(DEVICE)) == {"work > k": 120}
    idle = drawn(recording.of(IDLE))
    assert idle["start"] == 500
    assert sum(idle.values()) == 1400 - 120


def test_a_trace_without_host_events_has_no_flame_graph() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 10)
    assert of_steps(context(trace)).graphs == ()
    assert of_recording(context(trace)).graphs == ()


def assert_equals_tables(context: Context) -> None:
    """Sums of flame graphs are those of the tables, in total and owner by owner."""
    found, table = of_steps(context), host_owners.analyze(context)
    totals = {graph.quantity: graph.total_ns for graph in found.graphs if graph.thread is None}
    assert totals.get(HOST, 0) == table.time_ns
    assert totals.get(DEVICE, 0) == (table.device_ns or 0)
    assert totals.get(IDLE, 0) == (table.idle_ns or 0)
    for quantity in (HOST, DEVICE, IDLE):
        assert owners_of(found.of(quantity)) == owners_of_table(table, quantity)
    for thread in table.other_threads:
        own = {graph.quantity: graph.total_ns for graph in found.graphs if graph.thread == thread.thread}
        assert (own.get(HOST, 0), own.get(DEVICE, 0)) == (thread.host_ns, thread.device_ns)


def owners_of(graph: FlameGraph | None) -> dict[tuple[object, ...], tuple[int, int]]:
    """Exclusive and inclusive time of each owner of a flame graph, those without any left out."""
    own: dict[tuple[object, ...], int] = {}
    inner: dict[tuple[object, ...], int] = {}
    for stack, weight, owners in zip(graph.stacks, graph.weights, graph.owners, strict=True) if graph else ():
        keys = [(owner.kind, owner.name, owner.role, owner.file, owner.line) for owner in stack[:owners]]
        own[keys[-1]] = own.get(keys[-1], 0) + weight
        for key in set(keys):
            inner[key] = inner.get(key, 0) + weight
    return {key: (own.get(key, 0), time) for key, time in inner.items()}


def owners_of_table(table: HostOwners, quantity: str) -> dict[tuple[object, ...], tuple[int, int]]:
    rows = {(row.kind, row.name, row.role, row.file, row.line): row for row in table.rows}
    found = {
        key: (getattr(row, f"{quantity}_self_ns") or 0, getattr(row, f"{quantity}_ns") or 0)
        for key, row in rows.items()
    }
    rest = getattr(table.unowned, f"{quantity}_self_ns") or 0
    found["unknown", UNKNOWN_OWNER.name, None, None, None] = (rest, rest)
    assert not table.hidden.host_ns, "more owners than the table lists"
    return {key: times for key, times in found.items() if times[1]}


@given(plans, frames, evaluations)
def test_flame_graphs_of_any_trace_equal_the_tables(
    plan: Plan, calls: list[tuple[str, int, int, int]], passes: list[tuple[int, int]]
) -> None:
    context = context_of(plan, calls, passes)
    assert_equals_tables(context)
    span = context.trace.info.span_ns
    assert [graph.total_ns for graph in of_recording(context).graphs[:1]] in ([span], [])


@pytest.mark.corpus
def test_flame_graphs_of_the_corpus_equal_the_tables(corpus: Path, corpus_name: str) -> None:
    context = corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    assert_equals_tables(context)
