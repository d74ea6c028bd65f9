"""What kind of work does the GPU do: matrix products, convolutions, copies, ...?

Kernels are classified by their names (`knowledge.kernel_classes`), except those that the trace describes as
collectives. A name that no pattern matches is `other`; the time of such kernels is reported, so that the shares can be
judged.
"""

from __future__ import annotations

from collections import defaultdict
from operator import add

import msgspec

from traceanalyzer.analyzers.kernels import counted
from traceanalyzer.knowledge.kernel_classes import KernelClass as Class
from traceanalyzer.knowledge.kernel_classes import is_generated, kernel_class
from traceanalyzer.structure import typical
from traceanalyzer.structure.analysis import KERNELS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by, group, sum_by

_NAMES_SHOWN = 10
"""Unexplained names in the result (own choice: enough to extend the table, little enough to read)."""


class KernelClassTime(msgspec.Struct, frozen=True):
    """All kernels of one class."""

    name: str
    """Name of the class: `gemm`, `moe` (products of a mixture of experts), `moe_routing`, `convolution`, `attention`,
    `recurrent`, `normalization`, `elementwise`, `dequantization`, `reduction`, `copy`, `embedding`, `pooling`,
    `sorting`, `sampling`, `linear_algebra`, `communication`, `optimizer`, `triton` (generated under a name that shows
    no more), or `other` for kernels whose names no rule knows."""
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
    inferred: bool = True
    """Whether the class of some of these kernels is inferred from their names alone; false where the trace itself says
    what all of them do, as the description of a collective does, and for `other`, where nothing is inferred."""
    generated_ns: int = 0
    """Part of the total in ns in kernels that a compiler generated, by their names."""


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
    """Kernel time by class; the rows sum to the time of all kernels."""

    rows: tuple[KernelClassTime, ...]
    """The classes that occur, the one with the most time first."""
    total_ns: int
    """Time of all kernels in ns, overlap counted twice."""
    unexplained_calls: int
    """Number of launches of kernels whose names fit no class, which are those of the row `other`."""
    unexplained_ns: int
    """Time of kernels whose names fit no class, in ns."""
    unexplained_share: float | None
    """Share of the time of all kernels (0 to 1) whose names fit no class; null if that is 0."""
    unexplained: tuple[ClassifiedKernel, ...]
    """Names of kernels that fit no class, those with the most time first."""
    in_steps: tuple[KernelClassTime, ...] | None = None
    """The rows of what starts in typical steps; null where everything does, and in reports of old versions."""


def analyze(context: Context) -> KernelClasses:
    """Sort all kernels into classes. Every kernel counts, whoever launched it."""
    rows, in_steps = typical.beside(context, _rows)
    unexplained = context.cached(_kernels_of)[0].get(Class.OTHER, [])
    total = sum(row.total_ns for row in rows)
    time = sum(row.total_ns for row in unexplained)
    return KernelClasses(
        rows=rows,
        total_ns=total,
        unexplained_calls=sum(row.calls for row in unexplained),
        unexplained_ns=time,
        unexplained_share=_share(time, total),
        unexplained=tuple(unexplained[:_NAMES_SHOWN]),
        in_steps=in_steps,
    )


def _kernels_of(context: Context) -> tuple[dict[Class, list[ClassifiedKernel]], set[Class]]:
    """The kernels of each class, and the classes that were inferred from some name."""
    names = context.trace.names
    device = context.trace.device
    kernels = counted(context)
    is_described = device.collective[kernels] > 0
    first, groups = group(device.name[kernels], is_described)
    calls = count_by(groups, len(first)).tolist()
    times: list[int] = sum_by(groups, device.dur_ns[kernels], len(first)).tolist()
    columns = (device.name[kernels[first]].tolist(), is_described[first].tolist(), calls, times)
    figures: defaultdict[Class, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    inferred: set[Class] = set()
    for code, is_collective, *calls_and_time in zip(*columns, strict=True):
        kind = Class.COMMUNICATION if is_collective else kernel_class(names[code])
        if not is_collective and kind is not Class.OTHER:
            inferred.add(kind)
        sums = figures[kind][names[code]]
        sums[:] = map(add, sums, calls_and_time)
    return {kind: _classified(by_name, sum(times)) for kind, by_name in figures.items()}, inferred


def _classified(by_name: dict[str, list[int]], total: int) -> list[ClassifiedKernel]:
    """The kernels of a class from their calls and times, the one with the most time first."""
    rows = [ClassifiedKernel(name, calls, time, _share(time, total)) for name, (calls, time) in by_name.items()]
    return sorted(rows, key=lambda row: (-row.total_ns, row.name))


def _rows(context: Context) -> tuple[KernelClassTime, ...]:
    kernels_of, inferred = context.cached(_kernels_of)
    total = sum(kernel.total_ns for kernels in kernels_of.values() for kernel in kernels)
    rows = [_class(kind, kernels, total, inferred=kind in inferred) for kind, kernels in kernels_of.items()]
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.name)))


def _class(kind: Class, rows: list[ClassifiedKernel], total: int, *, inferred: bool) -> KernelClassTime:
    time = sum(row.total_ns for row in rows)
    return KernelClassTime(
        name=kind.value,
        calls=sum(row.calls for row in rows),
        total_ns=time,
        share=_share(time, total),
        kernels=len(rows),
        longest=rows[0].name,
        inferred=inferred,
        generated_ns=sum(row.total_ns for row in rows if is_generated(row.name)),
    )


def _share(time: int, total: int) -> float | None:
    return time / total if total else None


ANALYSES = (Analysis(260, "kernel_classes", KernelClasses, analyze, needs=(KERNELS,)),)
