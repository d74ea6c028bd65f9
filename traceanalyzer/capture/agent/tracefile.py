"""Writes the files of a capture: atomically, never over an existing file, with the facts at their head."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

KEY = "traceanalyzer"
"""The key of the facts in the JSON object of a trace."""

_LINE = b'  "' + KEY.encode() + b'": '
_LEVEL = 6


def stem(rank: int, seconds: float | None = None) -> str:
    """File name without suffix, such as `trace_rank0_20261121T050709Z`: the rank and the time in UTC."""
    return f"trace_rank{rank}_{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(seconds))}"


def write_trace(raw: Path, target: Path, facts: Mapping[str, Any], clean: Callable[[bytes], bytes]) -> bool:
    """Clean and compress the profiler's JSON, and add the facts as its first key.

    Args:
        raw: The profiler's file, which contains a JSON object.
        target: A temporary file that nothing else uses yet.
        facts: Facts about the program that the trace lacks.
        clean: Function that cleans one line.

    Returns:
        Whether the trace contains any operator or device event.
    """
    any_work = False
    with raw.open("rb") as lines, _whole(target) as out:
        first = lines.readline()
        _, _, rest = first.partition(b"{")
        out.write(b"{\n" + clean(_facts_line(facts)) + rest)
        for line in lines:
            any_work = any_work or b'"cpu_op"' in line or b'"kernel"' in line
            out.write(clean(line))
    return any_work


def _facts_line(facts: Mapping[str, Any]) -> bytes:
    return _LINE + json.dumps(facts).encode() + b",\n"


def replace_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Replace the facts at the head of a trace that `write_trace` wrote, atomically."""
    temporary = path.parent / f".{path.name}-{secrets.token_hex(4)}"
    try:
        with gzip.open(path, "rb") as lines, _whole(temporary) as out:
            out.write(lines.readline())
            line = lines.readline()
            out.write(_facts_line(facts) if line.startswith(_LINE) else line)
            while block := lines.read(1 << 20):
                out.write(block)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """Open a gzip file whose bytes are on disk when the block ends. Its header has no name and no time."""
    with path.open("xb") as file:
        with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            yield packed  # type: ignore[misc]
        file.flush()
        os.fsync(file.fileno())


def publish(temporary: Path, folder: Path, name: str, suffix: str) -> Path:
    """Give a finished file its name, or the next free name, so that nothing is ever overwritten."""
    number = 1
    while True:
        target = folder / (f"{name}{suffix}" if number == 1 else f"{name}-{number}{suffix}")
        try:
            _move_to_a_new_name(temporary, target)
        except FileExistsError:
            number += 1
            continue
        _sync_folder(folder)
        return target


def _move_to_a_new_name(temporary: Path, target: Path) -> None:
    """Rename a file, and fail if the name is taken (`os.rename` would overwrite)."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        if target.exists():
            raise FileExistsError(target) from None
        temporary.replace(target)
        return
    temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the new name is on disk too, where the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
