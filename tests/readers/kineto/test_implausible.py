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
