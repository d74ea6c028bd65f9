"""The kind of a file by its first bytes."""

from __future__ import annotations

import gzip
import io
import zlib

import pytest

from tests.batching.making import TABLE, trace
from tests.readers.forms import examples
from traceanalyzer.inputs.sniffing import HEAD, FileKind, peek

DIFFERENCE = b'{"schema_version":1,"generator":{"name":"traceanalyzer","version":"1"},"base":{"name":"a"}'
NO_REPORT = b'{"schema_version": 1, "generator": "ours", "traceEvents": [{"ph": "X"}]}'
REPORT = b'{\n "schema_version": 1,\n "generator": {\n  "name": "traceanalyzer"'


def look(data: bytes, name: str = "x.json", *, is_named: bool = False) -> FileKind:
    return peek(io.BytesIO(data), name, len(data), is_named=is_named).kind


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("x.json", trace(), FileKind.TRACE),
        ("x.json.gz", gzip.compress(trace()), FileKind.TRACE),
        ("x.tmp", trace()[:-20], FileKind.TRACE),
        ("x.json", b'[{"ph": "X", "ts": 1}]', FileKind.TRACE),
        ("x.json", b"[]", FileKind.TRACE),
        ("x.txt", trace(), FileKind.TRACE),
        ("x.json", b'{"schemaVersion": 1, "devicePr', FileKind.TRACE),
        ("x.json", b"\0" * 100, FileKind.TRACE),
        ("x.json.gz", b"\x1f\x8b garbage", FileKind.TRACE),
        ("host_1.1700000000.pt.trace.json", b'{"a": 1}', FileKind.TRACE),
        ("rank3.json", b'{"a": 1}', FileKind.TRACE),
        ("x.json", b'{"distributedInfo": {"rank": 0}, "notes": "' + b"x" * HEAD, FileKind.TRACE),
        ("trimmed.json", b'{"traceanalyzer_rewritten": {}, "traceEvents": []}', FileKind.TRACE),
        ("config.json", b'{"a": 1}', FileKind.OTHER),
        ("config.json", b'["a", 1]', FileKind.OTHER),
        ("numbers.json", b"[" + b"1, " * HEAD, FileKind.OTHER),
        ("coco.json", b'{"images": [' + b'{"id": 1}, ' * HEAD, FileKind.OTHER),
        ("x.tmp", b"anything", FileKind.OTHER),
        ("trace.json.report.json", REPORT, FileKind.REPORT),
        ("x.json", DIFFERENCE, FileKind.DIFFERENCE),
        ("x.json", NO_REPORT, FileKind.TRACE),
        ("trace.md", b"<!-- traceanalyzer report 1 -->\n" + TABLE.encode(), FileKind.OTHER),
        ("x.txt", TABLE.encode(), FileKind.DOCUMENT),
        ("x.log", TABLE.encode("utf-16"), FileKind.DOCUMENT),
        ("x.log", b"-" * (3 << 20) + TABLE.encode(), FileKind.DOCUMENT),
        (
            "x.md",
            TABLE.replace("Self CPU", "Self\u00a0CPU").replace("CPU total", "CPU\u00a0total").encode(),
            FileKind.DOCUMENT,
        ),
        ("x.out", examples.CPROFILE.encode(), FileKind.DOCUMENT),
        ("x.txt", examples.PYINSTRUMENT.encode(), FileKind.DOCUMENT),
        ("x.log", examples.DMON.encode(), FileKind.OTHER),
        ("x.txt", b"no table", FileKind.OTHER),
        ("x.txt", b"", FileKind.OTHER),
    ],
)
def test_kinds(name: str, data: bytes, kind: FileKind) -> None:
    assert look(data, name) is kind


@pytest.mark.parametrize("gap", range(-40, 41, 7))
def test_a_column_across_two_pieces(gap: int) -> None:
    assert look(b"-" * (HEAD + gap) + b"Self CPU %", "x.log") is FileKind.DOCUMENT


def test_what_is_named_counts() -> None:
    assert look(b'{"a": 1}', "config.json", is_named=True) is FileKind.TRACE
    assert look(b"no table", "x.txt", is_named=True) is FileKind.DOCUMENT


def test_ranks() -> None:
    data = trace(rank=3, world=8)
    found = peek(io.BytesIO(data), "x.json", len(data))
    assert (found.rank, found.world_size) == (3, 8)


def _members(data: bytes) -> bytes:
    return b"".join(gzip.compress(data[i : i + 50_000]) for i in range(0, len(data), 50_000))


@pytest.mark.parametrize("compress", [gzip.compress, _members])
def test_the_plain_size_of_compressed_files(compress) -> None:  # type: ignore[no-untyped-def]
    """The note at the end of a gzip file is exact for one member; for several the ratio of the head is near."""
    data = b'{"traceEvents": [' + b",".join(b'{"ph": "X", "ts": %d}' % (i * 7919 % 99991) for i in range(60_000))
    packed = compress(data)
    found = peek(io.BytesIO(packed), "x.json.gz", len(packed))
    assert 0.75 * len(data) <= found.plain_bytes <= 1.25 * len(data)
    assert found.events_per_byte * found.plain_bytes == pytest.approx(60_000, rel=0.3)


def test_a_note_beyond_four_gigabytes() -> None:
    """The size in the gzip trailer wraps at 2^32; the compression ratio shows how often."""
    head = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = head.compress(b'{"traceEvents": []}' + b" " * HEAD) + head.flush()
    size = 20_000_000  # some 5 to 20 GB at the ratio of blanks

    class File(io.BytesIO):
        def seek(self, at: int, whence: int = 0) -> int:
            self.is_end = at > len(packed)
            return super().seek(min(at, len(packed)), whence)

        def read(self, count: int | None = -1) -> bytes:
            return (12345).to_bytes(4, "little") if getattr(self, "is_end", False) else super().read(count)

    found = peek(File(packed), "x.json.gz", size)
    assert found.plain_bytes % (1 << 32) == 12345
    assert found.plain_bytes > 1 << 32
