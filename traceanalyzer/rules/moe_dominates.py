"""The experts of a mixture-of-experts model take most of the GPU's time.

What it detects:
    Kernels of experts (fused or grouped products, routing, sorting and gathering of tokens), by their names, that take
    three tenths of the GPU's time or more.

Why it matters:
    Each expert sees only the few tokens that were routed to it, but all of its weights are read. With few tokens per
    expert, these products are bound by memory, and their tiles are mostly empty.

What to do:
    Serve more requests together, so that each reading of weights serves more tokens; tune the tiles of the kernel for
    the batch and the device; store expert weights in fewer bits; distribute experts over GPUs.

How the saving is estimated:
    Not at all: the names do not show how many tokens each expert had.

When it is wrong:
    With thousands of tokens per expert (prefill, training) these products are bound by arithmetic, and a larger batch
    does not help. Kernels whose names do not mention experts are not counted.

References:
    https://docs.vllm.ai/en/latest/design/fused_moe_modular_kernel.html
    https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _program
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_EXPERTS = (KernelClass.MOE, KernelClass.ROUTING)
_SUBJECT = Text("moe-dominates-subject", "kernels of experts, share of the time on the GPU")


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.kernels if kernel_class(row.name) in _EXPERTS]
    rows.sort(key=lambda row: (-row.total_ns, row.name))
    total = sum(row.total_ns for row in rows)
    share = total / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    kind = "row" if facts.table is not None else "kernel"
    where = tuple(CodePlace(kind, row.name, value=row.total_ns, unit="ns") for row in rows[:5])
    params = {"time": facts.gpu_per_step(total), "share": share, "kernel": rows[0].name}
    advice = None if _program.serves(facts) or not _program.may_train(facts) else _ADVICE_TRAINING
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where),),
        params=params,
        severity="low",
        advice=advice,
    )


_ADVICE_TRAINING = Text(
    "moe-dominates-advice-training",
    "Check whether the tokens are spread evenly over the experts, and whether a grouped product does all experts of a "
    "layer in one kernel; larger batches give each expert more tokens.",
)

RULE = Rule(
    id="moe-dominates",
    title=Text("moe-dominates-title", "The experts take most of the GPU's time"),
    summary=Text(
        "moe-dominates-summary",
        "Kernels of the mixture of experts take {time:ns} per step ({share:share} of the time on the GPU), the longest "
        "is {kernel}. With few tokens per expert they mostly read weights.",
        note="mixture of experts (MoE): layers of which each token uses a few parts; kernel is a name",
    ),
    advice=Text(
        "moe-dominates-advice",
        "Serve more requests together while memory and response time allow it, so that each reading of the experts' "
        "weights serves more tokens; tune the kernel's tiles for this device and batch; store the experts in fewer "
        "bits, or distribute them over more GPUs.",
    ),
    not_when=Text(
        "moe-dominates-not-when",
        "Each expert already has hundreds of tokens: then arithmetic bounds its products.",
    ),
    severity="low",
    confidence="B",
    tags=("gpu", "inference"),
    since="0.2",
    thresholds=(
        Threshold(
            "gpu_share",
            0.3,
            "share",
            "time of these kernels over the time on the GPU",
            "own choice: nearly a third, below which attention or dense products are more worth a look",
        ),
    ),
    links=(
        "https://docs.vllm.ai/en/latest/design/fused_moe_modular_kernel.html",
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
    ),
    trace=_find,
    table=_find,
)
