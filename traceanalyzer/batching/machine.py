"""Cores and memory that this process may use; in a container they can be less than the machine has."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

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
            _, controllers, found = line.split(":", 2)
            if controller in controllers.split(","):
                path = found.strip("/")
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
