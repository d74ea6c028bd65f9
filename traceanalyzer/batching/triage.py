"""Sorts the files that were found into those analyzed before, those to be analyzed, and those that are no input."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from traceanalyzer.batching import Progress, ReportOptions, machine, record
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.inputs import sniffing
from traceanalyzer.inputs.discovery import FoundFile
from traceanalyzer.inputs.sniffing import FileKind, Peek
from traceanalyzer.inputs.storage import Folder
from traceanalyzer.urls import is_url

_LOG = "is a compile log, and gets a report of its own; report TRACE --compile-log LOG joins it with a trace"
_REQUESTS = 16
"""Number of concurrent requests to an object store."""


@dataclass(frozen=True, slots=True)
class _New:
    """A file that has just been added to the catalog."""

    found: FoundFile
    number: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class _Check:
    """The result of checking a file before its analysis; exactly one field is set."""

    recalled: bytes | None = None
    """The record of the file, if it was analyzed before and its reports still exist."""
    peek: Peek | None = None
    failure: str | None = None


def check_files(
    files: Iterable[FoundFile], catalog: Catalog, folder: Folder, options: ReportOptions, progress: Progress
) -> None:
    """Add every file to the catalog, with an estimate of the memory of those to be analyzed."""
    new = _new(files, catalog, options)
    check = partial(_check, folder=folder)
    for count, (file, seen) in enumerate(_in_order(new, check, is_url(folder.location)), 1):
        _record(catalog, file, seen, progress)
        progress.found(count)
        if seen.failure is not None:
            progress.note(f"{file.found.name}: {seen.failure}")
    catalog.settle_saved()


def _new(files: Iterable[FoundFile], catalog: Catalog, options: ReportOptions) -> Iterator[_New]:
    for file in files:
        fingerprint = options.fingerprint(file.name, file.size, file.version)
        number = catalog.add(file, fingerprint)
        if number is not None:
            yield _New(file, number, fingerprint)


def _in_order(files: Iterable[_New], check: partial[_Check], is_far: bool) -> Iterator[tuple[_New, _Check]]:
    """Check files and yield the results in order; files in remote stores are checked concurrently."""
    waiting: deque[tuple[_New, Future[_Check]]] = deque()
    with ThreadPoolExecutor(_REQUESTS) as threads:
        for file in files:
            if not is_far and not is_url(file.found.location) and not waiting:
                yield file, check(file)
                continue
            waiting.append((file, threads.submit(check, file)))
            if len(waiting) >= 2 * _REQUESTS:
                first, answer = waiting.popleft()
                yield first, answer.result()
        for file, answer in waiting:
            yield file, answer.result()


def _check(file: _New, folder: Folder) -> _Check:
    if file.found.failure is None and (recalled := _recall(file, folder)) is not None:
        return _Check(recalled=recalled)
    seen = sniffing.sniff(file.found)
    return _Check(peek=seen.peek, failure=seen.failure)


def _recall(file: _New, folder: Folder) -> bytes | None:
    """The record of a file that has not changed and whose reports exist in their recorded sizes, or None."""
    data = folder.read(record.name_of(file.found.name))
    done = record.decode(data) if data else None
    if done is None or done.fingerprint != file.fingerprint or (done.is_saved and not file.found.is_named):
        return None  # a saved report counts no longer if traces were added beside it
    are_there = all(folder.size(output.name) == output.size_bytes for output in done.files)
    return data if are_there else None


def _record(catalog: Catalog, file: _New, seen: _Check, progress: Progress) -> None:
    if seen.recalled is not None and catalog.finish(file.number, seen.recalled, recalled=True):
        return
    if seen.peek is None:
        catalog.fail(file.number, seen.failure or "cannot be read")
        return
    kind, is_named = seen.peek.kind, file.found.is_named
    if kind is FileKind.OTHER or (kind is FileKind.DIFFERENCE and not is_named):
        catalog.leave_out(file.number)
    elif kind is FileKind.REPORT and not is_named:
        catalog.set_aside(file.number, machine.peak_bytes(seen.peek))
    else:
        if kind is FileKind.COMPILE_LOG:
            progress.note(f"{file.found.name}: {_LOG}")
        may_be_nothing = kind is FileKind.DOCUMENT and not is_named
        catalog.wait(file.number, machine.peak_bytes(seen.peek), may_be_nothing=may_be_nothing)
