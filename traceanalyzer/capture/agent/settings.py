"""What a capture was asked to do, and how the processes of the program learn of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "TRACEANALYZER_CAPTURE"
"""The environment variable that holds the settings as JSON."""


@dataclass(frozen=True)
class Settings:
    """What to record, when, and where to; the same for the command line and the library."""

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
    """A folder of this one run, for files that are not finished and notes to the parent; empty in the library."""
    limit_s: float = 30.0
    """Seconds for which a program is recorded before it is known whether it makes steps; 0 is never."""

    @property
    def skipped(self) -> int:
        """Number of steps before the recorded ones; at least one, whose end shows where steps end."""
        return max(1, self.wait + self.warmup)

    @property
    def control(self) -> int:
        """Number of steps that are timed after the recorded ones, for comparison."""
        return max(5, self.steps)

    def encode(self) -> str:
        """Encode the settings as JSON."""
        return json.dumps(dataclasses.asdict(self))


def decode(text: str | None) -> Settings | None:
    """Decode settings from JSON; None where there are none."""
    try:
        values = json.loads(text or "")
        return Settings(**values) if isinstance(values, Mapping) else None
    except (ValueError, TypeError):
        return None
