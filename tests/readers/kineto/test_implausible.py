"""More devices and streams than there are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.readers.kineto import implausible, reader
from traceanalyzer.trace.model import Loss, Trace


def losses(trace: Trace) -> dict[str, int]:
    return {loss.id: loss.count for loss in trace.losses}


def test_devices_with_most_events_keep_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implausible, "DEVICES", 2)
    trace = TraceBuilder()
    for start, device in enumerate((0, 3, 3, 5, 5, 5, 6)):
        trace.kernel("k", 10 * start, 5, device=device)
    read = read_built(trace)
    assert read.device.device.tolist() == [-1, 3, 3, 5, 5, 5, -1]
    assert losses(read) == {"read-many-devices": 2}


def test_of_streams_with_equally_many_events_the_lower_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implausible, "STREAMS", 3)
    trace = TraceBuilder()
    places = [(0, 7), (1, 7), (0, 20), (1, 20)]
    for start, (device, stream) in enumerate(places):
        trace.kernel("k", 10 * start, 5, device=device, stream=stream)
    read = read_built(trace)
    assert read.device.stream.tolist() == [7, 7, 20, -1]
    assert read.device.device.tolist() == [0, 1, 0, 1]
    assert losses(read) == {"read-many-streams": 1}


def test_what_a_machine_has_is_left_as_it_is() -> None:
    trace = TraceBuilder()
    for number in range(200):
        trace.kernel("k", 10 * number, 5, device=number % 8, stream=number)
    read = read_built(trace)
    assert losses(read) == {}
    assert Counter(read.device.stream.tolist()) == Counter(range(200))
    assert np.unique(read.device.device).tolist() == [*range(8)]


def test_of_many_unknown_categories_those_with_most_events_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CATEGORIES_NAMED", 2)
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5)
    for start, category in enumerate(("rare", "often", "often", "b", "c", "often", "b", "d")):
        trace.add(category, "x", (10 * start, 1), trace.thread(None), {})
    found = list(read_built(trace).losses)
    assert found == [
        Loss("read-many-categories", 3, {"categories": 3, "kept": 2}),
        Loss("read-unsupported", 2, {"category": "b"}),
        Loss("read-unsupported", 3, {"category": "often"}),
    ]


def calls(*ends: tuple[int, int, int | None]) -> tuple[list[int], list[int]]:
    """Calls of Python, each with its start and its end in microseconds, and the number of its caller."""
    trace = TraceBuilder()
    for ident, (start, end, caller) in enumerate(ends):
        trace.python_function(f"f.py({ident}): f", start, end - start, python_id=ident + 1, parent=caller)
    found = read_built(trace)
    lost = [loss.count for loss in found.losses if loss.id == "read-no-return"]
    order = np.argsort(found.frames.python_id)
    return (((found.frames.end_ns - found.frames.start_ns.min())[order] // 1000).tolist(), lost)


def test_calls_without_a_return_end_with_their_caller() -> None:
    """Until torch 2.13, they end where the recording does; what they called ended before."""
    assert calls((0, 1000, None), (10, 100, 1), (20, 1000, 2), (30, 1000, 3), (200, 300, 1)) == (
        [1000, 100, 100, 100, 300],
        [2],
    )


def test_calls_without_a_return_end_where_their_caller_calls_another() -> None:
    assert calls((0, 1000, None), (10, 100, 1), (20, 1000, 2), (60, 70, 2)) == ([1000, 100, 60, 70], [1])


def test_calls_that_seem_longer_than_their_caller_by_rounding_stay() -> None:
    assert calls((0, 1000, None), (10, 100, 1), (20, 102, 2), (500, 1000, 9)) == ([1000, 100, 102, 1000], [])


def test_calls_within_another_that_did_return_stay() -> None:
    """Kineto names the wrong caller of some calls that run within another call of that caller."""
    assert calls((0, 1000, None), (10, 100, 1), (50, 60, 1)) == ([1000, 100, 60], [])
