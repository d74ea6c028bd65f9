"""Programs without marks of the profiler: operators or launches one after another, and how their steps are found."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import ProgramSteps, program_steps

WHOLE = "whole-trace", 1
"""What is found where there are no steps."""


class Unmarked:
    """A program that is written down call by call; it begins at time 0, in us."""

    def __init__(self, trace: TraceBuilder | None = None) -> None:
        """Begin with an empty trace: of a GPU, if no other is given."""
        self.trace, self.at = TraceBuilder() if trace is None else trace, 0

    def steps(self) -> ProgramSteps:
        """The steps that are found."""
        return program_steps(Context(read_built(self.trace)))


def found(program: Unmarked) -> tuple[str | None, int]:
    """How steps were found, and how many."""
    steps = program.steps()
    return steps.found_by, len(steps)
