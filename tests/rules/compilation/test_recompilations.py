"""Tests of the rule `recompilations`: functions that a compile log shows to be compiled again."""

from __future__ import annotations

from tests.builders import compile_log as build
from tests.rules.judging import findings
from traceanalyzer.report.model import Finding

RULE = "recompilations"


def compiled(times: dict[str, float], reason: str = "0/0: L['n'] == 3") -> str:
    """A log of compilations that take so many seconds; the reason is that of all but first ones."""
    parts = []
    for ident, seconds in times.items():
        if not ident.endswith("/0"):
            parts.append(build.recompiled(ident, reason) if reason else "")
        parts.append(build.started(ident) + build.measured(ident, "forward", "/work/train.py", 7, seconds))
    return "".join(parts)


def fires() -> str:
    """A number that differs in each call is part of the guards."""
    return compiled({"0/0": 1, "0/1": 2, "0/2": 1})


def quiet() -> str:
    """Two functions, each compiled once."""
    return compiled({"0/0": 1, "1/0": 2})


def trap_numbers_that_start_anew() -> str:
    """After a reset torch counts from 0 again: these are first compilations."""
    return compiled({"0/0": 1}) + compiled({"0/0": 1})


def only(situation: str, **limits: float) -> Finding:
    """The one finding of a situation."""
    (found,) = findings(situation, RULE, limits)
    return found


def test_count_time_and_the_guard_of_the_longest() -> None:
    found = only(fires())
    assert found.summary.text == (
        "Recompilations: 2, in 3.0 s (75 % of all compilation). The longest is work/train.py:7 forward, because this "
        "did not hold: L['n'] == 3."
    )
    assert (found.severity, found.evidence[0].observed) == ("medium", 2)
    assert [place.value for place in found.evidence[0].where] == [2e9, 1e9]


def test_a_log_without_reasons() -> None:
    found = only(compiled({"0/0": 1, "0/1": 1}, ""))
    assert "because this did not hold: the log does not say" in found.summary.text


def test_edge_count() -> None:
    assert findings(fires(), RULE, {"count": 2})
    assert not findings(fires(), RULE, {"count": 3})


def test_edge_share() -> None:
    situation = compiled({"0/0": 4, "0/1": 1})
    assert only(situation).severity == "medium"
    assert only(situation, share=0.21).severity == "low"
