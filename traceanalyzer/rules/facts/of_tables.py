"""Makes facts of the runs of a table document."""

from __future__ import annotations

from traceanalyzer.analyzers.tables import runs
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.report.model import Resources
from traceanalyzer.rules.facts import Facts
from traceanalyzer.trace.document import TableDocument


def facts(document: TableDocument, gpu: Gpu | None = None) -> tuple[Facts, ...]:
    """One for each run whose totals are printed and not 0: else it is unknown how much anything matters."""
    found = []
    for view in runs.group(document):
        run = runs.analyze(view)
        if run.wall_estimate_ns_per_step:
            resources = _resources(run, run.wall_estimate_ns_per_step)
            found.append(Facts(resources, run.steps, run.id, run, view, gpu=gpu))
    return tuple(found)


def _resources(run: runs.PrintedRun, step_ns: float) -> Resources:
    """Time per step of each resource; host time is what remains without the loader and the waits for the device."""
    loader, waits = run.dataloader_ns or 0, run.sync_ns or 0
    host = None if run.cpu_ns is None else max(0, run.cpu_ns - loader - waits) / run.steps
    return Resources(
        step_ns=step_ns,
        gpu_ns=None if run.device_ns is None else run.device_ns / run.steps,
        host_ns=host,
        loader_ns=loader / run.steps,
        communication_ns=None,
    )
