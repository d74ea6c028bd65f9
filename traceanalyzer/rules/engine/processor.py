"""What computes the operators of a run, the GPU or a CPU that uses no device; their work, and how fast memory is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.kernels.roofline import Roofline, RooflineRow
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.op_models import Work
from traceanalyzer.knowledge.op_shapes import implied
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, Interval
from traceanalyzer.rules.engine.facts import Facts, OperatorFact, if_known
from traceanalyzer.structure.events import EventSet

HOST_SHARE = "host_share"
"""Key of the threshold for a CPU, in place of `gpu_share` for a GPU."""
FP32_BYTES = 4
"""Bytes of an element of fp32, the usual type; tables print no types."""
_OUT_OF_CACHE = 128 * 2**20
"""Bytes of a call that fit into no GPU's cache; own choice: the largest L2 caches have 50 to 126 MB."""
_FRACTION = 0.5
"""Own choice: share of the best known bandwidth that any operator which only moves data should reach."""


class Processor(msgspec.Struct, frozen=True, dict=True):
    """The processor whose time a rule about operators counts.

    On a GPU that is the time of the kernels that an operator launches, on a CPU the time of the operator itself
    without those that it calls, on the threads that make the steps.
    """

    facts: Facts
    is_cpu: bool

    @classmethod
    def of(cls, facts: Facts) -> Processor:
        """The processor of a run: the CPU for a trace without device events, and without a sign of a device."""
        own = facts.step_resources
        if facts.table is not None or own is None or facts.find("accelerators", Accelerators) is not None:
            return cls(facts, is_cpu=False)
        return cls(facts, own.gpu_ns is None and own.unread_device is None)

    def less_work(
        self,
        direct: Interval,
        basis: Message,
        claims: Mapping[EventSet, float],
        at: EventSet | None = None,
        host: EventSet | None = None,
    ) -> DeviceWork | HostTime:
        """The change without some operators, with the host time that goes with them beside a device."""
        if self.is_cpu:
            return HostTime(direct, basis, claims=claims, at=at)
        return DeviceWork(direct, basis, claims=claims, at=at, host=host)

    @cached_property
    def total_ns(self) -> int:
        """Time of all operators of the typical steps in ns."""
        if not self.is_cpu:
            return self.facts.gpu_total_ns
        return sum(map(self.self_ns, self.facts.operators))

    def self_ns(self, row: OperatorFact) -> int:
        """Time of an operator in ns, without the operators that it calls."""
        return row.host_self_ns - row.beside_ns if self.is_cpu else row.device_self_ns

    def total_of(self, row: OperatorFact) -> int:
        """Time of an operator in ns, with the operators that it calls."""
        return row.host_total_ns if self.is_cpu else row.device_total_ns

    def per_step(self, total_ns: float) -> float:
        """Time in the typical steps per step, in ns.

        On a CPU it is a share of the step; of all operators, where threads run them at once.
        """
        if not self.is_cpu:
            return self.facts.on_device(total_ns)
        recorded = max(self.facts.step_ns * self.facts.steps, self.total_ns)
        return self.facts.step_ns * total_ns / recorded if recorded else 0.0

    def places(self, rows: Iterable[OperatorFact]) -> tuple[CodePlace, ...]:
        """Operators with their time per step in ns, as places of findings."""
        times = ((row, self.per_step(self.self_ns(row))) for row in rows)
        return tuple(CodePlace("operator", row.name, row.shapes, time, "ns") for row, time in times)

    def share(self, total_ns: float) -> float:
        """Share of the GPU's time; of the step on a CPU."""
        if self.is_cpu:
            return self.per_step(total_ns) / self.facts.step_ns if self.facts.step_ns else 0.0
        return self.facts.gpu_share(total_ns)

    @property
    def limit_key(self) -> str:
        """Key of the threshold for the share."""
        return HOST_SHARE if self.is_cpu else "gpu_share"

    def limit(self, limits: Mapping[str, float]) -> float:
        """The least share for a finding."""
        return limits[self.limit_key]


def _work(operator: OperatorFact) -> Work | None:
    """Operations and bytes of one call; None without a model of the operator."""
    call = op_models.call_of(operator.name, operator.inputs)
    return op_models.work(call) if call else None


def moved(operator: OperatorFact) -> int | None:
    """Bytes that one call reads and writes, each tensor once; fp32 is assumed if the types are unknown."""
    modelled = _work(operator)
    if modelled is not None and modelled.bytes is not None:
        return modelled.bytes
    shapes = operator.inputs.shapes
    elements = implied(operator.name, shapes) if shapes else None
    return FP32_BYTES * elements.moved if elements else None


def intensities(facts: Facts) -> dict[tuple[str, str], float]:
    """Operations per byte in fp32 by operator and shapes, for operators with a model."""
    known = {key: row.flops_per_byte for key, row in roofline_rows(facts).items() if row.flops_per_byte is not None}
    for operator in if_known(lambda: facts.shaped):
        key = operator.name, operator.shapes or ""
        if key not in known:
            done, size = _work(operator), moved(operator)
            if done is not None and size:
                known[key] = done.flops / size
    return known


def roofline_rows(facts: Facts) -> dict[tuple[str, str], RooflineRow]:
    """Measured rates of a trace by operator and shapes; empty for a table."""
    roofline = facts.find("roofline", Roofline)
    return {(row.name, row.input_shapes): row for row in (roofline.rows if roofline else ())}


def memory_bandwidth(facts: Facts) -> float | None:
    """Bandwidth of the memory by the data sheet in GB/s; None where it is not known, and for a table."""
    roofline = facts.find("roofline", Roofline)
    return roofline.roof.bandwidth_gb_per_s if roofline and roofline.roof else None


def bandwidths(facts: Facts) -> tuple[float, float] | None:
    """Least and greatest bytes per ns that an operator which only moves data should reach; None if unknown.

    The greatest is the data sheet's bandwidth, or the best that an operator of the run reached with tensors too large
    for any cache. The least is what was reached, or half of the only figure that is known.
    """
    peak = memory_bandwidth(facts) or (facts.gpu.bandwidth if facts.gpu else None)
    reached = max(
        (rate for operator in if_known(lambda: facts.shaped) if (rate := _rate(operator)) is not None), default=None
    )
    if peak is None:
        return None if reached is None else (_FRACTION * reached, reached)
    return (max(reached, _FRACTION * peak) if reached else _FRACTION * peak), max(peak, reached or 0.0)


def _rate(operator: OperatorFact) -> float | None:
    size = moved(operator)
    if size is None or size < _OUT_OF_CACHE or not operator.device_self_ns or not operator.calls:
        return None
    return size * operator.calls / operator.device_self_ns
