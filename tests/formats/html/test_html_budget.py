"""The waterfall of a step: what each fix leaves of it, and where it ends."""

from __future__ import annotations

import pytest

from tests.formats.html.advised import say
from traceanalyzer.formats import language
from traceanalyzer.formats.html import budget
from traceanalyzer.report.model import Combined, Headline, Relief, Resources

STEP_NS = 214_000_000.0


def built(*fixes: Relief, high: float, point: float | None, code: str = "en") -> budget.StepBudget:
    """The waterfall of a step of `STEP_NS` with some fixes."""
    low = sum(fix.wall_ns_per_step[0] for fix in fixes)
    combined = Combined(fixes, (low, high), (low / STEP_NS, high / STEP_NS), "gpu", point)
    headline = Headline(None, "host", say("Bound"), 1.0, Resources(STEP_NS, 0.0, STEP_NS, None, None), combined)
    found = budget.build(headline, combined, language.of(code))
    assert found is not None
    return found


def test_the_floor_is_where_the_last_fix_ends() -> None:
    fixes = (Relief("a", 0, (5e6, 9e6), 7e6), Relief("b", 1, (2e6, 13e6), 9.4e6))
    found = built(*fixes, high=22e6, point=16.4e6)
    assert [row.left for row in found.fixes] == ["207 ms", "198 ms"]
    assert found.floor.left == "198 ms (192-207)"


def test_bounds_end_where_the_last_fix_ends_at_least() -> None:
    found = built(Relief("a", 0, (0.0, 198e6)), Relief("b", 1, (0.0, 1e6)), high=199e6, point=None)
    assert [row.left for row in found.fixes] == ["214 ms", "214 ms"]
    assert found.floor.left == "15-214 ms"


@pytest.mark.parametrize(
    ("code", "head", "floor"),
    [
        ("en", "The step then takes", "1.98 s (1.92-2.07)"),
        ("ru", "Шаг займёт", "1,98 с (1,92–2,07)"),
        ("zh", "step 的剩余耗时", "1.98 s（1.92–2.07）"),
    ],
)
def test_the_column_says_that_it_is_what_remains(code: str, head: str, floor: str) -> None:
    combined = Combined((Relief("a", 0, (7e7, 22e7), 16e7),), (7e7, 22e7), (0.03, 0.1), "gpu", 16e7)
    resources = Resources(2.14e9, 0.0, 2.14e9, None, None)
    found = budget.build(Headline(None, "host", say("Bound"), 1.0, resources, combined), combined, language.of(code))
    assert found is not None
    assert (found.head, found.floor.left) == (head, floor)
