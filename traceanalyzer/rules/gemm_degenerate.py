"""Matrix products with a side of 1 take far longer than moving their data.

What it detects:
    Products (`mm`, `addmm`, `bmm`) in which the inner side or the number of columns is 1 and another side is long, and
    which take longer than moving their bytes should take.

Why it matters:
    With a side of 1 there is nothing to reuse: the product is an elementwise multiplication or a sum, bound by memory,
    but it runs in kernels that are built for arithmetic. `Linear(1, n)` and `Linear(n, 1)` over millions of rows make
    such products, and so do their gradients.

What to do:
    Write it as `x * weight + bias` or `(x * weight).sum(-1)`, which can be fused with its neighbours. Better still, do
    it before the tensor is expanded, or merge it into the layer before or after.

How the saving is estimated:
    The time minus that of moving the same bytes once. Upper end: at the best known bandwidth (of the data sheet, or of
    the run's own operators on large tensors). Lower end: at the bandwidth that an operator reached, or at half of the
    only known figure.

When it is wrong:
    Decoding in a language model multiplies one row with the weights (m is 1): that is bound by reading the weights and
    does not count. Small products are bound by their launch. Printed tables have no types; four bytes are assumed.

References:
    https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
    https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._products import bandwidths, moved, sides
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing, OperatorFact
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text("gemm-degenerate-subject", "products with a dimension of size 1, share of the time on the GPU")
_BASIS = Text(
    "gemm-degenerate-basis",
    "the time minus that of moving the same bytes once, at {slow:number} to {fast:number} GB/s",
)
_NO_BANDWIDTH = Text(
    "gemm-degenerate-no-bandwidth", "the memory bandwidth of the GPU is unknown, and no kernel shows it"
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.shaped if _is_degenerate(row, limits)]
    if not rows or not facts.gpu_total_ns:
        return
    known = bandwidths(facts)
    if known is None:
        raise Missing(_NO_BANDWIDTH())
    slow, fast = known
    rows = [row for row in rows if row.device_self_ns > limits["excess"] * _floor(row, fast)]
    time = sum(row.device_self_ns for row in rows)
    share = time / facts.gpu_total_ns
    if share <= limits["gpu_share"]:
        return
    rows.sort(key=lambda row: (-row.device_self_ns, row.name, row.shapes or ""))
    saved = [row.device_self_ns - _floor(row, fast) for row in rows]
    low = sum(max(0.0, row.device_self_ns - _floor(row, slow)) for row in rows)
    where = tuple(CodePlace("operator", r.name, shapes=r.shapes, value=r.device_self_ns, unit="ns") for r in rows[:5])
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where),),
        TimeSaved(
            "gpu",
            (facts.gpu_per_step(low), facts.gpu_per_step(sum(saved))),
            _BASIS(slow=slow, fast=fast),
            claims={
                f"operator:{row.name}|{row.shapes}": facts.gpu_per_step(part)
                for row, part in zip(rows, saved, strict=True)
            },
        ),
        {"time": facts.gpu_per_step(time), "share": share, "operator": rows[0].name, "shapes": rows[0].shapes},
    )


def _is_degenerate(row: OperatorFact, limits: Mapping[str, float]) -> bool:
    """Whether a side is 1; one row (m is 1) is decoding, which must read the weights and cannot be faster."""
    if not row.calls or row.device_self_ns < limits["call_ns"] * row.calls:
        return False
    found = sides(row.name, row.shapes)
    if found is None or found.m == 1:
        return False
    return 1 in (found.n, found.k) and max(found.m, found.n, found.k) >= limits["side"]


def _floor(row: OperatorFact, bandwidth: float) -> float:
    """Time to move the bytes of all calls once, in ns."""
    return (moved(row) or 0) * row.calls / bandwidth


RULE = Rule(
    id="gemm-degenerate",
    title=Text("gemm-degenerate-title", "Matrix products with a dimension of size 1"),
    summary=Text(
        "gemm-degenerate-summary",
        "{time:ns} per step ({share:share} of the time on the GPU) are matrix products in which one dimension has "
        "size 1; the longest is {operator} {shapes}.",
    ),
    advice=Text(
        "gemm-degenerate-advice",
        "Multiply elements instead of matrices (x * weight + bias, or a product and a sum), so that it fuses with what "
        "is around it, and do it before the tensor is expanded: a layer on 1 feature commutes with expanding.",
    ),
    not_when=Text(
        "gemm-degenerate-not-when",
        "The other operand is a weight that must be read anyway, as when a language model decodes.",
    ),
    severity="info to critical",
    confidence="B",
    tags=("gpu",),
    since="0.1",
    thresholds=(
        Threshold(
            "gpu_share",
            0.01,
            "share",
            "time of such products over all time on the GPU",
            "own choice, because less than one percent of a step is within noise",
        ),
        Threshold(
            "excess",
            1.5,
            "number",
            "time over that of moving the bytes once",
            "own choice, because well-made kernels reach 70 to 90 % of the bandwidth",
        ),
        Threshold(
            "side",
            4096,
            "count",
            "length of the longest side",
            "own choice, because a vector of a few thousand elements is no work for a GPU in any form",
        ),
        Threshold(
            "call_ns",
            10_000,
            "ns",
            "mean time below which a product is bound by its launch",
            "own choice, because a launch takes 5 to 10 us and a kernel at least 2 to 5 us",
        ),
    ),
    code="y = x * layer.weight.squeeze(-1) + layer.bias",
    links=(
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html",
    ),
    trace=_find,
    table=_find,
)
