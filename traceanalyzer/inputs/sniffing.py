"""Tells from its first bytes what a file holds: a trace, a text with tables, a saved report, or nothing of ours."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from enum import Enum
from typing import IO

import msgspec

from traceanalyzer import output
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.inputs import saved_reports
from traceanalyzer.inputs.discovery import FoundFile
from traceanalyzer.inputs.file_names import TEXT_SUFFIXES, looks_like_trace, plain_name
from traceanalyzer.inputs.storage import open_input

HEAD = 1 << 18
"""Plain bytes that are examined: the header of a trace and a few hundred events."""

NOTHING = "holds no trace (.json, .json.gz), no text with a profiler table and no saved report (report -o x.json)"
"""What every command says of a place where it finds nothing to read."""

LONGEST_TEXT = 256 << 20
"""Bytes of a text that are searched for tables, the same as in the reader."""

_TEXT_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"

_EVENTS = re.compile(rb'"traceEvents"\s*:')
_EVENT = re.compile(rb'"ph"\s*:')
_HEADER = re.compile(rb'"(schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|displayTimeUnit)"\s*:')
_TABLE = re.compile(rb"Self(?:\s|\xc2\xa0|\xe3\x80\x80|&nbsp;)*CPU|CPU total")
"""Columns of all printed tables (torch/autograd/profiler_util.py, `_build_table`; before 1.8 CPU total)."""

_OVERLAP = 64
"""Bytes that are searched again with the next piece, so that no column name is cut in two."""

_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*\{')
_RANK = re.compile(rb'"rank"\s*:\s*"?(\d{1,9})\b')
_WORLD = re.compile(rb'"world_size"\s*:\s*"?(\d{1,9})\b')
_INFO_REACH = 4096
"""Number of bytes within which rank and world size stand; the list of groups behind them may be long."""


class FileKind(Enum):
    """What a file is to the commands that take files, folders, patterns and URLs."""

    TRACE = "trace"
    DOCUMENT = "document"
    REPORT = "saved report"
    DIFFERENCE = "saved difference"
    OTHER = "other"


class Peek(msgspec.Struct, frozen=True):
    """What the first bytes of a file tell."""

    kind: FileKind
    plain_bytes: int
    """Size without compression in bytes; of compressed files an estimate."""
    events_per_byte: float = 0.0
    rank: int | None = None
    world_size: int | None = None


class SniffedFile(msgspec.Struct, frozen=True):
    """A file that was found, and what its first bytes show; exactly one of `peek` and `failure` is set."""

    found: FoundFile
    peek: Peek | None = None
    failure: str | None = None
    """Why the kind of the file is unknown: it is empty, or cannot be read."""

    def is_a(self, kind: FileKind) -> bool:
        """Whether the file is of a kind."""
        return self.peek is not None and self.peek.kind is kind


def sniff(found: FoundFile) -> SniffedFile:
    """Look at the first bytes of a file. Whatever is wrong with it becomes a reason, never an exception."""
    if found.failure is not None:
        return SniffedFile(found, failure=found.failure)
    if not found.size:
        return SniffedFile(found, failure="is empty (0 bytes)")
    try:
        with open_input(found.location, HEAD) as opened:  # by its relative name: folders above say nothing of a file
            return SniffedFile(found, peek(opened, found.name, found.size, is_named=found.is_named))
    except OSError as error:
        return SniffedFile(found, failure=f"cannot be read: {error.strerror or error}")
    except TraceAnalyzerError as error:
        return SniffedFile(found, failure=str(error))


def that_count(files: Iterable[SniffedFile]) -> list[SniffedFile]:
    """The files of a folder, a pattern or a URL that the user means.

    Traces, or where there are none, texts with tables, or where there is neither, saved reports: these were made of
    the traces beside them. Files that cannot be read or are something else never count.
    """
    every = list(files)
    for kind in (FileKind.TRACE, FileKind.DOCUMENT, FileKind.REPORT):
        if of_kind := [file for file in every if file.is_a(kind)]:
            return of_kind
    return []


def peek(file: IO[bytes], name: str, size: int, *, is_named: bool = False) -> Peek:
    """Read the first bytes of a file and tell what it is.

    Args:
        file: Opened, at its start. Of a trace little is read; a text is searched for tables.
        name: The file's name.
        size: In bytes, as stored.
        is_named: The user named it: it counts whatever is in it.

    Raises:
        OSError: It cannot be read.
    """
    raw = file.read(HEAD)
    is_compressed = raw.startswith(_GZIP)
    head, used = _inflate(raw) if is_compressed else (raw, len(raw))
    plain = _plain_size(file, head, used, size) if is_compressed else size
    found = Peek(FileKind.TRACE, plain, len(_EVENT.findall(head)) / len(head) if head else 0.0, *_ranks(head))
    other = Peek(FileKind.OTHER, plain)
    if saved_reports.is_head_of_saved(head):
        return Peek(FileKind.DIFFERENCE if saved_reports.is_head_of_difference(head) else FileKind.REPORT, plain)
    if _is_report(head):
        return other
    if plain_name(name).endswith(TEXT_SUFFIXES) and not _EVENTS.search(head):
        has_table = is_named or _finds_table(head, None if is_compressed else file)
        return Peek(FileKind.DOCUMENT, plain) if has_table else other
    if is_named or looks_like_trace(name):
        return found
    if plain_name(name).endswith(".tmp") and not _EVENTS.search(head):
        return other
    return other if _is_other_json(head, is_whole=plain <= len(head)) else found


def _is_report(head: bytes) -> bool:
    """Whether this program wrote it for people to read; a trace that this program wrote is a trace."""
    return output.is_ours(head) and not _EVENTS.search(head)


def _is_other_json(head: bytes, *, is_whole: bool) -> bool:
    """Whether it is JSON of some other program. Empty or broken files may have been traces, so they are reported."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _EVENTS.search(text) or not text:
        return False
    is_list = text.startswith(b"[")
    if is_list and (_EVENT.search(text) or text[1:].lstrip().startswith(b"]")):
        return False  # a bare list of events; the reader takes an empty list for one, too
    if is_whole:
        return _is_json(text)
    return is_list or (text.startswith(b"{") and not _HEADER.search(text))


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _finds_table(head: bytes, file: IO[bytes] | None) -> bool:
    """Whether a text holds a table; tables often stand at the end of a long log."""
    kept, done = b"", 0
    piece = head
    while piece:
        text = (kept + piece).replace(b"\0", b"")  # UTF-16 has one beside each letter
        if _TABLE.search(text):
            return True
        kept, done = piece[-_OVERLAP:], done + len(piece)
        piece = file.read(_TEXT_CHUNK) if file is not None and done < LONGEST_TEXT else b""
    return False


def _ranks(head: bytes) -> tuple[int | None, int | None]:
    start = _DISTRIBUTED.search(head)
    if start is None:
        return None, None
    info = head[start.end() : start.end() + _INFO_REACH]
    rank, world = _RANK.search(info), _WORLD.search(info)
    return int(rank[1]) if rank else None, int(world[1]) if world else None


def _inflate(raw: bytes) -> tuple[bytes, int]:
    """Decompress the head. Returns it with the number of compressed bytes that it took."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        head = inflate.decompress(raw, HEAD)
    except zlib.error:  # damage: the reader says so, and reads what there is
        return b"", len(raw)
    return head, len(raw) - len(inflate.unconsumed_tail) - len(inflate.unused_data)


def _plain_size(file: IO[bytes], head: bytes, used: int, size: int) -> int:
    """Size without compression: gzip's own note (of the last member, modulo 2^32), or the ratio of the head."""
    by_ratio = size * len(head) / max(used, 1)
    at = file.tell()
    file.seek(max(0, size - 4))
    noted = int.from_bytes(file.read(4), "little")
    file.seek(at)
    noted += max(0, round((by_ratio - noted) / (1 << 32))) << 32
    return noted if by_ratio / 4 <= noted <= 4 * by_ratio else int(by_ratio)
