"""The project's performance targets, and their comparison with a measured figure."""

from dataclasses import dataclass

CPU_OF_JSON_LOAD = 0.35
"""CPU time of a full report by one process, as a multiple of json.load of the same file in the same run."""
READING_OF_JSON_LOAD = 0.2
"""CPU time of reading alone by one process, as a multiple of json.load's."""
MEMORY_OF_JSON_LOAD = 0.2
"""Peak memory of a full report, as a multiple of json.load's."""
WALL_OF_TWO_JOBS = 0.75
"""Wall time of a full report by two processes, as a multiple of that by one; needs two otherwise idle cores."""
CPU_OF_PEER = 0.1
"""CPU time of a full report, as a multiple of that of the fastest peer."""
MEMORY_OF_PEER = 0.2
"""Peak memory of a full report, as a multiple of that of the leanest peer."""
GROWTH = 1.1
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
    """The measured figure; None if it could not be measured, which counts as a miss."""
    target: float

    @property
    def passed(self) -> bool:
        """Whether the figure is at most the target."""
        return self.value is not None and self.value <= self.target
