"""What is scanned is what msgspec would have decoded; everything that is not plain is left to msgspec."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.builders.situations import SITUATIONS
from tests.readers.kineto.many_windows import everything
from tests.readers.kineto.plain_events import (
    CHANGES,
    DAMAGE,
    FIELDS,
    ODD,
    TOLD,
    Pairs,
    change,
    contents,
    damage,
    events,
    joined,
    listed,
)
from tests.reading import read
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.kineto import scanning, windows
from traceanalyzer.readers.kineto.columns import MOST_RECORDED
from traceanalyzer.readers.kineto.events import ARGS_FIELDS, Event, EventDecoder
from traceanalyzer.readers.kineto.fields import Kind
from traceanalyzer.readers.kineto.parts import Part, part_from
from traceanalyzer.readers.kineto.scanning import ScanningDecoder


def document(found: list[tuple[Pairs, Pairs]]) -> bytes:
    return b'{"traceEvents": ' + listed(found) + b"}"


def both(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What is read with the scan, and without it."""
    for scan in (scanning.scan, None):
        with monkeypatch.context() as context:
            context.setattr(scanning, "scan", scan)
            try:
                yield everything(read(data))
            except UnusableInputError as error:
                yield {"error": str(error)}


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every scan whether it took the text for plain."""
    if scanning.scan is None:
        pytest.skip("only with the scan")
    found: list[bool] = []
    scan = scanning.scan

    def counted(*given: Any) -> Any:
        result = scan(*given)
        found.append(result[-1] < 0)
        return result

    monkeypatch.setattr(scanning, "scan", counted)
    monkeypatch.setattr(windows, "WINDOW", 8000)
    monkeypatch.setattr(scanning, "_AROUND", 500)
    return found


@pytest.fixture(autouse=True)
def way_of_reading() -> None:
    """These tests run both ways themselves."""
    if scanning.scan is None:
        pytest.skip("the scan was not compiled: python hatch_build.py, with a C compiler")


# The same trace


def test_plain_windows_of_all_categories_are_scanned(tries: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    data = document(events())
    scanned, decoded = both(data, monkeypatch)
    assert scanned == decoded
    assert {loss.id for loss in decoded["losses"]} <= {"read-unsupported", "read-merged-counted"}
    assert len(tries) > 10
    # the profiler's own spans are left to msgspec, and so is the first event of an unknown category; each is tried
    # among the others of its window and again with what follows it
    assert tries.count(False) <= 2 * (1 + TOLD.count("trace") * 3)


def test_counters_are_scanned(tries: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of samples, which have no category, do not go the slow way."""
    trace = TraceBuilder()
    trace.framed = False
    trace.op("aten::mm", 0, 10)
    for at in range(2000):
        trace.counter("SM Clock (MHz)", at, 1980 - at % 7, device=at % 2)
    scanned, decoded = both(trace.to_bytes(), monkeypatch)
    assert scanned == decoded
    assert tries
    assert all(tries)


@pytest.mark.usefixtures("tries")
@given(CHANGES)
def test_odd_values_are_read_the_same(changes: list[tuple[int, str, str, bool]]) -> None:
    found = events()
    change(found, changes)
    with pytest.MonkeyPatch.context() as monkeypatch:
        scanned, decoded = both(document(found), monkeypatch)
    assert scanned == decoded


@given(st.sampled_from(["ph", "name"]) | st.sampled_from(FIELDS), st.sampled_from(ODD), st.booleans())
def test_what_is_scanned_does_not_depend_on_what_msgspec_knows(key: str, value: str, again: bool) -> None:
    general: Any = msgspec.json.Decoder(list[Event])
    found = events()[: len(TOLD)]  # one of each category
    decoder = ScanningDecoder()
    decoder.decode(memoryview(listed(found)))
    decoder._failures_left = 1000
    for event, args in found:
        place = args if key in ARGS_FIELDS else event
        kept = [(name, old) for name, old in place if again or name != key]
        place[:] = [*kept, (key, value)]
        text = memoryview(listed([(event, args)]))
        borders = [0, len(text) - 1]
        scanned = decoder._scanned(text, borders)
        for other in (decoder._decoder, general):  # with a type for each category, and with one for all
            if isinstance(scanned, Part):
                assert repr(contents(scanned)) == repr(contents(part_from(other, text, borders)))


@pytest.mark.usefixtures("tries")
@given(DAMAGE)
def test_damage_is_read_the_same(changes: list[tuple[float, bytes]]) -> None:
    damaged = damage(document(events()), changes)
    with pytest.MonkeyPatch.context() as monkeypatch:
        scanned, decoded = both(damaged, monkeypatch)
    assert scanned == decoded


@pytest.mark.usefixtures("tries")
def test_situations_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for situation in SITUATIONS:
        scanned, decoded = both(situation.build().to_bytes(situation.layout)[:200_000], monkeypatch)
        assert scanned == decoded, situation.name


def test_the_corpus_reads_the_same(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted((corpus / "corpus").glob("*.json.gz"))
    assert files
    for file in files:
        scanned, decoded = both(gzip.decompress(file.read_bytes()), monkeypatch)
        assert scanned == decoded, file.name


def test_a_trace_does_not_depend_on_the_seed_of_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    text = memoryview(listed(events()[: len(TOLD) - TOLD.count("trace")]))
    parts = []
    for seed in (0, 1, 2**64 - 1):
        monkeypatch.setattr(scanning, "_SEED", seed)
        part, _ = ScanningDecoder()._scanned(text, [0, len(text) - 1])
        assert isinstance(part, Part)
        parts.append(repr(contents(part)))
    assert len(set(parts)) == 1


# What is left to msgspec


def test_only_what_stands_around_an_odd_event_is_left_to_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    decode = EventDecoder.decode

    def noted(decoder: EventDecoder, text: memoryview) -> list[Any]:
        events = decode(decoder, text)
        left.append(len(events))
        return events

    monkeypatch.setattr(EventDecoder, "decode", noted)
    monkeypatch.setattr(scanning, "_AROUND", 200)
    texts = [EVENT.replace('"n"', f'"{number % 7}"') % "" for number in range(300)]
    for odd in (0, 100, 101, 200, 299):
        texts[odd] = EVENT % ', "args": {"stream": "7"}'
    text = memoryview(f"[{', '.join(texts)}]".encode())
    part = ScanningDecoder().decode(text)
    assert isinstance(part, Part)
    assert left == [3, 2, 3, 1]  # with what follows within 200 bytes
    left.clear()
    dense = memoryview(f"[{', '.join([*texts[1:90], *texts[:1] * 90])}]".encode())
    assert isinstance(ScanningDecoder().decode(dense), Part)
    assert left == [2, 4, 8, 15, 29, 32], "twice as many bytes each time, as more of them follow"
    general: Any = msgspec.json.Decoder(list[Event])
    assert repr(contents(part)) == repr(contents(part_from(general, text, [0, len(text) - 1])))
    damaged = bytes(text).replace(b'"6"', b'"6', 1)
    with pytest.raises(msgspec.DecodeError):
        ScanningDecoder().decode(memoryview(damaged))


EVENT = '{"ph": "X", "cat": "kernel", "name": "n", "pid": 0, "tid": 7, "ts": 5.125, "dur": 3%s}'


def first_scan(event: str) -> bool:
    """Whether a list with one event is scanned."""
    decoder = ScanningDecoder()
    text = memoryview(f"[{event}]".encode("utf-8", "surrogatepass"))
    part, stop = decoder._scanned(text, [0, len(text) - 1])
    return part is not None and stop is None


@pytest.mark.parametrize(
    ("rest", "is_plain"),
    [
        (', "args": {"stream": 7, "grid": [1, 2, 3], "est. achieved occupancy %": 12.5, "cbid": "x\\n"}', True),
        (', "args": {"stream": "7"}', False),
        (', "args": {"stream": null, "bytes": null, "blocks per SM": null}', True),
        (', "args": {"grid": null}', True),
        (', "args": {"bytes": 1.0}', False),
        (', "args": {"bytes": 9223372036854775807}', False),
        (', "args": {"stream": 7, "stream": 7}', False),
        (', "args": {}, "args": {}', False),
        (', "args": []', False),
        (', "args": {"grid": ["\\u0041"]}', False),
        (', "\\u0061rgs": {}', False),
        (', "other": "\\u0041"', False),
        (', "other": "' + "ü€😀" + '"', True),
        (', "other": 01', False),
        (', "other": NaN', False),
        (', "other": 1e99', True),
        (', "other": 1e100', False),
        (', "other": ' + "9" * 40, True),
        (', "other": ' + "9" * 41, False),
        (', "args": {"blocks per SM": -0}', False),
        (', "other": ' + "[" * 40 + "]" * 40, False),
        (', "dur": 4', False),
        (",", False),
    ],
)
def test_what_is_plain(rest: str, is_plain: bool) -> None:
    assert first_scan(EVENT % rest) is is_plain


@pytest.mark.parametrize(
    ("old", "new", "is_plain"),
    [
        ('"n"', '"a \\"b\\" \\u00fc"', True),
        ('"n"', "7", False),
        ('"X"', '"B"', False),
        ("5.125", "1712195499136763.33", True),
        ("5.125", "5.1250", False),
        ("5.125", "-5", False),
        ("5.125", '"5"', False),
        ('"ts": 5.125, ', "", False),
        ('"dur": 3', '"dur": 3.0625', True),
        ('"dur": 3', '"dur": -3', False),
        ('"dur": 3', '"dur": -0', False),
        ('"dur": 3', '"dur": 1e16', False),
        ('"dur": 3', '"dur": null', False),
        ('"pid": 0', '"pid": [0]', False),
        ('"pid": 0', '"id": [0], "pid": 0', True),  # the id of a kernel is not read
        ('"kernel"', '"Kernel"', False),
        ('"cat": "kernel", ', "", False),
        ("3}", '3, "args": {"External id": 1, "external id": 1}}', False),
        ("3}", '3, "args": {"external id": 1}}', True),
    ],
)
def test_values_of_plain_events(old: str, new: str, is_plain: bool) -> None:
    assert first_scan((EVENT % "").replace(old, new)) is is_plain


OTHERS = {
    "flow": '{"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": 1}',
    "arrow": '{"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": 1}',
}


@pytest.mark.parametrize("event", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize(("key", "value"), [("ph", "5"), ("name", "null")])
def test_phase_and_name_are_strings_in_every_plain_event(event: str, key: str, value: str) -> None:
    odd = joined([(name, value if name == key else json.dumps(old)) for name, old in json.loads(event).items()])
    assert first_scan(event)
    assert not first_scan(odd)


MARK = '{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 5}'


@pytest.mark.parametrize(
    ("old", "new", "is_plain"),
    [
        ("", "", True),
        ('"i"', '"X"', False),
        ('"i"', '"i", "ph": "i"', False),
        ("Record Window End", "[memory]", False),  # a writer's record of memory, of which more is read
        ("Record", "\\u005b", False),
        ('"name"', '"name": "[memory]", "name"', False),
    ],
)
def test_marks_of_the_recording_are_only_counted(old: str, new: str, is_plain: bool) -> None:
    assert first_scan(MARK.replace(old, new)) is is_plain


SPAN = '{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "", "ts": 5, "dur": 3}'


@pytest.mark.parametrize(
    ("old", "new", "count", "is_known"),
    [
        ("5", "5", MOST_RECORDED + 1, True),
        ("5", "5", MOST_RECORDED, False),
        ("5", '"?"', 100, False),
        ("PyTorch", "My", 100, False),
    ],
)
def test_spans_are_scanned_once_there_are_too_many(old: str, new: str, count: int, is_known: bool) -> None:
    """Until then each tells where the events of another profiler begin."""
    decoder = ScanningDecoder()
    decoder.decode(memoryview(f"[{','.join([SPAN.replace(old, new)] * count)}]".encode()))
    part, stop = decoder._scanned(memoryview(f"[{SPAN}]".encode()), [0, len(SPAN) + 1])
    assert (part is not None and stop is None) is is_known


def test_rare_categories_are_not_looked_for() -> None:
    decoder = ScanningDecoder()
    text = ",".join(EVENT.replace('"kernel"', f'"kernel {number}"') % "" for number in range(1000))
    decoder.decode(memoryview(f"[{text}]".encode()))
    assert len(decoder._numbers) == scanning._MOST


@pytest.mark.parametrize(
    "damage", [b'\xff"', b'\xc0\x80"', b'\xed\xa0\x80"', b'\xf4\x90\x80\x80"', b'\xe2\x82"', b'\x1f"']
)
def test_strings_that_are_no_text_are_not_plain(damage: bytes) -> None:
    decoder = ScanningDecoder()
    text = b"[" + (EVENT % ', "other": "%s').encode().replace(b"%s", damage) + b"]"
    assert not isinstance(decoder._scanned(memoryview(text), [0, len(text) - 1]), Part)


def test_durations_are_rounded_half_to_even() -> None:
    decoder = ScanningDecoder()
    texts = ["0.0005", "0.0015", "0.0025", "0.0035", "0.0045", "1000000000000.0005", "0.30000000000000004", "1e3"]
    text = "[" + ",".join(EVENT.replace('"dur": 3', f'"dur": {text}') % "" for text in texts) + "]"
    part, _ = decoder._scanned(memoryview(text.encode()), [0, len(text) - 1])
    assert isinstance(part, Part)
    assert part.tables["device"]["dur_ns"].tolist() == [round(float(text) * 1000) for text in texts]


def test_the_scan_is_given_up_where_it_does_not_help() -> None:
    decoder = ScanningDecoder()
    plain, odd = (memoryview(f"[{EVENT % rest}]".encode()) for rest in ("", ', "args": {"stream": "7"}'))
    for _ in range(scanning._MOST_FAILURES):
        assert decoder._scanned(odd, [0, len(odd) - 1])[1] == 1
        decoder.decode(odd)
    assert isinstance(decoder.decode(plain), list)


ODD = ', "args": {"stream": "7"}'


@pytest.mark.parametrize("rest", [ODD, ', "dur": 4', "} {", ', "cat": "unheard"'])
@pytest.mark.parametrize("events", [0, 1, 3])
def test_what_comes_before_an_event_that_is_not_plain_is_read_once(events: int, rest: str) -> None:
    """Nothing of that event stays: neither its row nor the texts that it alone has."""
    event = '{"ph": "X", "cat": "kernel", "name": "k%d", "pid": 0, "ts": %d, "dur": 1}'
    before = ", ".join(event % (number, number) for number in range(events))
    text = memoryview(f"[{before}{', ' if events else ''}{EVENT % rest}, {EVENT % ''}]".encode())
    cut = memoryview(f"[{before}]".encode())
    given = ((b'"kernel"', 2),), scanning._COLUMNS, scanning._BEGINS_EMPTY, 0
    *found, stop = scanning.scan(text, [0, len(text) - 1], *given)
    assert (*found, -1) == scanning.scan(cut, [0, len(cut) - 1], *given)
    assert stop == bytes(text).index(b'{"ph": "X", "cat": "kernel", "name": "n"')


def test_what_msgspec_refuses_counts_against_the_scan() -> None:
    decoder = ScanningDecoder()
    damaged = memoryview(f"[{EVENT % ''}, {{]".encode())
    for _ in range(scanning._MOST_FAILURES):
        with pytest.raises(msgspec.DecodeError):
            decoder.decode(damaged)
    assert decoder._failures_left == 0


def test_kinds_of_columns_are_those_of_the_scan() -> None:
    from traceanalyzer.readers.kineto import _scan  # noqa: PLC0415 - not compiled everywhere

    assert tuple(Kind.__members__) == _scan.KINDS


@pytest.mark.parametrize("borders", [[0, 10_000], [5, 3], [-5, 3], [2**63 - 1, 3], [0], []])
def test_borders_outside_of_the_text_are_refused_or_enclose_nothing(borders: list[int]) -> None:
    text = memoryview(f"[{EVENT % ''}]".encode())
    found = scanning.scan(text, borders, ((b'"kernel"', 2),), scanning._COLUMNS, scanning._BEGINS_EMPTY, 0)
    assert found[0] == 0


def test_no_file_can_be_made_whose_texts_meet_in_every_process() -> None:
    code = "from traceanalyzer.readers.kineto import scanning; print(scanning._SEED)"
    seeds = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(seeds) == 2
