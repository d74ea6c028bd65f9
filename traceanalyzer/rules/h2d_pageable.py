"""Detects h2d-pageable: see pages/h2d-pageable.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.copies import Copies, Copy
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _copies
from traceanalyzer.rules.engine import program, settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("h2d-pageable")
_PCIE_3 = 12.0
"""GB/s of pinned copies over PCIe 3 x16 in practice; later generations reach two and four times that."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    copies = facts.need("copies", Copies)
    to_device = _copies.to_device(copies)
    rows = [row for row in to_device if row.host_memory == "pageable" and row.calls > row.small_calls]
    exposed = facts.gpu_per_step(sum(row.exposed_ns for row in rows))
    share = exposed / facts.step_ns if facts.step_ns else 0.0
    if not rows or share <= limits["copy_share"]:
        return
    measured = _fastest([row for row in to_device if row.host_memory == "pinned"])
    bandwidth = measured or max(_PCIE_3, _fastest(rows))
    size = sum(row.bytes or 0 for row in rows)
    low = max(0.0, exposed - facts.gpu_per_step(size / bandwidth))
    high = low + facts.host_per_step(sum(row.avoidable_ns or 0 for row in rows))
    change = TimeSaved("gpu", (low, high), _PAGE.text("basis")(bandwidth=bandwidth), (low, high), _claims(rows, high))
    evidence = Evidence(_PAGE.text("subject")(), share, limits["copy_share"], "share", tuple(map(_place, rows)))
    params = {"time": exposed, "share": share, "bytes": size / facts.steps}
    pinned = bool(settings.all_pinned(facts))
    own = _PAGE.text("advice-pinned") if pinned else None if program.has_loader(facts) else _PAGE.text("advice-own")
    yield Draft(
        (evidence,),
        change,
        params,
        ceiling="medium",
        confidence="A" if measured else "B",
        advice=own,
        code="x = x.pin_memory().to('cuda', non_blocking=True)  # or make it there: device='cuda'" if own else None,
    )


def _fastest(rows: Sequence[Copy]) -> float:
    """Greatest bandwidth of the copies in GB/s; 0 if there are none."""
    return max((row.max_bandwidth_gb_per_s or 0 for row in rows), default=0)


def _claims(rows: Sequence[Copy], time: float) -> dict[str, float]:
    """Divide the time that is saved among the copies."""
    total = sum(row.time_ns for row in rows)
    return {f"copies:{row.name}": time * row.time_ns / total for row in rows}


def _place(row: Copy) -> CodePlace:
    return CodePlace("copy", row.name, value=row.time_ns, unit="ns")


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.COPY) if "HtoD" in row.name and "Pageable" in row.name]
    large = [row for row in rows if row.self_device_ns and row.self_device_ns > limits["call_ns"] * (row.calls or 1)]
    time = facts.gpu_per_step(sum(row.self_device_ns or 0 for row in large))
    share = time / facts.step_ns
    if share <= limits["copy_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.self_device_ns, unit="ns") for row in large)
    evidence = Evidence(_PAGE.text("subject-table")(), share, limits["copy_share"], "share", where)
    claims = {f"copies:{row.name}": facts.gpu_per_step(row.self_device_ns or 0) for row in large}
    change = TimeSaved(_held_up(facts), (0.0, time), _PAGE.text("basis-table")(), claims=claims)
    yield Draft(
        (evidence,),
        change,
        {"time": time, "share": share},
        ceiling="medium",
        confidence="B",
        summary=_PAGE.text("summary-table"),
    )


def _held_up(facts: Facts) -> str:
    """The resource whose time is saved: such a copy takes time of the device and of the host; the longer one counts."""
    own = facts.resources
    return "host" if (own.host_ns or 0) + (own.loader_ns or 0) > (own.gpu_ns or 0) else "gpu"


RULE = _PAGE.rule(trace=_trace, table=_table)
