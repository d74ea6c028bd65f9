"""One mechanism, one card: drops findings that another finding explains better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum

from traceanalyzer.rules.engine.change import Interval, StepChange
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule
from traceanalyzer.structure.events import WAITS, EventSet, Of

_EXPLAINED = 0.5
"""Share of a finding's time that others must claim to explain it (own choice: most of it)."""
_TOLD = 1 / 3
"""Least part of a finding's time that must remain without the claims of others (own choice: with less, its numbers
would be about the other findings)."""

_DEVICE_WAITS = (Of.IDLE, Of.LOADER, Of.COMMUNICATION)
"""What is time in which a device has no work of its own."""
Found = tuple[Rule, Draft]


def distinct(facts: Facts, found: Sequence[Found]) -> list[Draft | None]:
    """For each finding its draft, without the time that others explain better; None if no time of its own is left."""
    kept: list[Draft | None] = [None if _is_part(entry, found) else entry[1] for entry in found]
    specific = [draft for (rule, _), draft in zip(found, kept, strict=True) if draft is not None and not rule.is_rest]
    claimed = _summed(specific)
    for i, (rule, _) in enumerate(found):
        draft = kept[i]
        if draft is not None and rule.is_rest:
            kept[i] = _without(draft, claimed)
    claims = _largest([draft for draft in kept if draft is not None])
    explained = fsum(ns for key, ns in claims.items() if key.of in _DEVICE_WAITS)
    idle = facts.step_ns - (facts.resources.gpu_ns or 0.0)
    for i, (rule, _) in enumerate(found):
        if rule.sums_up_idle and explained >= _EXPLAINED * idle:
            kept[i] = None
    return kept


def _is_part(entry: Found, found: Sequence[Found]) -> bool:
    """Whether findings of rules that explain it claim most of its time."""
    rule, draft = entry
    if not rule.part_of or draft.change is None:
        return False
    claimed = _largest([other for known, other in found if known.id in rule.part_of])
    own = draft.change.claims
    shared = fsum(min(ns, claimed.get(key, 0.0)) for key, ns in own.items())
    return bool(own) and shared >= _EXPLAINED * fsum(own.values())


def _largest(drafts: Sequence[Draft]) -> Mapping[EventSet, float]:
    """What drafts claim together: of each time the largest claim, because they may claim the same."""
    claimed: dict[EventSet, float] = {}
    for change in (draft.change for draft in drafts):
        for key, ns in change.claims.items() if change is not None else ():
            claimed[key] = max(claimed.get(key, 0.0), ns)
    return claimed


def _summed(drafts: Sequence[Draft]) -> Mapping[EventSet, float]:
    """All claims of drafts: what would be claimed twice is rather left to them than promised again."""
    claimed: dict[EventSet, float] = {}
    for change in (draft.change for draft in drafts):
        for key, ns in change.claims.items() if change is not None else ():
            claimed[key] = claimed.get(key, 0.0) + (
                0.0 if key == WAITS else ns
            )  # the wait and the work after it cause it together
    return claimed


def _without(draft: Draft, claimed: Mapping[EventSet, float]) -> Draft | None:
    """The draft, reduced to time that others do not claim; None if that is too little."""
    change = draft.change
    if change is None or not (total := fsum(change.claims.values())):
        return draft
    claims = {key: max(0.0, ns - claimed.get(key, 0.0)) for key, ns in change.claims.items()}
    part = fsum(claims.values()) / total
    if part < _TOLD:
        return None
    return draft if part >= 1 else replace(draft, change=_scaled(change, part, claims))


def _scaled(change: StepChange, part: float, claims: Mapping[EventSet, float]) -> StepChange:
    def scaled(interval: Interval) -> Interval:
        return part * interval[0], part * interval[1]

    exposed = None if change.exposed is None else scaled(change.exposed)
    return replace(change, direct=scaled(change.direct), exposed=exposed, claims=claims)
