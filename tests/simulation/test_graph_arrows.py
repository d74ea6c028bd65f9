"""Dependencies inside graphs: what the writer drew decides, not which work ended last; times in microseconds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.simulation.replaying import model_of, saved
from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.pipeline import analyze
from traceanalyzer.simulation.edits import ScaleEdit
from traceanalyzer.simulation.graph import NOTHING
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.graph_dependencies import callbacks, dependencies


def replayed(*, arrows: bool = True, callback: bool = False, lanes: bool = False) -> TraceBuilder:
    """A graph on three streams: `other` ends just before `last` starts, which depends on `first` alone.

    Args:
        arrows: Whether the writer drew the dependencies.
        callback: Whether a callback on the host runs between the two.
        lanes: Whether the writer moved everything to one row to show it.
    """
    trace = TraceBuilder()
    trace.step(1, 0, 400)
    works: list[tuple[str, Any, Any, Any]] = [
        ("first", 60, 100, {"stream": 7}),
        ("other", 60, 130, {"stream": 8}),
        ("last", 200, 50, {"stream": 9}),
    ]
    ident = trace.graph_launch(10, 20, works)
    first, last = (event for event in trace.events if event["name"] in ("first", "last") and event["ph"] == "X")
    nodes = [first, last]
    if callback:
        nodes.insert(1, trace.graph_node("HostNode: tell", 165, 30, ident, stream=9))
    if lanes:
        for event in trace.events:
            args = event.get("args")
            if isinstance(args, dict) and "stream" in args:
                event["args"] = args | {"original_stream": args["stream"], "stream": 3}
                event["tid"] = 3
    if arrows:
        for one, other in pairwise(nodes):
            trace.dependency(one, other)
    trace.launch("cudaDeviceSynchronize", 40, 215)
    return trace


def place(found: Model, name: str) -> int:
    trace = found.context.trace
    (row,) = np.flatnonzero(trace.device.name == list(trace.names).index(name))
    (position,) = np.flatnonzero(found.graph.device.row == row)
    return int(position)


def waits_of_last(found: Model) -> tuple[int, int]:
    device = found.graph.device
    return int(device.waits_for[place(found, "last")]), int(device.wait_ns[place(found, "last")])


def test_without_arrows_the_last_to_end_is_taken() -> None:
    found = model_of(replayed(arrows=False))
    assert waits_of_last(found) == (place(found, "other"), 10_000)


@pytest.mark.parametrize("lanes", [False, True])
def test_arrows_say_what_is_waited_for(lanes: bool) -> None:
    found = model_of(replayed(lanes=lanes))
    assert waits_of_last(found) == (place(found, "first"), 40_000)
    faster = ScaleEdit(found.graph.device.row[[place(found, "first")]], 0.5)
    assert saved(found, faster) == 50
    others = ScaleEdit(found.graph.device.row[[place(found, "other")]], 0.5)
    assert saved(found, others) == 0


def test_a_callback_between_two_kernels_is_passed() -> None:
    context = Context(read_built(replayed(callback=True)))
    known = dependencies(context)
    names = [context.trace.names[code] for code in context.trace.device.name.tolist()]
    pairs = [(names[one], names[other]) for one, other in zip(known.first.tolist(), known.second.tolist(), strict=True)]
    assert pairs == [("first", "last")]
    assert known.is_direct.tolist() == [False]
    found = model_of(replayed(callback=True))
    assert waits_of_last(found) == (place(found, "first"), 40_000)
    _, times = callbacks(context, 0)
    assert times.length == 30_000


def test_arrows_that_fit_several_nodes_are_left_out() -> None:
    trace = replayed()
    trace.events += [dict(event) for event in trace.events if event["name"] == "first"]
    assert len(dependencies(Context(read_built(trace))).first) == 0


def test_a_trace_without_arrows_has_no_dependencies() -> None:
    assert len(dependencies(Context(read_built(replayed(arrows=False)))).first) == 0
    assert NOTHING not in waits_of_last(model_of(replayed(arrows=False)))


def test_lanes_do_not_change_times() -> None:
    """Moved to one row or not, the idle time of each stream and each cause is the same."""
    shown, moved = (analyze(read_built(replayed(callback=True, lanes=lanes))) for lanes in (False, True))
    assert shown.result("idle", Idle) == moved.result("idle", Idle)
    assert shown.headlines == moved.headlines


def test_idle_time_in_which_a_callback_runs() -> None:
    idle = analyze(read_built(replayed(callback=True))).result("idle", Idle)
    assert idle is not None
    (device,) = idle.devices
    assert device.callbacks_ns == 5_000  # `other` runs until 190, and the callback from 165 to 195
    assert device.callback == "HostNode: tell"
    usual = analyze(read_built(replayed())).result("idle", Idle)
    assert usual is not None
    assert (usual.devices[0].callbacks_ns, usual.devices[0].callback) == (0, None)
