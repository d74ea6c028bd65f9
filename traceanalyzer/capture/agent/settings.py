"""Settings of a capture, how they reach the processes of the program, and what these report back."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    light: bool = False
    """Whether only devices are recorded: no operators, shapes or stacks."""
    project: str = ""
    """Folder of the project; paths in it are kept, relative to it."""
    scratch: str = ""
    """Temporary folder of this run, for incomplete files and reports to the parent; empty in the library."""
    limit_s: float = 5.0
    """Most seconds to record while no step has been detected; 0 disables this recording."""
    slowest: int = 0
    """Number of steps of which the recording with the slowest is kept; 0 keeps the first recording."""
    every: int = 0
    """Number of steps after which another recording begins, again and again; 0 records once."""
    on_signal: bool = False
    """Whether a recording begins when the parent is asked for it, as often as it is asked."""

    @property
    def repeats(self) -> bool:
        """Whether other recordings may follow the first."""
        return self.on_signal or self.every > 0

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


# Reports on this process to the parent process, in a small file that is rewritten after every change.

SUFFIX = ".note"

ASKED = "asked"
"""File of the parent with as many bytes as recordings were asked for by a signal."""


def recordings_asked_for(scratch: str) -> int:
    """Number of recordings that the parent was asked for so far.

    Args:
        scratch: The temporary folder of the run.
    """
    try:
        return Path(scratch, ASKED).stat().st_size
    except OSError:
        return 0


class Notes:
    """The file in which this process reports to the parent.

    Its keys: `rank`, `trace` (path), `facts` (newer than those in the trace), `earlier` (traces before it, each with
    its facts), `steps`, `wanted`, `ended`, `counted` (steps that the program has made), `whole_run` (path of a
    recording of everything), `cut_by` and `length_s` (of that), `signs` (numbers of batches and the like),
    `is_writing`, `finished` (the process could save everything), `profiles_itself`, `has_no_device` (so that a light
    recording has nothing to record), `error`. A process that has
    imported torch has a file, even if it is empty.
    """

    def __init__(self, scratch: str) -> None:
        self._folder = Path(scratch)
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._values: dict[str, Any] = {}

    def tell(self, **values: Any) -> None:
        """Add or change keys; the file is replaced atomically."""
        self._values |= values
        temporary = self._folder / f".{self._name}"
        try:
            temporary.write_text(json.dumps(self._values), encoding="utf-8")
            temporary.replace(self._folder / (self._name + SUFFIX))
        except OSError:
            pass  # the parent has ended and removed its folder
