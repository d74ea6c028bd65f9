"""The task of a process of the lab. Does not import torch."""

from __future__ import annotations

import msgspec

SIDES = ("before", "after")


class Task(msgspec.Struct, frozen=True):
    """What a process records and times."""

    fault: str
    sizes: tuple[str, ...]
    folder: str
    """Output folder; for each size, the process writes traces to `before/` and `after/`, and a file `turns.json`."""
    warmup: int
    record: int
    """Steps to record."""
    steps: tuple[int, ...]
    """Number of steps in a turn, for each size."""
    rounds: int
    rank: int = 0
    store: str = ""
    """File through which the ranks find each other."""
