"""Damaged and odd files, with what a reader must make of each.

The sound trace under all of them (`damage.clean`) has six elements in its event list: five slices and one
`[memory]` record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .damage import clean, cut, edit, gzip_member, text
from .layout import LAYOUTS
from .trace import TraceBuilder
from .values import Raw


@dataclass(frozen=True)
class Malformed:
    """One file."""

    name: str
    wrong: str
    """What is wrong with it."""
    data: bytes
    readable: int = 6
    """Slices (ph X) and `[memory]` records that must be in the tables."""
    lost: int = 0
    """Events that are in the file and cannot be in a table; the tool must count them."""
    usable: bool = True
    """Whether a report is possible; otherwise a one-line error gives the reason."""


def unusable(name: str, wrong: str, data: bytes, lost: int = 0) -> Malformed:
    """A file that allows no report."""
    return Malformed(name, wrong, data, 0, lost, usable=False)


def _truncated() -> list[Malformed]:
    unclosed = cut("\n  ]").removesuffix(b"\n  ]")
    return [
        Malformed("truncated_in_event.json", "ends within an event", cut('"ts": 1100.000, '), 5, 1),
        Malformed("truncated_in_string.json", "ends within a name", cut('"name": "aten::re'), 5, 1),
        Malformed("truncated_in_args.json", "ends within the args of a kernel", cut('"grid": [54, 1'), 3, 1),
        unusable("truncated_in_header.json", "ends before the event list", cut('"numSms": 1')),
        Malformed("killed.json.tmp", "a killed process left no closing bracket", unclosed + b",\n"),
        Malformed("trailing_comma.json", "comma after the last event", edit("\n  ]\n}", ",\n  ]\n}")),
        Malformed("no_closing_brace.json", "the object around the list is not closed", cut("\n  ]")),
    ]


def _bare_values() -> list[Malformed]:
    found = '"blocks per SM": 0.500000'
    return [
        Malformed(
            f"bare_{name}.json",
            f"`{value}` where a number belongs",
            edit(found, f'"blocks per SM": {value}'),
        )
        for name, value in {
            "nan": "NaN",
            "infinity": "Infinity",
            "minus_infinity": "-Infinity",
            "inf": "inf",
            "minus_nan": "-nan",
            "not_available": "N/A",
        }.items()
    ]


def _texts() -> list[Malformed]:
    frame = r"site-packages\torch\modules\linear.py(114): forward"
    return [
        Malformed("unescaped_quote.json", "quotes inside a name", edit("aten::relu", 'fn.py(3): <lambda "a"> call')),
        Malformed("lone_backslashes.json", "a Windows path in a name", edit("aten::relu", frame)),
        Malformed("newline_in_name.json", "a line break inside a name", edit("aten::relu", "aten::\nrelu")),
        Malformed("invalid_utf8.json", "bytes that are no UTF-8", edit("aten::relu", b"caf\xe9::op\xff")),
        Malformed("nul_in_name.json", "a NUL byte inside a name", edit("aten::relu", "aten::\0relu")),
        Malformed(
            "nul_tail.json",
            "NUL bytes instead of the end",
            cut('"tid": 4201,\n    "ts": 1100') + bytes(512),
            5,
            1,
        ),
        Malformed("byte_order_mark.json", "a UTF-8 byte order mark first", b"\xef\xbb\xbf" + text()),
        Malformed("utf16.json", "UTF-16 with a byte order mark, instead of UTF-8", text().decode().encode("utf-16")),
        Malformed(
            "quote_in_metadata.json",
            "log lines with bare quotes in the header",
            edit('"record_shapes": 1', '"INFO": ["profiler = "Nccl" on"],\n  "record_shapes": 1'),
        ),
    ]


def _structure() -> list[Malformed]:
    return [
        Malformed("broken_event.json", "no value after a key, in the middle", edit('"dur": 8.000', '"dur": '), 5, 1),
        Malformed("damaged_border.json", "two events run into each other", _without_border(2), 4, 2),
        Malformed("damaged_last_border.json", "the last two events run into each other", _without_border(3), 4, 2),
        Malformed("not_objects.json", "numbers, texts and null among the events", _with_strangers()),
        Malformed("event_without_cat.json", "a slice without category", _without_category(), 5, 1),
        Malformed("name_is_number.json", "a number as name", edit('"aten::relu"', "17")),
        Malformed("args_is_list.json", "args is a list", _with_args([1, 2])),
        Malformed("args_is_text.json", "args is a text", _with_args("none")),
        Malformed("args_is_null.json", "args is null", _with_args(None)),
        Malformed("thread_as_text.json", "one thread as number and as text", _with_text_threads()),
    ]


def _without_border(index: int) -> bytes:
    """The clean trace without the border after the event of this index ("Ev Idx")."""
    end = f'"Ev Idx": {index}\n    }}\n'
    return edit(end + "  },\n  {\n", end)


def _with_strangers() -> bytes:
    trace = clean()
    trace.events[2:2] = [Raw("17"), Raw('"text"'), Raw("null")]  # type: ignore[list-item]
    return trace.to_bytes(LAYOUTS["spaced"])


def _without_category() -> bytes:
    trace = clean()
    del trace.events[-1]["cat"]
    return trace.to_bytes()


def _with_args(args: object) -> bytes:
    trace = clean()
    trace.events[-1]["args"] = args
    return trace.to_bytes()


def _with_text_threads() -> bytes:
    trace = clean()
    trace.events[1] |= {"pid": "4201", "tid": "4201"}
    return trace.to_bytes()


def _numbers() -> list[Malformed]:
    beyond = 2**64 + 12_345
    return [
        Malformed("huge_ts.json", "ts beyond 64 bits", edit('"ts": 1100.000', f'"ts": {beyond}'), 5, 1),
        Malformed("huge_arg.json", "an address beyond 64 bits", edit('"Addr": 4096', f'"Addr": {beyond}')),
        Malformed(
            "huge_correlation.json",
            "correlations beyond 64 bits",
            text().replace(b'"correlation": 1001', f'"correlation": {beyond}'.encode()),
        ),
        Malformed("negative_duration.json", "a negative duration", edit('"dur": 10.000', '"dur": -3.000')),
        Malformed("zero_duration.json", "a duration of 0", edit('"dur": 120.000', '"dur": 0.000')),
        Malformed(
            "absurd_duration.json",
            "a kernel of 1e15 us",
            edit('"dur": 120.000', '"dur": 1000000000000000.000'),
            5,
            1,
        ),
        Malformed("far_window_end.json", "`Record Window End` centuries away", _far_window_end()),
        Malformed(
            "duplicate_external_id.json",
            "two operators with one id",
            edit('"External id": 3', '"External id": 2'),
        ),
        Malformed("external_id_zero.json", "operator and kernel have id 0", _external_id_zero()),
        Malformed("stream_minus_one.json", "a kernel on stream -1", _stream_minus_one()),
        Malformed("frames_of_pid_0.json", "Python frames of process 0, thread 0", _frames_of_pid_0(), 8),
        Malformed("several_spans.json", "two spans of the profiler", _several_spans()),
        Malformed("range_across_threads.json", "a user range that outlasts its step", _across_threads(), 7),
    ]


def _far_window_end() -> bytes:
    trace = clean()
    trace.framed = True
    trace.window_end = 9_000_000_000_000_000
    return trace.to_bytes()


def _external_id_zero() -> bytes:
    return text().replace(b'"External id": 2', b'"External id": 0')


def _stream_minus_one() -> bytes:
    data = edit('"pid": 0, "tid": 7', '"pid": 0, "tid": -1')
    return edit('"stream": 7', '"stream": -1', data)


def _frames_of_pid_0() -> bytes:
    trace = clean()
    trace.pid, trace.tid = 0, 0
    parent = trace.python_function("threading.py(1032): _bootstrap", 0, 400)
    trace.python_function("threading.py(1012): run", 10, 300, parent=parent)
    return trace.to_bytes()


def _several_spans() -> bytes:
    trace = clean()
    trace.events += [event | {"name": "PyTorch Profiler (1)"} for event in trace.frame() if event["ph"] == "X"]
    trace.events += trace.frame()
    return trace.to_bytes()


def _across_threads() -> bytes:
    trace = clean()
    trace.annotation("async range", 400, 300)
    return trace.to_bytes()


def _gzipped() -> list[Malformed]:
    data = text()
    middle = data.index(b'"aten::mm"')
    good = gzip_member(data)
    members = gzip_member(data[:middle]) + gzip_member(data[middle:])
    shorter = good[: good.index(b'"ts": 1100.000')]
    return [
        Malformed("trailing_garbage.json.gz", "bytes after the gzip stream", good + b"garbage\x00\x01"),
        Malformed("truncated.json.gz", "the gzip stream is cut", shorter, 5, 1),
        Malformed("members.json.gz", "two gzip members, the first ends within an event", members),
        Malformed("wrong_crc.json.gz", "the checksum does not fit", gzip_member(data, crc=0x12345678)),
        Malformed("plain_text.json.gz", "named .gz but not compressed", data),
        Malformed("compressed.json", "compressed but not named .gz", good),
    ]


def _no_traces() -> list[Malformed]:
    empty = TraceBuilder()
    empty.framed = False
    metadata = TraceBuilder()
    metadata.thread(None)
    instant = metadata.frame()
    metadata.framed = False
    metadata.events = [event for event in instant if event["ph"] == "M"]
    return [
        unusable("empty.json", "no byte at all", b""),
        unusable("other_object.json", "JSON, but no trace", b'{"a": 1}'),
        unusable("empty_list.json", "a list without events", b"[]"),
        unusable("list_of_numbers.json", "a list of numbers", b"[1, 2]"),
        unusable("text.json", "a JSON text", b'"x"'),
        unusable("no_events.json", "a trace with an empty event list", empty.to_bytes()),
        unusable("metadata_only.json", "names of threads, no event", metadata.to_bytes()),
    ]


_GROUPS: tuple[Callable[[], list[Malformed]], ...] = (
    _truncated,
    _bare_values,
    _texts,
    _structure,
    _numbers,
    _gzipped,
    _no_traces,
)
MALFORMED: tuple[Malformed, ...] = tuple(file for group in _GROUPS for file in group())
"""The files in `fixtures/malformed`."""
