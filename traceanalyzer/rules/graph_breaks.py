"""Detects graph-breaks: see pages/graph-breaks.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.compilation.regions import GraphBreak
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("graph-breaks")
_JOINED = 1.5
"""Greatest saving on a CPU as a multiple of the time at the breaks (measured in the lab, explained on the page)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("compilation", CompiledCode)
    breaks, between = found.breaks_per_step, found.between_ns_per_step
    if breaks is None or between is None or breaks < limits["breaks"] or between < limits["share"] * facts.step_ns:
        return
    where = tuple(
        CodePlace("python", _place(row) or f"{row.before} > {row.behind}", value=row.between_ns, unit="ns")
        for row in found.breaks[:5]
    )
    evidence = Evidence(_PAGE.text("subject")(), breaks, limits["breaks"], "number", where)
    interval = _saved(facts, found, between)
    basis = (
        _PAGE.text("basis-regions")() if facts.resources.gpu_ns is not None else _PAGE.text("basis-cpu")(most=_JOINED)
    )
    change = TimeSaved("host", interval, basis, interval, {"compiled:breaks": interval[1]})
    params: dict[str, object] = {"breaks": breaks, "time": between}
    most = found.breaks[0]
    place = _place(most)
    if place is None:
        yield Draft((evidence,), change, params, ceiling="medium")
    elif most.reason is None:
        yield Draft(
            (evidence,), change, {**params, "place": place}, ceiling="medium", summary=_PAGE.text("summary-place")
        )
    else:
        params |= {"place": place, "reason": most.reason.rstrip(".")}
        yield Draft((evidence,), change, params, ceiling="medium", summary=_PAGE.text("summary-cause"))


def _saved(facts: Facts, found: CompiledCode, between: float) -> tuple[float, float]:
    """Least and most time of a step that fewer regions save, in ns."""
    regions = found.regions_per_step or 0.0
    entering, behind = found.entering_ns_per_step or 0.0, found.entering_behind_ns_per_step or 0.0
    # The guards of a region after a break are checked between the two regions.
    guards = max(0.0, (found.guards_ns_per_step or 0.0) * (1 - (found.breaks_per_step or 0.0) / max(1.0, regions)))
    all_but_one = (entering + guards) * (1 - 1 / max(1.0, regions))
    most = between + all_but_one
    if facts.resources.gpu_ns is not None:
        return 0.0, min(most, facts.step_ns)
    return min(behind, most), min(_JOINED * most, facts.step_ns)


def _place(row: GraphBreak) -> str | None:
    if row.file is None:
        return None
    name = row.file.replace("\\", "/").rpartition("/")[2]
    return name if row.line is None else f"{name}:{row.line}"


RULE = _PAGE.rule(trace=_trace)
