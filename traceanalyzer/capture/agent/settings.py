"""Settings of a capture, and how they reach the processes of the program."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "TRACEANALYZER_CAPTURE"
"""The environment variable that contains the settings as JSON."""


@dataclass(frozen=True)
class Settings:
    """What to record, when, and in which folder, for both the command line and the library."""

    folder: str
    """Folder that the traces are written to."""
    steps: int = 5
    """Number of steps to record."""
    warmup: int = 3
    """Number of steps before them that are not recorded; the profiler is on in the last one."""
    wait: int = 0
    """Number of steps before the warm-up."""
    record_shapes: bool = True
    with_stack: bool = False
    profile_memory: bool = False
    with_modules: bool = False
    with_flops: bool = False
    project: str = ""
    """Folder of the project; paths in it are kept, relative to it."""
    scratch: str = ""
    """Temporary folder of this run, for incomplete files and reports to the parent; empty in the library."""
    limit_s: float = 30.0
    """Most seconds to record while no step has been detected; 0 disables this recording."""

    @property
    def skipped(self) -> int:
        """Number of steps before the recorded ones; at least one, because its end shows where steps end."""
        return max(1, self.wait + self.warmup)

    @property
    def control(self) -> int:
        """Number of steps that are timed after the recorded ones, for comparison."""
        return max(5, self.steps)

    def encode(self) -> str:
        """Encode the settings as JSON."""
        return json.dumps(dataclasses.asdict(self))


def decode(text: str | None) -> Settings | None:
    """Decode settings from JSON; None without settings."""
    try:
        values = json.loads(text or "")
        return Settings(**values) if isinstance(values, Mapping) else None
    except (ValueError, TypeError):
        return None
