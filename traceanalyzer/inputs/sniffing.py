"""Detects the kind of a file by its first bytes: a trace, a text with tables, a log, a dump, a report, or none."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from enum import Enum
from typing import IO

import msgspec

from traceanalyzer import output
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.inputs import saved_reports
from traceanalyzer.inputs.discovery import TEXT_SUFFIXES, FoundFile, looks_like_trace, plain_name
from traceanalyzer.inputs.storage import open_input
from traceanalyzer.readers import compile_log, encodings, flight_recorder, memory_snapshot, plain_data

HEAD = 1 << 18
"""Number of decompressed bytes to examine: the header of a trace and a few hundred events."""

NOTHING = (
    "contains no trace (.json, .json.gz), no text with a profiler table, no compile log of torch (TORCH_TRACE), no "
    "dump of the flight recorder (nccl_trace_rank_0), no log of a hang, no memory snapshot (snapshot.pickle) and no "
    "saved report (report -o x.json)"
)
"""Error text of every command for an input without readable files."""

LONGEST_TEXT = 256 << 20
"""Number of bytes of a text that are searched for tables, equal to that of the reader."""

_TEXT_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"

_EVENTS = re.compile(rb'"traceEvents"\s*:')
_EVENT = re.compile(rb'"ph"\s*:')
_HEADER = re.compile(rb'"(schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|displayTimeUnit)"\s*:')
_TABLE = re.compile(rb"Self(?:\s|\xc2\xa0|\xe3\x80\x80|&nbsp;)*CPU|CPU total")
"""Columns of all printed tables (torch/autograd/profiler_util.py, `_build_table`; before 1.8 CPU total)."""

_OVERLAP = 64
"""Number of bytes of overlap between two searched pieces, so that no column name is cut."""

_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*\{')
_RANK = re.compile(rb'"rank"\s*:\s*"?(\d{1,9})\b')
_WORLD = re.compile(rb'"world_size"\s*:\s*"?(\d{1,9})\b')
_INFO_REACH = 4096
"""Number of bytes that contain rank and world size; the list of groups after them may be long."""


class FileKind(Enum):
    """The kind of an input file."""

    TRACE = "trace"
    DOCUMENT = "document"
    COMPILE_LOG = "compile log"
    FLIGHT_DUMP = "dump of the flight recorder"
    HANG_LOG = "log of a hang"
    MEMORY_SNAPSHOT = "memory snapshot"
    REPORT = "saved report"
    DIFFERENCE = "saved difference"
    OTHER = "other"


_COUNTED = (
    FileKind.TRACE,
    FileKind.FLIGHT_DUMP,
    FileKind.HANG_LOG,
    FileKind.MEMORY_SNAPSHOT,
    FileKind.DOCUMENT,
    FileKind.COMPILE_LOG,
    FileKind.REPORT,
)
"""Kinds of files of a folder that are analyzed: those of the first kind that it has."""


class Peek(msgspec.Struct, frozen=True):
    """Facts from the first bytes of a file."""

    kind: FileKind
    plain_bytes: int
    """Size without compression in bytes, estimated for compressed files."""
    events_per_byte: float = 0.0
    rank: int | None = None
    world_size: int | None = None


class SniffedFile(msgspec.Struct, frozen=True):
    """A file and the facts from its first bytes; exactly one of `peek` and `failure` is set."""

    found: FoundFile
    peek: Peek | None = None
    failure: str | None = None
    """Why the kind of the file is unknown: the file is empty, or cannot be read."""

    def is_a(self, kind: FileKind) -> bool:
        """Whether the file is of a kind."""
        return self.peek is not None and self.peek.kind is kind


def sniff(file: FoundFile) -> SniffedFile:
    """Read the first bytes of a file. Errors are returned in `failure`; none is raised."""
    if file.failure is not None:
        return SniffedFile(file, failure=file.failure)
    if not file.size:
        return SniffedFile(file, failure="is empty (0 bytes)")
    try:
        with open_input(file.location, HEAD) as opened:  # relative name: parent folders say nothing
            return SniffedFile(file, peek(opened, file.name, file.size, is_named=file.is_named))
    except OSError as error:
        return SniffedFile(file, failure=f"cannot be read: {error.strerror or error}")
    except TraceAnalyzerError as error:
        return SniffedFile(file, failure=str(error))


def that_count(files: Iterable[SniffedFile]) -> list[SniffedFile]:
    """The files of a folder, a pattern or a URL that are to be analyzed.

    These are the traces; without traces, the dumps of flight recorders; without these, the logs of a hang, then the
    memory snapshots, then the texts with tables, then the compile logs; without all, the saved reports, since reports
    are usually those of the traces beside them. Files that cannot be read or have another kind never count.
    """
    every = list(files)
    for kind in _COUNTED:
        if of_kind := [file for file in every if file.is_a(kind)]:
            return of_kind
    return []


def peek(file: IO[bytes], name: str, size: int, *, is_named: bool = False) -> Peek:
    """Read the first bytes of a file and detect its kind.

    Args:
        file: The open file, at its start. Only the head of a trace is read; a text is searched for tables.
        name: Name of the file.
        size: Stored size in bytes.
        is_named: Whether the user named this file, so that it counts regardless of its content.

    Raises:
        OSError: The file cannot be read.
    """
    raw = file.read(HEAD)
    is_compressed = raw.startswith(_GZIP)
    head, used = _inflate(raw) if is_compressed else (raw, len(raw))
    plain = _plain_size(file, head, used, size) if is_compressed else size
    is_whole = plain <= len(head)
    recode, in_file = _recoder(head), max(len(head), 1)
    head = recode(head)
    if (kind := _plain_kind(head)) is not None:
        is_dump = kind is FileKind.FLIGHT_DUMP
        return Peek(kind, plain, rank=flight_recorder.rank_of_name(name.rpartition("/")[2]) if is_dump else None)
    if not _EVENTS.search(head) and plain_name(name).endswith(TEXT_SUFFIXES):
        kind = _kind_of_text(head, None if is_compressed else file, recode)
        return Peek(FileKind.DOCUMENT if kind is FileKind.OTHER and is_named else kind, plain)
    if is_named or looks_like_trace(name) or _may_be_trace(head, name, is_whole=is_whole):
        return Peek(FileKind.TRACE, plain, len(_EVENT.findall(head)) / in_file, *_ranks(head))
    return Peek(FileKind.OTHER, plain)


def _plain_kind(head: bytes) -> FileKind | None:
    """The kind of a file that its first bytes tell, whatever its name; None for traces, texts, and all else."""
    if saved_reports.is_head_of_saved(head):
        if saved_reports.is_head_of_part(head):
            return FileKind.OTHER
        return FileKind.DIFFERENCE if saved_reports.is_head_of_difference(head) else FileKind.REPORT
    if _is_report(head):
        return FileKind.OTHER
    if memory_snapshot.begins(head):
        return FileKind.MEMORY_SNAPSHOT
    if flight_recorder.begins(head):
        return FileKind.FLIGHT_DUMP
    return FileKind.COMPILE_LOG if not _EVENTS.search(head) and compile_log.begins(head) else None


def _may_be_trace(head: bytes, name: str, *, is_whole: bool) -> bool:
    """Whether a file that nobody named may be a trace; what is unfinished only where events can be seen."""
    if plain_name(name).endswith(".tmp") and not _EVENTS.search(head):
        return False
    return not head.startswith(plain_data.PROTOCOLS) and not _is_other_json(head, is_whole=is_whole)


def _is_report(head: bytes) -> bool:
    """Whether the file is a report of this program in a human-readable format."""
    return output.is_ours(head) and not _EVENTS.search(head)


def _is_other_json(head: bytes, *, is_whole: bool) -> bool:
    """Whether the file is JSON of another program. False for empty or broken files, which may be damaged traces."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _EVENTS.search(text) or not text:
        return False
    is_list = text.startswith(b"[")
    if is_list and (_EVENT.search(text) or text[1:].lstrip().startswith(b"]")):
        return False  # a bare list of events, for which the reader also takes an empty list
    if is_whole:
        return _is_json(text)
    return is_list or (text.startswith(b"{") and not _HEADER.search(text))


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _recoder(head: bytes) -> Callable[[bytes], bytes]:
    """What turns the pieces of a file into UTF-8; a text that does not say its encoding is read to be refused."""
    encoding = encodings.marked(head) or encodings.unmarked(head)
    return encodings.recoder(encoding) if encoding else bytes


def _kind_of_text(head: bytes, file: IO[bytes] | None, recode: Callable[[bytes], bytes]) -> FileKind:
    """Whether a text contains a table, of torch or of another tool, or what watchdogs said.

    All of them often stand at the end of a long log.
    """
    from traceanalyzer.readers.flight_recorder import watchdog  # noqa: PLC0415 - readers of texts are for texts alone
    from traceanalyzer.readers.forms import descriptions  # noqa: PLC0415

    tables = (_TABLE, descriptions.marks())
    kind = FileKind.OTHER
    kept, done = b"", 0
    piece = head
    while piece:
        if any(pattern.search(kept + piece) for pattern in tables):
            return FileKind.DOCUMENT
        if watchdog.MARKS.search(kept + piece):
            kind = FileKind.HANG_LOG
        kept, done = piece[-_OVERLAP:], done + len(piece)
        piece = recode(file.read(_TEXT_CHUNK)) if file is not None and done < LONGEST_TEXT else b""
    return kind


def _ranks(head: bytes) -> tuple[int | None, int | None]:
    start = _DISTRIBUTED.search(head)
    if start is None:
        return None, None
    info = head[start.end() : start.end() + _INFO_REACH]
    rank, world = _RANK.search(info), _WORLD.search(info)
    return int(rank[1]) if rank else None, int(world[1]) if world else None


def _inflate(raw: bytes) -> tuple[bytes, int]:
    """Decompress the head of a file. Returns it with the number of compressed bytes used."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        head = inflate.decompress(raw, HEAD)
    except zlib.error:  # damaged: the reader reads as far as possible and reports it
        return b"", len(raw)
    return head, len(raw) - len(inflate.unconsumed_tail) - len(inflate.unused_data)


def _plain_size(file: IO[bytes], head: bytes, used: int, size: int) -> int:
    """Size without compression: that in the gzip trailer (last member, modulo 2^32), or by the ratio of the head."""
    by_ratio = size * len(head) / max(used, 1)
    at = file.tell()
    file.seek(max(0, size - 4))
    noted = int.from_bytes(file.read(4), "little")
    file.seek(at)
    noted += max(0, round((by_ratio - noted) / (1 << 32))) << 32
    return noted if by_ratio / 4 <= noted <= 4 * by_ratio else int(by_ratio)
