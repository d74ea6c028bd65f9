"""What headlines say of printed tables, which have sums but no timeline."""

from __future__ import annotations

from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.kinds import RowKind, is_sync
from traceanalyzer.knowledge.marks import is_of_accelerator
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.facts import Facts
from traceanalyzer.rules.gpu_bound import UNNAMED

MOSTLY = 0.5
"""Share of the profiled time in waits for the device, and of device time in collectives, from which on they are named
(own choice: most of it)."""

TEXTS = {
    "input": Text(
        "headline-table-input",
        "Bound by input: at least {share:share} of the profiled time ({time:ns} of {step:ns} per step) is waiting for "
        "the DataLoader that other work cannot hide.",
    ),
    "host": Text(
        "headline-table-host",
        "Bound by the host: {share:share} of the profiled time ({time:ns} of {step:ns} per step) is CPU work, and the "
        "GPU works for less.",
    ),
    "communication": Text(
        "headline-table-communication",
        "Bound by communication: collectives take {time:ns} of the GPU's time per step, {share:share} of the profiled "
        "time.",
    ),
    "gpu-compute": Text(
        "headline-table-gpu-compute",
        "Bound by GPU compute: the GPU works for {time:ns} per step, {share:share} of the profiled time, mostly on "
        "matrix products, convolutions and attention.",
    ),
    "gpu-memory": Text(
        "headline-table-gpu-memory",
        "Bound by GPU memory: the GPU works for {time:ns} per step, {share:share} of the profiled time, mostly on "
        "operations that move data.",
    ),
    UNNAMED: Text(
        "headline-table-gpu",
        "Bound by the GPU: it works for {time:ns} per step, {share:share} of the profiled time. The names of its "
        "kernels do not show what most of this time is spent on.",
    ),
}
"""Sentences by what bounds a run."""
_WAITING = Text(
    "headline-table-waiting",
    "The program mostly waits for the device: {share:share} of the profiled time ({time:ns} of {step:ns} per step) is "
    "in {call}. What the device does meanwhile was not recorded.",
    note="call is the name of a runtime call, such as cudaDeviceSynchronize",
)


def waiting(facts: Facts) -> Message | None:
    """The headline of a table without device times whose program mostly waits for the device; None for all others."""
    if facts.view is None or facts.resources.gpu_ns is not None:
        return None
    waits = [row for row, kind in facts.view.by_name if kind is RowKind.RUNTIME and is_sync(row.name)]
    time = facts.host_per_step(sum(row.self_cpu_ns or 0 for row in waits))
    if not waits or time < MOSTLY * facts.step_ns:
        return None
    call = max(waits, key=lambda row: row.self_cpu_ns or 0).name
    return _WAITING(time=time, step=facts.step_ns, share=time / facts.step_ns, call=call)


def sign(view: RunView) -> str | None:
    """What shows that an accelerator took part: a call or an operator, else columns of times that are not its own."""
    rows = [row for row, kind in view.by_name if kind is RowKind.RUNTIME or is_of_accelerator(row.name)]
    if rows:
        return max(rows, key=lambda row: row.self_cpu_ns or 0).name
    has_times = any(row.device_total_ns or row.device_avg_ns for row, _ in view.by_name)
    return next((table.device for table in view.tables if table.device), None) if has_times else None
