"""Detects costly ways to take rows of a matrix: embedding-gradient-dense and one-hot-product."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from traceanalyzer.analyzers.operators import operators_at
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, Interval
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, page

_DENSE = page("embedding-gradient-dense")
_ONE_HOT = page("one-hot-product")

_OF_TABLE = 0.8, 1.3
_OF_ONE_HOT = 0.9, 1.2
"""Least and most that goes away, as a multiple of the time (own choice, explained on the rules' pages)."""
_OF_USED_ROW = 3.0
"""What a row costs at most where gradients are sparse, as a multiple of its cost among all rows (own choice: rows are
sorted, gathered and scattered; the page has the measured ratio)."""
_Table = tuple[int, int]
"""Rows and width of a matrix."""


class _Lookup(NamedTuple):
    """An embedding of which a step uses few rows."""

    table: _Table
    used: float
    """Rows that a step looks up at most."""
    parts: dict[OperatorFact, float]
    """Operators on the whole matrix, each with the share of its time that is about it."""
    time_ns: float
    """Time of these in the typical steps."""


_SHAPE = re.compile(r"\[\d+(?:, ?\d+)*\]")
_LOOKUPS = re.compile(r"^aten::(?:embedding|_embedding_bag)$")
"""Operators that take rows; `aten::embedding_bag` calls the second one, so that each lookup counts once."""
_UPDATES = re.compile(r"^aten::_f(?:used_(?:adam|adamw|sgd|adagrad)|oreach_(?!norm|copy)\w+)_?$")
"""Operators on lists of parameters or gradients."""
_DENSE_GRADIENT = re.compile(r"^aten::_?embedding(?:_bag)?_dense_backward$")
_PRODUCTS = frozenset({"aten::matmul", "aten::mm", "aten::addmm", "aten::linear", "aten::bmm", "aten::t"})
_READING = frozenset(
    {
        "aten::index_select",
        "aten::embedding",
        "aten::_embedding_bag",
        "aten::detach",
        "aten::view",
    }
)
_MULTIPLIES = frozenset({"aten::matmul", "aten::mm", "aten::linear"})
_ON_ONE_HOT = _MULTIPLIES | {
    f"aten::{name}"
    for name in (
        *("zeros", "zero_", "fill_", "new_zeros", "scatter_", "eq"),
        *("to", "_to_copy", "copy_", "addmm", "bmm"),
    )
}
"""Operators that make one-hot vectors, convert and multiply them."""


def _dense(facts: Facts, limits: Limits) -> Drafts:
    """One finding for all embeddings of which a step uses few rows, and whose gradients have all of them."""
    processor = Processor.of(facts)
    rows = [row for row in facts.shaped if row.calls and row.shapes]
    found = list(_costly(facts, rows, limits))
    parts: dict[OperatorFact, float] = {}
    for row, part in (item for one in found for item in one.parts.items()):
        parts[row] = min(1.0, parts.get(row, 0.0) + part)  # gradients of equal width are of one table or another
    unlisted = _unlisted(rows, found, parts)
    parts |= dict.fromkeys(unlisted, 1.0)
    work = EventTimes.of(processor, ((row.events, processor.self_ns(row) * part) for row, part in parts.items()))
    if found and work.share > processor.limit(limits):
        doubtful = fsum(map(processor.self_ns, unlisted))
        yield _tables(work.longest_first, list(parts), found, doubtful / work.total_ns, limits)


def _unlisted(
    rows: Sequence[OperatorFact], found: Sequence[_Lookup], parts: Mapping[OperatorFact, float]
) -> list[OperatorFact]:
    """Updates of lists of parameters whose sizes the recording does not show, if none that it shows has the matrices.

    Dense gradients are of no use but for an update, so one of those must have these matrices, with whatever else.
    """
    updates = [row for row in rows if _UPDATES.match(row.name)]
    if any(row in parts for row in updates) or not found:
        return []
    return [row for row in updates if not any(math.prod(shape) > 1 for shape in _listed(row))]


def _costly(facts: Facts, rows: list[OperatorFact], limits: Limits) -> Iterator[_Lookup]:
    """Embeddings of which a step uses few rows, whose gradients have all of them, with the work on all rows."""
    processor = Processor.of(facts)
    gradients = [row for row in rows if _DENSE_GRADIENT.match(row.name)]
    for table, used in _lookups(facts, rows, limits):
        own = {row: 1.0 for row in gradients if _shape_of(row, 0)[-1:] == table[1:]}
        if own and not _is_multiplied(rows, table):
            parts = own | _on_table(rows, table)
            yield _Lookup(
                table,
                used,
                parts,
                fsum(processor.self_ns(row) * part for row, part in parts.items()),
            )


def _tables(
    work: EventTimes, rows: Sequence[OperatorFact], found: Sequence[_Lookup], doubtful: float, limits: Limits
) -> Draft:
    """The finding about some embeddings, which names the one that takes most.

    Args:
        work: Operators on the matrices.
        rows: The same.
        found: The embeddings.
        doubtful: Share of the work that is updates of lists, of which the matrices are an unknown part.
        limits: The thresholds.
    """
    largest = max(found, key=lambda one: one.time_ns)
    (size, width), used = largest.table, largest.used
    params = {"count": len(found), "rows": size, "used": used, "width": width, **work.figures()}
    evidence = _DENSE.evidence(limits, "rows_per_used", size / used, work.places[:5])
    least, most = _parts_gone(found)
    if doubtful:
        parts = least * (1 - doubtful), most * (1 - doubtful) + doubtful
        return Draft(
            (evidence,),
            _gone(work, rows, parts, _DENSE.text("basis-lists")),
            params | {"lists": doubtful * work.time},
            summary=_DENSE.text("summary-lists"),
        )
    change = _gone(work, rows, (least, most), _DENSE.text("basis"))
    return Draft((evidence,), change, params, summary=_DENSE.text("summary-several") if len(found) > 1 else None)


def _parts_gone(found: Sequence[_Lookup]) -> Interval:
    """Least and most that goes away of the time on some matrices, by the rows of each that are used."""
    least, most = _OF_TABLE
    total = fsum(one.time_ns for one in found) or 1.0
    used = [(one.time_ns / total, one.used / one.table[0]) for one in found]
    return fsum(of * min(least, 1 - _OF_USED_ROW * share) for of, share in used), most - fsum(
        of * share for of, share in used
    )


def _on_table(rows: Sequence[OperatorFact], table: _Table) -> dict[OperatorFact, float]:
    """Operators on matrices of some sizes that do more than read rows, each with the share of these in its inputs."""
    return {row: part for row in rows if row.name not in _READING and (part := _part(row, table))}


def _is_multiplied(rows: Sequence[OperatorFact], table: _Table) -> bool:
    """Whether a product has the same matrix, which makes its gradient dense anyway."""
    return any(row.name in _PRODUCTS and _has(row, table) for row in rows)


def _gone(work: EventTimes, rows: Sequence[OperatorFact], parts: Interval, basis: Text) -> DeviceWork | HostTime:
    """The change without the time of some operators."""
    at = operators_at(rows=tuple((row.name, row.shapes, row.types) for row in rows))
    return work.shorter(parts, basis(least=parts[0], most=parts[1]), at=at if work.processor.is_cpu else None)


def _lookups(facts: Facts, rows: list[OperatorFact], limits: Limits) -> Iterator[tuple[_Table, float]]:
    """Sizes of matrices of which a step looks up few rows, and how many it looks up at most."""
    used: dict[_Table, float] = {}
    for row in rows:
        table, indices = _shape_of(row, 0), _shape_of(row, 1)
        if _LOOKUPS.match(row.name) and len(table) == 2 and indices:
            key = table[0], table[1]
            used[key] = used.get(key, 0.0) + facts.per_step(math.prod(indices) * row.calls)
    for key, count in used.items():
        if count and key[0] >= limits["rows_per_used"] * count:
            yield key, count


def _shape_of(row: OperatorFact, position: int) -> tuple[int, ...]:
    return tuple(row.inputs.shape(position) or ())


def _has(row: OperatorFact, table: _Table) -> bool:
    """Whether an operator has a matrix of these sizes, or it transposed, among its inputs."""
    return any(shape in (table, table[::-1]) for shape in row.inputs.tensors)


def _listed(row: OperatorFact) -> list[tuple[int, ...]]:
    """Sizes of all tensors among an operator's inputs, those in lists as well."""
    return [tuple(map(int, text.strip("[]").split(","))) for text in _SHAPE.findall(row.shapes or "")]


def _part(row: OperatorFact, table: _Table) -> float:
    """Share of the elements of an operator's inputs that are matrices of these sizes; lists of tensors included."""
    shapes = _listed(row)
    total = sum(map(math.prod, shapes))
    own = sum(math.prod(shape) for shape in shapes if shape == table)
    return own / total if total else 0.0


def _one_hot(facts: Facts, limits: Limits) -> Drafts:
    """One finding for each product with one-hot vectors."""
    processor = Processor.of(facts)
    rows = [row for row in facts.shaped if row.calls and row.shapes]
    for made, product, (classes, width) in _with_one_hot(rows):
        indices = _shape_of(made, 0)
        count = math.prod(indices)
        shapes = {(*indices, classes), (count, classes), (classes, count)}
        members = [row for row in rows if row.name in _ON_ONE_HOT and shapes & set(row.inputs.tensors)]
        members = [made, *(row for row in members if row is not made)]
        work = EventTimes.of(processor, ((row.events, processor.self_ns(row)) for row in members)).longest_first
        if work.share > processor.limit(limits) and classes >= limits["classes"] and product.calls <= made.calls:
            params = {"rows": count, "classes": classes, "width": width, **work.figures()}
            evidence = _ONE_HOT.evidence(limits, "classes", classes, work.places[:5])
            yield Draft((evidence,), _gone(work, members, _OF_ONE_HOT, _ONE_HOT.text("basis")), params)


def _with_one_hot(
    rows: list[OperatorFact],
) -> Iterator[tuple[OperatorFact, OperatorFact, tuple[int, int]]]:
    """Calls of one_hot, the product with what they made, and its classes and width; once for each shape of indices."""
    for made in rows:
        if made.name == "aten::one_hot":
            products = ((row, _product_of(row, _shape_of(made, 0))) for row in rows)
            found = next(((row, sizes) for row, sizes in products if sizes is not None), None)
            if found is not None:
                yield made, *found


def _product_of(row: OperatorFact, indices: tuple[int, ...]) -> tuple[int, int] | None:
    """Classes and width, if a product has one-hot vectors of some indices on its left side."""
    left, right = _shape_of(row, 0), _shape_of(row, 1)
    if row.name not in _MULTIPLIES or len(right) != 2 or not indices:
        return None
    rows, width = (right[1], right[0]) if row.name == "aten::linear" else right
    if left[:-1] != indices or left[-1] != rows:
        return None
    return rows, width


RULES = (_DENSE.rule(trace=_dense), _ONE_HOT.rule(trace=_one_hot))
