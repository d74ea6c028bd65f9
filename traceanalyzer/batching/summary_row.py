"""Creates the summary row of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceanalyzer._version import __version__
from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.idle.gpu import GpuMetrics
from traceanalyzer.analyzers.kernels import Kernels
from traceanalyzer.batching.record import RECORD_VERSION, Output, Record, Row, RowAdvice
from traceanalyzer.report.model import Finding, Generator, Report
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.step_breakdown import StepBreakdown


def record(
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
    return Record(RECORD_VERSION, generator, fingerprint, outputs, row(name, report), rank, is_saved)


def row(name: str, report: Report) -> Row:
    """Create the summary row of a report."""
    breakdown = report.result("step_breakdown", StepBreakdown)
    window = breakdown.window if breakdown else None
    steps = len(breakdown.steps) if breakdown else None
    window_ns = window.end_ns - window.start_ns if window else None
    headline = report.headlines[0] if report.headlines else None
    kernels = report.result("kernels", Kernels)
    recording = report.result("recording", Recording)
    return Row(
        name=name,
        format=report.source.format,
        size_bytes=report.source.size_bytes,
        rank=report.trace.rank if report.trace else None,
        world_size=report.trace.world_size if report.trace else None,
        base_ns=report.trace.base_ns if report.trace else None,
        device_name=next((device.name for device in report.trace.devices), None) if report.trace else None,
        steps=steps,
        mean_step_ns=breakdown.average.duration_ns if breakdown and breakdown.average else None,
        median_step_ns=breakdown.median_duration_ns if breakdown else None,
        window_ns=window_ns,
        **_gpu_time(report, window_ns),
        bound=headline.bound if headline else None,
        headline=headline.message if headline else None,
        advice=tuple(_advice(finding, steps) for finding in report.findings),
        warnings=len(report.warnings),
        has_typical_step=recording.typical_step_ns is not None if recording else None,
        kernels=sum(kernel.calls for kernel in kernels.rows) if kernels else None,
    )


def _gpu_time(report: Report, window_ns: int | None) -> Mapping[str, Any]:
    """Columns of GPU time without work, in ns; null unless there are GPUs and a window."""
    metrics = report.result("gpu", GpuMetrics)
    if metrics is None or not metrics.devices or not window_ns:
        nothing = ("devices", "busy_share", "idle_ns", "exposed_communication_ns", "wasted_ns")
        return dict.fromkeys(nothing)
    shares = [device.busy_share for device in metrics.devices]
    idle = sum(round(device.idle_share * window_ns) for device in metrics.devices)
    exposed = _exposed(report.result("communication", Communication))
    return {
        "devices": len(shares),
        "busy_share": sum(shares) / len(shares),
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
