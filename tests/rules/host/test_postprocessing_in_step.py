"""Tests of the rule `postprocessing-in-step`: numbers worked out by hand.

The programs: results that are converted while the GPU waits, or while it works.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import findings
from traceanalyzer.knowledge.host_roles import of_frame

TO_PIL = "diffusers/image_processor.py(127): numpy_to_pil"


def converting(function: str, dur: int, *, waits: bool = True) -> TraceBuilder:
    """Steps of 20 kernels of 100 us whose result is read and converted by a function."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(20):
            compute(host, stream, 100)
        if waits:
            read_value(host, stream)
        with host.frame(function):
            host.work(dur)

    return looping(step)


def fires() -> TraceBuilder:
    """Each step makes pictures for 1 ms."""
    return converting(TO_PIL, 1000)


def fires_within_a_pipeline() -> TraceBuilder:
    """The picture library that the conversion calls is no preprocessing."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(20):
            compute(host, stream, 100)
        read_value(host, stream)
        with host.frame("diffusers/image_processor.py(738): postprocess"), host.frame("PIL/Image.py(3): fromarray"):
            host.work(1000)

    return looping(step)


def quiet() -> TraceBuilder:
    """Converting takes 10 us."""
    return converting(TO_PIL, 10)


def trap_beside_the_gpu() -> TraceBuilder:
    """Nothing waits for the kernels of 2 ms, so the host converts for 1 ms while they run."""
    return converting(TO_PIL, 1000, waits=False)


def trap_preprocessing() -> TraceBuilder:
    """Inputs are prepared, which another rule reports."""
    return converting("train.py(40): preprocess_images", 1000)


RULE = "postprocessing-in-step"


def test_at_most_the_idle_time_and_a_quarter_of_it_with_stacks() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((250_000, 1_000_000), rel=0.02)
    assert "image_processor.py: numpy_to_pil" in finding.summary.text
    assert findings(fires_within_a_pipeline(), RULE)


def test_this_time_is_no_gap_of_unknown_purpose() -> None:
    assert not findings(fires(), "host-python-gap")
    assert findings(converting("train.py(40): update_statistics", 1000), "host-python-gap")


@pytest.mark.parametrize(
    ("frame", "role"),
    [
        ("PIL/Image.py(3374): fromarray", None),
        ("PIL/Image.py(2500): save", "writing"),
        ("PIL/Image.py(2500): resize", "preprocessing"),
        (TO_PIL, "postprocessing"),
    ],
)
def test_making_a_picture_has_the_purpose_of_its_caller(frame: str, role: str | None) -> None:
    assert of_frame(frame) == role
