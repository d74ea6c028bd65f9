"""X."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from traceanalyzer.analyzers.copies.within_memory import Conversion, Conversions
from traceanalyzer.knowledge.op_shapes import Shape, parse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft

COPY = "aten::copy_"
_EXPAND = "aten::expand"
_ATTENTION = "aten::scaled_dot_product_attention"
_FLASH = "aten::_scaled_dot_product_flash_attention"
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
_AXES = (2, 3)
"""Position of the axis of repeats: [batch, heads, repeats, sequence, size] or [batch, sequence, heads, repeats,
size]."""


@dataclass(frozen=True)
class RepeatedHeads:
    """Copies that repeat the heads of keys or values before attention."""

    heads: int
    """Heads of keys and values before the copy."""
    query_heads: int
    """Heads after it, as many as the queries have."""
    by_flash: bool
    """Whether torch's operator for attention takes the copies to its flash kernel."""


def repeated_heads(facts: Facts) -> Mapping[str, RepeatedHeads]:
    """Find copies of tensors with an expanded axis of heads, whose result attention takes.

    Returns:
        Shapes of `aten::copy_` as recorded, to what is repeated; empty where shapes were not recorded.
    """
    try:
        rows = facts.shaped
    except Missing:
        return {}
    tensors = [(row, found) for row in rows if (found := [s for s in parse(row.shapes) or [] if s])]
    expanded = {found[0] for row, found in tensors if row.name == _EXPAND and len(found[0]) == 5}
    taken = [found for row, found in tensors if row.name == _ATTENTION and len(found) >= 3]
    flash = {found[1] for row, found in tensors if row.name == _FLASH and len(found) >= 3}
    grouped = {found[1] for found in taken if _is_grouped(found)}
    keys = {found[1] for found in taken if not _is_grouped(found)}
    factors = {found[-1] for row, found in tensors if row.name in _PRODUCTS and len(found[-1]) == 3}
    repeats: dict[str, RepeatedHeads] = {}
    for row, found in tensors if expanded else ():
        shape = found[0]
        if row.name != COPY or len(shape) != 5 or found[1:2] != [shape] or not _keeps_type(row.types):
            continue
        for axis in _AXES:
            before, merged = _before(shape, axis), _merged(shape, axis)
            if shape[axis] < 2 or before not in expanded or _merged(before, axis) in grouped:
                continue
            batch, heads, sequence, size = merged
            products = {(batch * heads, sequence, size), (batch * heads, size, sequence)}
            if merged in keys or products & factors:
                repeats[str(row.shapes)] = RepeatedHeads(shape[axis - 1], heads, merged in flash)
    return repeats


def repeated_ns(facts: Facts) -> int:
    """Device time of these copies in ns, over all steps."""
    shapes = repeated_heads(facts)
    return sum(row.device_self_ns for row in facts.shaped if row.name == COPY and row.shapes in shapes) if shapes else 0


def _is_grouped(tensors: Sequence[Shape]) -> bool:
    """Whether attention takes fewer heads of keys than of queries itself."""
    query, key = tensors[:2]
    return len(query) == len(key) == 4 and query[1] != key[1]


def _before(shape: Shape, axis: int) -> Shape:
    """The shape before the axis was expanded."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _merged(shape: Shape, axis: int) -> Shape:
    """The shape with the repeats as separate heads, as attention takes it: [batch, heads, sequence, size]."""
    found = (*shape[: axis - 1], math.prod(shape[axis - 1 : axis + 1]), *shape[axis + 1 :])
    return found if axis == 2 else (found[0], found[2], found[1], found[3])


def _keeps_type(types: str | None) -> bool:
    """Whether a copy has the type of its source, as far as known."""
    kinds = (types or "").strip("[]").split(",")[:2]
    return len(kinds) < 2 or kinds[0].strip() == kinds[1].strip()


_MATERIALIZED = page("copies-materialized")
_NOISE = 0.02
"""Share of the step below which copies in a row are named, but no saving is promised: no measurement would show it (own
choice)."""
_MATERIALIZED_LEAST = 0.5
"""Least part of the time that is saved (own choice, explained on the rule's page)."""
_ON_CPU = 0.5, 0.83
"""Least and most part of the time that is saved on a CPU (measured in the lab, explained on the rule's page)."""
_COPY, _CLONE = "aten::copy_", "aten::clone"
_TYPED = frozenset({"aten::to", "aten::_to_copy", "aten::type_as", "aten::float", "aten::half", "aten::bfloat16"})
"""Operators that mostly convert to another type; this is unknown if types were not recorded."""
_ASKING = ("aten::contiguous", "aten::reshape", "aten::repeat", "aten::tile")
"""Operators whose rows in a table count; none of them calls another one."""


def _materialized_in_trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.need("conversions", Conversions).rows if not _materialized_is_cast(row)]
    repeated = [row for row in rows if _is_repeated(row, limits["clones_in_a_row"])]
    processor = Processor.of(facts)
    if processor.is_cpu:
        asked = [row for row in rows if _is_asked_for(row) and row not in repeated]
        yield from _materialized_on_cpu(processor, asked, processor.limit(limits))
    heads = repeated_heads(facts)
    others = [row for row in rows if row not in repeated and row.input_shapes not in heads]
    on_device = [row for row in others if row.on_device and row.operator != _COPY]
    yield from _layouts(facts, on_device, limits["gpu_share"], _unexplained(facts))
    yield from (_repeated(facts, row, limits["clones_in_a_row"]) for row in repeated)


def _is_asked_for(row: Conversion) -> bool:
    """Whether the program or a module, not an operator, made a copy on the host in the forward pass."""
    by_operator = row.caller is not None and "::" in row.caller
    return not (row.on_device or row.is_backward or by_operator or row.operator == _COPY)


def _materialized_on_cpu(processor: Processor, rows: Sequence[Conversion], limit: float) -> Iterator[Draft]:
    """Without a GPU copies take time of the host."""
    total = sum(row.host_ns for row in rows)
    share = processor.share(total)
    if share <= limit:
        return
    where = tuple(
        CodePlace(
            "operator", row.operator, row.input_shapes or None, processor.per_step(row.host_ns), "ns", row.start_ns
        )
        for row in rows
    )
    claims: dict[str, float] = {}
    for row in rows:
        key = f"operator:{_COPY}|{row.input_shapes}"
        claims[key] = claims.get(key, 0.0) + processor.per_step(row.host_ns)
    time, (least, most) = processor.per_step(total), _ON_CPU
    change = TimeSaved(
        "host", (least * time, most * time), _MATERIALIZED.text("basis-cpu")(least=least, most=most), claims=claims
    )
    copies = max(1, round(sum(row.calls for row in rows) / processor.facts.steps))
    params = {"copies": copies, "time": time, "share": share, "operator": rows[0].operator}
    evidence = Evidence(_MATERIALIZED.text("subject-cpu")(), share, limit, "share", where)
    yield Draft((evidence,), change, params, confidence="B", summary=_MATERIALIZED.text("summary-cpu"))


def _unexplained(facts: Facts) -> int:
    """Copies per step within the GPU's memory whose caller is unknown."""
    found = facts.need("conversions", Conversions)
    return round((found.device_copies - found.device_copies_here) / facts.steps)


def _is_repeated(row: Conversion, limit: float) -> bool:
    return row.operator == _CLONE and row.longest_run >= limit and not row.is_backward


def _materialized_is_cast(row: Conversion) -> bool:
    if row.to_type is None or row.from_type is None:
        return row.operator in _TYPED
    return row.to_type != row.from_type


def _layouts(facts: Facts, rows: Sequence[Conversion], limit: float, others: int) -> Iterator[Draft]:
    time = facts.gpu_per_step(sum(row.device_ns for row in rows))
    share = time / facts.resources.gpu_ns if facts.resources.gpu_ns else 0.0
    if share <= limit:
        return
    where = tuple(_materialized_place(facts, row, row.device_ns) for row in rows)
    claims: dict[str, float] = {}
    for row in rows:
        key = f"operator:{_COPY}|{row.input_shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(row.device_ns)
    change = TimeSaved(
        "gpu",
        (_MATERIALIZED_LEAST * time, time),
        _MATERIALIZED.text("basis")(least=_MATERIALIZED_LEAST),
        claims=claims,
        is_removed=True,
    )
    calls = sum(row.calls for row in rows) / facts.steps
    params = {"copies": max(1, round(calls)), "time": time, "share": share, "operator": rows[0].operator}
    evidence = Evidence(_MATERIALIZED.text("subject")(), share, limit, "share", where)
    params |= {"caller": rows[0].caller or ""}
    summary = _MATERIALIZED.text("summary-caller") if rows[0].caller else _MATERIALIZED.text("summary")
    if others:
        params |= {"summary": summary(**params), "others": others}
        summary = _MATERIALIZED.text("summary-part")
    yield Draft((evidence,), change, params, summary=summary)


def _repeated(facts: Facts, row: Conversion, limit: float) -> Draft:
    """Clones directly after each other."""
    cost = facts.gpu_per_step(row.device_ns) if row.on_device else facts.host_per_step(row.host_ns)
    cost *= (row.longest_run - 1) / row.longest_run
    claims = {f"operator:{_COPY}|{row.input_shapes}": cost} if row.on_device else {}
    basis = _MATERIALIZED.text("basis-run")(run=row.longest_run, least=_MATERIALIZED_LEAST)
    resource = "gpu" if row.on_device else "host"
    change: TimeSaved | None = None
    if cost >= _NOISE * facts.step_ns:
        change = TimeSaved(resource, (_MATERIALIZED_LEAST * cost, cost), basis, claims=claims, is_removed=True)
    where = [_materialized_place(facts, row, row.device_ns if row.on_device else row.host_ns)]
    where += [CodePlace("python", row.python_line)] if row.python_line else []
    evidence = Evidence(_MATERIALIZED.text("subject-run")(), row.longest_run, limit, "count", tuple(where))
    params = {"operator": row.operator, "run": row.longest_run, "shapes": _first_shape(row.input_shapes), "time": cost}
    return Draft((evidence,), change, params, confidence="C", summary=_MATERIALIZED.text("summary-run"))


def _materialized_place(facts: Facts, row: Conversion, total_ns: int) -> CodePlace:
    time = facts.gpu_per_step(total_ns) if row.on_device else facts.host_per_step(total_ns)
    return CodePlace("operator", row.operator, row.input_shapes or None, time, "ns", row.start_ns)


def _first_shape(text: str) -> str:
    shapes = parse(text)
    return str(list(shapes[0])) if shapes else "unknown"


def _materialized_in_table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if not facts.gpu_total_ns:
        return
    asked = sorted((row for row in facts.operators if row.name in _ASKING), key=lambda row: -row.device_total_ns)
    copied = sum(row.device_self_ns for row in facts.operators if row.name == _COPY)
    total = max(0, min(copied, sum(row.device_total_ns for row in asked)) - repeated_ns(facts))
    share = total / facts.gpu_total_ns
    if share <= limits["gpu_share"]:
        return
    time = facts.gpu_per_step(total)
    rows = _shaped(facts, total) or [row for row in asked if row.device_total_ns]
    where = tuple(CodePlace("row", r.name, r.shapes, r.device_total_ns, "ns") for r in rows)
    claims = {f"operator:{_COPY}": time} | {
        f"operator:{r.name}|{r.shapes}": facts.gpu_per_step(r.device_total_ns) for r in rows
    }
    evidence = Evidence(_MATERIALIZED.text("subject")(), share, limits["gpu_share"], "share", where)
    change = TimeSaved(
        "gpu", (_MATERIALIZED_LEAST * time, time), _MATERIALIZED.text("basis")(least=_MATERIALIZED_LEAST), claims=claims
    )
    calls = sum(row.calls for row in rows if row.name == _COPY) / facts.steps
    params = {"copies": max(1, round(calls)), "time": time, "share": share, "operator": asked[0].name}
    yield Draft(
        (evidence,), change, params, confidence="B", summary=None if calls else _MATERIALIZED.text("summary-table")
    )


def _shaped(facts: Facts, total: int) -> list[OperatorFact]:
    """Rows of copies by shape, those with most time first; no row has more time than all copies together."""
    heads = repeated_heads(facts)
    try:
        rows = [row for row in facts.shaped if row.name == _COPY and row.shapes not in heads]
    except Missing:
        return []
    rows = [row for row in rows if 0 < row.device_self_ns <= 1.01 * total]
    return sorted(rows, key=lambda row: (-row.device_self_ns, row.shapes or ""))


_KEYS = page("keys-repeated")
_KEYS_LEAST = 0.5
"""Least part of the time that is saved with a flash kernel (own choice, as for other copies)."""


def _keys(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    repeats = repeated_heads(facts)
    rows = [row for row in facts.shaped if row.name == COPY and row.shapes in repeats and row.device_self_ns]
    total = sum(row.device_self_ns for row in rows)
    share = total / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    rows.sort(key=lambda row: (-row.device_self_ns, row.shapes or ""))
    kind = "operator" if facts.table is None else "row"
    where = tuple(CodePlace(kind, r.name, r.shapes, facts.gpu_per_step(r.device_self_ns), "ns") for r in rows)
    claims: dict[str, float] = {}
    for row in rows:
        key = f"operator:{COPY}|{row.shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(row.device_self_ns)
    time = facts.gpu_per_step(total)
    by_flash = all(repeats[row.shapes or ""].by_flash for row in rows)
    least = _KEYS_LEAST if by_flash else 0.0
    basis = _KEYS.text("basis")(least=least) if by_flash else _KEYS.text("basis-unsure")()
    largest = repeats[rows[0].shapes or ""]
    copies = max(1, round(sum(row.calls for row in rows) / facts.steps))
    params = {"copies": copies, "heads": largest.heads, "queries": largest.query_heads, "time": time, "share": share}
    change = TimeSaved("gpu", (least * time, time), basis, claims=claims, is_removed=True)
    yield Draft((Evidence(_KEYS.text("subject")(), share, limits["gpu_share"], "share", where),), change, params)


_CASTS = page("dtype-cast-churn")
_RMS_NORM = re.compile("rms_?norm", re.IGNORECASE)
_CASTS_LEAST = 0.5
"""Least part of the time that is saved (own choice, explained on the rule's page)."""
_CALLS = 1.4
"""Greatest saving as a multiple of the time of casts and of calling them (measured in the lab, explained on the
page)."""
_FLOATING = frozenset({"double", "float", "c10::Half", "c10::BFloat16"})


def _casts_in_trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    processor = Processor.of(facts)
    rows = [row for row in facts.need("conversions", Conversions).rows if row.on_device != processor.is_cpu]
    if rows and all(row.to_type is None for row in rows):
        raise Missing(_CASTS.text("no-types")())
    churn = _there_and_back(rows)
    if processor.is_cpu:
        yield from _casts_on_cpu(processor, churn, limits)
        return
    time = facts.gpu_per_step(sum(row.device_ns for row in churn))
    share = time / facts.resources.gpu_ns if facts.resources.gpu_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    where = tuple(_casts_place(facts, row) for row in churn)
    claims = _claims(facts, churn)
    change = TimeSaved(
        "gpu", (_CASTS_LEAST * time, time), _CASTS.text("basis")(least=_CASTS_LEAST), claims=claims, is_removed=True
    )
    calls = round(sum(row.calls for row in churn) / facts.steps)
    params = {"casts": max(1, calls), "time": time, "share": share}
    first = churn[0]
    texts = {"one": _short(first.from_type), "other": _short(first.to_type), "caller": first.caller or ""}
    evidence = Evidence(_CASTS.text("subject")(), share, limits["gpu_share"], "share", where)
    summary = _CASTS.text("summary-caller") if first.caller else None
    code = None if _RMS_NORM.search(first.caller or "") else ""
    yield Draft((evidence,), change, {**params, **texts}, summary=summary, code=code)


def _casts_on_cpu(processor: Processor, casts: Sequence[Conversion], limits: Mapping[str, float]) -> Iterator[Draft]:
    """Without a GPU casts take time of the host, most of it for their calls where tensors are small."""
    churn = [row for row in casts if not row.input_shapes.startswith("[[]")]  # numbers are no activations
    total = sum(row.host_ns for row in churn)
    share = processor.share(total)
    if share <= processor.limit(limits):
        return
    where = tuple(
        CodePlace(
            "operator", row.operator, row.input_shapes or None, processor.per_step(row.host_ns), "ns", row.start_ns
        )
        for row in churn
    )
    high = _CALLS * processor.per_step(sum(max(row.call_ns, row.host_ns) for row in churn))
    low = processor.per_step(total)
    change = TimeSaved("host", (low, min(high, processor.facts.step_ns)), _CASTS.text("basis-cpu")(calls=_CALLS))
    calls = round(sum(row.calls for row in churn) / processor.facts.steps)
    params = {"casts": max(1, calls), "time": processor.per_step(total), "share": share}
    texts = {"one": _short(churn[0].from_type), "other": _short(churn[0].to_type)}
    evidence = Evidence(_CASTS.text("subject-cpu")(), share, processor.limit(limits), "share", where)
    code = None if _RMS_NORM.search(churn[0].caller or "") else ""
    yield Draft((evidence,), change, {**params, **texts}, summary=_CASTS.text("summary-cpu"), code=code)


def _there_and_back(rows: Sequence[Conversion]) -> list[Conversion]:
    """Casts of tensors with shapes that the forward pass casts from one type to another and back."""
    casts = [row for row in rows if _casts_is_cast(row)]
    forward = {(row.input_shapes, row.from_type, row.to_type) for row in casts if not row.is_backward}
    both = {shape for shape, a, b in forward if (shape, b, a) in forward}
    return [row for row in casts if row.input_shapes in both]


def _claims(facts: Facts, casts: Sequence[Conversion]) -> dict[str, float]:
    claims: dict[str, float] = {}
    for row in casts:
        key = f"operator:aten::copy_|{row.input_shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(row.device_ns)
    return claims


def _casts_is_cast(row: Conversion) -> bool:
    return row.to_type in _FLOATING and row.from_type in _FLOATING and row.to_type != row.from_type


def _short(kind: str | None) -> str:
    return (kind or "").removeprefix("c10::")


def _casts_place(facts: Facts, row: Conversion) -> CodePlace:
    return CodePlace(
        "operator", row.operator, row.input_shapes or None, facts.gpu_per_step(row.device_ns), "ns", row.start_ns
    )


RULES = (
    _MATERIALIZED.rule(trace=_materialized_in_trace, table=_materialized_in_table),
    _KEYS.rule(trace=_keys, table=_keys),
    _CASTS.rule(trace=_casts_in_trace),
)
