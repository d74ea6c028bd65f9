"""Which lines of Python run during times that may begin in one function and go on in others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import group, members, rows_by, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I32, I64


class LineTimes(NamedTuple):
    """Time of lines in some spans; each pair of a span and a line once, in the order of the spans."""

    span: I64
    """Row of the span."""
    line: I64
    """Code of the name of the line, as of `host_activity.python_lines`; -1 for none."""
    time_ns: I64
    """Time of the line in the span, in ns; 0 only for spans of no length."""


def line_times(context: Context, thread: I32, start: I64, end: I64) -> LineTimes:
    """Divide spans of threads among the lines that run in them: a span that begins in one function may be in another.

    Args:
        context: Of the trace.
        thread: Row of the thread of each span.
        start: Start of each span in ns.
        end: End of each span in ns.
    """
    span, begin = _pieces(context, thread, start, end)
    is_last = np.append(span[1:] != span[:-1], True)[: len(span)]
    until = np.where(is_last, end[span], np.append(begin[1:], 0)[: len(span)])
    line = host_activity.python_lines(context, thread[span], begin)
    first_of, number = group(span, line)
    return LineTimes(span[first_of], line[first_of], sum_by(number, until - begin, len(first_of)))


def _pieces(context: Context, thread: I32, start: I64, end: I64) -> tuple[I64, I64]:
    """The spans cut wherever a function of the program begins or ends: row of the span and start of each piece."""
    cuts_of = context.cached(_cuts)
    found = [(np.arange(len(start)), start)]
    for place, rows in members(thread):
        inner, at = _within(cuts_of(place), start[rows], end[rows])
        found.append((rows[inner], at))
    span, begin = map(np.concatenate, zip(*found, strict=True))
    order = np.lexsort((begin, span))
    return span[order], begin[order]


def _cuts(context: Context) -> Callable[[int], I64]:
    """A function from a thread to the times at which a function of the program begins or ends there, ascending."""
    frames, (_, own, _) = context.trace.frames, context.cached(host_activity.rows_with_lines)
    of_thread = rows_by(frames.thread[own])

    def cuts(thread: int) -> I64:
        here = own[of_thread(thread)]
        return distinct(np.concatenate((frames.start_ns[here], frames.end_ns[here])))

    return cache(cuts)


def _within(cuts: I64, start: I64, end: I64) -> tuple[I64, I64]:
    """The cuts inside of each span, ascending: row of the span and time of the cut."""
    first = np.searchsorted(cuts, start, side="right")
    count = np.maximum(np.searchsorted(cuts, end, side="left") - first, 0)
    before = np.cumsum(count) - count
    return np.repeat(np.arange(len(start)), count), cuts[np.arange(count.sum()) + np.repeat(first - before, count)]


def longest_lines(context: Context, thread: I32, start: I64, end: I64) -> I64:
    """For each span the code of the line that runs for most of it, or -1; the arguments are those of `line_times`."""
    found = line_times(context, thread, start, end)
    lines = np.full(len(start), -1, np.int64)
    order = np.argsort(found.time_ns, kind="stable")
    lines[found.span[order]] = found.line[order]  # of several values for one span the last, of most time, stays
    return lines
