"""Makes facts of the runs of a table document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.report.model import Resources
from traceanalyzer.rules.engine.facts import Facts


def facts(views: Iterable[RunView], results: Mapping[str, Any], gpu: Gpu | None = None) -> tuple[Facts, ...]:
    """One for each run whose totals are printed and not 0: else it is unknown how much anything matters.

    Args:
        views: The tables of each run, for rules that look at single rows.
        results: Results of the analyses by key; `runs` has one for each view.
        gpu: Peak figures of the device, if they are known.
    """
    found = []
    for view, run in zip(views, results["runs"], strict=True):
        if run.wall_estimate_ns_per_step:
            resources = _resources(run, run.wall_estimate_ns_per_step)
            found.append(Facts(resources, run.steps, run.id, run, view, gpu=gpu))
    return tuple(found)


def _resources(run: PrintedRun, step_ns: float) -> Resources:
    """Time per step of each resource; host time is what remains without loader, waits for the device, and profiler."""
    loader, waits, profiler = run.dataloader_ns or 0, run.sync_ns or 0, run.profiler_ns or 0
    host = None if run.cpu_ns is None else max(0, run.cpu_ns - loader - waits - profiler) / run.steps
    return Resources(
        step_ns=step_ns,
        gpu_ns=None if run.device_ns is None else run.device_ns / run.steps,
        host_ns=host,
        loader_ns=loader / run.steps,
        communication_ns=None,
    )
