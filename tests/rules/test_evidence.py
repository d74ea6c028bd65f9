"""What evidence shows is what decided, of every rule, in every situation, for every threshold that it shows.

Evidence has the threshold of its rule's page that decides whether there is such evidence: with that threshold on one
side of the observed value there is, with it on the other side there is not. At the value itself the rule's comparison
decides, which is the same in all its situations. Thresholds that no evidence shows have tests with numbers worked out
by hand, beside the situations of their rule: `test_edge_...`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from msgspec.structs import replace

from tests.builders.situations import SITUATIONS, Situation
from tests.rules.judging import facts_of, functions, situations
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules.engine.detection import drafts
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.facts.sources import applicable
from traceanalyzer.rules.engine.rule import Draft, Drafts, Limits, Rule
from traceanalyzer.rules.engine.selection import Chosen, builtin

RULES = {rule.id: rule for rule in builtin()}
REACHED: Mapping[str, frozenset[str]] = {
    rule: frozenset(keys.split())
    for rule, keys in {
        "anomaly-mode": "checked_share",
        "autograd-in-inference": "forward_passes",
        "batch-norm-not-eval": "counted",
        "broadcast-blowup": "expansion",
        "collectives-many": "surplus",
        "comm-exposed": "exposed_share",
        "comm-straggler": "collectives step_share wait_share",
        "compile-cache-missed": "share",
        "compile-or-load-in-step": "only_share",
        "copies-materialized": "clones_in_a_row",
        "dataloader-too-many-workers": "wait_share",
        "ddp-sync-in-accumulation": "early_exchanges",
        "decode-not-in-graph": "idle_share",
        "dump-missing": "ranks",
        "hang-all-waiting": "waiting",
        "hang-device-stopped": "ranks",
        "hang-mismatch": "ranks",
        "hang-rank-missing": "waiting",
        "slow-collective": "late_share",
        "timeout-too-short": "share",
        "distribution-checks": "calls_per_step",
        "embedding-gradient-dense": "rows_per_used",
        "experts-uneven": "wait_share",
        "gpu-unused": "step",
        "memory-exhausted": "failures",
        "graph-batch-padded": "share",
        "graph-breaks": "breaks",
        "graph-captured-again": "steps",
        "graph-grows": "steps",
        "gpu-shared": "starts",
        "host-stalls": "alone_share share",
        "loop-vectorizable": "turns",
        "one-hot-product": "classes",
        "optimizer-not-fused": "launches",
        "prefill-with-decode": "ratio",
        "recompilations": "count",
        "recurrent-cell-loop": "turns",
        "redundant-passes": "discarded_passes unused_updates",
        "sync-device-wide": "calls_per_step",
        "sync-item-frequent": "calls_per_step",
    }.items()
}
"""Thresholds that are enough when they are reached; all others must be passed."""
ANY_IS_ENOUGH = frozenset({"alloc-churn", "dataloader-stalls", "optimizer-not-fused", "sync-item-frequent"})
"""Rules with findings of which one piece of evidence is enough; all others need all that they show."""


def drafts_of(rule: Rule, facts: Facts, limits: Limits) -> list[Draft]:
    """The findings of a rule; none if it cannot judge."""
    try:
        return list(drafts(Chosen(rule, limits), facts))
    except Missing:
        return []


def decided_by(rule: Rule, facts: Facts, limits: Limits, draft: Draft, shown: Evidence, key: str) -> bool:
    """Whether this threshold decides that there is this evidence, which shows it, and whether there is the finding."""
    needed = (shown,) if rule.id in ANY_IS_ENOUGH else draft.evidence

    def is_found(limit: float) -> bool | None:
        """Whether the finding is made with another threshold, which its evidence shows then; None: a part of it."""
        others = [each for other in drafts_of(rule, facts, {**limits, key: limit}) for each in other.evidence]
        found = {(each.subject.text, each.observed): each.threshold for each in others}
        there = [(each.subject.text, each.observed) in found for each in needed]
        is_shown = found.get((shown.subject.text, shown.observed)) == limit
        return True if all(there) and is_shown else None if any(there) else False

    beside = max(1e-9 * abs(shown.observed), 1e-12)
    below, above = is_found(shown.observed - beside), is_found(shown.observed + beside)
    is_beyond = shown.observed >= shown.threshold if below else shown.observed <= shown.threshold
    is_decided = is_beyond and (below, above) in ((True, False), (False, True))
    return is_decided and is_found(shown.observed) == (key in REACHED.get(rule.id, ()))


def undecided(rule: Rule, facts: Facts, limits: Limits) -> tuple[list[str], set[str]]:
    """Complaints about evidence that shows what did not decide, and the thresholds that did."""
    complaints, deciding = [], set()
    for draft in drafts_of(rule, facts, limits):
        for shown in draft.evidence:
            alike = [key for key, limit in limits.items() if limit == shown.threshold]
            keys = [key for key in alike if decided_by(rule, facts, limits, draft, shown, key)]
            deciding.update(keys)
            if len(keys) != 1:
                of = ", ".join(alike) or "on no page"
                told = f"observed {shown.observed!r}, threshold {shown.threshold!r} ({of}), with {dict(limits)}"
                complaints.append(f"{rule.id}: {shown.subject.text}: {told}")
    return complaints, deciding


def varied(rule: Rule) -> Iterator[Limits]:
    """The thresholds of the page, and each of them so low, or so high, that others decide."""
    yield rule.defaults
    for key, limit in rule.defaults.items():
        for other in (0.0, 1000.0 * max(limit, 1.0)):
            yield {**rule.defaults, key: other}


def judged_by(facts: Facts) -> Iterator[Rule]:
    """The rules that judge these facts."""
    chosen = tuple(Chosen(rule, rule.defaults) for rule in RULES.values())
    of_ranks = facts.find("ranks", Ranks) is not None
    return (entry.rule for entry in (applicable(chosen) if of_ranks else chosen))


def law(found: tuple[Facts, ...]) -> Iterator[tuple[str, list[str], set[str]]]:
    """Complaints about each rule, and the thresholds of it that decided."""
    for facts in found:
        for rule in judged_by(facts):
            for limits in varied(rule):
                yield (rule.id, *undecided(rule, facts, limits))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_what_evidence_shows_is_what_decided(rule: Rule) -> None:
    """In the situations of one rule, for all rules; each threshold of it is shown there, or has a test by hand."""
    module = situations(rule.id)
    built = [build() for kind in ("fires", "quiet", "trap_") for build in functions(module, kind).values()]
    results = [result for situation in built for result in law(facts_of(situation))]
    assert [complaint for _, complaints, _ in results for complaint in complaints] == []
    deciding = set().union(*(keys for ident, _, keys in results if ident == rule.id))
    by_hand = functions(module, "test_edge_")
    others = [key for key in rule.defaults if key not in deciding]
    assert [key for key in others if not any(name.startswith(f"test_edge_{key}") for name in by_hand)] == []


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_what_evidence_shows_of_other_programs_is_what_decided(situation: Situation) -> None:
    results = law(facts_of(situation.build()))
    assert [complaint for _, complaints, _ in results for complaint in complaints] == []


PLANTED = "gpu-unused"
"""A rule with one detector, one piece of evidence and one threshold."""


def planted(**wrong: float) -> list[str]:
    """What the law says of a rule whose evidence is changed."""

    def detect(facts: Facts, limits: Limits) -> Drafts:
        for draft in drafts(Chosen(RULES[PLANTED], limits), facts):
            yield spoiled(draft)

    def spoiled(draft: Draft) -> Draft:
        (shown,) = draft.evidence
        values = {"observed": shown.observed, "threshold": shown.threshold} | wrong
        return replace(draft, evidence=(Evidence(shown.subject, unit=shown.unit, where=shown.where, **values),))

    (facts,) = facts_of(functions(situations(PLANTED), "fires").popitem()[1]())
    rule = replace(RULES[PLANTED], trace=detect)
    return undecided(rule, facts, rule.defaults)[0]


def test_the_law_sees_evidence_that_did_not_decide() -> None:
    assert planted() == []
    (on_no_page,) = planted(threshold=5.0)
    assert "threshold 5.0 (on no page)" in on_no_page
    (another_value,) = planted(observed=1_500_000.0)
    assert "observed 1500000.0, threshold 1000000.0 (step)" in another_value
    (always_the_default,) = planted(threshold=1_000_000.0)
    assert "threshold 1000000.0 (step)" in always_the_default


def test_the_law_sees_another_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REACHED, PLANTED, frozenset())  # type: ignore[arg-type]
    assert planted() != []


def test_every_threshold_that_is_enough_when_reached_is_on_a_page() -> None:
    assert [rule for rule, keys in REACHED.items() if not keys <= RULES[rule].defaults.keys()] == []
