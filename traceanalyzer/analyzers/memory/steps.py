"""How much memory does each step take and give back, and does it grow from step to step?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory.ledger import Ledger
from traceanalyzer.knowledge.marks import step_number
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.table import I64


class StepMemory(msgspec.Struct, frozen=True):
    """What one step did to the memory of one device."""

    name: str
    """Number of the step as the profiler counted it; counted from 0 where it marked none."""
    allocations: int
    """Number of allocations in the step."""
    allocated_bytes: int
    """Bytes taken in the step, whether given back or not: the churn of the allocator."""
    frees: int
    """Number of releases in the step."""
    freed_bytes: int
    """Bytes given back in the step."""
    peak_bytes: int
    """Highest level in the step in bytes, the level at its start included."""
    end_bytes: int
    """Level at the end of the step in bytes."""


def host_steps(context: Context) -> Steps:
    """The steps as the host saw them: marked ranges, else inferred ones, else the whole trace.

    Memory is taken and given back by the host, which runs ahead of the device; the steps of the breakdown last
    until the device is done and would count what belongs to the next step.
    """
    steps = context.steps
    if steps.found_by != "ProfilerStep":
        return context.inferred_steps or steps
    host, names = context.trace.host, context.trace.names
    marked: dict[str, list[int]] = {}
    for row in np.flatnonzero(context.kind == NodeKind.STEP).tolist():
        marked.setdefault(str(step_number(names[host.name[row]])), []).append(row)
    rows = []
    for name, start in zip(steps.names, steps.start_ns.tolist(), strict=True):
        before = [row for row in marked[name] if host.start_ns[row] <= start]  # steps start at their mark or later
        rows.append((before or marked[name])[-1])
    start_ns = host.start_ns[rows]
    return Steps(steps.names, start_ns, start_ns + host.dur_ns[rows], steps.found_by)


def by_step(ledger: Ledger, steps: Steps) -> tuple[StepMemory, ...]:
    """One row per step."""
    low = np.searchsorted(ledger.time_ns, steps.start_ns, side="left")
    high = np.maximum(np.searchsorted(ledger.time_ns, steps.end_ns, side="left"), low)
    taken = ledger.change_bytes > 0
    columns = [
        _between(taken.astype(np.int64), low, high),
        _between(np.where(taken, ledger.change_bytes, 0), low, high),
        _between((ledger.change_bytes < 0).astype(np.int64), low, high),
        _between(np.where(taken, 0, -ledger.change_bytes), low, high),
    ]
    # levels[i] is the level before record i, so that a step sees the level at its start
    before = ledger.level_bytes[:1] - np.where(ledger.is_foreign, 0, ledger.change_bytes)[:1]
    levels = np.concatenate((before, ledger.level_bytes))
    bounds = zip(low.tolist(), high.tolist(), strict=True)
    peaks = [int(levels[a : b + 1].max()) for a, b in bounds]
    figures = np.column_stack([*columns, peaks, levels[high]]).tolist() if len(steps) else []
    return tuple(StepMemory(name, *values) for name, values in zip(steps.names, figures, strict=True))


def growth(rows: tuple[StepMemory, ...]) -> float | None:
    """Slope of the least-squares line through the levels at the ends of the steps, in bytes per step."""
    if len(rows) < 2:
        return None
    ends = [row.end_bytes for row in rows]
    middle, mean = (len(rows) - 1) / 2, sum(ends) / len(rows)
    spread = sum((i - middle) ** 2 for i in range(len(rows)))
    return sum((i - middle) * (end - mean) for i, end in enumerate(ends)) / spread


def _between(values: I64, low: I64, high: I64) -> I64:
    summed = np.concatenate(([0], np.cumsum(values)))
    between: I64 = summed[high] - summed[low]
    return between
