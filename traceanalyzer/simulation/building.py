"""Builds the causal graph of a window from the tables of a trace, so that it reproduces the recorded times."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.simulation import device_chain, host_points, streams, waits
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
    device, inputs = device_chain.build(context, window, (calls, events, released), placed)
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
    since = (
        np.where(device.is_first, NEVER, shifted(ends, 0)),
        np.where(device.launch == RECORDED, 0, np.append(host.time_ns, NEVER)[device.launch]),
        np.append(ends, NEVER)[device.waits_for],
    )
    asked = device.gap_ns, device.latency_ns, device.wait_ns
    known = [cause > NEVER for cause in since]
    times = [np.where(is_known, cause + ns, NEVER) for cause, ns, is_known in zip(since, asked, known, strict=True)]
    earliest: I64 = np.maximum.reduce(times)
    left = np.where(earliest > NEVER, np.maximum(device.start_ns - earliest, 0), 0)
    gap, latency, wait = (
        np.where(is_known, np.minimum(ns + left, device.start_ns - cause), ns)
        for cause, ns, is_known in zip(since, asked, known, strict=True)
    )
    return replace(device, gap_ns=gap, latency_ns=latency, wait_ns=wait)
