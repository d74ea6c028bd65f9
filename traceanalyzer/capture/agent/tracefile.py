"""Writes the files of a capture: cleaned, atomically, never over an existing file, with the facts at their head."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import secrets
import shutil
import site
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from threading import get_native_id
from typing import Any, BinaryIO

from .recording import ProfilerRun

KEY = "traceanalyzer"
"""The key of the facts in the JSON object of a trace."""

_LINE = b'  "' + KEY.encode() + b'": '
_LEVEL = 6
_EVENTS = b'"traceEvents"'
_CALLER = re.compile(rb'"pid": *\d+, *"tid": *-?\d+')
_BASE = re.compile(rb'"baseTimeNanoseconds": *(\d+)')
"""Unix time in ns of the time 0 of a trace; older versions of torch count from 1970."""


def stem(rank: int, seconds: float | None = None) -> str:
    """File name without suffix, such as `trace_rank0_20261121T050709Z`: the rank and the time in UTC."""
    return f"trace_rank{rank}_{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(seconds))}"


def write_trace(
    raw: Path, target: Path, facts: Mapping[str, Any], clean: Callable[[bytes], bytes], marks: bytes = b""
) -> bool:
    """Clean and compress the profiler's JSON, and add the facts as its first key.

    Args:
        raw: The profiler's file, which contains a JSON object.
        target: A temporary file that nothing else uses yet.
        facts: Facts about the program that the trace lacks.
        clean: Function that cleans one line.
        marks: Events to put before the others, each with a comma.

    Returns:
        Whether the trace contains any operator or device event.
    """
    any_work = False
    with raw.open("rb") as lines, _whole(target) as out:
        first = next((line for line in lines if b"{" in line), b"")  # on a GPU an empty line comes first
        _, _, rest = first.partition(b"{")
        out.write(b"{\n" + clean(_facts_line(facts)) + rest)
        for line in lines:
            any_work = any_work or b'"cpu_op"' in line or b'"kernel"' in line
            out.write(clean(line))
            if marks and line.lstrip().startswith(_EVENTS):
                out.write(marks)
                marks = b""
    return any_work


def marks_of_steps(raw: Path, times_ns: Sequence[int]) -> bytes:
    """Marks of steps as the profiler writes them, for a recording of devices alone, which has none.

    They belong to the thread that called the device most often.

    Args:
        raw: The profiler's file.
        times_ns: When the steps begin and the last one ends, in ns of Unix time.
    """
    base, threads = 0, Counter[bytes]()
    with raw.open("rb") as lines:
        for line in lines:
            if b"_runtime" in line or b"_driver" in line:
                threads.update(_CALLER.findall(line))
            elif found := _BASE.search(line):
                base = int(found[1])
    caller = threads.most_common(1)[0][0] if threads else b'"pid": %d, "tid": %d' % (os.getpid(), get_native_id())
    events = (
        b'{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", %s, "ts": %.3f, "dur": %.3f},\n'
        % (number, caller, (start - base) / 1e3, (end - start) / 1e3)
        for number, (start, end) in enumerate(pairwise(times_ns))
    )
    return b"".join(events)


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


def remove(trace: Path) -> None:
    """Remove a trace and what lies beside it under its name."""
    for path in trace.parent.glob(trace.name.removesuffix(SUFFIX) + ".*"):
        path.unlink()


def _move_to_a_new_name(temporary: Path, target: Path) -> None:
    """Rename a file, and fail if the name is taken (`os.rename` would overwrite)."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        if os.path.lexists(target):  # also a link to nothing
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


# Removes machine names, user names and folders outside the project from a trace.

_KEYS = re.compile(rb'"(?:host_name|PT_PROFILER_JOB_\w+)"\s*:\s*"(?:[^"\\]|\\.)*"\s*,?')
_TRACE_NAME = re.compile(rb',\s*"traceName"\s*:\s*"(?:[^"\\]|\\.)*"')
_OWN_LINE = re.compile(rb'^(\s*"traceName"\s*:\s*)"(?:[^"\\]|\\.)*"')
"""The name of the trace on a line of its own, whose comma is on the line before, as in traces of a GPU."""
_FRAME = re.compile(rb'(?<=")(?:/|[A-Za-z]:[/\\])[^";]*[/\\](?=[^"/\\;]+\(\d+\): )')
"""The folder of a stack frame, which may hold blanks: `/any where/file.py(12): function`."""
_FOLDER = re.compile(
    rb"(?<![\w.)\]>:/~])/(?:[^/\s\"'();,\\]+/)+(?=[^/\s\"'();,\\])"
    rb"|(?<![A-Za-z0-9])[A-Za-z]:[/\\]+(?:[^/\\\s\"'();,]+[/\\]+)+"
)
"""The folder of any other absolute path."""


class Cleaner:
    """Cleans the lines of a trace: paths become relative to the project or to the package that contains them."""

    def __init__(self, project: str, packages: Iterable[str], home: str) -> None:
        inside = [folder for folder in {*packages, project} if _is_a_folder_worth_naming(folder, home)]
        longest_first = sorted(inside, key=lambda folder: (-len(folder), folder))
        known = b"|".join(re.escape(os.fsencode(folder.rstrip("/"))) for folder in longest_first)
        self._known = re.compile(rb"(?<![\w.~/-])(?:" + known + rb")/") if known else None
        self._home = re.compile(re.escape(os.fsencode(home)) + rb"(?![\w/-])") if len(home) > 1 else None

    def clean(self, line: bytes) -> bytes:
        """Clean one or several lines."""
        if b'_name"' in line or b"PT_PROFILER" in line:
            line = _KEYS.sub(b"", line)
        if b"/" not in line and b"\\" not in line:
            return _without_trace_name(line) if b"traceName" in line else line
        line = _without_trace_name(line)
        if self._known is not None:
            line = self._known.sub(b"", line)
        if self._home is not None:
            line = self._home.sub(b"~", line)
        return _FOLDER.sub(b"", _FRAME.sub(b"", line))


def _without_trace_name(line: bytes) -> bytes:
    return _OWN_LINE.sub(rb'\1""', _TRACE_NAME.sub(b"", line))


def _is_a_folder_worth_naming(folder: str, home: str) -> bool:
    """Whether a folder is absolute and does not contain the home folder: paths relative to `/` would name the user."""
    above = folder.rstrip("/") + "/"
    return os.path.isabs(folder) and len(folder) > 1 and not home.startswith(above)  # noqa: PTH117 - plain text


def of_this_process(project: str) -> Cleaner:
    """Create a cleaner for this process, which knows the package folders of its Python."""
    paths = sysconfig.get_paths()
    packages = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages += [entry for entry in sys.path if entry]
    if site.ENABLE_USER_SITE:
        packages.append(site.getusersitepackages())
    own_folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
    return Cleaner(project, [*packages, own_folder], os.path.expanduser("~"))  # noqa: PTH111 - text, not a path to open


# Turns a recording into files: exports, cleans and compresses it, and names complete files.

SUFFIX = ".json.gz"
TABLES_SUFFIX = ".key_averages.txt"
_MOST_FOR_TABLES = 32 << 20
"""Most bytes of JSON for which tables are made, about 75,000 events: torch takes 10 seconds for these (measured)."""


def save(
    recording: ProfilerRun,
    folder: Path,
    rank: int,
    facts: Mapping[str, Any],
    project: str,
    *,
    scratch: Path | None = None,
    with_tables: bool = True,
) -> Path | None:
    """Save what was recorded as a trace with its tables.

    Args:
        recording: A recording that has stopped.
        folder: Folder for the trace; created if it does not exist.
        rank: Rank of this process, for the file name.
        facts: Facts about the program that the trace lacks.
        project: Folder of the project; paths become relative to it.
        scratch: Folder for incomplete files; by default a hidden folder inside `folder`.
        with_tables: Whether to write the tables of `key_averages()` too, beside the trace and under its name.

    Returns:
        The trace; None if nothing was recorded, in which case no file is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    exported = (scratch or folder) / f".{secrets.token_hex(8)}"
    exported.mkdir()
    try:
        clean = of_this_process(project).clean
        raw, packed = exported / "raw.json", exported / "packed"
        recording.export(raw)
        marks = marks_of_steps(raw, recording.marks_ns) if recording.marks_ns else b""
        if not write_trace(raw, packed, facts, clean, marks):
            return None
        is_small = raw.stat().st_size <= _MOST_FOR_TABLES
        raw.unlink()
        trace = publish(packed, folder, stem(rank), SUFFIX)
        if with_tables and is_small and not recording.marks_ns:
            tables = exported / "tables"
            tables.write_bytes(clean(recording.tables().encode()))
            publish(tables, folder, trace.name.removesuffix(SUFFIX), TABLES_SUFFIX)
        return trace
    finally:
        shutil.rmtree(exported, ignore_errors=True)
