"""A change never removes first use: what a call loads would be loaded by the next one. Times in microseconds."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import looping
from tests.simulation.replaying import model_of
from traceanalyzer.report.message import Message
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, StepChange
from traceanalyzer.rules.engine.claim_edits import Resolver
from traceanalyzer.simulation.edits import HostEdit
from traceanalyzer.structure.events import ITS_OWN, EventSet

BASIS = Message("basis", {}, "because")
TURN, OPERATOR = EventSet.kernel("turn"), EventSet.operator("aten::turn")


def program(first: int) -> TraceBuilder:
    """A step of twenty operators of 8 us each that launch a kernel; the first launch takes so long instead of 5 us."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for layer in range(20):
            with host.op("aten::turn"):
                host.launch(Work("turn", 10), stream, call_dur=5 if layer else first)
        host.wait(stream)

    return looping(step, steps=1)


def shortened_ns(first: int, change: StepChange) -> float:
    """Host time that the edits of a change remove."""
    edits = Resolver(model_of(program(first))).edits(change, max(change.direct), {})
    host = [edit for edit in edits if isinstance(edit, HostEdit)]
    return sum(float((edit.end_ns - edit.start_ns).sum()) * (1 - edit.factor) for edit in host)


@pytest.mark.parametrize("first", [5, 5000])
def test_launches_that_go_with_work_of_the_device_keep_what_they_load(first: int) -> None:
    change = DeviceWork((200_000, 200_000), BASIS, claims={TURN: 200_000}, host=ITS_OWN)
    calls = 20 if first == 5 else 19
    assert shortened_ns(first, change) == calls * 5000


def test_operators_keep_what_they_load() -> None:
    # Of the first operator 3 us around its call remain to be removed.
    change = HostTime((5_155_000, 5_155_000), BASIS, claims={OPERATOR: 5_155_000})
    assert shortened_ns(5000, change) == pytest.approx(20 * 8000 - 5000, abs=2)


def test_so_does_the_rest_of_a_smaller_change() -> None:
    # Half of the operators' time is mostly loading.
    change = HostTime((5_077_500, 5_077_500), BASIS, claims={OPERATOR: 5_077_500})
    assert shortened_ns(5000, change) == pytest.approx(77_500, abs=2)
