"""Detects keys-repeated: see pages/keys-repeated.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._repeated_heads import COPY, repeated_heads
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("keys-repeated")
_LEAST = 0.5
"""Least part of the time that is saved with a flash kernel (own choice, as for other copies)."""


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
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
    least = _LEAST if by_flash else 0.0
    basis = _PAGE.text("basis")(least=least) if by_flash else _PAGE.text("basis-unsure")()
    largest = repeats[rows[0].shapes or ""]
    copies = max(1, round(sum(row.calls for row in rows) / facts.steps))
    params = {"copies": copies, "heads": largest.heads, "queries": largest.query_heads, "time": time, "share": share}
    change = TimeSaved("gpu", (least * time, time), basis, claims=claims, is_removed=True)
    yield Draft((Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where),), change, params)


RULE = _PAGE.rule(trace=_find, table=_find)
