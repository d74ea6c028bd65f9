"""The figures of one side per step, from traces, reports or printed tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

from traceanalyzer.analyzers.tables.runs import Hot, PrintedRun
from traceanalyzer.comparison import views
from traceanalyzer.comparison.runs import JoinedRanks
from traceanalyzer.errors import UsageError
from traceanalyzer.knowledge.compiled_code import is_compiled
from traceanalyzer.report.compared import ComparedSide
from traceanalyzer.report.difference import Cost, Side
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, RecordingOptions, Report, Resources

EARLIER = Text(
    "diff-earlier-work",
    "{name}: {time:ns} at its start are left out, in which the device did work from before the recording, or was not "
    "ready yet. The step of the other side may have more work.",
)

_ID = re.compile(r"([a-z]+-)?\d{1,6}")
"""The id of a run in a document, or its number."""


@dataclass(frozen=True)
class Key:
    """What identifies a row, so that rows of two sides can be matched."""

    name: str
    detail: str | None = None
    """Input shapes; None where rows are not distinguished by them."""
    owner: str | None = None
    """The operator that launches a kernel."""


Table = Mapping[Key, Cost]
Path = tuple[str, ...]
"""Names of calls, each inside the one before it; empty around all."""


@dataclass(frozen=True)
class LaunchedWork:
    """What the calls at one place launch themselves, per step."""

    calls: float
    events: float
    device_ns: float


@dataclass(frozen=True)
class Ranked:
    """Costs of all operators, kernels or modules of a side."""

    rows: Table
    ambiguous: int = 0
    """Number of rows that no name identifies, and that are left out."""
    hidden_ns: float = 0.0
    """Most time per step in ns that rows which are not printed may take; 0 if everything is there."""


@dataclass(frozen=True)
class StepRow:
    """Duration and parts of one step, in ns."""

    duration_ns: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class UnlikeStep:
    """A step that is unlike the typical ones."""

    reason: str
    duration_ns: float
    is_judged: bool
    """Whether it is one of all recorded steps that a gate judges."""


@dataclass(frozen=True)
class MeasuredGpu:
    """How busy one device is; None is unknown."""

    utilization: float | None
    busy_share: float | None
    est_sm_efficiency: float | None
    tensor_core_share: float | None


@dataclass(frozen=True)
class MeasuredMemory:
    """Peak memory of one device; None is unknown."""

    allocated_bytes: int | None
    reserved_bytes: int | None


@dataclass(frozen=True)
class Measurement:
    """The figures of one side of a comparison."""

    side: Side
    runs: tuple[tuple[StepRow, ...], ...]
    """Steps of each capture in the order of time; of several ranks the means over the ranks. Empty for tables."""
    total_ns: float | None
    """Estimated time of a step in ns, where no single steps are known (a printed table); else None."""
    parts: Mapping[str, float | None]
    """Parts of `total_ns` in ns, which overlap."""
    rankings: Mapping[str, Ranked]
    memory: Mapping[str, MeasuredMemory]
    gpus: Mapping[int, MeasuredGpu]
    resources: Resources | None
    findings: tuple[Finding, ...]
    options: RecordingOptions | None
    world_size: int | None
    work: Mapping[Path, LaunchedWork] = field(default_factory=dict)
    """What devices do per step, by the calls around each launch; empty where a report does not know it."""
    flops: float | None = None
    """Operations of products per step whose inputs are known; None where no shapes were recorded."""
    subjects: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Time per step in ns of what findings may be about, by the kind and name of a selection."""
    classes: Mapping[str, str] = field(default_factory=dict)
    """What most of the kernels of an operator, or one kernel, do: products, attention, or one of all others."""
    once: tuple[Message, ...] = ()
    """What a side has once, in or before its steps."""
    run: JoinedRanks | None = None
    """How its ranks work together; None unless it has several."""
    clock_mhz: float | None = None
    """Mean clock of the multiprocessors in MHz while the GPUs work; None without counters."""
    power_w: float | None = None
    """Mean power of a GPU in W while it works; None without counters."""
    all_runs: tuple[tuple[float, ...], ...] = ()
    """Durations in ns of all recorded steps of each capture, typical or not, but those that an edge of the recording
    cuts, start-up, and other phases. Empty where a report does not know them."""
    unlike: tuple[UnlikeStep, ...] = ()
    """The steps that are unlike the typical ones, of all traces."""
    view: ComparedSide = field(default_factory=ComparedSide)
    """What people see of it besides what is compared."""

    @property
    def compiled_calls(self) -> float:
        """Calls per step of compiled code that launches something."""
        return fsum(work.calls for path, work in self.work.items() if path and is_compiled(path[-1]))

    @property
    def steps(self) -> tuple[StepRow, ...]:
        """All steps of all captures."""
        return tuple(step for run in self.runs for step in run)

    @property
    def durations(self) -> tuple[tuple[float, ...], ...]:
        """Durations of the steps of each capture in ns."""
        return tuple(tuple(step.duration_ns for step in run) for run in self.runs if run)

    @property
    def step_ns(self) -> float | None:
        """Mean time of a step in ns; None without steps."""
        steps = self.steps
        return mean(step.duration_ns for step in steps) if steps else self.total_ns


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean of at least one value."""
    known = list(values)
    return fsum(known) / len(known)


def known_mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values; None if no value is known."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


# The figures of a side that is a printed table: sums over a run, without a timeline.


def runs_of_tables(report: Report) -> tuple[PrintedRun, ...]:
    """The runs of a document of printed tables."""
    return report.result("runs", tuple[PrintedRun, ...]) or ()


def choose_table(report: Report, wanted: str | None) -> PrintedRun:
    """The run that was named, or the only one.

    Raises:
        UsageError: There is no such run, or there are several and none was named.
    """
    tables = runs_of_tables(report)
    if wanted is None and len(tables) == 1:
        return tables[0]
    named = [run for run in tables if wanted is not None and wanted in (run.id, run.id.rpartition("-")[2])]
    if not named:
        # what is no id of a run may be a secret at the end of a URL
        absent = f"no run {wanted}" if _ID.fullmatch(wanted or "") else "no such run"
        problem = "contains several runs; name one of them" if wanted is None else f"has {absent}; it has"
        raise UsageError(f"{report.source.name}: {problem}: {listing(report)}")
    return named[0]


def listing(report: Report) -> str:
    """The runs of a document as they are named on the command line."""
    name = report.source.name
    return ", ".join(f"{name}#{run.id}" + (f" ({run.title})" if run.title else "") for run in runs_of_tables(report))


def measure_tables(report: Report, run: PrintedRun) -> Measurement:
    """Turn one run of a document into a measurement."""
    steps = run.steps
    resources = next((h.resources for h in report.headlines if h.run == run.id), None)
    return Measurement(
        side=Side(report.source.name, "key_averages", run.id, run.title, 1, (), (), steps, run.steps_from, (), ()),
        runs=(),
        total_ns=run.wall_estimate_ns_per_step,
        parts={
            "host": _per(run.cpu_ns, steps),
            "device": _per(run.device_ns, steps),
            "dataloader": _per(run.dataloader_ns, steps),
            "synchronization": _per(run.sync_ns, steps),
        },
        rankings={
            "operators": _hot(run.operators, steps, _hidden(run)),
            "operators_by_shape": _by_shape(run),
            "kernels": _hot(run.kernels, steps, _hidden(run)),
        },
        memory={},
        gpus={},
        resources=resources,
        findings=tuple(finding for finding in report.findings if finding.run == run.id),
        options=None,
        world_size=None,
        view=views.of_table(report, run),
    )


def _per(value: int | None, steps: int) -> float | None:
    return None if value is None else value / steps


def _hidden(run: PrintedRun) -> float:
    """Time per step in rows that are not printed, on the device or on the host, whichever is larger."""
    device = (run.device_hidden_share or 0.0) * (run.device_ns or 0)
    return max(device, (run.cpu_hidden_share or 0.0) * (run.cpu_ns or 0)) / run.steps


def _hot(rows: Sequence[Hot], steps: int, hidden: float) -> Ranked:
    times = Counter(row.name for row in rows)
    figures = {
        Key(row.name): Cost(_per(row.calls, steps), _per(row.device_self_ns, steps), _per(row.host_self_ns, steps))
        for row in rows
        if not (row.name_truncated and times[row.name] > 1)
    }
    return Ranked(figures, sum(row.name_truncated and times[row.name] > 1 for row in rows), hidden)


def _by_shape(run: PrintedRun) -> Ranked:
    """Host times of tables grouped by shape are totals, not self times; they are left out."""
    whole = [cost for cost in run.shape_costs if not cost.shapes_truncated]
    sums: dict[Key, list[float]] = {}
    for cost in whole:
        calls, device = sums.setdefault(Key(cost.name, cost.input_shapes), [0.0, 0.0])
        sums[Key(cost.name, cost.input_shapes)] = [calls + cost.calls, device + cost.device_ns]
    rows = {key: Cost(calls / run.steps, device / run.steps, None) for key, (calls, device) in sums.items()}
    unprinted_ns = max(0.0, (run.device_ns or 0) - fsum(device for _, device in sums.values()))
    return Ranked(rows, len(run.shape_costs) - len(whole), unprinted_ns / run.steps)
