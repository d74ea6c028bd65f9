"""Finds operators that take far longer than other calls of the same size, or than moving their bytes would take."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.analyzers.operators import ShapeCosts
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.structure.operator_times import Peer

_MOVING = frozenset({"elementwise", "reduction", "normalization"})
"""Families of operators that are bound by memory."""
_REACHED = 0.5
"""Share of the memory's bandwidth that an operator which moves data should reach at least (own choice)."""

_NO_SHAPES = Text("rule-gaps-no-shapes", "no table is grouped by input shapes: use group_by_input_shape=True")


class Gap(msgspec.Struct, frozen=True):
    """Calls that cost too much; times are of the whole recording."""

    name: str
    shapes: str
    time_ns: int
    ratio: float
    saved_ns: tuple[float, float]
    peer: Peer | None


def recorded(facts: Facts, limits: Mapping[str, float]) -> list[Gap]:
    """Find such calls in a trace.

    Raises:
        Missing: It has no kernels or no shapes.
    """
    costs = facts.need("shape_costs", ShapeCosts)
    floors = _floors(facts, limits["floor_ns"])
    found = []
    for row in costs.rows:
        time, floor = row.device_ns, floors.get((row.name, row.input_shapes, row.input_types))
        if time < limits["call_ns"] * row.calls:
            continue
        peer = _peer(row.peer, row.device_ns_per_call, limits["ratio"])
        if peer is not None:
            most = max(peer.saving_ns, time - floor) if floor else peer.saving_ns
            ratio = row.device_ns_per_call / peer.device_ns_per_call
            found.append(Gap(row.name, row.input_shapes, time, ratio, (peer.saving_ns, most), peer))
        elif floor and time > limits["ratio"] * floor:
            saved = (time - floor / _REACHED, time - floor)
            found.append(Gap(row.name, row.input_shapes, time, time / floor, saved, None))
    return found


def memory_bandwidth(facts: Facts) -> float | None:
    """Bandwidth of the memory by the data sheet in GB/s; None where it is not known."""
    found = facts.find("roofline", Roofline)
    return found.roof.bandwidth_gb_per_s if found and found.roof else None


def _floors(facts: Facts, floor_ns: float) -> dict[tuple[str, str, str], float]:
    """Least possible time of all calls in ns, if memory bounds them and their data is large enough to be sure."""
    roofline, bandwidth = facts.find("roofline", Roofline), memory_bandwidth(facts)
    if roofline is None or not bandwidth:
        return {}
    floors = {
        (row.name, row.input_shapes, row.input_types): row.bytes / bandwidth
        for row in roofline.rows
        if row.family in _MOVING and row.bytes
    }
    calls = {(row.name, row.input_shapes, row.input_types): row.calls for row in roofline.rows}
    return {key: floor for key, floor in floors.items() if floor >= floor_ns * calls[key]}


def printed(facts: Facts, limits: Mapping[str, float]) -> list[Gap]:
    """Find such calls in a printed table.

    Raises:
        Missing: It is not grouped by shapes.
    """
    if facts.table is None or not facts.table.shape_costs:
        raise Missing(_NO_SHAPES())
    found = []
    for row in facts.table.shape_costs:
        peer = _peer(row.peer, row.device_ns_per_call, limits["ratio"])
        if peer is not None and row.device_ns_per_call >= limits["call_ns"]:
            ratio = row.device_ns_per_call / peer.device_ns_per_call
            saved = (peer.saving_ns, peer.saving_ns)
            found.append(Gap(row.name, row.input_shapes, row.device_ns, ratio, saved, peer))
    return found


def _peer(peer: Peer | None, price: float, ratio: float) -> Peer | None:
    return peer if peer is not None and price > ratio * peer.device_ns_per_call else None
