"""Detects copies-materialized: see pages/copies-materialized.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.copies.within_memory import Conversion, Conversions
from traceanalyzer.knowledge.op_shapes import parse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._repeated_heads import repeated_heads, repeated_ns
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("copies-materialized")
_NOISE = 0.02
"""Share of the step below which copies in a row are named, but no saving is promised: no measurement would show it (own
choice)."""
_LEAST = 0.5
"""Least part of the time that is saved (own choice, explained on the rule's page)."""
_ON_CPU = 0.5, 0.83
"""Least and most part of the time that is saved on a CPU (measured in the lab, explained on the rule's page)."""
_COPY, _CLONE = "aten::copy_", "aten::clone"
_TYPED = frozenset({"aten::to", "aten::_to_copy", "aten::type_as", "aten::float", "aten::half", "aten::bfloat16"})
"""Operators that mostly convert to another type; this is unknown if types were not recorded."""
_ASKING = ("aten::contiguous", "aten::reshape", "aten::repeat", "aten::tile")
"""Operators whose rows in a table count; none of them calls another one."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.need("conversions", Conversions).rows if not _is_cast(row)]
    repeated = [row for row in rows if _is_repeated(row, limits["clones_in_a_row"])]
    processor = Processor.of(facts)
    if processor.is_cpu:
        asked = [row for row in rows if _is_asked_for(row) and row not in repeated]
        yield from _on_cpu(processor, asked, processor.limit(limits))
    heads = repeated_heads(facts)
    others = [row for row in rows if row not in repeated and row.input_shapes not in heads]
    on_device = [row for row in others if row.on_device and row.operator != _COPY]
    yield from _layouts(facts, on_device, limits["gpu_share"], _unexplained(facts))
    yield from (_repeated(facts, row, limits["clones_in_a_row"]) for row in repeated)


def _is_asked_for(row: Conversion) -> bool:
    """Whether the program or a module, not an operator, made a copy on the host in the forward pass."""
    by_operator = row.caller is not None and "::" in row.caller
    return not (row.on_device or row.is_backward or by_operator or row.operator == _COPY)


def _on_cpu(processor: Processor, rows: Sequence[Conversion], limit: float) -> Iterator[Draft]:
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
        "host", (least * time, most * time), _PAGE.text("basis-cpu")(least=least, most=most), claims=claims
    )
    copies = max(1, round(sum(row.calls for row in rows) / processor.facts.steps))
    params = {"copies": copies, "time": time, "share": share, "operator": rows[0].operator}
    evidence = Evidence(_PAGE.text("subject-cpu")(), share, limit, "share", where)
    yield Draft((evidence,), change, params, confidence="B", summary=_PAGE.text("summary-cpu"))


def _unexplained(facts: Facts) -> int:
    """Copies per step within the GPU's memory whose caller is unknown."""
    found = facts.need("conversions", Conversions)
    return round((found.device_copies - found.device_copies_here) / facts.steps)


def _is_repeated(row: Conversion, limit: float) -> bool:
    return row.operator == _CLONE and row.longest_run >= limit and not row.is_backward


def _is_cast(row: Conversion) -> bool:
    if row.to_type is None or row.from_type is None:
        return row.operator in _TYPED
    return row.to_type != row.from_type


def _layouts(facts: Facts, rows: Sequence[Conversion], limit: float, others: int) -> Iterator[Draft]:
    time = facts.gpu_per_step(sum(row.device_ns for row in rows))
    share = time / facts.resources.gpu_ns if facts.resources.gpu_ns else 0.0
    if share <= limit:
        return
    where = tuple(_place(facts, row, row.device_ns) for row in rows)
    claims: dict[str, float] = {}
    for row in rows:
        key = f"operator:{_COPY}|{row.input_shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(row.device_ns)
    change = TimeSaved("gpu", (_LEAST * time, time), _PAGE.text("basis")(least=_LEAST), claims=claims, is_removed=True)
    calls = sum(row.calls for row in rows) / facts.steps
    params = {"copies": max(1, round(calls)), "time": time, "share": share, "operator": rows[0].operator}
    evidence = Evidence(_PAGE.text("subject")(), share, limit, "share", where)
    params |= {"caller": rows[0].caller or ""}
    summary = _PAGE.text("summary-caller") if rows[0].caller else RULE.summary
    if others:
        params |= {"summary": summary(**params), "others": others}
        summary = _PAGE.text("summary-part")
    yield Draft((evidence,), change, params, summary=summary)


def _repeated(facts: Facts, row: Conversion, limit: float) -> Draft:
    """Clones directly after each other."""
    cost = facts.gpu_per_step(row.device_ns) if row.on_device else facts.host_per_step(row.host_ns)
    cost *= (row.longest_run - 1) / row.longest_run
    claims = {f"operator:{_COPY}|{row.input_shapes}": cost} if row.on_device else {}
    basis = _PAGE.text("basis-run")(run=row.longest_run, least=_LEAST)
    resource = "gpu" if row.on_device else "host"
    change: TimeSaved | None = None
    if cost >= _NOISE * facts.step_ns:
        change = TimeSaved(resource, (_LEAST * cost, cost), basis, claims=claims, is_removed=True)
    where = [_place(facts, row, row.device_ns if row.on_device else row.host_ns)]
    where += [CodePlace("python", row.python_line)] if row.python_line else []
    evidence = Evidence(_PAGE.text("subject-run")(), row.longest_run, limit, "count", tuple(where))
    params = {"operator": row.operator, "run": row.longest_run, "shapes": _first_shape(row.input_shapes), "time": cost}
    return Draft((evidence,), change, params, confidence="C", summary=_PAGE.text("summary-run"))


def _place(facts: Facts, row: Conversion, total_ns: int) -> CodePlace:
    time = facts.gpu_per_step(total_ns) if row.on_device else facts.host_per_step(total_ns)
    return CodePlace("operator", row.operator, row.input_shapes or None, time, "ns", row.start_ns)


def _first_shape(text: str) -> str:
    shapes = parse(text)
    return str(list(shapes[0])) if shapes else "unknown"


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
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
    evidence = Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where)
    change = TimeSaved("gpu", (_LEAST * time, time), _PAGE.text("basis")(least=_LEAST), claims=claims)
    calls = sum(row.calls for row in rows if row.name == _COPY) / facts.steps
    params = {"copies": max(1, round(calls)), "time": time, "share": share, "operator": asked[0].name}
    yield Draft((evidence,), change, params, confidence="B", summary=None if calls else _PAGE.text("summary-table"))


def _shaped(facts: Facts, total: int) -> list[OperatorFact]:
    """Rows of copies by shape, those with most time first; no row has more time than all copies together."""
    heads = repeated_heads(facts)
    try:
        rows = [row for row in facts.shaped if row.name == _COPY and row.shapes not in heads]
    except Missing:
        return []
    rows = [row for row in rows if 0 < row.device_self_ns <= 1.01 * total]
    return sorted(rows, key=lambda row: (-row.device_self_ns, row.shapes or ""))


RULE = _PAGE.rule(trace=_trace, table=_table)
