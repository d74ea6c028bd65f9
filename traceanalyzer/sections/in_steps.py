"""The typical step in tables of the recording: its figures come first, and headings say what is of the recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.kernels import Kernels
from traceanalyzer.analyzers.operators import Operators, OperatorsByShape
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section
from traceanalyzer.sections.columns import Column
from traceanalyzer.structure import typical
from traceanalyzer.structure.recording import Recording

_FEW_CALLS = 0.5
"""Least share of the kernel time of typical steps that operators which start in them must launch (own choice: half)."""
_PER_STEP = Text("column-per-step", "{title}/step", "title of a column, such as Calls or Device self")
_IN_ALL = Text("column-in-all", "{title} in all", "title of a column, such as Calls: those of the whole recording")
_OF_RECORDING = Text("section-of-recording", "{title} (whole trace)", "title of a table of sums")
_SUMS = (
    "kernels-by-operator",
    "repeated-layers",
    "roofline",
    "modules",
    "modules-by-class",
    "modules-tree",
    "python-lines",
    "python-lines-outside-torch",
    "communication",
    "copies",
    "idle-streams",
    "launches",
    "graph-repetitions",
    "launch-queues",
    "memory-operators",
    "synchronizations",
)
"""Sections whose sums are always of the whole recording, by their ids."""
_OF_OPERATORS = ("operators", "operators-by-shape")


class InSteps(msgspec.Struct, frozen=True):
    """What a typical step has of each row of a table; without steps everything is of the recording."""

    steps: int
    own: Mapping[Any, Any]
    """Rows of the typical steps by their key."""
    key: Callable[[Any], Any]

    def ranked(self, rows: Iterable[Any], column: Column) -> Sequence[Any]:
        """The rows, those of which a step has most first; then in the order in which they are given."""
        return sorted(rows, key=lambda row: -self._mean(column, row) if self.steps else 0)

    def sums(self, *given: Column) -> tuple[Column, ...]:
        """The columns of sums as means of the typical steps, where there are some."""
        if not self.steps:
            return given
        return tuple(
            replace(column, title=_PER_STEP(title=column.title), cell=self._means(column), unit=_MEANS[column.unit])
            for column in given
        )

    def figures(self, *given: Column) -> tuple[Column, ...]:
        """The columns of other figures, of what starts in typical steps; unknown where nothing does."""
        return tuple(replace(column, cell=self._figures(column)) for column in given) if self.steps else given

    def in_all(self, *given: Column) -> tuple[Column, ...]:
        """The columns of sums once more for the whole recording, if the others are of a step."""
        return tuple(
            replace(column, title=_IN_ALL(title=column.title), is_extra=True) for column in given if self.steps
        )

    def _means(self, column: Column) -> Callable[[Any], Any]:
        return lambda row: self._mean(column, row)

    def _mean(self, column: Column, row: Any) -> float:
        own = self.own.get(self.key(row))
        return 0.0 if own is None else typical.mean(column.value(own), self.steps)

    def _figures(self, column: Column) -> Callable[[Any], Any]:
        return lambda row: column.value(self.own[self.key(row)]) if self.key(row) in self.own else None


_MEANS = {"count": "number", "ns": "ns"}
"""Unit of a mean by that of the sums."""


def in_steps(report: Report, found: Any, *key: str) -> InSteps:
    """What a typical step has of the rows of a table.

    Args:
        report: The report.
        found: The result with `rows` of the recording and `in_steps`, those of the typical steps where they differ.
        key: The attributes that tell the rows apart.
    """
    recording, keys = report.result("recording", Recording), attrgetter(*key)
    has_steps = has_calls_in_steps if isinstance(found, Operators | OperatorsByShape) else has_typical_steps
    if recording is None or recording.typical is None or not (recording.has_more and has_steps(report)):
        return InSteps(0, {}, keys)
    return InSteps(recording.typical.steps, {keys(row): row for row in rows_of(found, is_typical=True)}, keys)


def rows_of(table: Any, *, is_typical: bool) -> tuple[Any, ...]:
    """The rows of a table for the typical steps, or for the whole recording."""
    if table is None:
        return ()
    return typical.rows_of(table) if is_typical else table.rows


def has_typical_steps(report: Report) -> bool:
    """Whether the report has each typical step."""
    recording = report.result("recording", Recording)
    return recording is not None and recording.typical is not None and bool(recording.typical.rows)


def has_calls_in_steps(report: Report) -> bool:
    """Whether the typical steps have the calls that launch their work: not where the host runs far ahead."""
    if not has_typical_steps(report):
        return False
    kernels = fsum(row.total_ns for row in rows_of(report.result("kernels", Kernels), is_typical=True))
    operators = rows_of(report.result("operators", Operators), is_typical=True)
    launched = fsum(row.device_self_ns for row in operators)
    return launched >= _FEW_CALLS * kernels


def named(report: Report, sections: Iterable[Section]) -> Iterator[Section]:
    """The sections; the titles of those with sums of the whole recording say so, unless it is one step."""
    recording = report.result("recording", Recording)
    of_recording = () if has_calls_in_steps(report) else _OF_OPERATORS
    for section in sections:
        is_named = recording is not None and recording.has_more and section.id in (*_SUMS, *of_recording)
        yield replace(section, title=_OF_RECORDING(title=section.title)) if is_named else section
