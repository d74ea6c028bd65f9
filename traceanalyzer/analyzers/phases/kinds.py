"""Steps of a server by kind: prompts, generation and batches by its own marks, and the time of each kind.

If marks of several frameworks are nested (SGLang has written vLLM's, too), they are one step: its times are those of
the outermost mark, and contents of marks count in the order of the table of frameworks.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import fields

from traceanalyzer.analyzers.phases.costs import costs
from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import Forest, forest
from traceanalyzer.structure.sums import Columns, members
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I64, UNKNOWN, Array

_NUMBERS = ("requests", "tokens", "context_requests", "generation_requests")


class StepKind(msgspec.Struct, frozen=True):
    """All steps of one kind that a framework marked."""

    kind: str | None
    """`prefill`, `decode`, `mixed`, `capture` (of a graph) or `diffusion`; null where the mark does not show it."""
    framework: str
    """Id of the framework whose mark shows the kind."""
    steps: int
    """Number of steps."""
    median_requests: float | None
    """Median number of requests of a step, by the marks; null if unknown."""
    max_requests: int | None
    """Most requests of a step; null if no mark shows it."""
    context_requests: int | None
    """Requests whose prompts are computed, summed over the steps; null where some mark does not show it."""
    generation_requests: int | None
    """Requests that generate tokens, summed over the steps; null where some mark does not show it."""
    median_tokens: float | None
    """Median number of tokens that a step computes, by the marks; null if unknown."""
    tokens: int | None
    """Tokens computed in all steps; null where some mark does not show it."""
    host_ns: int
    """Duration of the marks in ns."""
    median_host_ns: float
    """Median duration of a mark in ns."""
    device_ns: int | None
    """Device time in ns of the work launched in the marks, each in full; null if no launch is known."""
    median_device_ns: float | None
    """Median of it over the marks in ns; null if no launch is known."""
    idle_ns: int | None
    """Time in ns in which no device works while the program is in the marks; null where unknown."""


class _Said(Columns, frozen=True):
    """Contents of marks, one value per step; `UNKNOWN` if a mark does not have it."""

    kind: I64
    """Position of the kind among the kinds that occur."""
    framework: I64
    """Position of the framework in the table."""
    requests: I64
    tokens: I64
    context_requests: I64
    generation_requests: I64


def kinds(context: Context) -> tuple[StepKind, ...]:
    """The kinds of steps, the one with the most host time first; empty if the program is not a server."""
    said, roots, names = _steps(context)
    if not len(roots):
        return ()
    marks = context.cached(forest)
    cost = context.cached(costs)
    device = marks.sums(cost.device_self)[roots] if cost.device_ns else None
    kinds_of_steps = said.framework * (len(names) + 1) + said.kind + 1
    result = []
    for _, steps in members(kinds_of_steps):
        device_ns = None if device is None else device[steps]
        result.append(_kind(context, said.take(steps), roots[steps], names, device_ns))
    return tuple(sorted(result, key=lambda row: (-row.host_ns, row.kind or "", row.framework)))


def _steps(context: Context) -> tuple[_Said, I64, list[str]]:
    """What marks say of each step, the outermost mark of each, and the names of the kinds."""
    marks = context.cached(forest)
    codes, name = ranked(marks.name)
    read = [_read(context.trace.names[code]) for code in codes.tolist()]
    is_step_mark = np.array([mark is not None for mark in read], np.bool_)
    rows = np.flatnonzero(is_step_mark[name])
    kind_names = sorted({mark.phase for _, mark in filter(None, read) if mark.phase is not None})
    roots, step = _outermost(marks, rows)
    return _combined(_columns(read, kind_names, name[rows]), step, len(roots)), roots, kind_names


def _kind(context: Context, said: _Said, roots: I64, kind_names: list[str], device: I64 | None) -> StepKind:
    """Steps of one kind: what their marks say, and the costs of the marks."""
    cost = context.cached(costs)
    host = context.cached(forest).dur_ns[roots]
    most = int(said.requests.max())
    kind = int(said.kind[0])
    return StepKind(
        kind=None if kind == UNKNOWN else kind_names[kind],
        framework=FRAMEWORKS[said.framework[0]].id,
        steps=len(roots),
        median_requests=_median(said.requests),
        max_requests=None if most == UNKNOWN else most,
        context_requests=_total(said.context_requests),
        generation_requests=_total(said.generation_requests),
        median_tokens=_median(said.tokens),
        tokens=_total(said.tokens),
        host_ns=int(host.sum()),
        median_host_ns=float(np.median(host)),
        device_ns=None if device is None else int(device.sum()),
        median_device_ns=None if device is None else float(np.median(device)),
        idle_ns=int(cost.idle[roots].sum()) if cost.has_idle[roots].all() else None,
    )


def _read(name: str) -> tuple[int, StepMark] | None:
    """The first framework that recognizes a mark, by its position in the table, and the content of the mark."""
    for position, framework in enumerate(FRAMEWORKS):
        if framework.step_mark is not None and (mark := framework.step_mark(name)) is not None:
            return position, mark
    return None


def _outermost(marks: Forest, rows: I64) -> tuple[I64, I64]:
    """The marks of steps that lie in no other, and for each mark of a step which of them it lies in."""
    reach = np.maximum.accumulate(marks.after[rows])
    outer = np.append(True, rows[1:] >= reach[:-1])[: len(rows)]
    return rows[outer], np.cumsum(outer) - 1


def _columns(known: list[tuple[int, StepMark] | None], kinds: list[str], of_mark: I64) -> _Said:
    """The content of each of some marks."""
    table = []
    for read in known:
        if read is None:
            table.append([UNKNOWN] * 6)
            continue
        framework, mark = read
        kind = UNKNOWN if mark.phase is None else kinds.index(mark.phase)
        numbers = [getattr(mark, number) for number in _NUMBERS]
        table.append([kind, framework, *(UNKNOWN if number is None else number for number in numbers)])
    return _Said(*np.array(table, np.int64).reshape(-1, 6)[of_mark].T)


def _combined(said: _Said, step: I64, count: int) -> _Said:
    """Of the marks of a step, the one of the first framework in the table counts; the others fill in missing values."""
    order = np.lexsort((np.arange(len(step)), said.framework, step))
    columns: dict[str, Array] = {}
    for field in fields(said):
        values = getattr(said, field.name)[order]
        tells = values != UNKNOWN
        first = np.unique(step[order][tells], return_index=True)
        columns[field.name] = np.full(count, UNKNOWN, np.int64)
        columns[field.name][first[0]] = values[tells][first[1]]
    return _Said(**columns)


def _median(values: I64) -> float | None:
    known = values[values != UNKNOWN]
    return float(np.median(known)) if len(known) else None


def _total(values: I64) -> int | None:
    return int(values.sum()) if (values != UNKNOWN).all() else None
