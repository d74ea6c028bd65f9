"""A pass in which first calls take far longer than later ones is cold, and the headline says so."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.judging import said


def _layers(first: int, *, calls: int = 10, other: int = 0) -> TraceBuilder:
    """One pass of layers of 4 ms with equal inputs, the first of which takes so many ms."""
    trace, at = TraceBuilder(devices=(), options=("record_shapes",)), 0
    for number in range(calls):
        time = 1000 * (first if not number else 4)
        width = other if other and not number else 512
        trace.op("aten::addmm", at, time, shapes=[[512], [64, width], [width, 512]])
        at += time
    return trace


def _unlike(first: int, normalizes: int, *, marked: bool = False) -> TraceBuilder:
    """One pass of unlike layers of 100 ms, whose first calls of two operators take so many microseconds."""
    trace, at = TraceBuilder(devices=(), options=("record_shapes",)), 0
    for number in range(10):
        trace.op("aten::conv2d", at, 100_000, shapes=[[1, 2 << number, 64, 64], [4 << number, 2 << number, 3, 3]])
        trace.op("aten::add_", at + 100_000, 30 if number else first, shapes=[[], []])
        at += 100_000 + (30 if number else first)
        trace.op("aten::batch_norm", at, 900 if number else normalizes, shapes=[[1, 16, 64, 64], [16]])
        at += 900 if number else normalizes
    if marked:
        trace.step(3, 0, at)
    return trace


def test_first_calls_show_a_cold_pass_of_unlike_layers() -> None:
    """Of 1,060 ms, 18 ms add to a counter and 38 ms normalize: hardly what to save, but no warm pass has that."""
    told = said(_unlike(18_000, 38_000))
    assert told.count("This is one cold pass: record a warm one.") == 1
    assert "First calls of operators take 55 ms longer than later ones with equal shapes." in told
    assert "cold pass" in said(_unlike(60_000, 900))
    assert "cold pass" not in said(_unlike(30, 60_000)), "another program may have stopped one call"
    assert "cold pass" not in said(_unlike(18_000, 20_000)), "too little to say"
    assert "cold pass" not in said(_unlike(18_000, 38_000, marked=True)), "a schedule has warmed up"


def test_a_pass_whose_first_layer_takes_far_longer_is_cold() -> None:
    """The first of ten equal layers takes 50 of 86 ms: 46 ms more than the others."""
    told = said(_layers(50))
    assert told.count("This is one cold pass: record a warm one.") == 1
    assert "First calls of operators take 46 ms longer than later ones with equal shapes." in told
    assert "cold pass" not in said(_layers(19))
    assert "cold pass" not in said(_layers(50, other=8192))
    assert "cold pass" not in said(_layers(50, calls=2))
