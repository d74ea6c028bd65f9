"""Sixty recordings of the kinds that people make most: one window, no steps, and often only a part of what happened.

`PROGRAMS` has them by name; README.md of the folder above says what they are for.
"""

from . import cpu_only, exports, host_work, loops, notebooks, passes, ranks, recorded, systems, waiting
from .program import PROGRAMS, Program

__all__ = [
    "PROGRAMS",
    "Program",
    "cpu_only",
    "exports",
    "host_work",
    "loops",
    "notebooks",
    "passes",
    "ranks",
    "recorded",
    "systems",
    "waiting",
]
