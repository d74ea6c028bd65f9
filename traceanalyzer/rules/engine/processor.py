"""What computes the operators of a run: the GPU, or the CPU in a program that uses no device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine.facts import Facts, OperatorFact

HOST_SHARE = "host_share"
"""Key of the threshold for a CPU, in place of `gpu_share` for a GPU."""


def is_cpu_only(facts: Facts) -> bool:
    """Whether the program computes on the CPU: a trace without device events, and without a sign of a device."""
    own = facts.step_resources
    if facts.table is not None or own is None or facts.find("accelerators", Accelerators) is not None:
        return False
    return own.gpu_ns is None and own.unread_device is None


class Processor(msgspec.Struct, frozen=True, dict=True):
    """The processor whose time a rule about operators counts.

    On a GPU that is the time of the kernels that an operator launches, on a CPU the time of the operator itself
    without those that it calls, on the threads that make the steps.
    """

    facts: Facts
    is_cpu: bool

    @classmethod
    def of(cls, facts: Facts) -> Processor:
        """The processor of a run."""
        return cls(facts, is_cpu_only(facts))

    @property
    def resource(self) -> str:
        """The resource whose time shrinks without an operator, as in `TimeSaved`."""
        return "host" if self.is_cpu else "gpu"

    @cached_property
    def total_ns(self) -> int:
        """Time of all operators of the recording in ns."""
        if not self.is_cpu:
            return self.facts.gpu_total_ns
        return sum(map(self.self_ns, self.facts.operators))

    def self_ns(self, row: OperatorFact) -> int:
        """Time of an operator in ns, without the operators that it calls."""
        return row.host_self_ns - row.beside_ns if self.is_cpu else row.device_self_ns

    def per_step(self, total_ns: float) -> float:
        """Time of the whole recording per step, in ns.

        On a CPU it is the same share of the typical step as of all steps; of all operators, where threads run them at
        once.
        """
        if not self.is_cpu:
            return self.facts.gpu_per_step(total_ns)
        recorded = max(self.facts.recorded_steps_ns, self.total_ns)
        return self.facts.step_ns * total_ns / recorded if recorded else 0.0

    def places(self, rows: Iterable[OperatorFact]) -> tuple[CodePlace, ...]:
        """Operators with the time of all their calls in ns, as places of findings."""
        return tuple(CodePlace("operator", row.name, row.shapes, self.self_ns(row), "ns") for row in rows)

    def share(self, total_ns: float) -> float:
        """Share of the GPU's time; of the step on a CPU."""
        if self.is_cpu:
            return self.per_step(total_ns) / self.facts.step_ns if self.facts.step_ns else 0.0
        return self.facts.gpu_share(total_ns)

    def limit(self, limits: Mapping[str, float]) -> float:
        """The least share for a finding."""
        return limits[HOST_SHARE if self.is_cpu else "gpu_share"]
