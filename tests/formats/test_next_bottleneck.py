"""What bounds the step after all fixes is said only where it is something else than now."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.formats.html.advised import advised
from tests.formats.samples import TRAINING, report_of
from traceanalyzer.formats import render
from traceanalyzer.report.model import Report


def bounded(now: str, after: str) -> Report:
    report = advised(report_of(TRAINING))
    (headline,) = report.headlines
    assert headline.combined is not None
    combined = replace(headline.combined, next_bottleneck=after)
    return replace(report, headlines=(replace(headline, bound=now, combined=combined),))


@pytest.mark.parametrize(
    ("now", "after"),
    [("host", "host"), ("input", "loader"), ("gpu-memory", "gpu"), ("gpu", "gpu"), ("communication", "communication")],
)
def test_the_same_bottleneck_is_not_the_next(now: str, after: str) -> None:
    report = bounded(now, after)
    screen = " ".join(render(report, "terminal").split())
    assert "All fixes together: a step gets shorter by" in screen
    assert "next bottleneck" not in screen
    assert "What bounds the step after that" not in render(report, "html")


@pytest.mark.parametrize(("now", "after", "name"), [("input", "host", "Host"), ("none", "gpu", "GPU")])
def test_another_one_is_named(now: str, after: str, name: str) -> None:
    report = bounded(now, after)
    assert f"Then the next bottleneck is: {name}." in " ".join(render(report, "terminal").split())
    assert f"What bounds the step after that: <strong>{name}</strong>" in render(report, "html")
