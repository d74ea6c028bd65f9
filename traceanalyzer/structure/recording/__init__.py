"""Which kind of program was recorded, in which framework, what is its typical step, and what was not recorded?

Headline, findings and savings are about the typical step: the mean over the steps, without those changed by an edge of
the recording or by a one-time event (docs/metrics/recording.md). The step breakdown and the tables keep all steps.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import idle_times, resources, unrecorded_work
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.idle_times import DividedGaps
from traceanalyzer.structure.recording import workload
from traceanalyzer.structure.recording.frameworks import FrameworkEvidence, frameworks, main_framework
from traceanalyzer.structure.recording.left_out import FEWEST
from traceanalyzer.structure.recording.program_steps import WHOLE, ProgramSteps, is_marked, program_steps
from traceanalyzer.structure.recording.workload import WorkloadEvidence
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.step_breakdown import Average, Step, average, divide
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.structure.unrecorded_work import holes
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I32, I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT


class RecordedWindow(msgspec.Struct, frozen=True):
    """The time of the program's steps, and the parts of it that the recording does not show."""

    start_ns: int
    """Start of the first step in ns since the first event."""
    end_ns: int
    """End of the last step in ns since the first event."""
    unrecorded_work_ns: int
    """Time in ns at the start in which a device most likely ran work that was launched before the recording; of the
    device with the most such time."""
    after_last_event_ns: int | None
    """Time in ns from the end of the last device event to the end of the last step; null without device events."""
    removed_ns: int
    """Time in ns in which events were removed from the recording: nothing was recorded, but calls were counted."""
    before_first_event_ns: int | None = None
    """Time in ns from the start of the profiler to the first event, in which nothing was recorded; null where the
    profiler marked its steps, because its warm-up is before them, and where its start is unknown."""


class RecordedStep(msgspec.Struct, frozen=True):
    """One step of the program."""

    name: str
    """Number of the step, or the framework's mark."""
    start_ns: int
    """Start of the step in ns since the first event; after work that was launched before the recording."""
    duration_ns: int
    """Duration of the step in ns, until the device has done its work."""
    is_typical: bool
    """Whether the step counts for the typical step."""
    reason: str | None
    """Why the step is unlike the others: `earlier-work`, `recording-end`, `loading`, `allocation`, `loader`,
    `other-phase`, `communication` or `unknown`; null for steps like the others."""
    phase: str | None = None
    """Phase of a server in the step: `prefill`, `decode`, `mixed`, `capture`; null if no mark shows it."""
    requests: int | None = None
    """Requests that the step serves together; null if no mark shows it."""
    tokens: int | None = None
    """Tokens that the step computes; null if no mark shows it."""
    has_usual_work: bool | None = None
    """Whether the step calls the operators that most steps call, with inputs of these shapes; or launches these kernels
    with these grids where no shapes were recorded. Null where no two steps do the same, and where nothing tells."""


class CauseInStep(msgspec.Struct, frozen=True):
    """Idle time of the typical step that has one cause."""

    cause: str
    """Id of the cause, one of those of the analysis `idle`."""
    ns_per_step: float
    """Time in ns per typical step for which the busiest device does nothing for this cause."""


class TypicalStep(msgspec.Struct, frozen=True):
    """The mean over the steps that count; its parts sum to its duration."""

    steps: int
    """Number of steps that count."""
    parts: Average
    """Duration and parts of the typical step, as in the step breakdown."""
    resources: StepResources
    """Time of each resource in the typical step."""
    idle: tuple[CauseInStep, ...]
    """Idle time of the busiest device by cause; all causes are listed and sum to its idle time. Empty without device
    events."""
    rows: tuple[Step, ...] = ()
    """The steps that count, each divided into parts; empty for several ranks."""


class HostPart(msgspec.Struct, frozen=True):
    """A part of the program that owns time of the host."""

    kind: str
    """`mark`, `module`, `function`, `library` (a function of one), `backward`, `autograd`, `operator` or `call`."""
    name: str
    """Name of the mark, class of the module, name of the function, operator or call."""
    role: str | None
    """What the work is for; null if no name shows it."""
    file: str | None
    """File of the function or module; null if no stack shows it."""
    line: int | None
    """Line of the function in the file; null if no stack shows it."""
    time_ns: int
    """Its time in ns."""


class Outside(msgspec.Struct, frozen=True):
    """A time that lies outside of the typical steps."""

    kind: str
    """`before` the first step, `between` two steps, `after` the last step, or `left-out-step`: steps that do not
    count."""
    start_ns: int
    """Start in ns since the first event."""
    duration_ns: int
    """Duration in ns."""
    device_busy_ns: int | None
    """Time in ns in which the busiest device of the typical steps works; null without device events, and where it most
    likely ran work from before the recording."""
    owner: HostPart | None
    """What the host does for longest; null if that is less than a quarter of the time."""
    reason: str
    """Why it is outside: the reason for which a step does not count; else `loading`, `allocation` or `loader` if that
    takes half of the time, or `no-step`: no step is marked there."""
    host_ns: int = 0
    """Time in ns in which the host is in anything that was recorded; 0 in reports of older versions."""


class Recording(msgspec.Struct, frozen=True):
    """The recorded steps and evidence, before rules judge anything."""

    workload: str
    """Kind of program: `training`, `inference`, `serving`, `graph-capture`, `start-up`, `micro-benchmark` or
    `fragment` (events were cut or removed)."""
    evidence: tuple[WorkloadEvidence, ...]
    """Why it is called that."""
    framework: str | None
    """Id of the framework that the program runs in; null if none was recognized."""
    frameworks: tuple[FrameworkEvidence, ...]
    """All frameworks that left a sign, the most specific first."""
    window: RecordedWindow | None
    """Time of the steps; null without steps."""
    steps_from: str | None
    """What marks the steps: `ProfilerStep`, the id of a framework, the name of what repeats, or `whole-trace`; null
    without steps."""
    steps: tuple[RecordedStep, ...]
    """The steps in the order of time."""
    all_steps_count: bool
    """Whether steps that are unlike the others count as well, because too few others are left."""
    typical_step_ns: float | None
    """Mean duration in ns of the steps that count; null where no part of the recording is a step of the program."""
    typical: TypicalStep | None
    """The typical step with its time of each resource; null without steps of any length."""
    has_hardly_any_work: bool
    """Whether the device did too little work to decide what bounds the program."""
    device_busy_ns: int
    """Time in ns in which a kernel, copy or fill runs on some device, in the whole recording."""
    startup_ns: int
    """Time of the steps in ns in which code is loaded or compiled, or memory taken, beyond what every typical step
    takes for it."""
    outside: tuple[Outside, ...] = ()
    """What lies outside of the typical steps, in the order of time: the longest 50, none shorter than a hundredth of a
    typical step. Empty for several ranks."""
    outside_ns: int | None = None
    """Time in ns outside of the typical steps, in all; null for several ranks, and without typical steps."""
    is_device_alone: bool = False
    """Whether device events were recorded, and neither operators nor Python frames."""
    outside_omitted: int = 0
    """Number of times of a hundredth of a typical step or more that `outside` leaves out."""
    first_calls_ns: int = 0
    """Time in ns of a single step that first calls of operators take beyond later ones with inputs of the same shapes;
    0 for several steps."""

    @property
    def has_more(self) -> bool:
        """Whether it is more than one typical step: marked ones, or more than a twentieth of it outside of that one."""
        if self.typical is None or (self.steps_from != WHOLE and self.typical.steps > 1):
            return self.typical is not None
        return 19 * (self.outside_ns or 0) > self.typical.parts.duration_ns


_SCATTER = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose products are spread over all numbers of 64 bits (2**64 over the golden ratio, Knuth)."""


@cached
def analyze(context: Context) -> Recording:
    """Analyze what was recorded."""
    steps = program_steps(context)
    kind, evidence = workload.workload(context)
    framework = main_framework(context)
    startup = workload.startup_ns(context)
    typical = _typical(context, steps)
    return Recording(
        workload=kind,
        evidence=evidence,
        framework=framework.id if framework else None,
        frameworks=frameworks(context),
        window=_window(context, steps),
        steps_from=steps.found_by,
        steps=_rows(context, steps),
        all_steps_count=bool(steps.is_typical.all()) and any(steps.reasons),
        typical_step_ns=typical.parts.duration_ns if typical and _is_step(context, steps, startup) else None,
        typical=typical,
        has_hardly_any_work=workload.is_hardly_any(context),
        device_busy_ns=workload.device_busy_ns(context),
        startup_ns=startup,
        is_device_alone=_is_device_alone(context),
        first_calls_ns=workload.first_calls_ns(context),
    )


def _is_device_alone(context: Context) -> bool:
    trace = context.trace
    return len(trace.device) > 0 and not len(trace.frames) and not (trace.host.category == Category.OPERATOR).any()


def _is_step(context: Context, steps: ProgramSteps, startup_ns: int) -> bool:
    """Whether the steps are the program's; a whole recording is a step only if it is not a mix of other work."""
    length = int((steps.end_ns - steps.start_ns).sum())
    is_startup = startup_ns >= workload.STARTUP_SHARE * length
    if steps.found_by != WHOLE:
        return len(steps) > 1 or is_marked(context) or not is_startup
    has_device = len(context.trace.device) > 0 and not workload.is_hardly_any(context)
    return has_device and not is_startup and not holes(context)


def _window(context: Context, steps: ProgramSteps) -> RecordedWindow | None:
    if not len(steps):
        return None
    start, end = int(steps.start_ns[0]), int(steps.end_ns.max())
    device = context.trace.device
    last = int(device.end_ns.max()) if len(device) else None
    return RecordedWindow(
        start_ns=start,
        end_ns=end,
        unrecorded_work_ns=unrecorded_work.longest_ns(context),
        after_last_event_ns=None if last is None else max(0, end - max(last, start)),
        removed_ns=holes(context).length,
        before_first_event_ns=_before_first_event_ns(context),
    )


def _before_first_event_ns(context: Context) -> int | None:
    began = context.trace.info.profiler_start_ns
    return None if began is None or is_marked(context) else max(0, -began)


def _rows(context: Context, steps: ProgramSteps) -> tuple[RecordedStep, ...]:
    columns = (steps.start_ns.tolist(), (steps.end_ns - steps.start_ns).tolist(), steps.is_typical.tolist())
    of_marks = [(mark.phase, mark.requests, mark.tokens) if mark else (None,) * 3 for mark in steps.marks]
    rows = zip(
        *(steps.names, *columns, steps.reasons),
        *zip(*(of_marks or [(None,) * 3] * len(steps)), strict=True),
        _have_usual_work(context, steps),
        strict=True,
    )
    return tuple(RecordedStep(*row) for row in rows)


def _have_usual_work(context: Context, steps: ProgramSteps) -> list[bool] | list[None]:
    """For each step whether it does what most steps do, in whatever order its threads do it; None if all differ."""
    start_ns, name, size = _sized_work(context)
    step = steps.every.at(start_ns)
    is_inside = step >= 0
    _, number = group(name[is_inside].astype(np.int64), size[is_inside].astype(np.int64))
    scattered = (number.astype(np.uint64) + 1) * _SCATTER
    scattered = (scattered ^ (scattered >> np.uint64(31))) * _SCATTER
    work = np.zeros(len(steps), np.uint64)
    np.add.at(work, step[is_inside], scattered)  # sums of such numbers tell lists of operators apart
    _, same, counts = np.unique(work, return_inverse=True, return_counts=True)
    if not len(number) or counts.max() < FEWEST:
        return [None] * len(steps)
    usual: list[bool] = (same == counts.argmax()).tolist()
    return usual


def _sized_work(context: Context) -> tuple[I64, I32, I32]:
    """Starts, names and sizes of operators, or of launched kernels where no shapes tell sizes; empty without both."""
    trace, launch = context.trace, context.links.launch
    rows = np.flatnonzero(trace.host.category == Category.OPERATOR)
    if trace.host.shapes[rows].any():
        return trace.host.start_ns[rows], trace.host.name[rows], trace.host.shapes[rows]
    rows = np.flatnonzero(launch != NO_PARENT)
    rows = rows if trace.device.grid[rows].any() else rows[:0]
    return trace.launches.start_ns[launch[rows]], trace.device.name[rows], trace.device.grid[rows]


def _typical(context: Context, steps: ProgramSteps) -> TypicalStep | None:
    typical = steps.typical
    if not len(typical) or not int((typical.end_ns - typical.start_ns).sum()):
        return None
    own = resources.over(context, typical, among=steps.every)
    rows = divide(context, typical)
    return TypicalStep(len(typical), average(rows), own, _idle(context, steps, own.device), rows)


def _idle(context: Context, steps: ProgramSteps, device: int | None) -> tuple[CauseInStep, ...]:
    """Idle time per typical step of one device by cause."""
    if device is None:
        return ()
    found, counts = typical_gaps(context, device)
    times, count = found.by_cause(counts), len(steps.typical)
    return tuple(CauseInStep(cause, time / count) for cause, time in zip(CAUSES, times.tolist(), strict=True))


def typical_gaps(context: Context, device: int) -> tuple[DividedGaps, Bool]:
    """The gaps of a device in steps, and which parts of them lie in typical steps."""
    steps = program_steps(context)
    if idle_times.are_disjoint(steps.every):
        found = idle_times.divide(context, device, steps.every).in_steps()
        return found, steps.is_typical[found.step]
    found = idle_times.divide(context, device, steps.typical).in_steps()
    return found, np.ones(len(found.step), np.bool_)


@cached
def shown_step(context: Context) -> int:
    """Row of the typical step that stands for the others: duration and most idle time are nearest to their means.

    That is the idle time of the device of the cause with most of it, so that a picture shows what a headline says.
    """
    steps = program_steps(context)
    counted = steps.typical
    device, _ = resources.busiest(context, Intervals.union(counted.start_ns, counted.end_ns))
    if device is None or len(counted) < FEWEST or not idle_times.are_disjoint(steps.every):
        return steps.middle
    found, counts = typical_gaps(context, device)
    row, length = np.flatnonzero(steps.is_typical), counted.end_ns - counted.start_ns
    entries = counts[found.part]
    place = np.searchsorted(row, found.step[found.part[entries]]) * len(CAUSES) + found.cause[entries]
    times = sum_by(place, found.time_ns[entries], len(row) * len(CAUSES)).reshape(len(row), len(CAUSES))
    columns = np.column_stack((length, times[:, times.sum(axis=0).argmax()]))
    away = np.abs(columns - columns.mean(axis=0)).sum(axis=1)
    return int(row[np.argmin(np.where(length > 0, away, np.inf))])
