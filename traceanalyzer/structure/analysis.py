"""An analysis of a trace: its key in the report, what it returns, and what the trace must have for it to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure import typical
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.tables import Category

T = TypeVar("T", bound=msgspec.Struct)
NO_CONVOLUTIONS = Text("skip-no-convolutions", "the trace has no convolutions with kernels")


class Need(msgspec.Struct, frozen=True):
    """Data that an analysis cannot do without; what several analyses need is listed below."""

    reason: Text
    """Why an analysis is skipped, for people."""
    is_met: Callable[[Context], object]
    """Something true if the trace has the data."""


class Analysis(msgspec.Struct, frozen=True):
    """One analysis; modules of a subject list theirs in `ANALYSES`."""

    order: int
    """Its place among all analyses of a report, ascending; numbers have gaps for new ones."""
    key: str
    result: type[msgspec.Struct]
    analyze: Callable[[Context], msgspec.Struct]
    needs: tuple[Need, ...] = ()
    is_of_steps: bool = False
    """Whether only what starts in a typical step counts in its sums."""
    is_for_files: bool = False
    """Whether only files show it or compare by it: pictures, tables, saved reports; the first screen does without."""
    question: str = ""
    """What it answers, where the docstring of its module does not begin with it; the published schema says it."""

    def run(self, context: Context) -> msgspec.Struct:
        """Its result for a trace."""
        return self.analyze(self._scope(context))

    def missing(self, context: Context) -> Message | None:
        """The reason why it cannot run on a trace: that of the first need that is not met, or None."""
        scope = self._scope(context)
        return next((need.reason() for need in self.needs if not need.is_met(scope)), None)

    def _scope(self, context: Context) -> Context:
        return typical.part(context) if self.is_of_steps else context


STEPS = Need(
    Text("skip-no-steps", "the trace has no events from which steps could be found"),
    lambda context: len(context.steps) > 0,
)
KERNELS = Need(
    Text("skip-no-kernels", "the trace has no kernels: nothing ran on a GPU, or it was not recorded"),
    lambda context: (context.trace.device.category == Category.KERNEL).any(),
)
OPERATORS = Need(
    Text("skip-no-operators", "the trace has no operators"),
    lambda context: (context.trace.host.category == Category.OPERATOR).any(),
)
SHAPES = Need(
    Text(
        "skip-no-shapes",
        "the trace has no input shapes: record them with record_shapes=True",
        "record_shapes=True is code",
    ),
    lambda context: (context.trace.host.shapes > 0).any(),
)
RUNTIME_CALLS = Need(
    Text("skip-no-runtime-calls", "the trace has no runtime calls, so waits of the CPU are unknown"),
    lambda context: len(context.trace.launches) > 0,
)


def narrowed(kind: type[T], rows: Iterable[msgspec.Struct]) -> tuple[T, ...]:
    """Rows with the fields of a kind, made of rows that have more fields."""
    fields = kind.__struct_fields__
    return tuple(kind(*(getattr(row, field) for field in fields)) for row in rows)
