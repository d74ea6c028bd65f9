"""What kind of work does the GPU do: matrix products, convolutions, copies, ...?

Kernels are sorted into classes by their names (`knowledge.kernel_classes`). A name that no pattern explains is in
no class, and its time is told, so that the shares can be judged.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers import missing as reasons
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.sums import count_by, sum_by
from traceanalyzer.knowledge.kernel_classes import KernelClass as Class
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.report.message import Message
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import Bool
from traceanalyzer.trace.tables import Category

_NAMES_SHOWN = 10
"""Unexplained names in the result (own choice: enough to extend the table, little enough to read)."""


class KernelClassTime(msgspec.Struct, frozen=True):
    """All kernels of one class."""

    name: str
    """Name of the class: `gemm`, `convolution`, `attention`, `normalization`, `elementwise`, `reduction`, `copy`,
    `communication`, `optimizer`, `triton`, or `other` for kernels that are known and nothing of these."""
    calls: int
    """Number of launches of kernels of this class."""
    total_ns: int
    """Sum of the durations of these kernels in ns, overlap counted twice."""
    share: float | None
    """Share of the time of all kernels (0 to 1); null if that is 0."""
    kernels: int
    """Number of different kernel names in the class."""
    longest: str
    """Name of the kernel with the most time in the class."""


class ClassifiedKernel(msgspec.Struct, frozen=True):
    """All calls of one kernel, by name."""

    name: str
    """Name of the kernel as recorded, template arguments included."""
    calls: int
    """Number of launches of this kernel."""
    total_ns: int
    """Sum of its durations in ns."""
    share: float | None
    """Share of the time of all kernels (0 to 1); null if that is 0."""


class KernelClasses(msgspec.Struct, frozen=True):
    """Kernel time by class; with the unexplained kernels it sums to the time of all kernels."""

    rows: tuple[KernelClassTime, ...]
    """The classes that occur, the one with the most time first."""
    total_ns: int
    """Time of all kernels in ns, overlap counted twice."""
    unexplained_calls: int
    """Number of launches of kernels whose names fit no class."""
    unexplained_ns: int
    """Time of kernels whose names fit no class, in ns."""
    unexplained_share: float | None
    """Share of the time of all kernels (0 to 1) whose names fit no class; null if that is 0."""
    unexplained: tuple[ClassifiedKernel, ...]
    """Names of kernels that fit no class, those with the most time first."""


def missing(context: Context) -> Message | None:
    """Why the question cannot be asked of a trace."""
    return reasons.kernels(context)


def analyze(context: Context) -> KernelClasses:
    """Sort all kernels into classes. Every kernel counts, whoever launched it."""
    device, names = context.trace.device, context.trace.names
    kernels = np.flatnonzero(_counted(context))
    codes, kernel = ranked(device.name[kernels])
    calls = count_by(kernel, len(codes)).tolist()
    times = sum_by(kernel, device.dur_ns[kernels], len(codes)).tolist()
    total = sum(times)
    members: dict[Class | None, list[ClassifiedKernel]] = {}
    for code, number, time in zip(codes.tolist(), calls, times, strict=True):
        name = names[code]
        members.setdefault(kernel_class(name), []).append(ClassifiedKernel(name, number, time, _share(time, total)))
    for rows in members.values():
        rows.sort(key=lambda row: (-row.total_ns, row.name))
    unexplained = members.pop(None, [])
    time = sum(row.total_ns for row in unexplained)
    return KernelClasses(
        rows=tuple(
            sorted(
                (_class(found, rows, total) for found, rows in members.items() if found is not None),
                key=lambda row: (-row.total_ns, row.name),
            )
        ),
        total_ns=total,
        unexplained_calls=sum(row.calls for row in unexplained),
        unexplained_ns=time,
        unexplained_share=_share(time, total),
        unexplained=tuple(unexplained[:_NAMES_SHOWN]),
    )


def _counted(context: Context) -> Bool:
    device = context.trace.device
    counted: Bool = (device.category == Category.KERNEL) & context.in_scope(device.start_ns)
    return counted


def _class(found: Class, rows: list[ClassifiedKernel], total: int) -> KernelClassTime:
    time = sum(row.total_ns for row in rows)
    calls = sum(row.calls for row in rows)
    return KernelClassTime(found.value, calls, time, _share(time, total), len(rows), rows[0].name)


def _share(time: int, total: int) -> float | None:
    return time / total if total else None
