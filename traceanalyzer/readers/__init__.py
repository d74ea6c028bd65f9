"""Reads files into traces, table documents and compile logs, one package per format; the content decides which.

    source           bytes from files, standard input and gzip
    encodings        texts in UTF-16 and UTF-32 become UTF-8
    kineto           JSON of torch.profiler becomes a Trace
    key_averages     printed tables in any text become a TableDocument
    forms            what other tools print becomes part of it
    compile_log      structured logs of torch.compile become a CompileLog
    graph_stacks     lines that made the nodes of graphs, from a file beside a trace
    flight_recorder  dumps of torch's flight recorder become a FlightDump; what watchdogs say in a log a LoggedHang
    memory_snapshot  snapshots of torch's memory become a MemorySnapshot
    memory_text      errors of failed allocations and summaries of memory in any text become part of a TableDocument
    plain_data       pickles and JSON of plain data, of which nothing is run
    small_texts      what stacks and comparisons of statements show, for such an error
    other_tools      what else a text is, for an error that says what to record instead

A reader goes on after damage, and counts what it lost.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from traceanalyzer import output
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers import compile_log, flight_recorder, memory_snapshot
from traceanalyzer.readers.kineto import reader
from traceanalyzer.readers.kineto.header import EVENTS_KEY
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.model import Loss, Trace

_HEAD = 1 << 20
_LONGEST_TEXT = 256 << 20
"""Most bytes of a text that are searched for tables; no document of people is as long."""

_OURS = "is a report that traceanalyzer wrote for people; name the trace, or a report saved as .json"
_ARRAY_OF_OBJECTS = re.compile(rb"\A\s*+\[\s*+(\{\s*\"|\]|$)")


def read(
    source: Source, jobs: int = 1
) -> Trace | TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot:
    """Read whatever the source holds.

    Args:
        source: Decompressed bytes of the input.
        jobs: Most processes that decode a trace; as many as pay for its size do. They change nothing in it.

    Raises:
        UnusableInputError: Neither a trace, nor a compile log, nor a dump of the flight recorder, nor a memory
            snapshot, nor a text with a table or with what the watchdogs of a hang said.
    """
    if memory_snapshot.begins(source.peek(_HEAD)):
        return memory_snapshot.read(source)
    if flight_recorder.begins(source.peek(_HEAD)):
        return flight_recorder.read(source)
    if _is_trace(source):
        return reader.read(source, jobs)
    return compile_log.read(source) if compile_log.begins(source.peek(_HEAD)) else _read_text(source)


def _is_trace(source: Source) -> bool:
    """Whether it is JSON with an event list, or JSON so long that the list may come later."""
    head = source.peek(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"["):
        return _ARRAY_OF_OBJECTS.match(head) is not None  # a log line may begin with a bracket, too
    return head.startswith(b"{") and (EVENTS_KEY.search(head) is not None or len(head) > _HEAD - 64)


def _read_text(source: Source) -> TableDocument | LoggedHang:
    from traceanalyzer.readers import forms, key_averages, memory_text, other_tools  # noqa: PLC0415 - only for texts
    from traceanalyzer.readers.flight_recorder import watchdog  # noqa: PLC0415

    data = source.peek(_LONGEST_TEXT)
    if output.is_ours(data):
        raise UnusableInputError(f"{source.name}: {_OURS}")
    rest = len(source.peek(_LONGEST_TEXT + 1)) > len(data)
    text = key_averages.decode(data)
    document = key_averages.read(text, source.name, source.size_bytes)
    hang = watchdog.read(text, source.name, source.size_bytes) if watchdog.MARKS.search(data) else None
    if hang is not None and not document.tables:  # what a trainer logged before it hung is not why the log was given
        return replace(hang, losses=tuple(source.losses))
    lines = key_averages.lines_of(text)
    document = forms.with_forms(document, lines)
    if memory_text.MARKS.search(data):
        memory = (memory_text.failures(lines), memory_text.summaries(lines))
        document = replace(document, memory_failures=memory[0], memory_summaries=memory[1])
    if document.is_empty:
        known = other_tools.described(text, document)
        raise UnusableInputError(f"{source.name}: {known or _why_not(source, data)}")
    cut = (Loss("read-text-too-long", 1, {"limit": _LONGEST_TEXT}),) if rest else ()
    beside = (Loss("read-hang-beside", 1),) if hang is not None else ()
    return replace(document, losses=(*document.losses, *source.losses, *cut, *beside))


def _why_not(source: Source, data: bytes) -> str:
    """Why a text without tables is no input."""
    if source.losses:
        return f"its gzip data is cut or damaged after {len(data):,} bytes, which hold no event; copy the file again"
    if not data:
        return f"is a {'gzip file' if source.is_gzip else 'byte order mark'} with nothing in it"
    return (
        "contains neither a profiler trace (JSON with a traceEvents list) nor a table of key_averages().table() (a "
        "header line with Name, Self CPU %, ... between lines of dashes) nor a compile log of torch (TORCH_TRACE) in "
        f"its {len(data):,} bytes"
    )
