"""Which steps are modelled."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.simulation import model, window
from traceanalyzer.structure.context import Context

USUAL, LONG = 100, 400


def steps(lengths: list[int]) -> Context:
    """Steps of some lengths in us, each with a kernel of 30."""
    trace, at = TraceBuilder(), 0
    for number, length in enumerate(lengths):
        trace.step(number, at, length)
        trace.op("aten::mm", at + 5, 40)
        trace.launch_kernel("kernel", at + 18, 30, at=at + 10, call_dur=5)
        at += length
    return Context(read_built(trace))


def test_steps_that_are_unlike_the_others_cut_the_recording_into_parts() -> None:
    context = steps([USUAL, USUAL, LONG, USUAL, USUAL, USUAL])
    found = window.find_windows(context)
    assert [part.step_start_ns.tolist() for part in found] == [[0, 100_000], [600_000, 700_000, 800_000]]
    assert found[1].start_ns == 200_000  # the long step fills the queues of the part after it
    assert model.require(context).recorded_ns == 100_000


def test_of_many_parts_the_longest_are_modelled() -> None:
    context = steps([USUAL, LONG, *[USUAL, USUAL, LONG] * (window.MOST_PARTS + 1)])
    found = window.find_windows(context)
    assert [len(part) for part in found] == [2] * window.MOST_PARTS
    assert found[0].step_start_ns[0] == 500_000
