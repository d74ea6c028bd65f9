"""What takes most of a busy GPU's time: arithmetic, moving data, or unknown from the names of its kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class, operator_class
from traceanalyzer.rules.engine.facts import Facts, if_known

_COMPUTE = frozenset({"gemm", "moe", "convolution", "attention"})
"""Classes of kernels that are bound by arithmetic at the sizes used in training."""
_MOVING = frozenset({"normalization", "elementwise", "reduction", "copy", "optimizer", "embedding", "pooling"})
"""Classes that mostly move data. Generated kernels without a known class and unknown kernels may be either."""
_MOSTLY = 0.5

UNNAMED = "gpu"
"""The result if the names of the kernels do not decide it."""


def gpu_bound(facts: Facts) -> str:
    """Kind of work with most of the GPU's time: `gpu-compute`, `gpu-memory`, or `UNNAMED`.

    It is the larger of the two known times, if half of the time is known. Generated kernels count by their names.
    """
    times, total = _recorded_classes(facts) if facts.table is None else _printed_classes(facts)
    compute, moving = (sum(times.get(name, 0) for name in kinds) for kinds in (_COMPUTE, _MOVING))
    if max(compute, moving) >= _MOSTLY * total > 0:
        return "gpu-compute" if compute >= moving else "gpu-memory"
    if compute + moving < _MOSTLY * total or not total:
        return UNNAMED
    return "gpu-compute" if compute > moving else "gpu-memory"


def _recorded_classes(facts: Facts) -> tuple[dict[str, int], int]:
    """Device time by class, and in all: kernels, and copies and fills while no kernel runs; collectives in neither."""
    found, copies = facts.find("kernel_classes", KernelClasses), facts.find("copies", Copies)
    if found is None:
        return {}, 0
    times = Counter({row.name: row.total_ns for row in found.rows})
    total = found.total_ns - times.pop("communication", 0)
    alone = 0 if copies is None else copies.exposed_ns
    times["copy"] += alone
    return times, total + alone


def printed_communication(facts: Facts) -> float:
    """Device time per step in collectives, for a table; 0 if none is printed."""
    return facts.on_device(_printed_times(facts).get("communication", 0))


def _printed_times(facts: Facts) -> dict[str, int]:
    """Device time by class, from the printed kernels or operators, whichever names classify more time."""
    kernels = _by_class((kernel_class(row.name), row.total_ns) for row in if_known(lambda: facts.kernels))
    operators = _by_class((operator_class(row.name), row.device_self_ns) for row in if_known(lambda: facts.operators))
    return max(kernels, operators, key=lambda found: sum(found.values()) - found.get(KernelClass.OTHER.value, 0))


def _printed_classes(facts: Facts) -> tuple[dict[str, int], int]:
    """Device time by class, and of all of the device."""
    times = _printed_times(facts)
    whole = facts.table.device_ns if facts.table and not facts.table.annotations_in_total else None
    total = max(sum(times.values()), whole or 0)
    return times, total - times.pop("communication", 0)


def _by_class(times: Iterable[tuple[KernelClass, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for kind, time in times:
        found[kind.value] += time
    return found
