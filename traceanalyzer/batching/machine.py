"""Cores and memory that this process may use, and the memory that the analysis of a file takes."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from traceanalyzer.errors import UsageError
from traceanalyzer.inputs.sniffing import LONGEST_TEXT, FileKind, Peek

_UNLIMITED = 1 << 60
"""Version 1 of cgroups encodes "no limit" as a number near 2^63."""

_MOST_OF_A_FILE = 8
"""Most processes for one file; more would wait for the process that reads it and joins all parts."""

_SHARE_BYTES = 512 << 20
"""Free memory required per process in bytes; decoding takes a tenth of it, the analysis of a 1 GB trace nearly all."""

_CGROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Number of processors that this process may use, at least one."""
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # only on Linux
        usable = os.cpu_count() or 1
    quota = _cpu_quota(_CGROUPS)
    return max(1, min(usable, quota or usable))


def processes_of_a_file() -> int:
    """Number of processes for one large trace, as cores and memory allow; at least one."""
    free = available_memory()
    fitting = _MOST_OF_A_FILE if free is None else free // _SHARE_BYTES
    return max(1, min(cores(), fitting, _MOST_OF_A_FILE))


def available_memory(meminfo: Path = Path("/proc/meminfo"), cgroups: Path = _CGROUPS) -> int | None:
    """Bytes that can be used without swapping; None if the system does not report it."""
    known = [size for size in (_free(meminfo), _free_in_cgroup(cgroups)) if size is not None]
    if known:
        return min(known)
    try:  # not Linux: half of all memory, because the free part is unknown
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _free(meminfo: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _free_in_cgroup(root: Path) -> int | None:
    """Bytes left below the tightest memory limit of this process's cgroup and its parents; None without a limit."""
    second = [_left(f, "memory.max", "memory.current", "inactive_file") for f in _own_groups(root, "")]
    first = [
        _left(f, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        for f in _own_groups(root / "memory", "memory")
    ]
    return min((size for size in (*first, *second) if size is not None), default=None)


def _own_groups(root: Path, controller: str) -> list[Path]:
    """Folders of this process's cgroup and its parents; in a container the root is the cgroup itself."""
    path = ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controller in controllers.split(","):
                path = group.strip("/")
    parts = path.split("/") if path else []
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _left(folder: Path, limit: str, used: str, reclaimable: str) -> int | None:
    limit_bytes, used_bytes = _number(folder / limit), _number(folder / used)
    if limit_bytes is None or used_bytes is None or limit_bytes >= _UNLIMITED:
        return None
    cache = 0
    with contextlib.suppress(OSError, ValueError):
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        cache = int(stat.get(reclaimable, 0))
    return max(0, limit_bytes - used_bytes + cache)


def _cpu_quota(root: Path) -> int | None:
    """Number of whole cores of the tightest CPU quota (cgroup version 2), at least one; None without a quota."""
    quotas = []
    for folder in _own_groups(root, ""):
        with contextlib.suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            quotas.append(max(1, int(quota) // int(period)))
    return min(quotas, default=None)


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # "max", too
        return None


# Estimates an upper bound of the memory of the analysis of a file before it starts.
#
# Measured (benchmarks/README.md): a Kineto trace takes 0.3 to 0.6 bytes per byte of plain JSON, 120 to 200 bytes per
# event in the densest layouts, and some 60 MB for the process; `benchmarks/batch.py` checks these bounds.

PROCESS_BYTES = 150 << 20
"""Memory in bytes of a worker with all its modules, its read buffers and the texts of its reports."""

IDLE_BYTES = 80 << 20
"""Memory of a worker between two files."""

_PER_TRACE_BYTE = 0.65
_PER_EVENT = 200
_PER_TEXT_BYTE = 12
"""Text is decoded and split into lines, that of a notebook twice. Values of saved reports take less."""

_PER_DUMP_BYTE = 16
"""Dumps of the flight recorder name most of their texts by numbers."""

_PER_SNAPSHOT_BYTE = 8

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def peak_bytes(peek: Peek) -> int:
    """An upper bound of the memory of a worker that analyzes the file."""
    if peek.kind is FileKind.FLIGHT_DUMP:
        return PROCESS_BYTES + _PER_DUMP_BYTE * peek.plain_bytes
    if peek.kind is FileKind.MEMORY_SNAPSHOT:
        return PROCESS_BYTES + _PER_SNAPSHOT_BYTE * peek.plain_bytes
    if peek.kind in (FileKind.DOCUMENT, FileKind.HANG_LOG, FileKind.COMPILE_LOG, FileKind.REPORT, FileKind.DIFFERENCE):
        return PROCESS_BYTES + _PER_TEXT_BYTE * min(peek.plain_bytes, LONGEST_TEXT)
    events = peek.plain_bytes * peek.events_per_byte
    return PROCESS_BYTES + int(max(_PER_TRACE_BYTE * peek.plain_bytes, _PER_EVENT * events))


def parse_size(text: str, available: int | None) -> int:
    """Parse `8G`, `512 MiB`, `4000000000` or `50%` (of what is available) to bytes; units are powers of 1024.

    Raises:
        UsageError: The text has none of these forms, or is 0.
    """
    if (share := _SHARE.fullmatch(text.strip())) and available is not None:
        size = int(float(share[1]) / 100 * available)
    elif match := _SIZE.fullmatch(text.strip()):
        size = int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))
    else:
        raise UsageError(f"memory limit {text}: not a size; write it as 8G, 512M or 50%")
    if size <= 0:
        raise UsageError(f"memory limit {text}: must be more than 0; write it as 8G, 512M or 50%")
    return size
