"""What operators do is what is found by following each call to the operators around it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.random_traces import Plan, plans
from tests.reading import read_built
from traceanalyzer.simulation.selected import Selected, of_nodes
from traceanalyzer.simulation.selectors import select
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT


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
    found = of_nodes(context, "", np.array(sorted(nodes), np.int64)) or Selected("operator", "")
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
