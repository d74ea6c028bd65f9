"""An analysis of a trace: its key in the report, what it returns, and what the trace must have for it to run."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.context import Context


class Need(msgspec.Struct, frozen=True):
    """Data that an analysis cannot do without; `structure.needs` lists all of them."""

    reason: Text
    """Why an analysis is skipped, for people."""
    is_met: Callable[[Context], bool]
    """Whether the trace has the data."""


class Analysis(msgspec.Struct, frozen=True):
    """One analysis; modules of a subject list theirs in `ANALYSES`."""

    order: int
    """Its place among all analyses of a report, ascending; numbers have gaps for new ones."""
    key: str
    result: type[msgspec.Struct]
    analyze: Callable[[Context], msgspec.Struct]
    needs: tuple[Need, ...] = ()
    question: str = ""
    """What it answers, where the docstring of its module does not begin with it; the published schema says it."""

    def missing(self, context: Context) -> Message | None:
        """The reason why it cannot run on a trace: that of the first need that is not met, or None."""
        return next((need.reason() for need in self.needs if not need.is_met(context)), None)
