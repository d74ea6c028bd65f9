"""Matrix products in half precision have sides that Tensor Cores cannot load efficiently, and are slow.

What it detects:
    Products in fp16 or bf16 whose inner or last side is not a multiple of 8 (of 16 in 8-bit types), and that, relative
    to the device's limits, take more than twice as long as the aligned products of the same type in the same trace.
    Without such products to compare with, only kernels whose own names say that they load less than 8 elements at once
    (`align1`) and that stay below half of the device's limits count.

Why it matters:
    A row whose length is not a multiple of 16 bytes cannot be loaded in whole vectors, so the library falls back to
    kernels that load element by element.

What to do:
    Pad the side to the next multiple of 8: the vocabulary, the number of classes, the length of the sequence.

How the saving is estimated:
    At most the time beyond that of aligned products of about the same size at their speed, or 30 % if there are none;
    at least nothing, because padding costs copies unless it is done once, in the weights or in the input.

When it is wrong:
    Newer versions of cuBLAS pad internally and are just as fast, so only products that are measurably slow count. The
    first side of a product does not matter if rows are stored one after another.

References:
    https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._alignment import WITHOUT_PEER, Slow, is_aligned, is_candidate, judge, loaded_at_once
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text(
    "matmul-dims-misaligned-subject",
    "speed of the product relative to aligned products, both as a share of the roofline",
)
_BASIS = Text(
    "matmul-dims-misaligned-basis",
    "at most down to the speed of aligned products of about this size, or {most:share} where there are none; at "
    "least 0, because padding may cost copies",
)
_SUMMARY_ALONE = Text(
    "matmul-dims-misaligned-summary-alone",
    "{time:ns} per step ({share:share} of the time on the GPU) are products with misaligned dimensions; {operator} "
    "{shapes} reaches {pace:share} of what the GPU could do, in a kernel that loads few elements at once.",
)
_NO_TABLE = Text("matmul-dims-misaligned-no-table", "a printed table does not show the types of inputs")
_NO_ROOF = Text("matmul-dims-misaligned-no-roof", "the limits of this GPU are unknown: add them to the configuration")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    slow = _slow(facts, limits)
    share = sum(entry.row.device_ns for entry in slow) / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if not slow or share <= limits["gpu_share"]:
        return
    where = tuple(
        CodePlace("operator", e.row.name, shapes=e.row.input_shapes, value=e.row.device_ns, unit="ns") for e in slow[:5]
    )
    worst = slow[0]
    yield Draft(
        (Evidence(_SUBJECT(), worst.share, limits["pace"], "share", where),),
        _change(facts, slow),
        {
            "time": facts.gpu_per_step(sum(entry.row.device_ns for entry in slow)),
            "share": share,
            "operator": worst.row.name,
            "shapes": worst.row.input_shapes,
            "pace": worst.share,
        },
        ceiling="medium",
        summary=None if worst.has_peer else _SUMMARY_ALONE,
    )


def _slow(facts: Facts, limits: Mapping[str, float]) -> list[Slow]:
    """Misaligned products that are slower than aligned ones.

    Raises:
        Missing: There are misaligned products, but the limits of the GPU are unknown.
    """
    found = facts.need("roofline", Roofline)
    products = [row for row in found.rows if is_candidate(row, limits["call_ns"])]
    odd = [row for row in products if not is_aligned(row)]
    if not odd:
        return []
    if found.roof is None:
        raise Missing(_NO_ROOF())
    loads = loaded_at_once(facts)
    aligned = [row for row in products if is_aligned(row) and row.roofline_share is not None]
    return [entry for row in odd if (entry := judge(row, aligned, loads, limits["pace"])) is not None]


def _change(facts: Facts, slow: Sequence[Slow]) -> TimeSaved:
    low, high = (facts.gpu_per_step(sum(entry.saved_ns[end] for entry in slow)) for end in (0, 1))
    claims = {f"operator:{e.row.name}|{e.row.input_shapes}": facts.gpu_per_step(e.saved_ns[1]) for e in slow}
    return TimeSaved("gpu", (low, high), _BASIS(most=WITHOUT_PEER), claims=claims)


RULE = Rule(
    id="matmul-dims-misaligned",
    title=Text("matmul-dims-misaligned-title", "Products are slow because dimensions are not multiples of 8"),
    summary=Text(
        "matmul-dims-misaligned-summary",
        "{time:ns} per step ({share:share} of the time on the GPU) are products with misaligned dimensions; "
        "{operator} {shapes} reaches {pace:share} of the speed of aligned ones.",
    ),
    advice=Text(
        "matmul-dims-misaligned-advice",
        "Pad the dimension to the next multiple of 8 once, where it comes from: the vocabulary, the classes of the "
        "last layer, the number of tokens.",
    ),
    not_when=Text(
        "matmul-dims-misaligned-not-when",
        "The dimension changes with every input and padding would copy large tensors each time.",
    ),
    severity="info to medium",
    confidence="B",
    tags=("gpu", "precision"),
    since="0.1",
    thresholds=(
        Threshold(
            "pace",
            0.5,
            "share",
            "share of its roof over the share that aligned products of the same type reach",
            "own choice, because products of one type differ by up to two by their form alone",
        ),
        Threshold(
            "gpu_share",
            0.02,
            "share",
            "time of slow products with odd sides over all time on the GPU",
            "own choice, because a third of a fiftieth is less than what runs differ by",
        ),
        Threshold(
            "call_ns",
            10_000,
            "ns",
            "mean time below which a product is bound by its launch",
            "own choice, because a launch takes 5 to 10 us and a kernel at least 2 to 5 us",
        ),
    ),
    code="vocabulary = 8 * math.ceil(vocabulary / 8)",
    links=(
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    part_of=("attention-unfused",),
    trace=_trace,
    no_table=_NO_TABLE(),
)
