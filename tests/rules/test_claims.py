"""Every rule claims a time once: what its changes name sums to no more than what they remove."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import corpus_files
from tests.rules.judging import Situation, functions, report, situations, table
from traceanalyzer import pipeline
from traceanalyzer.config import Config
from traceanalyzer.rules.engine.change import StepChange
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.runner import Advice, judge
from traceanalyzer.rules.engine.selection import Chosen, builtin, choose
from traceanalyzer.structure.events import EventSet

IDS = [rule.id for rule in builtin()]
FIXTURES = sorted(path for path in (Path(__file__).parents[2] / "fixtures").glob("*/*.json.gz"))


Changes = list[tuple[str, StepChange]]
"""What rules would change, with the rule's id."""


def asked_for(runs: Sequence[Facts], chosen: Sequence[Chosen]) -> Changes:
    """The changes that rules ask for."""
    found = []
    for facts in runs:
        for entry in chosen:
            detector = entry.rule.trace if facts.table is None else entry.rule.table
            try:
                drafts = list(detector(facts, entry.limits)) if detector else []
            except Missing:
                continue
            found.extend((entry.rule.id, draft.change) for draft in drafts if draft.change is not None)
    return found


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> Changes:
    """The changes that rules ask for while something is analyzed."""
    found: Changes = []

    def recording(runs: Sequence[Facts], chosen: Sequence[Chosen]) -> Advice:
        found.extend(asked_for(runs, chosen))
        return judge(runs, chosen)

    monkeypatch.setattr(pipeline, "judge", recording)
    return found


REPLACING = {"attention-unfused", "elementwise-fusion-chain", "optimizer-not-fused"}
"""They replace whole operators by others, so nothing else can be gained of these: all of their time is claimed."""
SEVERAL_NAMES = {"copies-materialized"}
"""Their time has a name with shapes and one without."""


def claimed_twice(changes: Changes) -> list[tuple[str, str, float, float]]:
    """Claims of one kind that sum to more than what goes away; different kinds are names of the same time."""
    found = []
    for rule, change in changes:
        kinds = {key.of for key in change.claims}
        for kind in sorted(kinds) if rule not in REPLACING | SEVERAL_NAMES else ():
            claimed = sum(ns for key, ns in change.claims.items() if key.of is kind)
            if claimed > 1.001 * change.direct[1]:
                found.append((rule, kind, claimed, change.direct[1]))
    return found


def fires(rule: str) -> list[Situation]:
    return [make() for make in functions(situations(rule), "fires").values()]


def named(change: StepChange) -> list[EventSet | None]:
    """All sets of events that a change has."""
    fields = (getattr(change, name, None) for name in ("at", "within", "host", "device"))
    return [*change.claims, *getattr(change, "shares", ()), *fields]


@pytest.mark.parametrize("rule", IDS)
def test_no_rule_claims_more_than_it_removes(rule: str, changes: Changes) -> None:
    for situation in fires(rule):
        report(situation)
    assert claimed_twice(changes) == []
    sets = [events for _, change in changes for events in named(change)]
    sent = pickle.loads(pickle.dumps(sets))
    assert list(map(hash, sent)) == list(map(hash, sets)), "they are descriptions, which other processes understand"
    assert sent == sets


@pytest.mark.parametrize(("memory", "synchronizes"), [("Pageable", False), ("Pinned", True)])
def test_rows_of_copies_in_a_table_claim_their_own_time(memory: str, synchronizes: bool, changes: Changes) -> None:
    """Copies to two GPUs are two rows; what one claims is not what both take."""
    wait = {"Name": "cudaStreamSynchronize", "Self CPU": "40.000ms", "CPU total": "40.000ms", "Self CUDA": "0.000us"}
    names = [f"Memcpy HtoD ({memory} -> Device{suffix})" for suffix in ("", " 1")]
    rows = [
        {"Name": "ProfilerStep*", "Self CPU": "100.000ms", "CPU total": "400.000ms", "Self CUDA": "0.000us"},
        {"Name": "aten::mm", "Self CPU": "100.000ms", "CPU total": "100.000ms", "Self CUDA": "260.000ms"},
        *(
            {"Name": n, "Self CPU": "0.000us", "CPU total": "0.000us", "Self CUDA": t}
            for n, t in zip(names, TIMES, strict=True)
        ),
        *([wait] if synchronizes else []),
    ]
    calls = [10, 10, 10, 30, 40]
    report(table([{**row, "# of Calls": n} for row, n in zip(rows, calls, strict=False)], cpu="240ms", device="300ms"))
    found = [change for rule, change in changes if rule in ("h2d-pageable", "h2d-blocking")]
    assert len(found) == 1
    assert found[0].claims == pytest.approx(dict(zip((EventSet.copies(n) for n in names), (1e6, 3e6), strict=True)))
    assert sum(found[0].claims.values()) == pytest.approx(found[0].direct[1])


TIMES = ("10.000ms", "30.000ms")


@pytest.mark.corpus
def test_no_rule_claims_more_than_it_removes_in_the_corpus(corpus: Path) -> None:
    chosen = choose(Config())
    facts = [facts for path in sorted((corpus / "corpus").iterdir()) for facts in corpus_files.facts_of(path)]
    changes = asked_for(facts, chosen)
    assert changes
    assert claimed_twice(changes) == []
