"""Tests of the rule `operators-on-cpu`: numbers worked out by hand, and edges of thresholds.

The programs: steps that sort or draw on the CPU, then compute on the GPU.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import Body, compute, looping, read_value
from tests.rules.judging import findings, report, skipped

RULE = "operators-on-cpu"


def sorting(dur: int = 2000, *, name: str = "aten::sort", busy: int = 1000) -> Body:
    """An operator on the CPU for some microseconds, then a kernel whose result is read."""

    def step(host: Host, stream: Stream, _: int) -> None:
        with host.op(name):
            host.leaf("aten::copy_", dur)
        compute(host, stream, busy)
        read_value(host, stream)

    return step


def fires() -> TraceBuilder:
    """Each step sorts for 2 ms while the GPU has nothing to do; then the GPU works for 1 ms."""
    return looping(sorting(), steps=10)


def quiet() -> TraceBuilder:
    """The sort takes 0.02 ms."""
    return looping(sorting(20), steps=10)


def trap_the_gpu_works_meanwhile() -> TraceBuilder:
    """The GPU has been given enough to do before the sort."""

    def step(host: Host, stream: Stream, _: int) -> None:
        compute(host, stream, 5000)
        host.leaf("aten::sort", 2000)
        read_value(host, stream)

    return looping(step, steps=10)


def trap_an_operator_that_waits() -> TraceBuilder:
    """The operator takes 2 ms, because it waits for the GPU."""

    def step(host: Host, stream: Stream, _: int) -> None:
        with host.op("aten::nonzero"):
            compute(host, stream, 2000)
            host.wait(stream)
        compute(host, stream, 1000)
        host.wait(stream)

    return looping(step, steps=10)


def trap_a_view_that_stands_still() -> TraceBuilder:
    """What only changes the view of a tensor has nothing to compute: its thread lost its core."""

    def step(host: Host, stream: Stream, _: int) -> None:
        host.leaf("aten::expand", 2000)
        compute(host, stream, 1000)
        read_value(host, stream)

    return looping(step, steps=10)


def trap_only_in_the_first_step() -> TraceBuilder:
    """The first step prepares something for all."""

    def step(host: Host, stream: Stream, number: int) -> None:
        sorting(2000 if number == 0 else 20)(host, stream, number)

    return looping(step, steps=10)


def trap_a_range_of_the_program() -> TraceBuilder:
    """A range that a library marks as an operator holds Python code, which is no operator's."""

    def step(host: Host, stream: Stream, _: int) -> None:
        host.leaf("Trainer.prepare", 2000)
        compute(host, stream, 1000)
        read_value(host, stream)

    return looping(step, steps=10)


def test_figures_and_saving() -> None:
    (finding,) = findings(fires(), RULE)
    params = finding.summary.params
    assert params["operator"] == "aten::sort"
    assert params["time"] == pytest.approx(2_000_000, rel=0.01)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1_000_000, 2_000_000), rel=0.01)
    assert finding.saving.wall_ns_per_step == pytest.approx((1_000_000, 2_000_000), rel=0.05)
    assert finding.severity == "critical"
    assert finding.evidence[0].where[0].name == "aten::sort"


def test_nothing_else_is_said_of_that_time() -> None:
    rules = {finding.rule for finding in report(fires()).findings}
    assert not rules & {"gpu-underutilized", "host-python-gap", "launch-bound-small-kernels"}


def test_random_numbers_are_drawn_on_the_gpu() -> None:
    (finding,) = findings(looping(sorting(name="aten::normal_"), steps=10), RULE)
    assert "Draw random numbers on the GPU" in finding.advice.text
    assert finding.code is None


@pytest.mark.parametrize(
    ("operator", "begins"),
    [("aten::sort", "order = scores.sort()"), ("aten::argmax", "found = scores.argmax(dim=1)"), ("aten::lu", None)],
)
def test_the_code_is_about_the_operator(operator: str, begins: str | None) -> None:
    (finding,) = findings(looping(sorting(name=operator), steps=10), RULE)
    assert (finding.code and finding.code.split("  #")[0]) == begins


def test_the_headline_names_the_operator() -> None:
    message = report(fires()).headlines[0].message
    assert message.text == (
        "Limited by the CPU in `aten::sort`: operators compute on it, so the GPU idles 2.0 of the 3.0 ms."
    )


def test_without_long_operators_it_cannot_judge() -> None:
    assert "no operator computes on the CPU" in (skipped(quiet(), RULE) or "")
