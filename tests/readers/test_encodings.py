"""Texts in UTF-16 and UTF-32, as PowerShell's `>` writes them, are read as any other text by every command."""

from __future__ import annotations

import codecs
import gzip
import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import traceanalyzer
from tests.batching.making import TABLE, trace
from tests.builders import compile_log
from tests.cli.running import assert_one_line, call
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import opening
from traceanalyzer.inputs.sniffing import HEAD, FileKind, peek
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace

LOG = compile_log.broke("0/0", "обучение.py", 9, "Data-dependent branching")
INPUTS = {"table.txt": TABLE.replace("aten::mm", "модель:"), "trace.json": trace().decode(), "trace.log": LOG}
MARKED = {
    "UTF-16LE": codecs.BOM_UTF16_LE,
    "UTF-16BE": codecs.BOM_UTF16_BE,
    "UTF-32LE": codecs.BOM_UTF32_LE,
    "UTF-32BE": codecs.BOM_UTF32_BE,
}

every_encoding = pytest.mark.parametrize("encoding", MARKED)
every_input = pytest.mark.parametrize("name", INPUTS)


def encoded(text: str, encoding: str) -> bytes:
    return MARKED[encoding] + text.replace("\n", "\r\n").encode(encoding)


def source(data: bytes, raw: Callable[[bytes], io.RawIOBase | io.BytesIO] = io.BytesIO) -> Source:
    return Source(raw(data), "some.txt", len(data), lambda _: None)  # type: ignore[arg-type]


@every_encoding
@every_input
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_every_input_is_read(tmp_path: Path, name: str, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    file, plain = tmp_path / "a" / name, tmp_path / "b" / name
    for path, data in ((file, pack(encoded(INPUTS[name], encoding))), (plain, INPUTS[name].encode())):
        path.parent.mkdir()
        path.write_bytes(data)
    found, expected = traceanalyzer.load(file), traceanalyzer.load(plain)
    match found, expected:
        case TableDocument(), TableDocument():
            assert found.tables == expected.tables
            assert found.tables[0].rows[0].name == "модель:"
        case CompileLog(), CompileLog():
            assert found.breaks == expected.breaks
            assert (found.entries, found.losses) == (1, ())
        case Trace(), Trace():
            assert list(found.names) == list(expected.names)
            assert [len(events) for events in (found.host, found.device)] == [2, 1]
            assert not found.losses
        case other:
            pytest.fail(f"read as {other}")


@every_encoding
@every_input
def test_standard_input(name: str, encoding: str) -> None:
    run = call("report", "-", "-q", "--format", "json", stdin=encoded(INPUTS[name], encoding))
    assert (run.code, run.err) == (0, "")


@every_encoding
@pytest.mark.parametrize(
    ("name", "kind"),
    [("table.txt", FileKind.DOCUMENT), ("trace.json", FileKind.TRACE), ("trace.log", FileKind.COMPILE_LOG)],
)
def test_folders_have_them_too(name: str, encoding: str, kind: FileKind) -> None:
    data = encoded(INPUTS[name], encoding)
    for packed, suffix in ((data, ""), (gzip.compress(data), ".gz")):
        assert peek(io.BytesIO(packed), name + suffix, len(packed)).kind is kind


@every_encoding
@pytest.mark.parametrize("gap", [-1, 0, 3])
def test_a_table_at_the_end_of_a_long_log(encoding: str, gap: int) -> None:
    data = encoded("x" * (HEAD + gap) + "Self\u00a0CPU %", encoding)
    assert peek(io.BytesIO(data), "x.log", len(data)).kind is FileKind.DOCUMENT


def test_what_is_no_input_stays_none() -> None:
    data = encoded('{"a": 1}', "UTF-16LE")
    assert peek(io.BytesIO(data), "config.json", len(data)).kind is FileKind.OTHER


def test_ranks_and_events_of_a_trace_count_as_in_utf8() -> None:
    plain = trace(rank=3, world=8)
    data = encoded(plain.decode(), "UTF-16LE")
    found, expected = (peek(io.BytesIO(text), "x.json", len(text)) for text in (data, plain))
    assert (found.rank, found.world_size) == (3, 8)
    assert found.events_per_byte * found.plain_bytes == pytest.approx(expected.events_per_byte * expected.plain_bytes)


@every_encoding
def test_commands_on_several_files(tmp_path: Path, encoding: str) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_bytes(encoded(trace(40 + rank, rank=rank, world=2).decode(), encoding))
    tables = [tmp_path / "tables" / name for name in ("a.txt", "b.log")]
    tables[0].parent.mkdir()
    for table in tables:
        table.write_bytes(encoded(TABLE, encoding))
    for arguments in (
        ("ranks", tmp_path),
        ("diff", tmp_path / "rank0.json", tmp_path / "rank1.json"),
        ("diff", *tables),
    ):
        run = call(*arguments, "-q", "--format", "json")
        assert (run.code, run.err) == (0, "")


@every_encoding
def test_batches(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "table.txt").write_bytes(encoded(TABLE, encoding))
    run = call("batch", tmp_path / "in", "-o", tmp_path / "out", "--jobs", "1", "--format", "json")
    assert run.code == 0
    assert (tmp_path / "out" / "table.txt.report.json").exists()


@every_encoding
def test_saved_reports(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "table.txt").write_text(TABLE, "utf-8")
    saved = tmp_path / "report.json"
    saved.write_bytes(encoded(call("report", tmp_path / "table.txt", "-q", "--format", "json").out, encoding))
    run = call("render", saved, "-q")
    assert (run.code, run.err) == (0, "")


@every_encoding
@every_input
def test_without_a_mark_the_encoding_is_named(tmp_path: Path, name: str, encoding: str) -> None:
    file = tmp_path / name
    file.write_bytes(INPUTS[name].encode(encoding))
    for command in (("report",), ("render",), ("ranks",), ("trim", "-o", tmp_path / "x.json", "--time", "0:5")):
        run = call(command[0], file, *command[1:])
        assert_one_line(run)
        assert f"{name}: is text in {encoding} without a byte order mark" in run.err
    with pytest.raises(UnusableInputError, match=f"is text in {encoding} without"):
        opening.read_compile_logs([file])


@pytest.mark.parametrize(
    "data", [b"\0" * 5000, bytes(range(256)) * 8, b'{"traceEvents": [' + b"\0" * 500, b"a\0b" * 99]
)
def test_zeros_alone_are_no_encoding(data: bytes) -> None:
    assert source(data).read(len(data)) == data


@pytest.mark.parametrize("encoding", MARKED)
def test_only_a_mark(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "x.txt").write_bytes(MARKED[encoding])
    run = call("report", tmp_path / "x.txt")
    assert_one_line(run)
    assert "is a byte order mark with nothing in it" in run.err


class Pieces(io.RawIOBase):
    """Delivers few bytes at a time, so that letters are torn."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        return self._data.readinto(memoryview(buffer)[:3])


@every_encoding
@pytest.mark.parametrize("size", [1, 5, 4096, 1 << 20])
def test_letters_on_a_border_of_pieces_stay_whole(encoding: str, size: int) -> None:
    text = "aя模🙂\n" * 3000
    opened = source(MARKED[encoding] + text.encode(encoding), Pieces)
    assert opened.peek(size) == text.encode()[:size]
    assert opened.read(1 << 20) == text.encode()
    assert opened.read(1) == b""


@every_encoding
def test_half_a_letter_at_the_end_is_dropped(encoding: str) -> None:
    assert source(MARKED[encoding] + "ab".encode(encoding)[:-1]).read(99) == b"a"


def test_a_lone_surrogate_is_replaced() -> None:
    assert source(MARKED["UTF-16LE"] + b"a\0\x00\xd8b\0").read(99).decode() == "a\ufffdb"


def test_memory_does_not_grow_with_the_file() -> None:
    class Endless(io.RawIOBase):
        def __init__(self, _: bytes) -> None:
            self._left = 64 << 20
            self._mark = MARKED["UTF-16LE"]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            count = min(len(buffer), self._left)
            piece = (self._mark + b"x\0" * count)[:count]
            memoryview(buffer)[:count] = piece
            self._left, self._mark = self._left - count, b""
            return count

    opened, buffer, total = source(b"", Endless), bytearray(1 << 20), 0
    tracemalloc.start()
    while count := opened.readinto(buffer):
        total += count
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == (64 << 20) // 2 - 1
    assert peak < 8 << 20
