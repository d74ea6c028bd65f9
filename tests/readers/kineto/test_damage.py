"""Cut and overwritten files: nothing but the damaged events is lost, and nothing ever crashes."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from functools import cache

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.builders import LAYOUTS
from tests.builders.damage import clean
from tests.builders.situations import forked_processes, old_categories, streams_shared_by_devices
from tests.reading import read, rows_in_file_time
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers.kineto import recovery
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.model import Trace

Rows = Counter[str]
DECODER = recovery._DECODER


def texts() -> dict[str, bytes]:
    """Small traces of several writers, all in ASCII so that characters are bytes."""
    files = {f"clean-{layout}": clean(12).to_bytes(LAYOUTS[layout]) for layout in ("classic", "current", "minified")}
    files["pretty"] = streams_shared_by_devices().to_bytes(LAYOUTS["pretty"])
    files["array"] = forked_processes().to_bytes(LAYOUTS["bare_array"])
    files["2021"] = old_categories().to_bytes(LAYOUTS["era_2021"])
    return {name: data for name, data in files.items() if data.isascii()}


TEXTS = texts()
names = st.sampled_from(sorted(TEXTS))


@cache
def spans(name: str) -> list[tuple[int, int]]:
    """Where each event of a text begins and ends."""
    text = TEXTS[name].decode()
    at = text.index("[", max(text.find('"traceEvents"'), 0)) + 1
    found = []
    while True:
        while text[at] in " \n,":
            at += 1
        if text[at] == "]":
            return found
        _, end = json.JSONDecoder().raw_decode(text, at)
        found.append((at, end))
        at = end


def trace_of(data: bytes) -> Trace | None:
    """The trace; None where the file is unusable. Any other error fails the test."""
    try:
        return read(data)
    except UnusableInputError:
        return None


def rows_of(data: bytes) -> Rows | None:
    trace = trace_of(data)
    return None if trace is None else rows_in_file_time(trace)


@cache
def rows_of_first(name: str, count: int) -> Rows | None:
    """The rows of a sound file with the first events only."""
    data = TEXTS[name]
    if count == 0:
        return None
    closing = b"]" if data.lstrip().startswith(b"[") else b"]}"
    return rows_of(data[: spans(name)[count - 1][1]] + closing)


def whole_events(name: str, size: int) -> int:
    return sum(end <= size for _, end in spans(name))


@given(names, st.floats(0, 1))
def test_a_cut_file_is_read_up_to_the_cut(name: str, share: float) -> None:
    size = int(share * len(TEXTS[name]))
    count = whole_events(name, size)
    assert rows_of(TEXTS[name][:size]) in (rows_of_first(name, count), rows_of_first(name, max(count - 1, 0)))


@given(names, st.floats(0, 1))
def test_a_cut_file_says_so(name: str, share: float) -> None:
    end_of_list = spans(name)[-1][1]
    first = next(end for count, (_, end) in enumerate(spans(name), 1) if rows_of_first(name, count) is not None)
    size = first + int(share * (end_of_list - first))
    losses = {loss.id: loss for loss in read(TEXTS[name][:size]).losses}
    begun = next((start for start, end in spans(name) if start < size < end), size)
    assert losses["read-truncated"].count == 1
    assert losses["read-truncated"].params["bytes"] == len(TEXTS[name][begun:size].strip(b" \n,"))


@given(names, st.floats(0, 1), st.sampled_from([1, 6, 9]))
def test_a_cut_gzip_file_is_read_as_far_as_it_inflates(name: str, share: float, level: int) -> None:
    packed = gzip.compress(TEXTS[name], level, mtime=0)
    packed = packed[: int(share * len(packed))]
    inflated = Source(io.BytesIO(packed), name, None, lambda _: None).read(len(TEXTS[name])) or b""
    count = whole_events(name, len(inflated))
    assert rows_of(packed) in (rows_of_first(name, count), rows_of_first(name, max(count - 1, 0)))


bytes_anywhere = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=20)


@given(names, bytes_anywhere)
def test_overwritten_bytes_never_crash(name: str, changes: list[tuple[float, int]]) -> None:
    data = bytearray(TEXTS[name])
    for share, byte in changes:
        data[int(share * len(data))] = byte
    trace = trace_of(bytes(data))
    assume(trace is not None)
    summary = analyze(trace).trace
    assert summary is not None
    assert summary.events == rows_in_file_time(trace).total()


@given(names, bytes_anywhere)
def test_overwritten_bytes_of_a_gzip_file_never_crash(name: str, changes: list[tuple[float, int]]) -> None:
    data = bytearray(gzip.compress(TEXTS[name], 6, mtime=0))
    for share, byte in changes:
        data[2 + int(share * (len(data) - 2))] = byte
    found = rows_of(bytes(data))
    assert found is None or found.total() > 0


@given(names, st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True), st.integers(0, 255))
def test_damage_within_one_event_costs_at_most_two(name: str, which: float, where: float, byte: int) -> None:
    """One byte between the braces of an event: it may be lost or changed, and its neighbour with it."""
    start, end = spans(name)[int(which * len(spans(name)))]
    data = bytearray(TEXTS[name])
    data[start + 1 + int(where * (end - start - 2))] = byte
    whole, found = rows_of_first(name, len(spans(name))), rows_of(bytes(data))
    assert whole is not None
    assert found is not None
    assert (whole - found).total() <= 2
    assert (found - whole).total() <= 2


@given(names, st.floats(0, 1, exclude_max=True))
def test_a_missing_border_costs_the_two_events_beside_it(name: str, which: float) -> None:
    left = int(which * (len(spans(name)) - 1))
    data = TEXTS[name][: spans(name)[left][1] - 1] + TEXTS[name][spans(name)[left + 1][0] :]
    whole, found = rows_of_first(name, len(spans(name))), rows_of(data)
    assert whole is not None
    assert found is not None
    assert (whole - found).total() <= 2
    assert not found - whole


class _Counting:
    """A decoder that knows how many characters it was given."""

    def __init__(self) -> None:
        self.given = 0

    def raw_decode(self, text: str, at: int = 0) -> tuple[object, int]:
        self.given += len(text)
        return DECODER.raw_decode(text, at)


@pytest.mark.parametrize("broken", [b'"dur": ,', b'"dur": [1, ', b'"dur": "8, ', b'"dur": tru,'])
def test_many_broken_events_take_no_longer_each_than_few(broken: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    event = b'{"ph": "X", "cat": "cpu_op", "name": "aten::relu", "ts": 1, ' + broken + b' "pid": 1, "tid": 2}'
    data = b",\n".join([event] * 2000) + b"]"
    counting = _Counting()
    monkeypatch.setattr(recovery, "_DECODER", counting)
    found = recovery.recover(data, final=True)
    assert len(found.events) + found.losses["read-lost-event"] == 2000
    assert counting.given < 5 * 2000 * recovery._PIECE  # some pieces for an event, not all of the text
