"""How many tokens does a typical step take in?

A server's marks say it. A mark belongs to the step in which the device does the last work launched in the mark, because
the host may be far ahead of the device. Without marks, the ids say it that are looked up in the largest table of
embeddings, where most attention of the same batch and length shows that they are tokens, and where every typical step
has the same. Padding counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np

from traceanalyzer.analyzers.serving.batches import first_work, shape, typical
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.knowledge.op_models import Family
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import evaluations
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_PHASES = frozenset({"prefill", "decode", "mixed"})
"""Phases in which tokens are worked on."""
_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax"})
_TABLE, _IDS = 2, 2
"""Axes of a table of embeddings, and of ids: batch and length."""


class TokenRate(msgspec.Struct, frozen=True):
    """Tokens of typical steps of one kind."""

    phase: str | None
    """What the steps do, as the server marks them: `prefill`, `decode` or `mixed`; null if unknown."""
    steps: int
    """Number of steps of this kind."""
    requests_per_step: float | None
    """Requests (sequences) in a step; null if unknown."""
    tokens_per_step: float
    """Tokens that a step takes in; in decoding, each request has one."""
    per_s: float
    """Tokens per second of this process during these steps."""
    generated_per_s: float | None
    """Generated tokens per second, one for each request of a decoding step; null for other steps."""
    source: str
    """How the tokens were found: `marks` of a server, or `shapes` of token ids."""


class Tokens(msgspec.Struct, frozen=True):
    """Tokens by kind of step."""

    rates: tuple[TokenRate, ...]
    """One row per kind of step; empty if unknown."""
    unknown: str | None
    """Why there is no rate: `no-steps`, `no-shapes`, `no-tokens` (nothing looks up token ids, or no attention shows
    that they are tokens), or `differs` (not every typical step has the same); null where it is known."""


def tokens(context: Context) -> Tokens:
    """Tokens per second, where they are certain."""
    if not context.cached(typical).length_ns:
        return Tokens((), "no-steps")
    if by_marks := _from_marks(context.cached(served)):
        return Tokens(by_marks, None)
    if not (context.trace.host.shapes > 0).any():
        return Tokens((), "no-shapes")
    by_shapes = _from_shapes(context)
    return Tokens((), by_shapes) if isinstance(by_shapes, str) else Tokens((by_shapes,), None)


def _from_marks(steps: tuple[ServedStep, ...]) -> tuple[TokenRate, ...]:
    """One rate for each phase whose steps all have their numbers of tokens."""
    kinds: dict[str, list[ServedStep]] = {}
    for step in steps:
        kinds.setdefault(step.phase, []).append(step)
    rates = (_rate(phase, members) for phase, members in sorted(kinds.items()))
    return tuple(rate for rate in rates if rate is not None)


def _rate(phase: str, steps: list[ServedStep]) -> TokenRate | None:
    taken = [step.tokens for step in steps if step.tokens is not None]
    asked = [step.requests for step in steps if step.requests is not None]
    seconds = sum(step.length_ns for step in steps) / 1e9
    if len(taken) < len(steps) or not seconds:
        return None
    # A step that checks drafted tokens has several per request, and it is unknown which are accepted.
    is_plain = phase == "decode" and asked == taken
    return TokenRate(
        phase=phase,
        steps=len(steps),
        requests_per_step=sum(asked) / len(steps) if len(asked) == len(steps) else None,
        tokens_per_step=sum(taken) / len(steps),
        per_s=sum(taken) / seconds,
        generated_per_s=sum(asked) / seconds if is_plain else None,
        source="marks",
    )


class ServedStep(msgspec.Struct, frozen=True):
    """A typical step that a server marked."""

    phase: str
    requests: int | None
    tokens: int | None
    length_ns: int


def served(context: Context) -> tuple[ServedStep, ...]:
    """Typical steps whose marks show a phase, in the order of time; other steps are left out."""
    rows, marks = _marks(context)
    steps = context.cached(typical)
    members: dict[int, list[StepMark]] = {}
    for step, mark in zip(steps.at(_worked_on(context, rows)).tolist(), marks, strict=True):
        members.setdefault(step, []).append(mark)
    lengths = (steps.end_ns - steps.start_ns).tolist()
    served_steps = [_step(own, lengths[step]) for step, own in sorted(members.items()) if step != NO_PARENT]
    return tuple(step for step in served_steps if step is not None)


def _marks(context: Context) -> tuple[I64, list[StepMark]]:
    """Rows and content of the annotations with which a framework marks steps, the first of the table that has any."""
    host, names = context.trace.host, context.trace.names
    annotations = np.flatnonzero(host.category == Category.ANNOTATION)
    codes = distinct(host.name[annotations]).tolist()
    for framework in FRAMEWORKS:
        if framework.step_mark is not None:
            read = {code: mark for code in codes if (mark := framework.step_mark(names[code])) is not None}
            if read:
                rows = annotations[np.isin(host.name[annotations], list(read))]
                return rows, [read[code] for code in host.name[rows].tolist()]
    return annotations[:0], []


def _worked_on(context: Context, rows: I64) -> I64:
    """For each mark, when the device begins the last work launched in it; the mark's own start without any."""
    host = context.trace.host
    launch = context.links.launch
    events = np.flatnonzero(launch != NO_PARENT)
    called = context.trace.launches.start_ns[launch[events]]
    order = np.argsort(called, kind="stable")
    begins = context.trace.device.start_ns[events[order]]
    start = host.start_ns[rows]
    low = np.searchsorted(called, start, sorter=order)
    high = np.searchsorted(called, host.end_ns[rows], sorter=order)
    times = start.copy()
    for mark in range(len(rows)):
        times[mark] = begins[low[mark] : high[mark]].max(initial=start[mark])
    return times


def _step(marks: list[StepMark], length_ns: int) -> ServedStep | None:
    """A step with all its marks; None if one of them has no phase."""
    phases = {mark.phase for mark in marks}
    if not phases <= _PHASES:
        return None
    phase = phases.pop() if len(phases) == 1 else "mixed"
    return ServedStep(str(phase), _sum(mark.requests for mark in marks), _sum(mark.tokens for mark in marks), length_ns)


def _sum(values: Iterable[int | None]) -> int | None:
    numbers = list(values)
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _from_shapes(context: Context) -> TokenRate | str:
    """Tokens by the shapes of ids, or why they are unknown."""
    steps = context.cached(typical)
    calls = _embedded(context, steps)
    if not calls:
        return "no-tokens"
    ids = calls[0][0]
    if len(ids) != _IDS or not _attends(context, ids):
        return "no-tokens"
    passes = Counter(step for _, step in calls)
    has_other_shapes = any(other != ids for other, _ in calls)
    if has_other_shapes or len(passes) < len(steps) or len(set(passes.values())) > 1:
        return "differs"
    batch, length = ids
    per_step = batch * length * passes[0]
    return TokenRate(
        phase=None,
        steps=len(steps),
        requests_per_step=batch * passes[0],
        tokens_per_step=per_step,
        per_s=per_step * len(steps) * 1e9 / steps.length_ns,
        generated_per_s=None,
        source="shapes",
    )


def _embedded(context: Context, steps: Steps) -> list[tuple[Shape, int]]:
    """The shapes of ids and the steps of all lookups in the largest table of embeddings."""
    nodes = _lookups(context)
    step = steps.at(first_work(context, nodes))
    nodes = nodes[step != NO_PARENT]
    step = step[step != NO_PARENT]
    lookups = []
    for node, number in zip(nodes.tolist(), step.tolist(), strict=True):
        table = shape(context, node, 0)
        ids = shape(context, node, 1)
        if table and ids and len(table) == _TABLE:
            lookups.append((table, ids, number))
    largest = max((table for table, _, _ in lookups), default=())
    return [(ids, number) for table, ids, number in lookups if table == largest]


def _lookups(context: Context) -> I64:
    """Lookups of whole numbers in a table of embeddings, outside of the backward pass."""
    host, trace = context.host, context.trace
    is_lookup = (host.kind == NodeKind.OPERATOR) & trace.names.where(lambda name: name == "aten::embedding")[host.name]
    is_lookup &= host.tree.nearest(context.cached(evaluations)) == NO_PARENT
    return np.flatnonzero(is_lookup)


def _attends(context: Context, ids: Shape) -> bool:
    """Whether most attention works on queries of this batch and length: that of an image does not, beside its text."""
    host = context.host
    is_attention = context.trace.names.where(_attention)[host.name]
    nodes = np.flatnonzero(is_attention & (host.kind == NodeKind.OPERATOR))
    keys = np.column_stack((host.name[nodes], context.trace.host.shapes[host.row[nodes]]))
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    known = of_ids = 0
    for node, calls in zip(nodes[first].tolist(), counts.tolist(), strict=True):
        query = shape(context, node, 0)
        if query:
            known += calls
            of_ids += calls if _is_of(query, *ids) else 0
    return bool(of_ids) and 2 * of_ids >= known


def _attention(name: str) -> bool:
    return op_models.family(name) is Family.ATTENTION or name in _SOFTMAX


def _is_of(query: Shape, batch: int, length: int) -> bool:
    if len(query) == 4:
        return query[0] == batch and length in query[1:3]
    return len(query) == 3 and query[0] == batch * length
