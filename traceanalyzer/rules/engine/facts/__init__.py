"""Facts that rules judge: the results of a trace, or of one run of a table document, under common names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import fsum
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers import kernels, operators
from traceanalyzer.analyzers.capture import Capture
from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.compilation.logged import LogFigures
from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.analyzers.idle.step_idle import StepIdle
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.tables import is_hardly_any
from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.knowledge.kernel_names import uses_tensor_cores
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace, Resources, TraceSummary
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.step_breakdown import Average, StepBreakdown
from traceanalyzer.structure.typical import mean, rows_of
from traceanalyzer.trace.document import TableRow

__all__ = ["STARTUP_SHARE", "Facts", "KernelFact", "Missing", "OperatorFact", "if_known"]

R = TypeVar("R")

_NO_RESULT = Text("rule-no-result", "an analysis that the rule needs is missing")
_NO_SHAPES = Text("rule-no-shapes", "input shapes were not recorded: use profile(record_shapes=True)")
_NO_OPERATORS = Text("rule-no-operators", "no operators were recorded")
_NO_KERNELS = Text("rule-no-kernels", "no kernels were recorded: nothing ran on a GPU, or it was not profiled")
_NO_PRINTED_KERNELS = Text("rule-no-printed-kernels", "the table has no rows of kernels")
_NO_OWN_KERNELS = Text("rule-no-own-kernels", "none of the recorded kernels belongs to a typical step")

STARTUP_SHARE = 0.5
"""Share of a step from which on start-up makes up most of a recording (own choice: more than everything else)."""


class Missing(Exception):  # noqa: N818 - not an error: the answer that nothing can be said
    """Raised when a rule cannot be judged, with the reason."""

    def __init__(self, reason: Message) -> None:
        super().__init__(reason.text)
        self.reason = reason


class OperatorFact(msgspec.Struct, frozen=True):
    """All calls of one operator (of one list of shapes where it has shapes); sums over all steps."""

    name: str
    shapes: str | None
    """JSON or Python text of a list, as recorded; None where they are summed over."""
    types: str | None
    """JSON list as recorded; None where unknown (tables print none)."""
    calls: int
    device_self_ns: int
    device_total_ns: int
    host_self_ns: int
    host_total_ns: int
    beside_ns: int = 0
    """Part of `host_self_ns` on threads other than the one that makes the steps; 0 if unknown, as in tables."""
    in_backward: int = 0
    """Part of `calls` that autograd makes in a backward pass; 0 if unknown, as in tables."""

    @property
    def events(self) -> EventSet:
        """The calls as a set of events."""
        return EventSet.operator(self.name, self.shapes)

    @property
    def inputs(self) -> Inputs:
        """The inputs of a call, as far as they are recorded."""
        return Inputs(self.shapes, self.types)


class KernelFact(msgspec.Struct, frozen=True):
    """All launches of one kernel without those from before the recording; sums over all steps."""

    name: str
    calls: int
    total_ns: int
    tensor_cores: bool | None

    @property
    def events(self) -> EventSet:
        """The runs of the kernel as a set of events."""
        return EventSet.kernel(self.name)

    @property
    def kind(self) -> KernelClass:
        """What the kernel does, by its name."""
        return kernel_class(self.name)


def if_known(rows: Callable[[], tuple[R, ...]]) -> tuple[R, ...]:
    """Rows of facts, such as `lambda: facts.shaped`; none where they are missing."""
    try:
        return rows()
    except Missing:
        return ()


class Facts(msgspec.Struct, frozen=True, dict=True):
    """The facts about one measured run that rules may use."""

    resources: Resources
    """Time per step of each resource, in ns; of a trace in its typical step."""
    steps: int
    """Number of typical steps, which all sums are about; of a table, of all its steps."""
    run: str | None = None
    """Id of the run in a document of printed tables; None for a trace."""
    table: PrintedRun | None = None
    view: RunView | None = None
    """The printed rows of the run; None for a trace."""
    summary: TraceSummary | None = None
    """The trace in a few facts; None for a table."""
    gpu: Gpu | None = None
    """Peak figures of the device, by the project's settings or else its data sheet; None if not known."""
    results: Mapping[str, Any] = {}
    """Results of the analyses by key."""
    reasons: Mapping[str, Message] = {}
    """Why an analysis has no result, by its key."""
    model: Model | None = None
    """The causal model of the trace, which prices changes; None if there is none."""
    is_cut: bool = False
    """Whether the file of a trace ends before all events were written."""

    @property
    def log(self) -> LogFigures | None:
        """The sums over a compile log without a trace; None for all else."""
        code = self.find("compilation", CompiledCode) if self.summary is None else None
        return None if code is None else code.log

    def find(self, key: str, kind: type[R]) -> R | None:
        """The result of an analysis by its key; None if the analysis was skipped."""
        found = self.results.get(key)
        return found if isinstance(found, kind) else None

    def need(self, key: str, kind: type[R]) -> R:
        """Like `find`, but raises `Missing` if the analysis was skipped.

        Raises:
            Missing: It was skipped; with the reason.
        """
        found = self.find(key, kind)
        if found is None:
            raise Missing(self.reasons.get(key) or _NO_RESULT())
        return found

    @property
    def step_resources(self) -> StepResources | None:
        """Times of each resource in the typical step, or in the mean step if the typical one is unknown."""
        recording = self.find("recording", Recording)
        if recording is not None:
            return recording.typical.resources if recording.typical else None
        return self.find("resources", StepResources)

    @property
    def step_parts(self) -> Average | None:
        """Duration and parts of the typical step of a trace."""
        recording = self.find("recording", Recording)
        breakdown = self.find("step_breakdown", StepBreakdown)
        if recording is not None and recording.typical is not None:
            return recording.typical.parts
        return breakdown.average if breakdown else None

    def need_step_resources(self) -> StepResources:
        """Like `step_resources`, but raises `Missing` if there is no step.

        Raises:
            Missing: The recording has no step of any length.
        """
        found = self.step_resources
        return self.need("resources", StepResources) if found is None else found

    @property
    def busy_share(self) -> float:
        """Share of the typical step in which the device works; 0 where no device was recorded.

        Raises:
            Missing: The recording has no step of any length.
        """
        own = self.need_step_resources()
        return (own.gpu_ns or 0.0) / own.step_ns if own.step_ns else 0.0

    @property
    def is_graph_capture(self) -> bool:
        """Whether the recording is a capture of graphs, so that nothing in it is a program's usual work."""
        recording = self.find("recording", Recording)
        return recording is not None and recording.workload == "graph-capture"

    @property
    def tells_little(self) -> bool:
        """Whether the device did hardly anything, or most of the recording was removed, or a table is of start-up."""
        if self.table is not None:
            return is_hardly_any(self.table) or self.is_startup
        recording = self.find("recording", Recording)
        if recording is None:
            return False
        removed = any(reason.kind in ("removed-events", "foreign-steps") for reason in recording.evidence)
        return recording.has_hardly_any_work or removed

    @property
    def capture(self) -> Capture | None:
        """Settings and control steps that a capture recorded in addition to the events."""
        return self.find("capture", Capture)

    @property
    def is_host_inflated(self) -> bool:
        """Whether Python stacks were recorded, which slows the host by an unknown amount."""
        idle = self.find("step_idle", StepIdle)
        recorded = self.summary is not None and bool(self.summary.options.with_stack)
        return recorded or (idle is not None and idle.has_stacks)

    @property
    def step_ns(self) -> float:
        """Duration of a step in ns; in a table the estimate from its totals."""
        return self.resources.step_ns

    def per_step(self, total: float) -> float:
        """The mean over the typical steps of what they have in all: time of the host, or a number of events."""
        return mean(total, self.steps)

    def step_share(self, ns_per_step: float) -> float:
        """Part of the step that some time per step takes; 0 where the step has no length."""
        return ns_per_step / self.step_ns if self.step_ns else 0.0

    def on_device(self, total_ns: float) -> float:
        """Device time of the typical steps, per step: its share of the time in which the device computes in a step.

        So what ran at the same time on several streams does not count twice; but beside collectives, which wait rather
        than work, it counts in full.
        """
        busy, total = self.resources.gpu_ns, self.gpu_total_ns
        if busy is None or not total:
            return self.per_step(total_ns)
        computing, computed = self._without_communication(busy, total)
        return min(self.per_step(total_ns), computing * total_ns / computed, busy)

    def in_collectives(self, total_ns: float) -> float:
        """Time of collectives of the typical steps, per step and device; never more than the step has of it."""
        most = self.resources.communication_ns
        own = self.per_step(total_ns) / self._communicating_devices
        return own if most is None else min(own, most)

    @property
    def _communicating_devices(self) -> int:
        """How many devices communicate in one recording: sums over events are of all of them, a step is of one."""
        found = None if "ranks" in self.results else self.find("communication", Communication)
        return 1 if found is None else max(1, len(found.devices))

    def _without_communication(self, busy: float, total: int) -> tuple[float, float]:
        """Time per step in which the device does more than communicate, and the sum of what it does then."""
        own = self.step_resources
        if own is None or not own.communication_ns:
            return busy, total
        computed = total - own.communication_ns * self.steps * self._communicating_devices
        return (busy - (own.exposed_communication_ns or 0.0), computed) if computed > 0 else (busy, total)

    @cached_property
    def is_gpu_alone(self) -> bool:
        """Whether a trace has kernels without the operators that launched them, as by `activities=[CUDA]`."""
        recording = self.find("recording", Recording)
        if recording is None or not recording.is_device_alone:
            return False
        return self.find("ranks", Ranks) is not None or bool(if_known(lambda: self.kernels))

    @cached_property
    def gpu_total_ns(self) -> int:
        """Sum of the durations of everything that ran on devices in the typical steps, in ns; of a table in all."""
        if self.table is not None:
            return self.table.device_ns or 0
        found = self.step_resources
        if found is None:
            return 0
        return found.recorded_device_ns if found.steps_device_ns is None else found.steps_device_ns

    def gpu_share(self, total_ns: float) -> float:
        """Part that some device time has of the time of everything that ran on devices; 0 where nothing ran."""
        return total_ns / self.gpu_total_ns if self.gpu_total_ns else 0.0

    def place_kind(self, kind: str) -> str:
        """Kind of a place of findings: as given in a trace, such as `operator`; a row in a table."""
        return kind if self.table is None else "row"

    def at_place(self, device_ns: float) -> float:
        """Device time of all calls in ns as a place shows it: of a typical step, or of a table as printed."""
        return device_ns if self.table is not None else self.per_step(device_ns)

    def kernel_places(self, rows: Iterable[KernelFact]) -> tuple[CodePlace, ...]:
        """Kernels with their time in ns, as places of findings."""
        kind = self.place_kind("kernel")
        return tuple(CodePlace(kind, row.name, None, self.at_place(row.total_ns), "ns") for row in rows)

    def idle_per_step(self, *causes: str) -> float:
        """Idle time per step of the busiest device for some causes, in ns; 0 where it is not known."""
        recording = self.find("recording", Recording)
        if recording is not None:
            rows = recording.typical.idle if recording.typical else ()
            return fsum(row.ns_per_step for row in rows if row.cause in causes)
        idle, own = self.find("idle", Idle), self.step_resources
        if idle is None or own is None:
            return 0.0
        devices = [device for device in idle.devices if device.device == own.device]
        times = [cause.time_ns for device in devices for cause in device.causes if cause.cause in causes]
        return self.per_step(sum(times))

    def spread(self, total_ns: float) -> float:
        """Time of the whole recording of what comes now and then, such as a new epoch, per recorded step."""
        recording = self.find("recording", Recording)
        return mean(total_ns, self.steps if recording is None else max(1, len(recording.steps)))

    @property
    def recorded_steps_ns(self) -> float:
        """Time of all recorded steps, including those that the typical step leaves out."""
        recording = self.find("recording", Recording)
        if recording is None or not recording.steps:
            return self.step_ns * self.steps
        return float(sum(step.duration_ns for step in recording.steps))

    @property
    def is_replayed(self) -> bool:
        """Whether the model prices changes: there is one, it does not abstain, and no events are missing that delay."""
        return not (self.model is None or self.model.abstains or self.resources.host_ns is None or self.tells_little)

    @property
    def is_whole_run(self) -> bool:
        """Whether a step is a whole run, because a printed table does not say how many steps there are."""
        return self.table is not None and self.table.steps_from is None

    @property
    def is_startup(self) -> bool:
        """Whether most of the recording is work that does not recur: code is loaded or compiled, or memory taken."""
        return self.step_ns > 0 and self.startup_per_step >= STARTUP_SHARE * self.step_ns

    @property
    def startup_per_step(self) -> float:
        """Time per step of work that does not recur, in ns: in a table of the host, in a trace idle device time."""
        if self.table is not None:
            return self.per_step(self.table.startup_ns or 0)
        idle = self.idle_per_step("compilation", "allocation")
        recording = self.find("recording", Recording)
        return idle if recording is None else min(idle, mean(recording.startup_ns, max(1, len(recording.steps))))

    def rows(self, kind: RowKind) -> tuple[TableRow, ...]:
        """Printed rows of one kind; none of a trace."""
        return () if self.view is None else tuple(row for row, own in self.view.by_name if own is kind)

    @property
    def printed_marks(self) -> tuple[TableRow, ...]:
        """Printed rows of marks, such as steps of optimizers; none of a trace."""
        return self.rows(RowKind.ANNOTATION)

    @cached_property
    def operators(self) -> tuple[OperatorFact, ...]:
        """All operators of the run by name.

        Raises:
            Missing: There are none.
        """
        if self.view is not None:
            found = tuple(replace(_from_table(row), shapes=None) for row in self.rows(RowKind.OPERATOR))
        else:
            found = tuple(_from_trace(row) for row in rows_of(self.need("operators", operators.Operators)))
        if not found:
            raise Missing(_NO_OPERATORS())
        return found

    @cached_property
    def shaped(self) -> tuple[OperatorFact, ...]:
        """All operators of the run by name and shapes.

        Raises:
            Missing: Shapes were not recorded.
        """
        if self.view is not None:
            found = tuple(
                _from_table(row) for row in self.view.by_shape if row.input_shapes and not row.shapes_truncated
            )
        else:
            recorded = rows_of(self.need("operators_by_shape", operators.OperatorsByShape))
            found = tuple(_from_trace(row) for row in recorded if row.input_shapes)
        if not found:
            raise Missing(_NO_SHAPES())
        return found

    @cached_property
    def kernels(self) -> tuple[KernelFact, ...]:
        """All kernels of the run by name.

        Raises:
            Missing: There are none.
        """
        recorded = False
        if self.view is not None:
            found = tuple(
                KernelFact(row.name, row.calls or 0, row.self_device_ns or 0, uses_tensor_cores(row.name))
                for row in self.rows(RowKind.KERNEL)
            )
        else:
            table = self.need("kernels", kernels.Kernels)
            recorded = bool(table.rows)
            found = tuple(
                KernelFact(row.name, row.calls - row.earlier_calls, row.total_ns - row.earlier_ns, row.tensor_cores)
                for row in rows_of(table)
                if row.calls > row.earlier_calls
            )
        if not found:
            worked = self.table is not None and self.table.device_ns
            raise Missing((_NO_PRINTED_KERNELS if worked else _NO_OWN_KERNELS if recorded else _NO_KERNELS)())
        return found


def _from_trace(row: operators.Operator | operators.OperatorByShape) -> OperatorFact:
    """The operator of a trace."""
    shapes, types = (row.input_shapes, row.input_types) if isinstance(row, operators.OperatorByShape) else (None, None)
    on_device, on_host = (row.device_self_ns, row.device_total_ns), (row.host_self_ns, row.host_total_ns)
    figures = (row.calls, *on_device, *on_host, row.beside_ns, row.in_backward)
    return OperatorFact(row.name, shapes or None, types or None, *figures)


def _from_table(row: TableRow) -> OperatorFact:
    """The operator of a row of a table; figures that are not in the row are 0."""
    return OperatorFact(
        name=row.name,
        shapes=row.input_shapes or None,
        types=None,
        calls=row.calls or 0,
        device_self_ns=row.self_device_ns or 0,
        device_total_ns=row.device_total_ns or row.self_device_ns or 0,
        host_self_ns=row.self_cpu_ns or 0,
        host_total_ns=row.cpu_total_ns or row.self_cpu_ns or 0,
    )
