"""What takes most of a busy GPU's time: arithmetic, moving data, or unknown from the names of its kernels."""

from __future__ import annotations

from traceanalyzer.analyzers.kernel_classes import KernelClasses
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.rules.facts import Facts, Missing

_COMPUTE = frozenset({"gemm", "moe", "convolution", "attention"})
"""Classes of kernels that are bound by arithmetic at the sizes used in training."""
_MOVING = frozenset({"normalization", "elementwise", "reduction", "copy", "optimizer", "embedding", "pooling"})
"""Classes that mostly move data. Generated kernels without a known class and unknown kernels may be either."""
_MOSTLY = 0.5

UNNAMED = "gpu"
"""The result if the names of the kernels do not decide it."""


def gpu_bound(facts: Facts) -> str:
    """What takes most of the GPU's time: `gpu-compute`, `gpu-memory`, or `UNNAMED`.

    It is the larger of the two known times, if half of the time is known. Generated kernels count as what their names
    say.
    """
    times, total = _recorded_classes(facts) if facts.table is None else _printed_classes(facts)
    compute, moving = (sum(times.get(name, 0) for name in kinds) for kinds in (_COMPUTE, _MOVING))
    if max(compute, moving) >= _MOSTLY * total > 0:
        return "gpu-compute" if compute >= moving else "gpu-memory"
    if compute + moving < _MOSTLY * total or not total:
        return UNNAMED
    return "gpu-compute" if compute > moving else "gpu-memory"


def _recorded_classes(facts: Facts) -> tuple[dict[str, int], int]:
    """Kernel time by class, and of all kernels; collectives count in neither."""
    found = facts.find("kernel_classes", KernelClasses)
    if found is None:
        return {}, 0
    times = {row.name: row.total_ns for row in found.rows}
    return times, found.total_ns - times.pop("communication", 0)


def _printed_classes(facts: Facts) -> tuple[dict[str, int], int]:
    """Device time by class of kernel, and of all kernels, from the printed rows."""
    times: dict[str, int] = {}
    try:
        rows = facts.kernels
    except Missing:
        return times, 0
    for row in rows:
        name = kernel_class(row.name).value
        times[name] = times.get(name, 0) + row.total_ns
    return times, sum(times.values()) - times.pop("communication", 0)
