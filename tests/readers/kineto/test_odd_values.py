"""An unexpected value at any place costs at most its own event."""

from __future__ import annotations

import pytest

from tests.builders import LAYOUTS, Raw, TraceBuilder
from tests.builders.damage import clean, edit, text
from tests.reading import content, losses, read, read_built, rows_in_file_time
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers.kineto.events import ARGS_FIELDS, EVENT_FIELDS

OPERATOR, LAUNCH, KERNEL, MEMORY = 1, 2, 3, 4
VALUES = {
    "null": "null",
    "true": "true",
    "list": "[1, 2]",
    "object": '{"a": [1, {"b": 2}]}',
    "text": '"some text"',
    "empty text": '""',
    "number in text": '" 12 "',
    "comma in text": '"1,234.5"',
    "fraction": "1.5",
    "minus": "-7",
    "least 64 bits": "-9223372036854775808",
    "beyond 64 bits": "18446744073709551616",
    "beyond floats": "1e999999",
    "tiny": "1e-999999",
    "400 digits": "9" * 400,
    "5000 digits": "9" * 5000,
    "NaN": "NaN",
    "infinity": "-Infinity",
    "N/A": "N/A",
    "lone surrogate": r'"\ud800"',
    "surrogate in a list": r'["\udc80", 1]',
    "pair of surrogates": r'"\ud83d\ude00"',
    "deep": "[" * 200 + "]" * 200,
}
FIELDS = sorted({*EVENT_FIELDS, *ARGS_FIELDS, "unheard of"} - {"args"})


def spoiled(field: str, value: str) -> TraceBuilder:
    """The clean trace with a value in one field of an event of each kind."""
    trace = clean(9)
    for target in (OPERATOR, LAUNCH, KERNEL, MEMORY):
        event = trace.events[target]
        place = event if field in EVENT_FIELDS else event["args"]
        assert isinstance(place, dict)
        place[field] = Raw(value)
    return trace


SOUND = rows_in_file_time(read_built(clean(9)))
UNTOUCHED = SOUND - rows_in_file_time(read_built(clean(5)))


@pytest.mark.parametrize("field", FIELDS)
def test_odd_values_cost_their_own_event_only(field: str) -> None:
    for value in VALUES.values():
        found = read_built(spoiled(field, value))
        kept = rows_in_file_time(found)
        assert not UNTOUCHED - kept, value
        assert (SOUND - kept).total() <= 4, value


@pytest.mark.parametrize("field", FIELDS)
def test_traces_with_odd_values_can_be_analyzed(field: str) -> None:
    for value in ("[1, 2]", "-9223372036854775808", "18446744073709551616", "-7", '"some text"'):
        assert analyze(read_built(spoiled(field, value))).trace is not None


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("key", ["deviceProperties", "distributedInfo", "baseTimeNanoseconds", "record_shapes", "any"])
def test_odd_metadata_costs_no_event(key: str, value: str) -> None:
    trace = clean()
    trace.metadata = {key: Raw(value)}
    assert content(read_built(trace)) == content(read_built(clean()))


def test_what_matters_of_damaged_metadata_is_kept() -> None:
    found = read(edit('"record_shapes": 1', '"INFO": ["profiler = "Nccl" on"],\n  "record_shapes": 1'))
    assert losses(found) == {"read-damaged-metadata": 1}
    assert found.info.base_ns == 1_700_000_000_000_000_000
    assert found.info.options.record_shapes
    assert found.info.options.profile_memory


@pytest.mark.parametrize("layout", ["classic", "minified"])
@pytest.mark.parametrize("place", [b"ProfilerStep", b"aten::mm", b"ampere", b"aten::relu", b"NVIDIA", b"cpu_op"])
def test_bytes_that_are_no_utf8(layout: str, place: bytes) -> None:
    """In the first event, in the last one, in the header."""
    data = text(9, layout).replace(place, b"\xff\xfe" + place, 1)
    whole, found = read(text(9, layout)), read(data)
    kept = rows_in_file_time(found)
    assert (rows_in_file_time(whole) - kept).total() <= 1
    if place == b"cpu_op":
        assert losses(found) == {"read-repaired-event": 1, "read-unsupported": 1}
    else:
        assert kept.total() == len(whole.events) + 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"Ev Idx": 4\n', '"Ev Idx": 4,\n'),
        ('"blocks per SM": 0.500000, ', '"blocks per SM": nan, "more": inf, "and": -Infinity, '),
        ('"name": "aten::relu"', r'"name": "C:\users\new \u12 \x"'),
        ('"name": "aten::relu"', '"name": "lambda ("a", "b")"'),
        ('"name": "aten::relu"', '"name": "ends with a quote""'),
    ],
    ids=["comma in args", "bare words", "backslashes", "quotes", "quote at the end"],
)
def test_what_writers_are_known_to_do_is_repaired(old: str, new: str) -> None:
    found = read(edit(old, new))
    assert len(found.events) + len(found.memory) == 6
    assert losses(found).keys() <= {"read-repaired-event"}


def test_names_keep_what_can_be_read() -> None:
    found = read(edit("aten::mm", b"caf\xe9::op"))
    assert "caf\N{REPLACEMENT CHARACTER}::op" in list(found.names)
    assert losses(found) == {"read-repaired-event": 1}


def test_names_of_all_scripts() -> None:
    names = ["шаг обучения", "训练步骤", "étape\t1", 'a "quoted" \\ name', "\N{GRINNING FACE}", "{},[]"]
    trace = clean()
    for number, name in enumerate(names):
        trace.op(name, 200 + number, 1)
    for layout in LAYOUTS.values():
        assert set(names) <= set(read_built(trace, layout).names)


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1e300", '"1e3"', "[1]", "true"])
def test_numbers_of_the_header_that_no_program_writes_are_unknown(number: str) -> None:
    trace = clean()
    info = {key: Raw(number) for key in ("rank", "world_size")}
    device = {"id": 0, "name": "GPU", **{key: Raw(number) for key in ("totalGlobalMem", "numSms", "computeMajor")}}
    trace.metadata = {"distributedInfo": info, "deviceProperties": [device]}
    base = b'"baseTimeNanoseconds": '
    assert trace.to_bytes().count(base) == 1
    found = read(trace.to_bytes().replace(base + b"1700000000000000000", base + number.encode())).info
    assert (found.rank, found.world_size, found.base_ns) == (None, None, None)
    gpu = found.devices[0]
    assert (gpu.memory_bytes, gpu.sm_count, gpu.compute_capability) == (None, None, None)


def test_what_is_counted_is_not_negative() -> None:
    trace = clean()
    trace.metadata = {
        "distributedInfo": {"rank": -1, "world_size": 0},
        "deviceProperties": [{"id": 0, "name": "GPU", "totalGlobalMem": 0, "numSms": -5}],
    }
    found = read_built(trace).info
    assert (found.rank, found.world_size) == (None, None)
    assert (found.devices[0].memory_bytes, found.devices[0].sm_count) == (None, None)
