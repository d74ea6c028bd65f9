"""Which kind of work takes most of the GPU's time: computing, moving data, or what no name tells."""

from __future__ import annotations

from collections import Counter

from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.rules.engine.facts import Facts

MOST = 0.5
"""Share from which on something is most of the whole."""
_COMPUTE = frozenset({"gemm", "moe", "convolution", "attention"})
"""Classes of kernels that are bound by arithmetic at the sizes used in training."""
_MOVING = frozenset({"normalization", "elementwise", "reduction", "copy", "optimizer", "embedding", "pooling"})
"""Classes that mostly move data. Generated kernels without a known class and unknown kernels may be either."""
UNNAMED = "gpu"
"""The result if the names of the kernels do not decide what bounds a busy device."""


def gpu_bound(facts: Facts) -> str:
    """Kind of work of a trace with most of the GPU's time: `gpu-compute`, `gpu-memory`, or `UNNAMED`.

    It is the larger of the two known times, if half of the time is known. Copies and collectives do not count, which
    the sentence names by themselves, and generated kernels by their names.
    """
    found = facts.find("kernel_classes", KernelClasses)
    if found is None:
        return UNNAMED
    times: Counter[str] = Counter()
    for row in found.rows:
        times[row.name] += row.total_ns
    compute, moving = work_times(times)
    total = found.total_ns - times["communication"]
    if compute + moving < MOST * total or not total:
        return UNNAMED
    return "gpu-compute" if compute > moving or compute >= MOST * total else "gpu-memory"


def work_times(times: Counter[str]) -> tuple[int, int]:
    """What computing, and what moving data, takes of times by class of kernels."""
    return sum(times[name] for name in _COMPUTE), sum(times[name] for name in _MOVING)
