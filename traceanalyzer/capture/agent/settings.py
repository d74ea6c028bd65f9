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
    """What to record, when, and where to. The same for the command line and the library."""

    folder: str
    """Where traces go."""
    steps: int = 5
    """Steps to record."""
    warmup: int = 3
    """Steps before them that are not recorded; the profiler is on in the last one."""
    wait: int = 0
    """Steps before the warm-up."""
    record_shapes: bool = True
    with_stack: bool = False
    profile_memory: bool = False
    with_modules: bool = False
    with_flops: bool = False
    project: str = ""
    """The project's folder: paths in it stay, relative to it."""
    scratch: str = ""
    """A folder of this one run, for files that are not finished and notes to the parent; empty in the library."""
    limit_s: float = 30.0
    """For how long a program is recorded of which nobody knows yet whether it makes steps; 0 is never."""

    @property
    def skipped(self) -> int:
        """Steps before the recorded ones; at least one, whose end shows where steps end."""
        return max(1, self.wait + self.warmup)

    @property
    def control(self) -> int:
        """Steps that are timed after the recorded ones, for comparison."""
        return max(5, self.steps)

    def encode(self) -> str:
        """As JSON."""
        return json.dumps(dataclasses.asdict(self))


def decode(text: str | None) -> Settings | None:
    """Settings from JSON; None where there are none."""
    try:
        values = json.loads(text or "")
        return Settings(**values) if isinstance(values, Mapping) else None
    except (ValueError, TypeError):
        return None
