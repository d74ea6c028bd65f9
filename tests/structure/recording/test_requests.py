"""Pauses between requests of a service are no time of its steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import report
from tests.structure.recording.reading import recorded
from traceanalyzer.report.model import Report

AT_RANDOM = (31_000, 90_000, 44_000, 139_000, 60_000, 102_000, 38_000)
EVENLY = (60_000, 61_000, 59_000, 60_500, 60_000, 59_500, 61_000)


def serving(
    pauses: Sequence[int], *, between: str | None = None, trains: bool = False, mark: str | None = "handle_request"
) -> TraceBuilder:
    """Requests of 3 ms with ten kernels, and pauses of so many microseconds after each."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for pause in pauses:
        if mark is None:
            _request(host, stream)
        else:
            with host.annotation(mark):
                _request(host, stream)
        if between is not None:
            host.leaf(between, 300)
        if trains:
            host.leaf("Optimizer.step#SGD.step", 20)
        host.work(pause)
    return finish(trace, stream)


def _request(host: Host, stream: Stream) -> None:
    host.work(2000)
    for _ in range(10):
        with host.op("aten::conv2d"):
            host.launch(Work("ampere_sgemm_64x64_nn", 50), stream)
    host.wait(stream)


def test_a_step_of_a_service_is_a_request() -> None:
    found = recorded(serving(AT_RANDOM))
    assert (found.steps_from, len(found.steps)) == ("handle_request", 7)
    assert found.typical_step_ns == pytest.approx(2.5e6, rel=0.1)


@pytest.mark.parametrize(
    "trace",
    [serving(EVENLY), serving(AT_RANDOM[:4]), serving(AT_RANDOM, between="aten::add"), serving(AT_RANDOM, trains=True)],
    ids=["even", "few", "recorded", "training"],
)
def test_other_pauses_belong_to_the_program(trace: TraceBuilder) -> None:
    assert recorded(trace).steps_from != "handle_request"


def _promised(whole: Report) -> float:
    return max(finding.saving.wall_ns_per_step[1] for finding in whole.findings if finding.saving)


def test_waiting_for_requests_is_no_saving() -> None:
    whole = report(serving(AT_RANDOM))
    assert _promised(whole) < 2.6e6
    said = whole.headlines[0].qualifier
    assert said is not None
    assert said.id == "detail-between-requests"
