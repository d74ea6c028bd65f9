"""What figures do groups of kernels have: number and times, occupancy, fill of the multiprocessors?

A kernel with fewer blocks than the device has multiprocessors leaves some of them empty, unless kernels of other
streams run beside it. Its fill is the mean, while it runs, of the share of multiprocessors that the blocks of all
running kernels can fill: min(1, sum of their blocks per multiprocessor), as in est. SM efficiency.
"""

from __future__ import annotations

import math

import numpy as np

from traceanalyzer.structure.sums import count_by, least_by, members, most_by, sum_by
from traceanalyzer.trace.table import F64, I64
from traceanalyzer.trace.tables import DeviceEvents

Figures = tuple[int, int, float, int, int, float | None, float | None]
"""Calls, total, mean, min and max in ns, blocks per SM, occupancy."""


def figures_of(kernels: DeviceEvents, groups: I64, count: int) -> list[Figures]:
    """Calls, total, mean, min, max, blocks per SM and occupancy of each group."""
    dur = kernels.dur_ns
    calls = count_by(groups, count)
    total = sum_by(groups, dur, count)
    mean = total / np.maximum(calls, 1)
    shortest = least_by(groups, dur, count)
    longest = most_by(groups, dur, count)
    occupancy = np.where(kernels.occupancy >= 0, kernels.occupancy / 100, np.nan)
    mean_blocks = _weighted(groups, kernels.blocks_per_sm, dur, count)
    mean_occupancy = _weighted(groups, occupancy, dur, count)
    times = (column.tolist() for column in (calls, total, mean, shortest, longest))
    return list(zip(*times, mean_blocks, mean_occupancy, strict=True))


def _weighted(groups: I64, values: F64, dur: I64, count: int) -> list[float | None]:
    """Means weighted by duration over the rows that have a value; None for groups without any."""
    known = np.flatnonzero(~np.isnan(values))
    weight = np.bincount(groups[known], weights=dur[known], minlength=count)
    with np.errstate(over="ignore"):  # a damaged file may contain any value
        summed = np.bincount(groups[known], weights=values[known] * dur[known], minlength=count)
    pairs = zip(summed.tolist(), weight.tolist(), strict=True)
    return [s / w if w and math.isfinite(s) else None for s, w in pairs]


def fill_of(kernels: DeviceEvents, device: I64) -> F64:
    """For each kernel, the mean of min(1, blocks per multiprocessor of all that run) while it runs; NaN without one.

    Args:
        kernels: The kernels, and other events.
        device: The device of each kernel that counts; -1 for all others.
    """
    fill = np.full(len(kernels), np.nan)
    blocks = np.minimum(kernels.blocks_per_sm, 1)  # more fill no more, and absurd ones would swallow the others in sums
    known = np.flatnonzero(device >= 0)
    for _, of_device in members(device[known]):
        rows = known[of_device]
        fill[rows] = _fill_of_one(kernels.start_ns[rows], kernels.dur_ns[rows], blocks[rows])
    return fill


def _fill_of_one(start: I64, dur: I64, blocks: F64) -> F64:
    """The mean fill of one device while each of its kernels runs.

    Each start adds the blocks of its kernel, each end takes them away; the fill between two of these times is summed up
    from the first one on, and what a kernel has of it is the difference between its end and its start.
    """
    end = start + dur
    times = np.concatenate((start, end))
    changes = np.concatenate((blocks, -blocks))
    order = np.argsort(times, kind="stable")
    times = times[order]
    load = np.cumsum(changes[order])
    filled = np.minimum(load[:-1], 1) * np.diff(times)
    until = np.concatenate(([0.0], np.cumsum(filled)))
    return (until[np.searchsorted(times, end)] - until[np.searchsorted(times, start)]) / dur
