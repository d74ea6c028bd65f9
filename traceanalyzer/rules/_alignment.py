"""Finds products with sides that are not multiples of what Tensor Cores load at once, and how much slower they are."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from traceanalyzer.analyzers.kernels import KernelsByShape
from traceanalyzer.analyzers.kernels.roofline import RooflineRow
from traceanalyzer.rules._products import sides
from traceanalyzer.rules.engine.change import Interval
from traceanalyzer.rules.engine.facts import Facts

_UNIT = {"c10::Half": 8, "c10::BFloat16": 8, "signed char": 16}
_UNIT_FP8 = 16
_SAME_SIZE = 2.0
"""Own choice: products whose work and intensity differ by less than this factor reach the same pace."""
WITHOUT_PEER = 0.3
"""Share of the time that padding saves without a peer to compare with (own choice: the cases of NVIDIA's guide)."""

_ALIGNMENT = re.compile(r"align(\d+)")


class Slow(msgspec.Struct, frozen=True):
    row: RooflineRow
    share: float
    """Share of the peak that the product reaches, divided by the share that aligned products reach."""
    saved_ns: Interval
    has_peer: bool
    """Whether there are aligned products of its type to compare with; else it is compared with the roof itself."""


def judge(
    row: RooflineRow, aligned: list[RooflineRow], loads: Mapping[tuple[str, str], int], pace: float
) -> Slow | None:
    """Slow against aligned products of its type, by as much as alignment can explain."""
    load = loads.get((row.name, row.input_shapes))
    if row.roofline_share is None or (load is not None and load >= (multiple(row) or 0)):
        return None
    peers = [peer for peer in aligned if _type(peer) == _type(row)]
    alike = [peer for peer in peers if _is_alike(peer, row)]
    reference = _mean_share(alike or peers)
    if reference is None:
        reference = 1.0 if load is not None else None
    if reference is None or row.roofline_share / reference >= pace:
        return None
    share = row.roofline_share / reference
    most = (1 - share) * row.device_ns
    return Slow(row, share, (0.0, most if alike else min(most, WITHOUT_PEER * row.device_ns)), bool(peers))


def _mean_share(rows: list[RooflineRow]) -> float | None:
    """Mean share of the roof, weighted by time."""
    time = sum(row.device_ns for row in rows)
    return sum((row.roofline_share or 0.0) * row.device_ns for row in rows) / time if time else None


def _is_alike(peer: RooflineRow, row: RooflineRow) -> bool:
    ratios = [peer.flops * row.calls / (row.flops * peer.calls)] if row.flops else []
    if peer.flops_per_byte and row.flops_per_byte:
        ratios.append(peer.flops_per_byte / row.flops_per_byte)
    return bool(ratios) and all(1 / _SAME_SIZE <= ratio <= _SAME_SIZE for ratio in ratios)


def is_candidate(row: RooflineRow, call_ns: float) -> bool:
    """Whether it is a product in 8 or 16 bits that is long enough, and not limited by its launch or by a tiny side."""
    unit = multiple(row) if row.family == "gemm" else None
    found = None if unit is None else sides(row.name, row.input_shapes)
    if unit is None or found is None:
        return False
    return min(found.n, found.k) >= unit and row.device_ns >= call_ns * row.calls


def _type(row: RooflineRow) -> str:
    return row.input_types.removeprefix("[").split(",")[0].strip('"] ')


def multiple(row: RooflineRow) -> int | None:
    """The number of which the sides must be multiples; None for types without such a number."""
    kind = _type(row)
    return _UNIT_FP8 if "Float8" in kind else _UNIT.get(kind)


def is_aligned(row: RooflineRow) -> bool:
    """Whether the inner and the last side are multiples of what is loaded at once; the first one does not matter."""
    found, unit = sides(row.name, row.input_shapes), multiple(row)
    return found is None or unit is None or (found.n % unit == 0 and found.k % unit == 0)


def loaded_at_once(facts: Facts) -> dict[tuple[str, str], int]:
    """Number of elements that the kernels of a product load at once, if their names show it."""
    found = facts.find("kernels_by_shape", KernelsByShape)
    loads: dict[tuple[str, str], int] = {}
    for row in found.rows if found else ():
        match = _ALIGNMENT.search(row.kernel)
        if match:
            loads.setdefault((row.operator, row.input_shapes), int(match[1]))
    return loads
