"""What a process of the lab is asked for. Loads no torch."""

from __future__ import annotations

import msgspec

SIDES = ("before", "after")


class Task(msgspec.Struct, frozen=True):
    """What to record and to time."""

    fault: str
    sizes: tuple[str, ...]
    folder: str
    """Gets for each size a folder with `before/` and `after/`, which hold traces, and `turns.json`."""
    warmup: int
    record: int
    """Steps to record."""
    steps: tuple[int, ...]
    """Steps of a turn, for each size."""
    rounds: int
    rank: int = 0
    store: str = ""
    """A file in which the ranks meet."""
