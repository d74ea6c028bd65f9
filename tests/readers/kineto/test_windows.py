"""The text is decoded window by window; where one ends makes no difference."""

from __future__ import annotations

import pytest

from tests.builders import LAYOUTS, TraceBuilder
from tests.builders.situations import SITUATIONS
from tests.readers.kineto.many_windows import everything
from tests.reading import content, read, read_built
from traceanalyzer.readers.kineto import windows


@pytest.mark.parametrize("size", [512, 1000, 3001])
def test_small_windows_give_the_same_trace(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for situation in SITUATIONS:
        data = situation.build().to_bytes(situation.layout)
        if len(data) > 100_000:
            continue
        usual = read(data)
        with monkeypatch.context() as patch:
            patch.setattr(windows, "WINDOW", size)
            small = read(data)
        assert everything(small) == everything(usual), situation.name


def nested(count: int) -> TraceBuilder:
    """Events whose args contain text that looks like borders between events."""
    trace = TraceBuilder()
    calls = [{"name": "inner", "ts": 1}, {"name": "inner", "ts": 2}, {"ph": "X", "cat": "cpu_op", "name": "no"}]
    for number in range(count):
        args = {"calls": calls, "text": 'a}, {"name": "b"', "occupancy": {"limitingFactors": "WARPS"}}
        trace.op("aten::mm", 10 * number, 5, args=args, shapes=[[number, 2]])
    return trace


@pytest.mark.parametrize("layout", ["classic", "minified", "pretty"])
def test_nested_objects_are_no_events(layout: str) -> None:
    found = read_built(nested(20), LAYOUTS[layout])
    assert found.losses == ()
    assert [found.names[n] for n in found.host.name] == ["aten::mm"] * 20


@pytest.mark.parametrize("layout", ["classic", "minified", "pretty"])
def test_windows_that_end_in_nested_objects(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = nested(20).to_bytes(LAYOUTS[layout])
    usual = read(data)
    for size in (400, 512, 601, 777, 1024):
        monkeypatch.setattr(windows, "WINDOW", size)
        small = read(data)
        assert (content(small), small.losses) == (content(usual), ()), size
