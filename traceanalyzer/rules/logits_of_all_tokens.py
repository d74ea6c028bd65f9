"""The product with the vocabulary is computed for all tokens, but only the last one is used.

What it detects:
    From shapes, in programs that do not train: a product of at least 30,000 outputs, at least eight times as many as
    inputs, whose result [batch, tokens, outputs] is cut at one position (`aten::select`), and an operator that chooses
    tokens (`argmax`, `multinomial`, `topk` and the like) or their probabilities on [batch, outputs]. It counts if there
    are many more rows than choices, and no operator normalizes or chooses over more rows than that.

Why it matters:
    To continue a prompt, a model needs the scores of its last token only. The scores of all others take as long as
    a layer or more, and a tensor of tokens times vocabulary, often the largest of all.

What to do:
    Pass `logits_to_keep=1` to models of transformers (`num_logits_to_keep` in versions before 4.49), or cut the hidden
    states before the last product.

How the saving is estimated:
    Of the time of the product, at most the share of unused rows, as if its time were proportional to rows. At least the
    share of elements that are no longer read or written, as if memory bound it, because the weights are read in any
    case. Further operators on all scores, such as a conversion to fp32, are not counted.

When it is wrong:
    A program may also read the scores of other tokens in a way that leaves no such operator.

References:
    https://huggingface.co/docs/transformers/model_doc/llama
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.knowledge.op_shapes import Shape, parse
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._program import workload
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_PER_INPUT = 8
"""Own choice: outputs per input of a product with a vocabulary; other layers have at most about four."""
_PRODUCTS = frozenset({"aten::mm", "aten::addmm"})
_CHOOSING = frozenset(
    f"aten::{name}"
    for name in ("argmax", "multinomial", "topk", "sort", "max", "softmax", "_softmax", "log_softmax", "_log_softmax")
)
"""Operators that choose tokens, or compute their probabilities."""

_SUBJECT = Text("logits-of-all-tokens-subject", "product with the vocabulary, share of the GPU's time")
_BASIS = Text(
    "logits-of-all-tokens-basis",
    "of the time of the product, at most the share of rows that nobody uses; at least the share of elements that are "
    "no longer read or written",
)

Rows = Sequence[tuple[OperatorFact, list[Shape]]]


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if workload(facts) == "training":
        return
    rows = [(row, shapes) for row in facts.shaped if (shapes := [s for s in parse(row.shapes) or [] if s])]
    found: list[tuple[OperatorFact, float, float, int, int]] = []
    for row, tensors in rows:
        sides = _sides(row, tensors, limits["outputs"])
        chosen = _chosen(rows, sides[0], sides[2]) if sides else None
        if sides and chosen and sides[0] >= limits["rows_per_choice"] * chosen:
            low, high = _saved(sides, chosen)
            found.append((row, low * row.device_self_ns, high * row.device_self_ns, sides[0], chosen))
    total = sum(row.device_self_ns for row, *_ in found)
    share = total / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    found.sort(key=lambda entry: (-entry[0].device_self_ns, entry[0].shapes or ""))
    kind = "operator" if facts.table is None else "row"
    where = tuple(
        CodePlace(kind, row.name, row.shapes, facts.gpu_per_step(row.device_self_ns), "ns") for row, *_ in found
    )
    claims: dict[str, float] = {}
    for row, _, most, *_ in found:
        key = f"operator:{row.name}|{row.shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(most)
    saved = facts.gpu_per_step(sum(entry[1] for entry in found)), facts.gpu_per_step(sum(entry[2] for entry in found))
    params = {"rows": found[0][3], "chosen": found[0][4], "time": facts.gpu_per_step(total), "share": share}
    evidence = Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where)
    yield Draft((evidence,), TimeSaved("gpu", saved, _BASIS(), claims=claims), params)


def _sides(row: OperatorFact, tensors: Sequence[Shape], least: float) -> tuple[int, int, int] | None:
    """Rows, inputs and outputs of a product with a vocabulary; None of other operators."""
    if row.name not in _PRODUCTS or len(tensors) < 2 or not row.device_self_ns:
        return None
    a, b = tensors[-2:]
    if len(a) != 2 or len(b) != 2 or a[1] != b[0] or b[1] < max(least, _PER_INPUT * b[0]):
        return None
    return a[0], b[0], b[1]


def _chosen(rows: Rows, count: int, outputs: int) -> int | None:
    """For how many sequences tokens are chosen, of a product with so many rows; None where all rows may be used."""
    cut = {t[0][0] for row, t in rows if row.name == "aten::select" and _is_of(t[0], count, outputs)}
    chosen = {math.prod(t[0][:-1]) for row, t in rows if row.name in _CHOOSING and t[0][-1] == outputs}
    return max(cut) if len(cut) == 1 and chosen and max(chosen) <= max(cut) else None


def _is_of(shape: Shape, count: int, outputs: int) -> bool:
    """Whether a tensor [batch, tokens, outputs] is the result of a product with so many rows."""
    return len(shape) == 3 and shape[-1] == outputs and math.prod(shape[:-1]) == count


def _saved(sides: tuple[int, int, int], chosen: int) -> tuple[float, float]:
    """Shares of the time of a product that go away with the rows that nobody uses, at least and at most."""
    count, inputs, outputs = sides

    def elements(number: int) -> int:
        return inputs * outputs + number * (inputs + outputs)

    return 1 - elements(chosen) / elements(count), 1 - chosen / count


RULE = Rule(
    id="logits-of-all-tokens",
    title=Text("logits-of-all-tokens-title", "Scores of all tokens are computed, but only the last are used"),
    summary=Text(
        "logits-of-all-tokens-summary",
        "The product with the vocabulary has {rows:count} rows, of which {chosen} are used to choose tokens; it takes "
        "{time:ns} ({share:share} of the GPU's time).",
        note="chosen is a number of rows, 1 or more",
    ),
    advice=Text(
        "logits-of-all-tokens-advice",
        "Compute the scores of the last token only: pass logits_to_keep=1 to a model of transformers, or cut the "
        "hidden states before the last layer.",
        note="logits_to_keep=1 is code",
    ),
    not_when=Text(
        "logits-of-all-tokens-not-when",
        "The scores of the other tokens are used as well, to rate a text or to check drafted tokens.",
    ),
    severity="info to high",
    confidence="B",
    tags=("inference", "gpu"),
    since="0.2",
    thresholds=(
        Threshold(
            "gpu_share",
            0.02,
            "share",
            "time of the product over the time in which the GPU works",
            "own choice, because what can be saved of less is below the noise of a step",
        ),
        Threshold(
            "outputs",
            30_000,
            "count",
            "outputs of a product with a vocabulary",
            "own choice: vocabularies of language models have 32,000 tokens or more, and other layers fewer outputs",
        ),
        Threshold(
            "rows_per_choice",
            8,
            "number",
            "rows of the product for each that is used",
            "own choice, because products with fewer rows mostly read the weights",
        ),
    ),
    code="logits = head(hidden[:, -1:])",
    links=("https://huggingface.co/docs/transformers/model_doc/llama",),
    trace=_find,
    table=_find,
    stage="preview",
)
