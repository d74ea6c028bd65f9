"""Files of a capture: written completely or not at all, never over another one, with the facts at their head."""

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
"""Where the facts stand among the metadata of a trace."""

_LINE = b'  "' + KEY.encode() + b'": '
_LEVEL = 6


def stem(rank: int, seconds: float | None = None) -> str:
    """`trace_rank0_20261121T050709Z`: the rank and the time in UTC."""
    return f"trace_rank{rank}_{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(seconds))}"


def write_trace(raw: Path, target: Path, facts: Mapping[str, Any], clean: Callable[[bytes], bytes]) -> bool:
    """Compress and clean what the profiler wrote; the facts become its first key.

    Args:
        raw: The profiler's JSON, an object.
        target: A temporary file that nothing else uses yet.
        facts: What the trace cannot know.
        clean: Cleans one line.

    Returns:
        Whether the trace holds any operator or device event.
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
    """Write other facts to the head of a trace that `write_trace` wrote; it is never there by half."""
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
    """A compressed file whose bytes are on the disk when the block ends; without its name and time inside."""
    with path.open("xb") as file:
        with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            yield packed  # type: ignore[misc]
        file.flush()
        os.fsync(file.fileno())


def publish(temporary: Path, folder: Path, name: str, suffix: str) -> Path:
    """Give a finished file its name; if that is taken, the next free one, so that nothing is ever overwritten."""
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
    """A rename that fails where the name is taken; plain renaming would overwrite."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if target.exists():
            raise FileExistsError(target) from None
        temporary.replace(target)
        return
    temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name reach the disk, too, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
