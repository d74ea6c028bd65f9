"""Bytes from gzip streams, sound and damaged."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.inflating import TEXT, library  # noqa: F401 - every test runs with both libraries
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers import source as source_module
from traceanalyzer.readers.source import Source

FHCRC, FEXTRA, FNAME, FCOMMENT = 2, 4, 8, 16


def opened(data: bytes) -> Source:
    return Source(io.BytesIO(data), "some.json.gz", len(data), lambda _: None)


def read_all(data: bytes) -> tuple[bytes, list[str]]:
    """All readable bytes, and the errors."""
    source = opened(data)
    parts = []
    while part := source.read(10_000):
        parts.append(part)
    return b"".join(parts), [loss.id for loss in source.losses]


def member(data: bytes, flags: int = 0, fields: bytes = b"", level: int = 6) -> bytes:
    """A gzip member with optional header fields."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(4) + b"\x00\xff"
    return header + fields + body + struct.pack("<II", zlib.crc32(data), len(data) % 2**32)


def test_plain_text_is_left_alone() -> None:
    assert read_all(TEXT) == (TEXT, [])


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_compressed_text(level: int) -> None:
    assert read_all(gzip.compress(TEXT, level)) == (TEXT, [])


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        (FNAME, b"trace.json\0"),
        (FCOMMENT, b"a comment\0"),
        (FEXTRA, struct.pack("<H", 5) + b"extra"),
        (FEXTRA, struct.pack("<H", 0)),
        (FHCRC, b"\x12\x34"),
        (
            FEXTRA | FNAME | FCOMMENT | FHCRC,
            struct.pack("<H", 3) + b"\0\x1f\x8b" + b"name\0" + b"comment\0" + b"\0\0",
        ),
        (FNAME, b"n" * 100_000 + b"\0"),
    ],
    ids=["name", "comment", "extra", "empty extra", "header checksum", "all", "long name"],
)
def test_optional_header_fields(flags: int, fields: bytes) -> None:
    assert read_all(member(TEXT, flags, fields)) == (TEXT, [])


def test_members_follow_each_other() -> None:
    parts = [TEXT[:1000], b"", TEXT[1000:70_000], TEXT[70_000:]]
    assert read_all(b"".join(member(part, FNAME, b"x\0") for part in parts)) == (TEXT, [])


def test_an_empty_member_is_an_empty_text() -> None:
    assert read_all(member(b"")) == (b"", [])


def test_a_wrong_checksum_keeps_the_text() -> None:
    packed = bytearray(member(TEXT))
    packed[-5] ^= 1
    assert read_all(bytes(packed)) == (TEXT, ["read-gzip-checksum"])


def test_each_member_has_its_own_checksum() -> None:
    wrong = bytearray(member(TEXT))
    wrong[-5] ^= 1
    packed = member(b"first") + bytes(wrong) + member(b"last")
    assert read_all(packed) == (b"first" + TEXT + b"last", ["read-gzip-checksum"])


@pytest.mark.parametrize("garbage", [b"garbage", b"\x1f", b"\x1f\x8b", b"\x1f\x8b\x08", b"\0" * 100])
def test_what_follows_the_stream_is_named(garbage: bytes) -> None:
    text, losses = read_all(member(TEXT) + garbage)
    assert text == TEXT
    assert losses == ["read-gzip-trailing"]


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_cut_checksum_keeps_the_text(cut: int) -> None:
    assert read_all(member(TEXT)[:-cut]) == (TEXT, ["read-gzip-truncated"])


@given(st.integers(2, len(gzip.compress(TEXT, mtime=0)) - 1))
def test_a_cut_stream_gives_what_inflates(size: int) -> None:
    packed = gzip.compress(TEXT, mtime=0)[:size]
    text, losses = read_all(packed)
    inflated = zlib.decompressobj(31).decompress(packed)
    assert inflated.startswith(text)
    assert len(inflated) - len(text) <= 258  # one symbol of deflate, which isal may keep back
    assert losses == ["read-gzip-truncated"]


@given(st.integers(10, len(gzip.compress(TEXT, mtime=0)) - 1), st.integers(1, 255))
def test_a_damaged_stream_is_noticed(at: int, change: int) -> None:
    packed = bytearray(gzip.compress(TEXT, mtime=0))
    packed[at] ^= change
    text, losses = read_all(bytes(packed))
    if at < len(packed) - 4:  # the last four bytes hold the size, which a stream does not need
        assert text != TEXT or losses
        assert losses
    else:
        assert text == TEXT


@given(st.lists(st.integers(1, 70_000), min_size=1, max_size=8), st.booleans())
def test_any_pieces_make_the_whole(sizes: list[int], packed: bool) -> None:
    source = opened(gzip.compress(TEXT) if packed else TEXT)
    buffer = bytearray()
    piece = 0
    while part := source.read(sizes[piece % len(sizes)]):
        assert len(part) == sizes[piece % len(sizes)] or len(buffer) + len(part) == len(TEXT)
        buffer += part
        piece += 1
    assert bytes(buffer) == TEXT


@given(st.lists(st.integers(0, 300_000), max_size=4), st.integers(0, 50_000), st.booleans())
def test_peeking_uses_nothing_up(sizes: list[int], first: int, packed: bool) -> None:
    source = opened(gzip.compress(TEXT) if packed else TEXT)
    start = source.read(first) if first else b""
    assert start == TEXT[:first]
    for size in sizes:
        assert source.peek(size) == TEXT[first : first + size]
    assert source.read(len(TEXT)) == TEXT[first:]
    assert source.peek(1) == b""


def test_a_damaged_block_ends_the_text_where_it_begins() -> None:
    packed = member(TEXT[:100_000]) + member(TEXT)[:10] + b"\xff" * 1000
    text, losses = read_all(packed)
    assert text.startswith(TEXT[:100_000])
    assert losses == ["read-gzip-damaged"]


def test_progress_counts_compressed_bytes() -> None:
    packed = gzip.compress(TEXT)
    counts: list[int] = []
    source = Source(io.BytesIO(packed), "x", len(packed), counts.append)
    assert source.read(len(TEXT) + 1) == TEXT
    assert sum(counts) == len(packed)


def test_one_byte(library: ModuleType) -> None:  # noqa: F811 - the fixture
    assert library is source_module.inflate_library
    assert read_all(b"{") == (b"{", [])


@pytest.mark.parametrize(
    ("before", "unit"),
    [
        (b'{"traceEvents": [', b"}"),
        (b'{"traceEvents": [', b" "),
        (b'{"traceEvents": [', b"{},"),
        (b'{"traceEvents": [{"name": "', b"a"),
        (b'{"traceEvents": [{"args": {"a": [', b"0,"),
        (b'{"displayTimeUnit": "', b"m"),
        (b'{"displayTimeUnit": "ms",', b"\n"),
        (b"", b"a"),
    ],
)
def test_much_out_of_next_to_nothing_is_refused_before_it_is_read(
    before: bytes, unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_STRETCH", 1 << 18)
    source = opened(member(before + unit * (40_000_000 // len(unit))))
    with pytest.raises(UnusableInputError, match=r"^some.json.gz: is not a trace: [\d,]+ compressed bytes") as error:
        source.readall()
    assert "\n" not in str(error.value)


def test_a_bomb_may_follow_what_is_no_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_STRETCH", 1 << 18)
    source = opened(member(TEXT * 3) + member(b"}" * 40_000_000))
    with pytest.raises(UnusableInputError, match="times as many"):
        source.readall()


def test_a_text_that_repeats_itself_is_no_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_STRETCH", 1 << 16)
    assert read_all(member(TEXT * 20)) == (TEXT * 20, [])


@given(st.binary(max_size=40_000).filter(lambda name: b"\0" not in name))
def test_a_long_file_name_in_the_header_is_skipped(name: bytes) -> None:
    assert read_all(member(TEXT, FNAME, name + b"\0")) == (TEXT, [])
