"""Detects gradients of indexing that are added one after another, or are as large as a whole tensor: index-backward."""

from __future__ import annotations

from math import fsum

from traceanalyzer.analyzers.operators import whole_calls_at
from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.rules.engine import places
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact, if_known
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, page

_INDEX = page("index-backward")

_BACKWARD = "IndexBackward"
_PUT = ("aten::_index_put_impl_", "aten::index_put_", "_index_put_impl_", "index_put_")
"""Operators of the backward pass of indexing; assignments to `x[index]` call them, too."""
_SAVED = 0.5, 0.95
"""Parts of the time that are saved (own choice: adding in parallel still reads and writes the gradients)."""
_SELECT = "aten::select_backward"
_SELECTED = 0.7, 1.0
"""Parts of the time of gradients of slices that are saved (own choice: one gradient of the whole tensor remains)."""
_ADDS = frozenset({"aten::scatter_add_", "aten::index_add_", "aten::scatter_add", "aten::index_add"})
_GATHERS = frozenset({"aten::index_select", "aten::index"})
_PRODUCTS = frozenset({"aten::linear", "aten::mm", "aten::addmm", "aten::matmul", "aten::bmm"})
_MATRIX = 2
"""Dimensions of messages: edges and values."""
_MORE_EDGES = 2
"""Least edges for a node, of what counts as a graph (own choice)."""
_MUCH_OF_MESSAGES = 0.3
"""Least share of the time that is worth another way to write a layer (own choice)."""
_FUSED = 0.3, 0.75
"""Parts of the time of messages that go where they are not written (own choice: each is still read once)."""
_ADDED_UP = _INDEX.text("subject-messages")
_UNBOUND = "slices = x.unbind(1)  # once, before the loop: not x[:, t] in each turn"


def _indexing(facts: Facts, limits: Limits) -> Drafts:
    yield from _selects(facts, limits)
    yield from _messages(facts, limits)
    if not Processor.of(facts).is_cpu:
        yield from _index(facts, limits)


def _selects(facts: Facts, limits: Limits) -> Drafts:
    """Slices that are taken one after another, each with a gradient of the size of the whole tensor."""
    processor = Processor.of(facts)
    rows = [row for row in facts.operators if row.name == _SELECT]
    calls = facts.per_step(fsum(row.calls for row in rows))
    work = EventTimes.of(processor, ((row.events, processor.total_of(row)) for row in rows))
    if calls < limits["selects"] or work.share <= processor.limit(limits):
        return
    least, most = _SELECTED
    at = whole_calls_at(name=_SELECT) if processor.is_cpu else None
    key, subject = processor.limit_key, _INDEX.text("subject-select")()
    where = places.of_operators(facts, rows, lambda row: processor.per_step(processor.total_of(row)))
    yield Draft(
        (_INDEX.evidence(limits, key, work.share, where, subject=subject),),
        work.shorter(_SELECTED, _INDEX.text("basis-select")(least=least, most=most), at=at),
        {"calls": round(calls), **work.figures()},
        title=_INDEX.text("title-select"),
        summary=_INDEX.text("summary-select"),
        advice=_INDEX.text("advice-select"),
        code=_UNBOUND,
    )


def _messages(facts: Facts, limits: Limits) -> Drafts:
    """Values of all edges of a graph that are gathered, and added up by node: only their sums are needed."""
    processor = Processor.of(facts)
    edges, rows = _of_edges(facts)
    work = EventTimes.of(processor, ((row.events, processor.self_ns(row)) for row in rows)).longest_first
    if work.share <= _MUCH_OF_MESSAGES:
        return
    count, width = max(edges)
    evidence = _INDEX.evidence(limits, processor.limit_key, work.share, work.places[:5], subject=_ADDED_UP())
    yield Draft(
        (evidence,),
        work.shorter(_FUSED, _INDEX.text("basis-messages")(least=_FUSED[0], most=_FUSED[1])),
        {"edges": count, "width": width, **work.figures()},
        confidence="C",
        title=_INDEX.text("title-messages"),
        summary=_INDEX.text("summary-messages"),
        advice=_INDEX.text("advice-messages"),
        code="nodes = torch.sparse.mm(adjacency, x)  # adjacency: torch.sparse_csr_tensor(rows, columns, weights)",
    )


def _of_edges(facts: Facts) -> tuple[set[Shape], list[OperatorFact]]:
    """Shapes of values of edges that are added up, and what handles them; nothing where a layer computes them."""
    sizes = [(row, set(row.inputs.tensors)) for row in if_known(lambda: facts.shaped)]
    edges = {row.inputs.tensors[-1] for row, _ in sizes if _adds_up(row)}
    if any(row.name in _PRODUCTS and edges & shapes for row, shapes in sizes):
        return set(), []
    indices = {(shape[0],) for shape in edges}
    own = [row for row, shapes in sizes if edges & shapes or (row.name in _GATHERS and indices & shapes)]
    return edges, own


def _adds_up(row: OperatorFact) -> bool:
    """Whether a call adds rows up into far fewer rows."""
    shapes = row.inputs.tensors
    is_matrix = bool(shapes) and len(shapes[0]) == len(shapes[-1]) == _MATRIX
    return row.name in _ADDS and is_matrix and shapes[-1][0] >= _MORE_EDGES * shapes[0][0]


def _index(facts: Facts, limits: Limits) -> Drafts:
    rows = _rows(facts)
    work = EventTimes.on_device(facts, ((row.events, row.device_total_ns) for row in rows))
    calls = sum(row.calls for row in rows)
    if work.share <= limits["gpu_share"] or work.total_ns <= limits["call_ns"] * calls:
        return
    least, most = _SAVED
    per_step = facts.per_step(fsum(row.calls for row in rows))
    yield Draft(
        (_INDEX.evidence(limits, "gpu_share", work.share, places.of_operators(facts, rows, _device_ns)),),
        work.shorter(_SAVED, _INDEX.text("basis")(least=least, most=most)),
        {"calls": max(1, round(per_step)), "mean": work.total_ns / calls, **work.figures()},
    )


def _rows(facts: Facts) -> list[OperatorFact]:
    """The operators of the backward pass of indexing that contain all others of it; none if nothing shows one."""
    backward = [row for row in facts.operators if _BACKWARD in row.name]
    puts = [row for row in facts.operators if row.name in _PUT]
    if not backward:
        return []
    largest = max((*backward, *puts), key=lambda row: (row.device_total_ns, -len(row.name), row.name))
    return [max(puts, key=_device_ns, default=largest)] if largest.device_total_ns else []


def _device_ns(row: OperatorFact) -> int:
    return row.device_total_ns


RULES = (_INDEX.rule(trace=_indexing, table=_index),)
