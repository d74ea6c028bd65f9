"""Finds and reads structured compile logs: files, or the folders that `TORCH_TRACE` names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs.opening import open_source
from traceanalyzer.readers import compile_log
from traceanalyzer.trace.compile_log import CompileLog

_SUFFIXES = (".log", ".log.gz")


def read(locations: Iterable[str | Path]) -> tuple[CompileLog, ...]:
    """Read structured compile logs of torch.

    Args:
        locations: Files, or folders, of which `*.log` and `*.log.gz` are read in the order of their names.

    Raises:
        UnusableInputError: A file is missing or not a compile log, or a folder contains none.
    """
    return tuple(_read(file) for location in locations for file in _files(location))


def _files(location: str | Path) -> Iterator[str]:
    if not Path(location).is_dir():
        yield str(location)
        return
    found = sorted(entry.path for entry in os.scandir(location) if entry.name.endswith(_SUFFIXES) and entry.is_file())
    if not found:
        raise UnusableInputError(
            f"{location}: contains no compile log (*.log); run with TORCH_TRACE={location} to write"
        )
    yield from found


def _read(file: str) -> CompileLog:
    with open_source(file) as source:
        return compile_log.read(source)
