"""Builds the causal graph of a window from the tables of a trace, so that it reproduces the recorded times."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.simulation import device_chain, host_points, streams, waits
from traceanalyzer.simulation.device_chain import WindowTables
from traceanalyzer.simulation.graph import NOTHING, RECORDED, DeviceChain, Graph, HostPoints, shifted
from traceanalyzer.simulation.longest_path import NEVER
from traceanalyzer.simulation.window import ModelledWindow, find_calls
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.table import I64


class Built(msgspec.Struct, frozen=True):
    """A graph, and the positions of its steps."""

    graph: Graph
    step_start: I64
    """The point at the start of each step's mark."""
    step_end: I64
    """The point at the end of each step's mark."""


def build(context: Context, window: ModelledWindow) -> Built:
    """Build the graph of a window."""
    calls = find_calls(context, window)
    events = streams.find(context, window, calls)
    released = waits.find_releases(context, calls, events)
    placed = host_points.build(context, window, calls, released)
    tables = WindowTables(calls, events, released)
    device, inputs = device_chain.build(context, window, tables, placed)
    return Built(Graph(placed.points, device, inputs), placed.step_start, placed.step_end)


# Adds residuals to a graph, so that each event starts as late as it was recorded.
#
# A residual is the recorded time minus the time that the recorded causes imply. With residuals an unchanged replay
# equals the recording; without them, its difference from the recording is the error of the model.


def keep_residuals(graph: Graph) -> Graph:
    """The graph with residuals: time that the model does not explain is as long as recorded."""
    host, device = graph.host, graph.device
    return replace(graph, host=_of_host(host, device), device=_of_device(host, device))


def _of_host(host: HostPoints, device: DeviceChain) -> HostPoints:
    """Delays of points that wait for a cause, as recorded."""
    ended = np.append(device.start_ns + device.dur_ns, 0)[host.held_by]
    passed = np.append(host.time_ns, 0)[host.held_by_point]
    delay = np.where(host.held_by != NOTHING, host.time_ns - ended, host.delay_ns)
    return replace(host, delay_ns=np.where(host.held_by_point != NOTHING, host.time_ns - passed, delay))


def _of_device(host: HostPoints, device: DeviceChain) -> DeviceChain:
    """Gaps, latencies and waits, increased by the recorded time that the latest cause leaves unexplained.

    If a cause implies more time than was recorded, only that cause is reduced: an event that was launched later than
    usual may start as close to its predecessor as others do, but not before its predecessor has ended.
    """
    ends = device.start_ns + device.dur_ns
    launch_ns = np.where(device.launch == RECORDED, 0, np.append(host.time_ns, NEVER)[device.launch])
    causes = (
        _Cause(np.where(device.is_first, NEVER, shifted(ends, 0)), device.gap_ns),
        _Cause(launch_ns, device.latency_ns),
        _Cause(np.append(ends, NEVER)[device.waits_for], device.wait_ns),
    )
    earliest: I64 = np.maximum.reduce([cause.implied_ns() for cause in causes])
    residual = np.where(earliest > NEVER, np.maximum(device.start_ns - earliest, 0), 0)
    gap, latency, wait = (cause.explaining(device.start_ns, residual) for cause in causes)
    return replace(device, gap_ns=gap, latency_ns=latency, wait_ns=wait)


class _Cause(NamedTuple):
    """One cause of each event. Shapes (events,)."""

    time_ns: I64
    """The recorded time of the cause; `NEVER` where there is none."""
    until_start_ns: I64
    """The usual time from there to the start of the event."""

    def implied_ns(self) -> I64:
        """The start that the cause implies."""
        return np.where(self.time_ns > NEVER, self.time_ns + self.until_start_ns, NEVER)

    def explaining(self, start_ns: I64, residual_ns: I64) -> I64:
        """The time from the cause to the event with the residual, but not more than to the recorded start."""
        longest = np.minimum(self.until_start_ns + residual_ns, start_ns - self.time_ns)
        return np.where(self.time_ns > NEVER, longest, self.until_start_ns)
