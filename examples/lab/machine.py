"""Facts about the machine, without its name."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from examples.lab.results import Machine


def facts(load_before: float, gpu: str | None) -> Machine:
    """Describe the machine of this process."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return Machine(cpu(), cores(), memory_gb, gpu, platform.system(), (load_before, load()))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu() -> str:
    """Name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def load() -> float:
    """Mean number of runnable processes in the last minute (load average); 0 if the system does not provide it."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def now() -> str:
    """The current minute, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
