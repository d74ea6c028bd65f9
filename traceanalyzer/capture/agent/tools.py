"""The objects that every recording in a process needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .ranges import Ranges
from .rivals import Rivals
from .settings import Settings


@dataclass(frozen=True)
class Tools:
    """The objects that all recordings in a process share."""

    torch: Any
    """The module torch, passed in because the agent never imports it."""
    settings: Settings
    rivals: Rivals = field(default_factory=Rivals)
    """Watches whether the program's own profiler is on."""
    ranges: Ranges = field(default_factory=Ranges)
    """Tracks which named ranges are open."""
