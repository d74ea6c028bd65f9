"""Tests of the rule `compile-cache-missed`: graphs that caches of torch did not have."""

from __future__ import annotations

from tests.builders import compile_log as build
from tests.rules.judging import findings
from traceanalyzer.report.model import Finding

RULE = "compile-cache-missed"


def looked_up(*outcomes: tuple[str, float], cache: str = "fx_graph") -> str:
    """A log of functions whose graphs were looked up; each takes 10 s, of which Inductor takes so many."""
    parts = []
    for number, (outcome, seconds) in enumerate(outcomes):
        ident = f"{number}/0"
        figures = f'{{"key": "f{number}", "time_taken_ns": {round(seconds * 1e9)}, "cache_bypass_reason": "a hook"}}'
        parts += [
            build.started(ident),
            build.entry("artifact", {"name": f"{cache}_cache_{outcome}"}, ident, figures),
            build.measured(ident, "f", "/work/f.py", 3, 10, backend_compile_time_s=9, inductor_compile_time_s=seconds),
        ]
    return "".join(parts)


def fires() -> str:
    """A container that starts without the cache of the last one."""
    return looked_up(("miss", 8), ("miss", 6), ("hit", 0.5))


def quiet() -> str:
    """All graphs are in the cache."""
    return looked_up(("hit", 0.5), ("hit", 0.5))


def trap_small_graph() -> str:
    """What the cache did not have compiles in no time."""
    return looked_up(("miss", 0.2), ("hit", 0.5))


def only(situation: str, **limits: float) -> Finding:
    """The one finding of a situation."""
    (found,) = findings(situation, RULE, limits)
    return found


def test_misses_with_the_time_that_they_took() -> None:
    found = only(fires())
    assert found.summary.text == (
        "Graphs that the cache fx_graph did not have: 2 of 3. Compiling them took 14 s, 47 % of all compilation."
    )
    assert (found.severity, found.saving) == ("low", None)
    assert [place.name for place in found.evidence[0].where] == ["work/f.py:3", "work/f.py:3"]


def test_graphs_that_cannot_be_cached_have_a_reason() -> None:
    found = only(looked_up(("bypass", 8), ("hit", 1)))
    assert found.summary.text.startswith(
        "Graphs that cannot be in the cache fx_graph: 1 of 2, because: a hook. Compiling them took 8.0 s"
    )


def test_of_two_caches_of_one_graph_one_counts() -> None:
    both = looked_up(("miss", 8)) + looked_up(("miss", 8), cache="aotautograd")
    assert "fx_graph did not have: 1 of 1" in only(both).summary.text


def test_edge_share() -> None:
    assert findings(looked_up(("miss", 1)), RULE, {"share": 0.1})
    assert not findings(looked_up(("miss", 1)), RULE, {"share": 0.11})


def test_edge_severe() -> None:
    assert only(looked_up(("miss", 5))).severity == "medium"
    assert only(looked_up(("miss", 5)), severe=0.51).severity == "low"
