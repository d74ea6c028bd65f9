"""Detects comm-exposed: see pages/comm-exposed.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traceanalyzer.analyzers.communication import CollectiveRow, Communication
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.resources import StepResources

_PAGE = page("comm-exposed")
_CURES = {
    "all_reduce": _PAGE.text("advice-all-reduce"),
    "all_to_all": _PAGE.text("advice-all-to-all"),
    "all_gather": _PAGE.text("advice-shards"),
    "reduce_scatter": _PAGE.text("advice-shards"),
    **dict.fromkeys(("send", "recv", "send_recv"), _PAGE.text("advice-stages")),
    "broadcast": _PAGE.text("advice-broadcast"),
}
"""What helps against each kind of collective in a training."""
_OF_A_KIND = 0.2
"""Least share of the collectives' time for which a kind gets its own advice (own choice)."""
_NOTED, _SHOWN = 0.05, 3
"""Least share of a kind that is named, and how many are (own choice)."""
_MOSTLY = 0.5


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("communication", Communication)
    resources = facts.need_step_resources()
    ranks = facts.find("ranks", Ranks)
    exposed, total = _without_waiting(resources, ranks)
    if not exposed or not total or not resources.gpu_ns:
        return
    share = exposed / resources.step_ns
    if share < limits["exposed_share"]:
        return
    evidence = Evidence(_PAGE.text("subject")(), share, limits["exposed_share"], "share", _places(found))
    hideable = min(exposed, max(0.0, resources.gpu_ns - total))
    basis = _PAGE.text("basis")() if ranks is None else _PAGE.text("basis-ranks")()
    change = TimeSaved("communication", (0.0, exposed), basis, (0.0, hideable), {"communication": exposed})
    params: dict[str, Any] = {"exposed": exposed, "total": total, "step": resources.step_ns, "share": share}
    kinds = _kinds(found)
    summary = None
    if len(kinds) > 1:
        steps = facts.steps
        params["kinds"] = tuple(
            _PAGE.text("kind")(kind=kind, time=ns / steps) for kind, ns in list(kinds.items())[:_SHOWN]
        )
        summary = _PAGE.text("summary-kinds")
    if not program.may_train(facts):
        advice = _PAGE.text("advice-inference") if ranks is None else _PAGE.text("advice-inference-ranks")
        yield Draft((evidence,), change, params, summary=summary, advice=advice, code="")  # no gradients to exchange
        return
    params["advice"] = _cures(kinds)
    advice = _PAGE.text("advice") if ranks is not None else _PAGE.text("advice-late")
    yield Draft((evidence,), change, params, summary=summary, advice=advice, code=None if _reduces(kinds) else "")


def _kinds(found: Communication) -> dict[str, int]:
    """Time of the collectives by kind, if it is known, the most first."""
    times: dict[str, int] = {}
    for row in found.rows:
        if row.operation:
            times[row.operation] = times.get(row.operation, 0) + row.total_ns
    total = sum(times.values())
    shown = [item for item in times.items() if item[1] >= _NOTED * total]
    return dict(sorted(shown, key=lambda item: (-item[1], item[0])))


def _cures(kinds: Mapping[str, int]) -> Message:
    """One sentence for each kind of collective that takes a large part of the time.

    If no kind is known, it is the sentence about gradients. If other kinds take most of the time, gradients do not
    come first.
    """
    total = sum(kinds.values())
    chosen = dict.fromkeys(_CURES[kind] for kind, ns in kinds.items() if kind in _CURES and ns >= _OF_A_KIND * total)
    advice, *others = list(chosen) or [_PAGE.text("advice-all-reduce")]
    message = advice()
    for other in others:
        message = _PAGE.text("advice-also")(advice=message, more=other())
    return message


def _reduces(kinds: Mapping[str, int]) -> bool:
    """Whether most of the time is the reduction of gradients, or the kinds are unknown."""
    return not kinds or kinds.get("all_reduce", 0) >= _MOSTLY * sum(kinds.values())


def _without_waiting(resources: StepResources, ranks: Ranks | None) -> tuple[float, float]:
    """Exposed and all communication; where all ranks are known, without the waiting for each other."""
    exposed, total = resources.exposed_communication_ns or 0.0, resources.communication_ns or 0.0
    if ranks is None:
        return exposed, total
    return max(0.0, exposed - (ranks.exposed_wait_ns or 0.0)), max(0.0, total - (ranks.wait_ns or 0.0))


def _places(found: Communication) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("kernel", _name(row), value=row.total_ns, unit="ns") for row in found.rows[:5])


def _name(row: CollectiveRow) -> str:
    return row.operation or row.process_group or "unknown"


RULE = _PAGE.rule(trace=_trace)
