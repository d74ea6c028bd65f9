"""Detects dtype-cast-churn: see pages/dtype-cast-churn.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.copies.within_memory import Conversion, Conversions
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("dtype-cast-churn")
_RMS_NORM = re.compile("rms_?norm", re.IGNORECASE)
_LEAST = 0.5
"""Least part of the time that is saved (own choice, explained on the rule's page)."""
_CALLS = 1.4
"""Greatest saving as a multiple of the time of casts and of calling them (measured in the lab, explained on the
page)."""
_FLOATING = frozenset({"double", "float", "c10::Half", "c10::BFloat16"})


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    processor = Processor.of(facts)
    rows = [row for row in facts.need("conversions", Conversions).rows if row.on_device != processor.is_cpu]
    if rows and all(row.to_type is None for row in rows):
        raise Missing(_PAGE.text("no-types")())
    churn = _there_and_back(rows)
    if processor.is_cpu:
        yield from _on_cpu(processor, churn, limits)
        return
    time = facts.gpu_per_step(sum(row.device_ns for row in churn))
    share = time / facts.resources.gpu_ns if facts.resources.gpu_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    where = tuple(_place(facts, row) for row in churn)
    claims = _claims(facts, churn)
    change = TimeSaved("gpu", (_LEAST * time, time), _PAGE.text("basis")(least=_LEAST), claims=claims, is_removed=True)
    calls = round(sum(row.calls for row in churn) / facts.steps)
    params = {"casts": max(1, calls), "time": time, "share": share}
    first = churn[0]
    texts = {"one": _short(first.from_type), "other": _short(first.to_type), "caller": first.caller or ""}
    evidence = Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where)
    summary = _PAGE.text("summary-caller") if first.caller else None
    code = None if _RMS_NORM.search(first.caller or "") else ""
    yield Draft((evidence,), change, {**params, **texts}, summary=summary, code=code)


def _on_cpu(processor: Processor, casts: Sequence[Conversion], limits: Mapping[str, float]) -> Iterator[Draft]:
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
    change = TimeSaved("host", (low, min(high, processor.facts.step_ns)), _PAGE.text("basis-cpu")(calls=_CALLS))
    calls = round(sum(row.calls for row in churn) / processor.facts.steps)
    params = {"casts": max(1, calls), "time": processor.per_step(total), "share": share}
    texts = {"one": _short(churn[0].from_type), "other": _short(churn[0].to_type)}
    evidence = Evidence(_PAGE.text("subject-cpu")(), share, processor.limit(limits), "share", where)
    code = None if _RMS_NORM.search(churn[0].caller or "") else ""
    yield Draft((evidence,), change, {**params, **texts}, summary=_PAGE.text("summary-cpu"), code=code)


def _there_and_back(rows: Sequence[Conversion]) -> list[Conversion]:
    """Casts of tensors with shapes that the forward pass casts from one type to another and back."""
    casts = [row for row in rows if _is_cast(row)]
    forward = {(row.input_shapes, row.from_type, row.to_type) for row in casts if not row.is_backward}
    both = {shape for shape, a, b in forward if (shape, b, a) in forward}
    return [row for row in casts if row.input_shapes in both]


def _claims(facts: Facts, casts: Sequence[Conversion]) -> dict[str, float]:
    claims: dict[str, float] = {}
    for row in casts:
        key = f"operator:aten::copy_|{row.input_shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(row.device_ns)
    return claims


def _is_cast(row: Conversion) -> bool:
    return row.to_type in _FLOATING and row.from_type in _FLOATING and row.to_type != row.from_type


def _short(kind: str | None) -> str:
    return (kind or "").removeprefix("c10::")


def _place(facts: Facts, row: Conversion) -> CodePlace:
    return CodePlace(
        "operator", row.operator, row.input_shapes or None, facts.gpu_per_step(row.device_ns), "ns", row.start_ns
    )


RULE = _PAGE.rule(trace=_trace)
