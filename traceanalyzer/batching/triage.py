"""Sorts the files that were found: analyzed before, still to be analyzed, or no input of this program."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from traceanalyzer.batching import estimate, record
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.batching.progress import Progress
from traceanalyzer.batching.request import ReportOptions
from traceanalyzer.inputs import sniffing
from traceanalyzer.inputs.discovery import FoundFile
from traceanalyzer.inputs.sniffing import FileKind, Peek
from traceanalyzer.inputs.storage import Folder, is_url

_REQUESTS = 16
"""Number of requests to a store at the same time."""


@dataclass(frozen=True, slots=True)
class _New:
    """A file that has just been added to the catalog."""

    found: FoundFile
    number: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known of a file before it is analyzed; exactly one field is set."""

    recalled: bytes | None = None
    """Its record, if it was analyzed before and its reports are still there."""
    peek: Peek | None = None
    failure: str | None = None


def look_at(
    found: Iterable[FoundFile], catalog: Catalog, folder: Folder, options: ReportOptions, progress: Progress
) -> None:
    """Book every file in the catalog; those that wait get an estimate of their memory."""
    new = _new(found, catalog, options)
    look = partial(_look, folder=folder)
    for count, (file, seen) in enumerate(_in_order(new, look, is_url(folder.location)), 1):
        _book(catalog, file, seen)
        progress.found(count)
        if seen.failure is not None:
            progress.note(f"{file.found.name}: {seen.failure}")
    catalog.settle_saved()


def _new(found: Iterable[FoundFile], catalog: Catalog, options: ReportOptions) -> Iterator[_New]:
    for file in found:
        fingerprint = options.fingerprint(file.name, file.size, file.version)
        number = catalog.add(file, fingerprint)
        if number is not None:
            yield _New(file, number, fingerprint)


def _in_order(files: Iterable[_New], look: partial[_Look], is_far: bool) -> Iterator[tuple[_New, _Look]]:
    """Look at files in their order; at several at the same time where each answer takes a while."""
    waiting: deque[tuple[_New, Future[_Look]]] = deque()
    with ThreadPoolExecutor(_REQUESTS) as threads:
        for file in files:
            if not is_far and not is_url(file.found.location) and not waiting:
                yield file, look(file)
                continue
            waiting.append((file, threads.submit(look, file)))
            if len(waiting) >= 2 * _REQUESTS:
                first, answer = waiting.popleft()
                yield first, answer.result()
        for file, answer in waiting:
            yield file, answer.result()


def _look(file: _New, folder: Folder) -> _Look:
    if file.found.failure is None and (recalled := _recall(file, folder)) is not None:
        return _Look(recalled=recalled)
    seen = sniffing.sniff(file.found)
    return _Look(peek=seen.peek, failure=seen.failure)


def _recall(file: _New, folder: Folder) -> bytes | None:
    """The record of a file that has not changed and whose reports are as they were written; else None."""
    data = folder.read(record.name_of(file.found.name))
    done = record.decode(data) if data else None
    if done is None or done.fingerprint != file.fingerprint or (done.is_saved and not file.found.is_named):
        return None  # a saved report may no longer count, because traces have come to lie beside it
    are_there = all(folder.size(output.name) == output.size_bytes for output in done.files)
    return data if are_there else None


def _book(catalog: Catalog, file: _New, seen: _Look) -> None:
    if seen.recalled is not None and catalog.finish(file.number, seen.recalled, recalled=True):
        return
    if seen.peek is None:
        catalog.fail(file.number, seen.failure or "cannot be read")
        return
    kind, is_named = seen.peek.kind, file.found.is_named
    if kind is FileKind.OTHER or (kind is FileKind.DIFFERENCE and not is_named):
        catalog.leave_out(file.number)
    elif kind is FileKind.REPORT and not is_named:
        catalog.set_aside(file.number, estimate.peak_bytes(seen.peek))
    else:
        may_be_nothing = kind is FileKind.DOCUMENT and not is_named
        catalog.wait(file.number, estimate.peak_bytes(seen.peek), may_be_nothing=may_be_nothing)
