"""What a batch stores for each analyzed file: its reports, and its row of the summary."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from statistics import median
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer._version import __version__
from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.idle.gpu import GpuMetrics
from traceanalyzer.analyzers.kernels import Kernels
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse
from traceanalyzer.analyzers.ranks import Ranks
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.inputs.storage import STATE
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Combined, Finding, Generator, Report
from traceanalyzer.structure.recording import Recording, TypicalStep
from traceanalyzer.structure.step_breakdown import Average, StepBreakdown

RECORD_VERSION = 3

MOST_STEPS = 200
"""Typical steps whose durations are kept (own choice: a test between two runs hardly gains from more)."""

LEAST_WORK_NS = 1_000_000
"""Own choice: with less GPU work in total, a recording does not show how a program uses its GPUs."""


class RowAdvice(msgspec.Struct, frozen=True):
    """One finding of a file in a few words."""

    rule: str
    severity: str
    title: Message
    wall_ns: tuple[float, float] | None
    """Lower and upper bound of its saving over all steps of the trace in ns; null if unknown."""


class Row(msgspec.Struct, frozen=True):
    """One row of the summary, for one file; null is unknown."""

    name: str
    """Path relative to the folder of the inputs."""
    format: str
    """Format of the file: `kineto` or `key_averages`."""
    size_bytes: int | None
    rank: int | None
    world_size: int | None
    base_ns: int | None
    """Absolute time of the first event, in ns since 1970."""
    device_name: str | None
    """Name of the first accelerator in the file."""
    steps: int | None
    """Number of steps, those that are not typical included."""
    mean_step_ns: float | None
    """Duration of the typical step in the report of the file: the mean over the steps that count."""
    median_step_ns: float | None
    """Median of the steps that count."""
    window_ns: int | None
    """Time of the typical steps together, in ns; in reports of old versions from the first to the last step."""
    devices: int | None
    """Number of GPUs that ran a kernel."""
    busy_share: float | None
    """Mean busy share of these GPUs (0 to 1) in the typical steps."""
    idle_ns: int | None
    """Time of the window in which nothing ran on a GPU, summed over the GPUs."""
    exposed_communication_ns: int | None
    """Time of the window in which a GPU ran nothing but collectives, summed over the GPUs."""
    wasted_ns: int | None
    """Idle time plus exposed communication: GPU time that was paid for and did no work, in ns."""
    bound: str | None
    """What bounds the step, as in `report.model.Headline`."""
    headline: Message | None
    advice: tuple[RowAdvice, ...]
    """Findings in a few words, in the order of the report."""
    warnings: int
    kernels: int | None = None
    """Number of kernels on all GPUs."""
    has_typical_step: bool | None = None
    """Whether any part of the recording is a step of the program; null if unknown."""
    parts: Average | None = None
    """Parts of the typical step; null where there is none."""
    combined: Combined | None = None
    """What all fixes save together, without a list of them; null if no finding saves anything."""
    framework: str | None = None
    """Id of the framework that runs the program; null if none was recognized."""
    step_durations_ns: tuple[int, ...] = ()
    """Durations of the first typical steps in the order of time; of several ranks means over them."""
    recorded_ns: int | None = None
    """When the recording began, in ns since 1970, by the clock of its host; null if the file does not show it."""
    peak_bytes: int | None = None
    """Peak of the fullest device of a memory snapshot, or what is held at the dump without a history; else null."""

    @property
    def typical_step_ns(self) -> float | None:
        """Duration of the typical step; None, too, where no part of the recording is a step of the program."""
        return None if self.has_typical_step is False else self.mean_step_ns

    @property
    def waste_ns(self) -> int | None:
        """Wasted time; None, too, where no part of the recording is a step of the program."""
        return None if self.has_typical_step is False else self.wasted_ns

    @property
    def gain_ns(self) -> float | None:
        """What all fixes save in all typical steps; None if no finding saves anything."""
        if self.combined is None or not self.steps:
            return None
        low, high = self.combined.wall_ns_per_step
        likely = self.combined.point_ns_per_step
        return self.steps * (fsum((low, high)) / 2 if likely is None else likely)

    @property
    def is_hollow(self) -> bool:
        """Whether GPUs had hardly any work, or the recording contains no step, so that no time counts as wasted."""
        if not self.devices or self.window_ns is None or self.idle_ns is None:
            return False
        if self.has_typical_step is False:
            return True
        work = self.devices * self.window_ns - self.idle_ns
        return work < LEAST_WORK_NS or (self.kernels is not None and self.kernels <= 1)


class Output(msgspec.Struct, frozen=True):
    """One report that has been written."""

    format: str
    name: str
    """Path relative to the folder of the reports."""
    size_bytes: int


class Record(msgspec.Struct, frozen=True):
    """The record of a finished file; it is written after the reports, so its existence shows that they are complete."""

    schema_version: int
    generator: Generator
    fingerprint: str
    """Identifies input, options and version, as `ReportOptions.fingerprint` computes it."""
    outputs: tuple[Output, ...]
    row: Row
    rank: Output | None = None
    """Results for a report of the whole run; null for a file that is not a rank of a larger run."""

    is_saved: bool = False
    """Whether the file is a saved report, which was only rendered again."""

    @property
    def files(self) -> tuple[Output, ...]:
        """Everything that was written for the file."""
        return self.outputs if self.rank is None else (*self.outputs, self.rank)


def name_of(name: str) -> str:
    """Path of a file's record within the folder of the reports."""
    return f"{STATE}/{name}.json"


def encode(done: Record) -> str:
    """Encode a record as the content of its file."""
    return msgspec.json.encode(done, order="deterministic").decode() + "\n"


def decode(data: bytes) -> Record | None:
    """Decode a record; None if it has another version or is cut off."""
    try:
        done = msgspec.json.decode(data, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return done if done.schema_version == RECORD_VERSION else None


def record_of(
    name: str,
    fingerprint: str,
    outputs: tuple[Output, ...],
    rank: Output | None,
    report: Report,
    *,
    is_saved: bool = False,
) -> Record:
    """Create the record of a file whose reports have been written."""
    generator = Generator("traceanalyzer", __version__)
    return Record(RECORD_VERSION, generator, fingerprint, outputs, row_of(name, report), rank, is_saved)


def row_of(name: str, report: Report) -> Row:
    """Create the summary row of a report."""
    recording = report.result("recording", Recording)
    typical = recording.typical if recording else None
    window_ns = _window_ns(report, typical)
    kernels = report.result("kernels", Kernels)
    steps = _steps(report)
    return Row(
        name=name,
        format=report.source.format,
        size_bytes=report.source.size_bytes,
        **_origin(report),
        **steps,
        step_durations_ns=tuple(_durations(report)[:MOST_STEPS]),
        window_ns=window_ns,
        **_gpu_time(report, window_ns, typical),
        **_first_headline(report),
        advice=tuple(_advice(finding, steps["steps"]) for finding in report.findings),
        warnings=len(report.warnings),
        recorded_ns=_recorded(report),
        kernels=sum(kernel.calls for kernel in kernels.rows) if kernels else None,
        peak_bytes=_peak(report),
    )


def _peak(report: Report) -> int | None:
    """The peak of the fullest device of a memory snapshot."""
    memory = report.result("memory_snapshot", MemorySnapshotUse)
    if memory is None:
        return None
    device = memory.fullest
    return device.peak_requested_bytes if device.has_history else device.active_requested_bytes


_LONGEST_NS = 1 << 53
"""About 100 days, which only absurd reports exceed; tables of the results hold integers of 64 bits."""


def _window_ns(report: Report, typical: TypicalStep | None) -> int | None:
    """The typical steps together, because start-up is no waste; of old versions from the first to the last step."""
    if typical is not None and typical.steps:
        return min(round(typical.resources.step_ns * typical.steps), _LONGEST_NS)
    breakdown = report.result("step_breakdown", StepBreakdown)
    window = breakdown.window if breakdown else None
    return window.end_ns - window.start_ns if window else None


def _origin(report: Report) -> dict[str, Any]:
    """Columns that say where a trace is from; null of other reports."""
    trace = report.trace
    if trace is None:
        return dict.fromkeys(("rank", "world_size", "base_ns", "device_name"))
    return {
        "rank": trace.rank,
        "world_size": trace.world_size,
        "base_ns": trace.base_ns,
        "device_name": next((device.name for device in trace.devices), None),
    }


def _first_headline(report: Report) -> dict[str, Any]:
    """Columns of what bounds the step, and of what all findings save together."""
    if not report.headlines:
        return dict.fromkeys(("bound", "headline", "combined"))
    headline = report.headlines[0]
    combined = replace(headline.combined, fixes=()) if headline.combined else None
    return {"bound": headline.bound, "headline": headline.message, "combined": combined}


def _steps(report: Report) -> dict[str, Any]:
    """Columns of the steps: of the typical one where a report has it, as all but old versions do, else of all."""
    breakdown, recording = report.result("step_breakdown", StepBreakdown), report.result("recording", Recording)
    columns: dict[str, Any] = dict.fromkeys(("steps", "mean_step_ns", "median_step_ns"))
    columns["has_typical_step"] = recording.typical_step_ns is not None if recording else None
    columns["framework"] = recording.framework if recording else None
    if recording and recording.typical_step_ns is not None and recording.typical:
        columns["parts"] = recording.typical.parts
    if recording and recording.typical:
        typical = [step.duration_ns for step in recording.steps if step.is_typical]
        columns["mean_step_ns"] = recording.typical.parts.duration_ns
        if typical:  # not in a report on several ranks, whose steps differ
            columns |= {"steps": len(recording.steps), "median_step_ns": median(typical)}
    elif breakdown and breakdown.average:
        columns |= {"mean_step_ns": breakdown.average.duration_ns, "median_step_ns": breakdown.median_duration_ns}
        columns["steps"] = len(breakdown.steps)
    return columns


def _durations(report: Report) -> list[int]:
    """Durations of the typical steps; of several ranks means over them."""
    recording, ranks = report.result("recording", Recording), report.result("ranks", Ranks)
    if ranks is not None:
        return [round(step.mean_ns) for step in ranks.steps if step.counts]
    return [step.duration_ns for step in recording.steps if step.is_typical] if recording else []


def _recorded(report: Report) -> int | None:
    """When the recording began, by the clock of the rank, which old files show as well."""
    facts = report.result("rank_facts", RankFacts)
    time = facts.clock_ns if facts else None
    return report.trace.base_ns if time is None and report.trace else time


def _gpu_time(report: Report, window_ns: int | None, typical: TypicalStep | None) -> Mapping[str, Any]:
    """Columns of GPU time without work, in ns; null unless there are GPUs and a window.

    Args:
        report: The report.
        window_ns: The time that counts.
        typical: The typical step; None in reports of old versions.
    """
    metrics = report.result("gpu", GpuMetrics)
    if metrics is None or not metrics.devices or not window_ns:
        nothing = ("devices", "busy_share", "idle_ns", "exposed_communication_ns", "wasted_ns")
        return dict.fromkeys(nothing)
    shares = [(device.typical or device).busy_share for device in metrics.devices]
    idles = [1 - share for share in shares] if typical else [device.idle_share for device in metrics.devices]
    idle = sum(round(share * window_ns) for share in idles)
    exposed = _exposed(report.result("communication", Communication))
    if typical is not None and typical.steps:  # known of the busiest device
        exposed = round((typical.resources.exposed_communication_ns or 0.0) * typical.steps * len(shares))
    return {
        "devices": len(shares),
        "busy_share": fsum(shares) / len(shares),
        "idle_ns": idle,
        "exposed_communication_ns": exposed,
        "wasted_ns": idle + exposed,
    }


def _exposed(communication: Communication | None) -> int:
    """Exposed communication in ns; 0 without collectives."""
    if communication is None:
        return 0
    return sum(device.window.exposed_ns for device in communication.devices if device.window)


def _advice(finding: Finding, steps: int | None) -> RowAdvice:
    saving = finding.saving.wall_ns_per_step if finding.saving and steps else None
    wall = (saving[0] * steps, saving[1] * steps) if saving and steps else None
    return RowAdvice(finding.rule, finding.severity, finding.title, wall)
