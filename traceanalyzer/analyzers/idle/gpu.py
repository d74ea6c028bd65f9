"""How busy is each GPU? All figures are over the window from the first to the last step.

Definitions of the TensorBoard plugin (docs/gpu_utilization.md of tb_plugin): utilization counts kernels
only; est. SM efficiency weights them by the share of multiprocessors that their blocks can fill.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from traceanalyzer.knowledge.kernel_names import uses_tensor_cores
from traceanalyzer.structure import gaps
from traceanalyzer.structure.analysis import KERNELS, STEPS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Bool
from traceanalyzer.trace.tables import Category


class UseInSteps(msgspec.Struct, frozen=True):
    """One device in the typical steps, whose time all shares are of (0 to 1)."""

    utilization: float
    """Share in which at least one kernel runs."""
    busy_share: float
    """Share in which a kernel, copy or fill runs."""
    est_sm_efficiency: float | None
    """Estimated share of the multiprocessors that have a block; null if the trace does not have blocks per SM."""
    est_achieved_occupancy: float | None
    """Mean of the estimated occupancy of the kernels, weighted by their time in the steps; null where the trace has no
    figure."""
    tensor_core_share: float | None = None
    """Time of the kernels in the steps whose names show that they use matrix units, over the time of all kernels there
    (0 to 1); null without kernel time."""


class DeviceUse(msgspec.Struct, frozen=True):
    """One device; shares are of the window unless named otherwise."""

    device: int
    """Number of the device as in the trace."""
    utilization: float
    """Share of the window (0 to 1) in which at least one kernel ran."""
    busy_share: float
    """Share of the window (0 to 1) in which a kernel, copy or fill ran."""
    idle_share: float
    """Share of the window (0 to 1) in which nothing ran on the device."""
    est_sm_efficiency: float | None
    """Estimated share of the multiprocessors (0 to 1) that had a block, over the window; null if the trace does not
    have blocks per SM."""
    est_achieved_occupancy: float | None
    """Mean of the estimated occupancy of the kernels (0 to 1), weighted by their time in the window; null where the
    trace has no figure."""
    tensor_core_share: float | None
    """Time of the kernels whose names show that they use matrix units, over all kernel time of the trace (0 to 1); null
    without kernel time."""
    tensor_core_unknown_share: float | None
    """Time of the kernels whose names do not show whether they use matrix units, over all kernel time (0 to 1); null
    without kernel time."""
    typical: UseInSteps | None = None
    """The device in the typical steps; null without any, and in reports of old versions."""


class GpuMetrics(msgspec.Struct, frozen=True):
    """All devices that ran a kernel."""

    devices: tuple[DeviceUse, ...]
    """Every device that ran a kernel, by number; empty if the steps have no length."""


def analyze(context: Context) -> GpuMetrics:
    """Metrics of each device that ran a kernel; none without a window of some length."""
    device, window = context.trace.device, context.steps.window
    kernels = (device.category == Category.KERNEL) & (device.device != UNKNOWN)
    if window is None or window[1] <= window[0]:
        return GpuMetrics(())
    return GpuMetrics(
        tuple(_metrics(context, number, kernels, window) for number in distinct(device.device[kernels]).tolist())
    )


def _metrics(context: Context, number: int, kernels: Bool, window: tuple[int, int]) -> DeviceUse:
    device = context.trace.device
    here = device.device == number
    length = window[1] - window[0]
    whole = Intervals(np.array(window[:1]), np.array(window[1:]))
    own = kernels & here
    start = device.start_ns[own]
    dur = device.dur_ns[own]
    busy_share = gaps.busy(context, number).clip(*window).length / length
    clipped = np.maximum(np.minimum(start + dur, window[1]) - np.maximum(start, window[0]), 0)
    occupancy = device.occupancy[own]
    tensor_cores, unknown = _tensor_core_shares(context, own)
    return DeviceUse(
        device=number,
        utilization=Intervals.union(start, start + dur).clip(*window).length / length,
        busy_share=busy_share,
        idle_share=1 - busy_share,
        est_sm_efficiency=_sm_efficiency(start, start + dur, device.blocks_per_sm[own], clipped, whole),
        est_achieved_occupancy=_mean(np.where(occupancy >= 0, occupancy / 100, np.nan), clipped),
        tensor_core_share=tensor_cores,
        tensor_core_unknown_share=unknown,
        typical=_in_steps(context, number, own),
    )


def _in_steps(context: Context, number: int, kernels: Bool) -> UseInSteps | None:
    """A device in the typical steps."""
    device = context.trace.device
    steps = program_steps(context).typical
    within = Intervals.union(steps.start_ns, steps.end_ns)
    if not within.length:
        return None
    start = device.start_ns[kernels]
    end = device.end_ns[kernels]
    blocks = device.blocks_per_sm[kernels]
    occupancy = device.occupancy[kernels]
    time = within.within(start, end)
    return UseInSteps(
        utilization=(Intervals.union(start, end) & within).length / within.length,
        busy_share=(gaps.busy(context, number) & within).length / within.length,
        est_sm_efficiency=_sm_efficiency(start, end, blocks, time, within),
        est_achieved_occupancy=_mean(np.where(occupancy >= 0, occupancy / 100, np.nan), time),
        tensor_core_share=_tensor_core_shares(context, np.flatnonzero(kernels)[time > 0])[0],
    )


def _sm_efficiency(start: I64, end: I64, blocks: F64, time: I64, within: Intervals) -> float | None:
    """The integral of min(1, sum of blocks per SM of the running kernels) over some times, over their length.

    Args:
        start: Start of each kernel.
        end: Its end.
        blocks: Its blocks per SM.
        time: How much of it lies within the times.
        within: The times.
    """
    rows = (blocks > 0) & (time > 0)
    if not rows.any():
        return None
    times = np.concatenate((start[rows], end[rows]))
    change = np.concatenate((blocks[rows], -blocks[rows]))
    order = np.argsort(times, kind="stable")
    load = np.cumsum(change[order])[:-1]
    load[load < 1e-9] = 0  # remove rounding errors after the end of the last kernel
    counted = np.diff(within.before(times[order]))
    return float((np.minimum(load, 1) * counted).sum()) / within.length


def _mean(values: F64, weights: I64) -> float | None:
    known = ~np.isnan(values)
    weight = int(weights[known].sum())
    with np.errstate(over="ignore"):  # a damaged file may contain any value
        total = float((values[known] * weights[known]).sum())
    return total / weight if weight and math.isfinite(total) else None


def _tensor_core_shares(context: Context, rows: Bool | I64) -> tuple[float | None, float | None]:
    names, device = context.trace.names, context.trace.device
    codes, inverse = ranked(device.name[rows])
    verdict = [uses_tensor_cores(names[c]) for c in codes.tolist()]
    dur = device.dur_ns[rows]
    total = int(dur.sum())
    if not total:
        return None, None
    used = np.array([v is True for v in verdict])[inverse]
    unknown = np.array([v is None for v in verdict])[inverse]
    return int(dur[used].sum()) / total, int(dur[unknown].sum()) / total


ANALYSES = (Analysis(70, "gpu", GpuMetrics, analyze, needs=(KERNELS, STEPS)),)
