"""Detects attention in pieces by the names of operators alone, for tables and traces without shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum

from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import places
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact, if_known
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, RulePage

_SOFTMAX = frozenset({"aten::_softmax", "aten::softmax"})
_BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
_BETWEEN = frozenset({"aten::div", "aten::div_", "aten::masked_fill", "aten::masked_fill_"})
_NAMES = _BATCHED | _BETWEEN | {"aten::_softmax", "aten::_softmax_backward_data"}
"""Operators of attention in pieces that have work of their own, where shapes are unknown."""
_EACH = 0.1
"""Least part of their time that softmax and products have each (own choice)."""
_FOR_SURE = 0.5
"""Share of the operators between the products that surely goes (own choice: some may be of something else)."""


def or_by_names(
    by_shapes: Callable[[Facts, Limits], Drafts], page: RulePage, summary: Text, basis: Text
) -> Callable[[Facts, Limits], Drafts]:
    """A rule that judges shapes where they are known, else names.

    Args:
        by_shapes: The rule for what has shapes, which says that they are missing where names say nothing either.
        page: Its page.
        summary: What is said of names.
        basis: How the saving is estimated then.
    """

    def judged(facts: Facts, limits: Limits) -> Drafts:
        names = facts.view is not None or _softmax_on_device(facts)
        is_by_names = names and not if_known(lambda: facts.shaped)
        yield from _unfused(facts, limits, page, (summary, basis)) if is_by_names else by_shapes(facts, limits)

    return judged


def _softmax_on_device(facts: Facts) -> bool:
    """Whether a trace has a softmax with kernels."""
    return any(row.name in _SOFTMAX and row.device_total_ns for row in if_known(lambda: facts.operators))


def _unfused(facts: Facts, limits: Limits, page: RulePage, texts: tuple[Text, Text]) -> Drafts:
    """Attention in pieces: two products for each softmax, and a good part of the time in both."""
    summary, basis = texts
    rows = [row for row in facts.operators if row.name in _NAMES and row.device_self_ns]
    work = EventTimes.on_device(facts, ((row.events, row.device_self_ns) for row in rows))
    others = fsum(row.device_self_ns for row in rows if row.name not in _BATCHED)
    if work.share <= limits["names_share"] or not _are_attention(rows):
        return
    where = places.of_operators(facts, rows, lambda row: row.device_self_ns)
    yield Draft(
        (page.evidence(limits, "names_share", work.share, where, subject=page.text("subject")()),),
        work.removed((_FOR_SURE * others, others), basis(least=_FOR_SURE)),
        work.figures(),
        confidence="C",
        summary=summary,
    )


def _are_attention(rows: Sequence[OperatorFact]) -> bool:
    """Whether there are two batched products for each softmax, and both take a good part of the time."""
    softmax = [row for row in rows if row.name in _SOFTMAX]
    products = [row for row in rows if row.name in _BATCHED]
    calls = sum(row.calls for row in softmax)
    times = (fsum(row.device_self_ns for row in some) for some in (softmax, products))
    least = _EACH * fsum(row.device_self_ns for row in rows)
    return bool(calls) and sum(row.calls for row in products) >= 2 * calls and min(times) >= least
