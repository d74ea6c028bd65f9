"""Detects logits-of-all-tokens: see pages/logits-of-all-tokens.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.knowledge.op_shapes import Shape, parse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.program import workload
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("logits-of-all-tokens")
_PER_INPUT = 8
"""Own choice: outputs per input of a product with a vocabulary; other layers have at most about four."""
_PRODUCTS = frozenset({"aten::mm", "aten::addmm"})
_CHOOSING = frozenset(
    f"aten::{name}"
    for name in ("argmax", "multinomial", "topk", "sort", "max", "softmax", "_softmax", "log_softmax", "_log_softmax")
)
"""Operators that choose tokens, or compute their probabilities."""
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
    evidence = Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where)
    yield Draft((evidence,), TimeSaved("gpu", saved, _PAGE.text("basis")(), claims=claims), params)


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


RULE = _PAGE.rule(trace=_find, table=_find)
