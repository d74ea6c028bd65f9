"""A finding has one price: its own saving, wherever it is named."""

from __future__ import annotations

import pytest

from tests.formats.html.advised import advised
from tests.formats.samples import TRAINING, report_of
from traceanalyzer.formats import render


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_what_a_fix_adds_to_the_fixes_before_it_is_no_price(form: str) -> None:
    report = advised(report_of(TRAINING))
    (headline,) = report.headlines
    assert headline.combined is not None
    fix = headline.combined.fixes[1]
    saving = report.findings[fix.finding].saving
    assert saving is not None
    assert (fix.wall_ns_per_step[1], saving.wall_ns_per_step[1]) == (900_000, 5_000_000)
    text = render(report, form)
    assert "5.0 ms" in text
    assert "900.0 us" not in text
