"""What people name in a trace: kinds, names and patterns; what nothing has is refused with names like it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.random_traces import Plan, plans
from tests.reading import read_built
from traceanalyzer.errors import UsageError
from traceanalyzer.simulation import selectors
from traceanalyzer.simulation.selectors import select, waiting_calls
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.event_rows import EventRows, of_nodes
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT

SGEMM = "ampere_sgemm_128x64_nn"


def named() -> Context:
    """An operator within one of its own name, a kernel of it, another one of a name with brackets, and a wait.

    Rows of the device table: 0 is the product, 1 and 2 are `scale[0]` and `scale[1]`. Rows 0 to 2 of the launch table
    launch them, and row 3 waits.
    """
    trace = TraceBuilder()
    trace.op("aten::linear", 0, 100)
    trace.op("aten::linear", 10, 80)
    trace.launch_kernel(SGEMM, 40, 20, at=20)
    trace.op("scale", 200, 100)
    trace.launch_kernel("scale[0]", 240, 20, at=210)
    trace.launch_kernel("scale[1]", 270, 20, at=230)
    trace.op("aten::item", 400, 50)
    trace.launch("cudaStreamSynchronize", 410, 30)
    return Context(read_built(trace))


def test_an_operator_is_what_it_runs_and_its_outermost_calls() -> None:
    found = select(named(), "aten::linear")
    assert (found.kind, found.name) == ("operator", "aten::linear")
    assert (found.device.tolist(), found.calls.tolist()) == ([0], [0])
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([0], [100_000])


@pytest.mark.parametrize(
    ("text", "kind", "rows"),
    [
        (SGEMM, "kernel", [0]),
        ("kernel:*gemm*", "kernel", [0]),
        ("scale[?]", "kernel", [1, 2]),
        ("kernel:scale[0]", "kernel", [1]),
        ("scale", "operator", [1, 2]),
        ("class:gemm", "class", [0]),
        ("gemm", "class", [0]),
        ("gpu", "gpu", [0, 1, 2]),
    ],
)
def test_a_name_means_the_first_kind_that_has_it(text: str, kind: str, rows: list[int]) -> None:
    """Brackets are part of names, although in most kinds of patterns they would match one character."""
    found = select(named(), text)
    assert (found.kind, found.device.tolist()) == (kind, rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kernel:x", ("kernel", "x")),
        ("aten::mm", (None, "aten::mm")),
        ("operator::mm", (None, "operator::mm")),
        ("colour:x", (None, "colour:x")),
        ("owner:", ("owner", "")),
    ],
)
def test_two_colons_are_part_of_a_name(text: str, expected: tuple[str | None, str]) -> None:
    assert selectors.split(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("aten::liner", "aten::liner: nothing in the trace has this name. Did you mean aten::linear or "),
        ("kernel:SGEMM", f"Did you mean {SGEMM}?"),
        ("operator:scale[0]", "Did you mean scale?"),
        ("loader", "the trace has no waits for a DataLoader"),
        ("communication", "the trace has no kernels that communicate"),
    ],
)
def test_what_is_not_there_is_refused_with_names_like_it(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        select(named(), text)
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["*", "cudaStreamSynchronize", "cuda*", "aten::item"])
def test_calls_that_wait_are_named_themselves_or_by_what_is_around_them(text: str) -> None:
    assert waiting_calls(named(), text).calls.tolist() == [3]


def test_no_call_waits_in_an_operator_that_only_launches() -> None:
    with pytest.raises(UsageError, match="no call that waits for the device has this name"):
        waiting_calls(named(), "aten::linear")


def test_the_host_is_all_time_but_waits_for_the_loader() -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 10)
    trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20, 30)
    trace.op("aten::add", 60, 10)
    found = select(Context(read_built(trace)), "host")
    assert found.start_ns.tolist() == [0, 50_000]
    assert found.end_ns[0] == 20_000
    assert found.end_ns[1] > 70_000


# What operators do is what is found by following each call to the operators around it.


def around(context: Context, node: int) -> list[int]:
    """A node and those around it, from inside to outside."""
    found = []
    while node != NO_PARENT:
        found.append(node)
        node = int(context.host.tree.parent[node])
    return found


def in_some(context: Context, nodes: set[int], asked: I64) -> list[bool]:
    """Which nodes are among some nodes, or in one of them."""
    return [bool(nodes.intersection(around(context, node))) for node in asked.tolist()]


@given(plans, st.sets(st.integers(0, 11)))
def test_nodes_do_what_happens_within_them(plan: Plan, chosen: set[int]) -> None:
    context = Context(read_built(plan.build()))
    tree, links = context.host.tree, context.links
    nodes = {node for node in chosen if node < len(tree)}
    found = of_nodes(context, "", np.array(sorted(nodes), np.int64)) or EventRows("operator", "")
    calls = np.flatnonzero(in_some(context, nodes, links.node))
    assert found.calls.tolist() == calls.tolist()
    assert found.device.tolist() == np.flatnonzero(np.isin(links.launch, calls)).tolist()
    outer = [node for node in sorted(nodes) if not nodes.intersection(around(context, node)[1:])]
    assert found.start_ns.tolist() == tree.start_ns[outer].tolist()
    assert found.end_ns.tolist() == tree.end_ns[outer].tolist()


def nested() -> TraceBuilder:
    """An operator calls one of its own name, and that launches two kernels; one kernel is launched outside."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        with host.op("aten::to", 5, 5), host.op("aten::to", 5, 5):
            host.launch(Work("copy_kernel", 10), stream)
            host.launch(Work("cast_kernel", 10), stream)
        host.launch(Work("own_kernel", 10), stream)
        host.wait(stream)
    return finish(trace)


def test_an_operator_within_one_of_its_name_counts_once() -> None:
    context = Context(read_built(nested()))
    found = select(context, "operator:aten::to")
    names = [context.trace.names[code] for code in context.trace.device.name[found.device].tolist()]
    assert names == ["copy_kernel", "cast_kernel"]
    assert (len(found.calls), len(found.thread)) == (2, 1)
