"""Opens any input: detects its format by its content, reads compile logs, and loads traces and reports for programs.

An input is a file, a folder, a pattern, a URL or a saved report; every command opens its inputs here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from traceanalyzer import readers
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import discovery, other_files, saved_reports
from traceanalyzer.inputs.discovery import FoundFile
from traceanalyzer.inputs.sniffing import NOTHING
from traceanalyzer.inputs.storage import local_path, open_input
from traceanalyzer.readers import compile_log, graph_stacks
from traceanalyzer.readers import source as local
from traceanalyzer.readers.source import STDIN, Source
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Report
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.graph_stacks import GraphStacks
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.model import Trace
from traceanalyzer.urls import has_wildcard, is_url, path_of, shown

Content = Trace | TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot | Report | Difference
"""The content of an input file."""

FileProgress = Callable[[str], Callable[[int], None]]
"""Maps the name of a file to a function that receives the number of bytes after each read."""

_REMOTE_BLOCK = 8 << 20


def silent(name: str) -> Callable[[int], None]:
    """Ignore the progress of a file, for callers that show none."""
    del name
    return lambda _: None


@contextmanager
def open_source(location: str | Path, progress: Callable[[int], None] = lambda _: None) -> Iterator[Source]:
    """Open one file for reading.

    Args:
        location: A path, a URL, or "-" for standard input.
        progress: Called with the number of input bytes after each read.

    Raises:
        UnusableInputError: The file is missing, a folder, not readable, or empty.
        MissingDependencyError: The library for a URL is not installed.
    """
    url = str(location)
    if not is_url(url):
        with local.open_source(local_path(url) if url != STDIN else url, progress) as source:
            yield source
        return
    try:
        with open_input(url, _REMOTE_BLOCK) as raw:
            source = Source(raw, path_of(url).rstrip("/").rpartition("/")[2], getattr(raw, "size", None), progress)
            if source.is_empty:
                raise UnusableInputError(f"{shown(url)}: is empty (0 bytes)")
            yield source
    except FileNotFoundError:
        raise UnusableInputError(f"{shown(url)}: no such file") from None
    except OSError as error:
        raise UnusableInputError(f"{shown(url)}: cannot be read: {error.strerror or error}") from None


def read(location: str | Path, progress: Callable[[int], None] = lambda _: None, jobs: int = 1) -> Content:
    """Read one file, and detect its format by its content.

    Args:
        location: A path, a URL, or "-" for standard input.
        progress: Called with the number of input bytes after each read.
        jobs: Most processes that decode a large trace.

    Raises:
        UnusableInputError: The file has no content that this program reads.
        MissingDependencyError: The library for a URL is not installed.
    """
    with open_source(location, progress) as source:
        if saved_reports.begins(source):
            return saved_reports.read(source)
        _refuse_others(source)
        return readers.read(source, jobs)


def _refuse_others(source: Source) -> None:
    """Raise an error that names the file, if it is of a kind that this program does not read."""
    if known := other_files.described(source.peek(other_files.HEAD), source.name):
        raise UnusableInputError(f"{source.name}: {known}")


def is_one_file(given: str) -> bool:
    """Whether the inputs are one file (or standard input), and not a folder, a pattern or the URL of a folder."""
    if given == STDIN:
        return True
    if is_url(given):
        return not has_wildcard(given) and _is_remote_file(given)
    path = local_path(given)
    if os.path.isdir(path):  # noqa: PTH112 - "" is no folder
        return False
    return os.path.lexists(path) or not has_wildcard(path)


def files(inputs: Iterable[str]) -> list[FoundFile]:
    """Every file that the inputs name, without duplicates, in the order of discovery.

    Raises:
        UnusableInputError: An input matches no file.
        MissingDependencyError: The library for a URL is not installed.
    """
    return list({file.identity: file for file in discovery.find(inputs)}.values())


def name_of(inputs: Iterable[str], names: list[str]) -> str:
    """A name for several files together: that of their folder, or those of the first and last file.

    Args:
        inputs: The inputs as the user named them.
        names: Names of the files that were read, in order.
    """
    given = list(inputs)
    if len(given) == 1 and not is_one_file(given[0]) and not has_wildcard(given[0]):
        if is_url(given[0]):
            return path_of(given[0]).rstrip("/").rpartition("/")[2]
        folder = Path(local_path(given[0])).resolve()
        return folder.name or str(folder)
    return names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"


def nothing_in(inputs: Iterable[str]) -> UnusableInputError:
    """The error for inputs in which no file can be read; it names what lies in a folder instead."""
    given = list(inputs)
    others = "".join(other_files.in_folder(local_path(path)) for path in given if not is_url(path))
    return UnusableInputError(f"{', '.join(map(shown, given))}: {NOTHING}{others}")


def _is_remote_file(url: str) -> bool:
    return bool(import_module("traceanalyzer.inputs.remote").is_file(url))


# Reads traces, printed tables and saved reports for programs: what `traceanalyzer.load` and `load_report` are.
#
# What analyzes is not imported here: reading a trace of 100 MB would take a third more.

_SAVED = (
    "is a saved report or difference, which contains no events; give the trace that it was made of "
    "(in Python, traceanalyzer.load_report reads reports)"
)
_NOT_SAVED = "is not a report that traceanalyzer saved (report -o x.json); traceanalyzer.load reads traces"


def load(
    path: str | Path, progress: Callable[[int], None] | None = None, *, jobs: int = 1
) -> Trace | TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot:
    """Read a trace, a text with tables of `key_averages()`, or what torch writes of compilations, hangs or memory.

    That is a compile log, a dump of the flight recorder, or a memory snapshot. The content decides.

    Args:
        path: A Kineto trace (`.json`, `.json.gz`, `.tmp`), any text, the URL of one, or "-" for standard input.
        progress: Called with the number of bytes after each read.
        jobs: Most processes that decode a large trace, this one included. On Linux they are forked from this process;
            elsewhere this one does all.

    Raises:
        UnusableInputError: Missing, empty, or none of these.
        MissingDependencyError: A URL whose library is not installed.
    """
    with open_source(path, progress or (lambda _: None)) as source:
        if saved_reports.begins(source):
            raise UnusableInputError(f"{source.name}: {_SAVED}")
        _refuse_others(source)
        return readers.read(source, jobs)


def load_report(path: str | Path) -> Report:
    """Read a report that was saved as JSON (`report -o x.json`).

    Args:
        path: The file, the URL of one, or "-" for standard input.

    Raises:
        UnusableInputError: Missing, empty, not a report, or one that another version of the schema describes.
        MissingDependencyError: A URL whose library is not installed.
    """
    with open_source(path) as source:
        if not saved_reports.begins(source):
            raise UnusableInputError(f"{source.name}: {_NOT_SAVED}")
        return saved_reports.read_report(source)


# Finds and reads structured compile logs: files, or the folders that `TORCH_TRACE` names.

_SUFFIXES = (".log", ".log.gz")
_STACKS = (".stacks.json.gz", ".stacks.json", "_stacks.json.gz", "_stacks.json")
"""What a file with stacks of graphs has in its name instead of a trace's `.json` or `.json.gz`."""


def read_graph_stacks(location: str | Path) -> GraphStacks:
    """Read the stacks of nodes of graphs that torch wrote beside a trace.

    Raises:
        UnusableInputError: The file is missing, or contains no stacks.
    """
    with open_source(location) as source:
        return graph_stacks.read(source)


def graph_stacks_beside(location: str) -> GraphStacks | None:
    """The stacks of the graphs of a trace, from a file beside it with its name and `stacks`; None without one."""
    folder, name = os.path.split(location)
    name = name.removesuffix(".gz").removesuffix(".json")
    for beside in (os.path.join(folder, name + end) for end in _STACKS):  # noqa: PTH118 - any text, even no path
        if name and beside != location and os.path.isfile(beside):  # noqa: PTH113 - False for names that are too long
            try:
                return read_graph_stacks(beside)
            except UnusableInputError:  # something else has this name
                continue
    return None


def read_compile_logs(locations: Iterable[str | Path]) -> tuple[CompileLog, ...]:
    """Read structured compile logs of torch.

    Args:
        locations: Files, or folders, of which `*.log` and `*.log.gz` are read in the order of their names.

    Raises:
        UnusableInputError: A file is missing or not a compile log, or a folder contains none.
    """
    return tuple(_read_compile_log(file) for location in locations for file in _compile_log_files(location))


def _compile_log_files(location: str | Path) -> Iterator[str]:
    if not Path(location).is_dir():
        yield str(location)
        return
    paths = sorted(entry.path for entry in os.scandir(location) if entry.name.endswith(_SUFFIXES) and entry.is_file())
    if not paths:
        raise UnusableInputError(
            f"{location}: contains no compile log (*.log); run with TORCH_TRACE={location} to write"
        )
    yield from paths


def _read_compile_log(file: str) -> CompileLog:
    with open_source(file) as source:
        return compile_log.read(source)
