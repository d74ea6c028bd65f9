"""A kernel that takes much of the GPU's time keeps few threads in flight.

What it detects:
    Kernels that take a tenth of the GPU's time or more, whose estimated achieved occupancy is below 30 %, and whose
    kind depends on occupancy: elementwise kernels, reductions, normalization, copies. Products, convolutions, attention
    and generated code reach full speed with few threads and do not count.

Why it matters:
    A GPU hides the latency of memory by running other threads meanwhile. With few threads in flight, it waits.

What to do:
    Find out what limits it: registers per thread, shared memory per block, or blocks that are too small. For your own
    kernel, change the launch; for a library's, change the shape or let torch.compile generate another kernel.

How the saving is estimated:
    Not at all: occupancy does not translate into time. It only shows where to look.

When it is wrong:
    Products and fused attention run well at 12 to 25 %. An occupancy of 0 means that the profiler had no figure.
    Kernels with fewer blocks than the GPU has multiprocessors are reported by `sm-underfilled`. Short kernels are bound
    by their launch.

References:
    https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#occupancy
    https://github.com/pytorch/kineto/blob/main/tb_plugin/docs/gpu_utilization.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels import Kernel, Kernels
from traceanalyzer.knowledge.kernel_classes import KernelClass, is_generated, kernel_class
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_LIVES_ON_OCCUPANCY = frozenset(
    {
        KernelClass.ELEMENTWISE,
        KernelClass.REDUCTION,
        KernelClass.NORMALIZATION,
        KernelClass.COPY,
        KernelClass.OPTIMIZER,
    }
)
_SUBJECT = Text("occupancy-low-subject", "est. achieved occupancy, weighted by time")
_NO_OCCUPANCY = Text("occupancy-low-no-figure", "no kernel has a recorded occupancy")
_NO_TABLE = Text("occupancy-low-no-table", "a printed table has no occupancy")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = facts.need("kernels", Kernels).rows
    if not any(row.mean_est_achieved_occupancy for row in rows):
        raise Missing(_NO_OCCUPANCY())
    total = facts.gpu_total_ns
    found = [row for row in rows if _counts(row, limits) and row.total_ns >= limits["gpu_share"] * total]
    if not found:
        return
    where = tuple(
        CodePlace("kernel", row.name, value=row.mean_est_achieved_occupancy, unit="share") for row in found[:5]
    )
    longest = found[0]
    time = sum(row.total_ns for row in found)
    yield Draft(
        (Evidence(_SUBJECT(), longest.mean_est_achieved_occupancy or 0.0, limits["occupancy"], "share", where),),
        params={
            "kernel": longest.name,
            "occupancy": longest.mean_est_achieved_occupancy,
            "time": facts.gpu_per_step(time),
            "share": time / total,
        },
        severity="info",
    )


def _counts(row: Kernel, limits: Mapping[str, float]) -> bool:
    """Whether a kernel has a known low occupancy, blocks for the whole device, and is not bound by its launch."""
    occupancy, blocks = row.mean_est_achieved_occupancy, row.mean_blocks_per_sm
    is_low = bool(occupancy) and (occupancy or 0.0) < limits["occupancy"]
    fills = blocks is None or blocks >= 1
    is_known = kernel_class(row.name) in _LIVES_ON_OCCUPANCY and not is_generated(row.name)
    return is_low and fills and row.mean_ns >= limits["kernel_ns"] and is_known


RULE = Rule(
    id="occupancy-low",
    title=Text("occupancy-low-title", "A long kernel keeps few threads in flight"),
    summary=Text(
        "occupancy-low-summary",
        "Kernels with a low occupancy take {time:ns} per step ({share:share} of the time on the GPU); the longest, "
        "{kernel}, has {occupancy:share}. With few threads in flight, a kernel waits for memory.",
    ),
    advice=Text(
        "occupancy-low-advice",
        "Look in Nsight Compute at what limits its occupancy (registers, shared memory, size of the block) before you "
        "change anything; for code of PyTorch itself, try torch.compile, which makes other kernels.",
    ),
    not_when=Text(
        "occupancy-low-not-when",
        "The kernel already reaches most of the memory bandwidth: then more threads would not make it faster.",
    ),
    severity="info",
    confidence="C",
    tags=("gpu",),
    since="0.1",
    thresholds=(
        Threshold(
            "occupancy",
            0.3,
            "share",
            "estimated achieved occupancy below which a kernel counts",
            "own choice, because kernels that only move data need about a third of the threads to keep memory busy",
        ),
        Threshold(
            "gpu_share",
            0.1,
            "share",
            "time of the kernel over all time on the GPU",
            "own choice, because below a tenth a look at one kernel is not worth the hour",
        ),
        Threshold(
            "kernel_ns",
            10_000,
            "ns",
            "mean time below which a kernel is bound by its launch",
            "own choice, because a launch takes 5 to 10 us and a kernel at least 2 to 5 us",
        ),
    ),
    links=(
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#occupancy",
        "https://github.com/pytorch/kineto/blob/main/tb_plugin/docs/gpu_utilization.md",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
