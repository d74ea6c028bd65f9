"""Makes traces from traces: cut to a part, or without private names; every viewer can open them.

    trim           cuts a trace to some steps or a time range
    anonymize      writes it without names that show whose it is
    names          replaces private names
    arguments      what stays of the arguments of events
    hashed         what stands for a private name
    public_names   names that stay: those of PyTorch, of libraries, of file formats
    public         exact lists of them, made by `scripts/public_names.py`

A trace is copied event by event as it is in the file, window by window, never loaded completely: kept events do not
change in any digit, and traces may have any size. A caller decides what is kept or changed, in the order of the file.
It does not go through `Trace`, which holds only what some analysis uses. Names pass only if they are in exact lists of
public names, since a list of secret names could never be complete.

The result is an object with one event list, whatever the layout of the input: the form that every viewer reads. Damaged
parts of the input are repaired or left out, as in the reader, and counted.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Raw

from traceanalyzer import output
from traceanalyzer._version import __version__
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.inputs.opening import open_source
from traceanalyzer.readers.kineto import header
from traceanalyzer.readers.kineto.windows import EventWindows
from traceanalyzer.readers.source import STDIN

_COMPRESSION = 6
"""Level of zlib: 9 takes three times as long and saves one percent."""
_PACKED = 1 << 17
"""Bytes that are compressed at once: an event has hundreds, and each call has its price."""

_ENCODER = msgspec.json.Encoder(decimal_format="number")

Events = Callable[[list[Raw]], Iterable[bytes | Raw]]
"""A function from the events of a window, as they are in the file, to the written events."""

Write = Callable[[bytes | Raw], object]

Header = Callable[[dict[str, Any]], dict[str, Any]]
"""A function from the metadata before or after the events to the kept metadata."""


@dataclass(frozen=True)
class Copied:
    """How many entries of a trace were copied, and how many lost.

    Entries are all elements of the list of events. A report counts fewer: arrows, names of processes and marks are
    entries, but no events.
    """

    entries: int
    """Number of entries in the input, as far as they could be read."""
    written: int
    lost: int
    """Number of damaged events that could not be repaired."""


def copy(
    path: str,
    target: Path,
    how: str,
    events: Events,
    metadata: Header,
    *,
    force: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Copied:
    """Write a trace made of another one, compressed where the name ends in `.gz`.

    Args:
        path: The trace.
        target: The file to write, whole or not at all.
        how: `trim` or `anonymize`; it is noted in the file.
        events: Chooses or changes events.
        metadata: Chooses or changes what stands around them.
        force: Overwrite files that this program did not write.
        progress: Called with the number of bytes after each read.

    Raises:
        UnusableInputError: The input is not a trace.
        UsageError: The target has no suffix of a trace.
        OutputError: The target cannot be written, or another program wrote it.
    """
    if not target.name.lower().endswith((".json", ".json.gz")):
        raise UsageError(f"{target}: a trace is written as .json or .json.gz")
    with (
        open_source(path, progress) as source,
        output.writing(target, force=force) as file,
        _packed(file, target) as write,
    ):
        windows = EventWindows(source, msgspec.json.Decoder(list[Raw]), _encoded)
        return _copied(windows, source.name, write, how, events, metadata)


def require_file(path: str) -> None:
    """Refuse standard input, which cannot be read twice.

    Raises:
        UsageError: It is standard input, which can be read only once.
    """
    if path == STDIN:
        raise UsageError("stdin: the trace is read twice; give a file")


@contextmanager
def _packed(file: IO[bytes], target: Path) -> Iterator[Write]:
    """Open the output; a compressed one has no time and name, so that the same input gives the same bytes."""
    if not target.name.lower().endswith(".gz"):
        yield file.write
        return
    with gzip.GzipFile("", "wb", _COMPRESSION, file, 0) as packed, io.BufferedWriter(packed, _PACKED) as buffered:
        yield buffered.write


def _copied(windows: EventWindows, name: str, write: Write, how: str, events: Events, metadata: Header) -> Copied:
    read = written = 0
    begun = False
    for window in windows:
        if not begun:
            _begin(write, how, metadata(header.metadata(windows.before, b"")[0]))
            begun = True
        read += len(window)
        for event in events(window):
            write(b",\n" if written else b"\n")
            write(event)
            written += 1
    if not windows.is_trace:
        raise UnusableInputError(f"{name}: is not a profiler trace: it has no traceEvents list")
    if not begun:
        _begin(write, how, metadata(header.metadata(windows.before, b"")[0]))
    _end(write, metadata(header.metadata(b"", windows.after)[0]))
    return Copied(read, written, windows.losses["read-lost-event"])


def _begin(write: Write, how: str, before: dict[str, Any]) -> None:
    mark = {output.REWRITTEN: {"by": how, "version": __version__}}
    text = _ENCODER.encode(mark | {k: v for k, v in before.items() if k not in mark and k != "traceEvents"})
    write(text[:-1] + b',\n"traceEvents": [')


def _end(write: Write, after: dict[str, Any]) -> None:
    after = {key: value for key, value in after.items() if key not in ("traceEvents", output.REWRITTEN)}
    write(b"\n]" + (b",\n" + _ENCODER.encode(after)[1:] if after else b"}") + b"\n")


def _encoded(value: dict[str, Any]) -> Raw:
    """Encode a repaired event; halves of characters become the replacement character."""
    try:
        return Raw(_ENCODER.encode(value))
    except UnicodeEncodeError:
        return Raw(_ENCODER.encode(_clean(value)))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value
