"""One mechanism, one card: drops findings that another finding explains better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum

from msgspec.structs import replace

from traceanalyzer.rules.engine.change import Interval, StepChange, summed
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
    rules = [rule for rule, _ in found]
    kept = [None if _is_part(entry, found) else entry[1] for entry in found]
    kept = _without_claims_of_others(rules, kept)
    told = _told(facts, rules, kept)
    return [None if rule.sums_up_idle and told(draft) else draft for rule, draft in zip(rules, kept, strict=True)]


def _told(facts: Facts, rules: Sequence[Rule], kept: Sequence[Draft | None]) -> Callable[[Draft | None], bool]:
    """Makes a function that says of a sum of idle time whether other drafts explain most of it, or its largest part."""
    claims = _largest([draft for draft in kept if draft is not None])
    others = [draft for rule, draft in zip(rules, kept, strict=True) if draft is not None and not rule.sums_up_idle]
    parts = {key for key, ns in claims.items() if ns > 0} | {draft.part for draft in others} - {None}
    is_explained = _is_idle_explained(facts, claims)
    return lambda draft: is_explained or (draft is not None and draft.part in parts)


def _without_claims_of_others(rules: Sequence[Rule], kept: Sequence[Draft | None]) -> list[Draft | None]:
    """The drafts, those of rules about the rest without what more specific ones claim."""
    pairs = list(zip(rules, kept, strict=True))
    claimed = _summed([draft for rule, draft in pairs if draft is not None and not rule.is_rest])
    return [_without(draft, claimed) if draft is not None and rule.is_rest else draft for rule, draft in pairs]


def _is_idle_explained(facts: Facts, claims: Mapping[EventSet, float]) -> bool:
    """Whether drafts claim most of the idle time of a step."""
    explained = fsum(ns for key, ns in claims.items() if key.of in _DEVICE_WAITS)
    return explained >= _EXPLAINED * (facts.step_ns - (facts.resources.gpu_ns or 0.0))


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
    for key, ns in _claims_of(drafts):
        claimed[key] = max(claimed.get(key, 0.0), ns)
    return claimed


def _summed(drafts: Sequence[Draft]) -> Mapping[EventSet, float]:
    """All claims of drafts: what would be claimed twice is rather left to them than promised again."""
    # a wait and the work after it cause idle time together
    return summed((key, 0.0 if key == WAITS else ns) for key, ns in _claims_of(drafts))


def _claims_of(drafts: Iterable[Draft]) -> Iterator[tuple[EventSet, float]]:
    for draft in drafts:
        if draft.change is not None:
            yield from draft.change.claims.items()


def _without(draft: Draft, claimed: Mapping[EventSet, float]) -> Draft | None:
    """The draft, reduced to time that others do not claim; None if that is too little."""
    change = draft.change
    total = 0.0 if change is None else fsum(change.claims.values())
    if change is None or not total:
        return draft
    claims = {key: max(0.0, ns - claimed.get(key, 0.0)) for key, ns in change.claims.items()}
    part = fsum(claims.values()) / total
    if part < _TOLD:
        return None
    if part >= 1:
        return draft
    return replace(draft, change=_scaled(change, part, claims))


def _scaled(change: StepChange, part: float, claims: Mapping[EventSet, float]) -> StepChange:
    def scaled(interval: Interval) -> Interval:
        return part * interval[0], part * interval[1]

    exposed = None if change.exposed is None else scaled(change.exposed)
    return replace(change, direct=scaled(change.direct), exposed=exposed, claims=claims)
