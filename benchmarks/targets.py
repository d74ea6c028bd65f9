"""The project's performance targets, and how a measured figure stands against them.

The reader, the core analyses and the JSON and Markdown reports may use half of each target (the core's
budget), so that further analyses and the HTML report fit into the other half.
"""

from dataclasses import dataclass

CORE_SHARE = 0.5

CPU_OF_JSON_LOAD = 1.0
"""CPU time of a full report, as a multiple of json.load of the same file in the same run."""
MEMORY_OF_JSON_LOAD = 0.25
"""Peak memory of a full report, as a multiple of json.load's."""
GROWTH = 1.3
"""CPU time per event on the largest replica, as a multiple of that on the smallest."""
SMALL_TRACE_S = 1.5
"""CPU time of a full report of a small trace in a fresh process."""
SMALL_TRACE_BYTES = 20_000_000
"""Up to this size, unzipped, a trace counts as small; the target is meant for 15 MB."""
HELP_OF_PYTHON = 8.0
"""CPU time of --help, as a multiple of an empty Python program's."""


@dataclass(frozen=True)
class Verdict:
    """One figure against one target."""

    name: str
    value: float | None
    """None: it could not be measured, which counts as a miss."""
    target: float
    core_budget: float | None
    """None: the target has no half; growth is a ratio of the same work."""

    @property
    def passed(self) -> bool:
        """Whether the figure is below the target."""
        return self.value is not None and self.value < self.target

    @property
    def within_core_budget(self) -> bool | None:
        """Whether the figure is below the core's half of the target."""
        if self.core_budget is None:
            return None
        return self.value is not None and self.value < self.core_budget


def verdict(name: str, value: float | None, target: float, *, halved: bool = True) -> Verdict:
    """The verdict on a figure, with the core's budget where the target is one that is shared out."""
    return Verdict(name, value, target, target * CORE_SHARE if halved else None)
