"""Runs the rules, prices what their findings save, ranks them, and lists the rules that could not judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.config import SEVERITIES
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Finding, Headline, Saving, Skipped
from traceanalyzer.report.selection import Once, Selection
from traceanalyzer.rules.engine import checks, detection, program, snippets, where
from traceanalyzer.rules.engine import runs as document_runs
from traceanalyzer.rules.engine.budget import GAIN_SHARE, Budget, combine, with_later_savings
from traceanalyzer.rules.engine.change import (
    CollectivesShorter,
    Fix,
    LoaderShorter,
    StepChange,
    WaitsGone,
)
from traceanalyzer.rules.engine.claim_edits import Resolver
from traceanalyzer.rules.engine.duplicates import distinct
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.headlines import headline, printed, removable
from traceanalyzer.rules.engine.prices import Prices
from traceanalyzer.rules.engine.rule import Draft, OfEvents, Rule, of_whole_run
from traceanalyzer.rules.engine.selection import Chosen

_ABSTAINS = Text(
    "saving-model-abstains",
    "{basis}; limited by the total times of the other resources, because the replay of this trace differs from it "
    "by {error:share} of a step",
    note="basis says how the saving was estimated, without a full stop",
)
_PINNED = Text(
    "saving-model-pinned",
    "{basis}; limited by the total times of the other resources, because the trace does not show what "
    "{share:share} of the GPU's work waited for",
    note="basis says how the saving was estimated, without a full stop",
)
_QUEUES = Text(
    "saving-model-period",
    "{basis}; limited by the total times of the other resources, because each step would take {share:share} more or "
    "less than recorded if the program went on",
    note="basis says how the saving was estimated, without a full stop",
)
_QUESTION_SHARE = 0.05
"""Share of a step: a saving between nothing and more than this is a question, not a price (own choice)."""
_OTHER_RANKS = Text(
    "saving-decided-by-ranks",
    "the traces of all ranks (traceanalyzer ranks FOLDER) show how much of this time is waiting for a late one",
    note="ends the sentence: may save up to 3 ms, or nothing: ...",
)
_NEEDED_WAITS = Text(
    "saving-decided-by-waits",
    "it depends on which of these waits the program needs, and a recording without the others shows it",
    note="ends the sentence: may save up to 3 ms, or nothing: ...",
)
_FREE_CORES = Text(
    "saving-decided-by-workers",
    "it takes free CPU cores; try it, then compare with traceanalyzer diff",
    note="ends the sentence: may save up to 3 ms, or nothing: ...",
)
_ANOTHER_RECORDING = Text(
    "saving-decided-by-recording",
    "try it, then compare with traceanalyzer diff",
    note="ends the sentence: may save up to 3 ms, or nothing: ...",
)
_STEPS_OF_SEVERITY = ((0.20, "critical"), (0.10, "high"), (0.03, "medium"), (0.01, "low"))
"""Severity by the most likely saving as a share of the step (own choice: what a team would stop for, plan, try, or
note)."""

_MOST_OF_LITTLE = "medium"
"""Greatest severity of a finding in a recording with hardly any work, or with most of its events removed."""
_MOST_OF_SHORT_WORK = "low"
"""Greatest severity of a finding about device work that takes less than `GAIN_SHARE` of a step."""
_MOST_OF_COLD = "low"
"""Greatest severity of a saving in a single step that is mostly first uses: a warm one shows what it is worth."""
_MOST_OF_ONCE = "medium"
"""Greatest severity of what a fix saves once (own choice: a longer run has no more of it)."""
_OF_THE_REST, _HALF = 0.03, 0.5
"""Share of what is left of a step without its start-up, or without the waste that takes half of it, from which on work
of the GPU is worth noting (own choice: what would be of medium severity then)."""


class Advice(msgspec.Struct, frozen=True):
    """Everything that the rules found, and the rules that could not judge."""

    headlines: tuple[Headline, ...]
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]


class _Judged(msgspec.Struct, frozen=True):
    rule: Rule
    finding: Finding
    draft: Draft


def judge(runs: Sequence[Facts], chosen: Sequence[Chosen]) -> Advice:
    """Apply the rules to every run of an input.

    Returns:
        Findings, certain ones first, then by what each saves by itself; and why rules could not judge
        any run, or failed in one.
    """
    headlines: list[Headline] = []
    findings: list[Finding] = []
    reasons: dict[str, list[Message]] = {}
    for facts in runs:
        found, combined = _findings(facts, chosen, reasons, first=len(findings))
        findings += found
        headlines.append(headline(facts, combined, removable.largest(found, chosen)))
    counted = {facts.run for facts in runs if facts.table is not None and facts.table.steps_from is not None}
    is_of_tools = any(facts.table is not None and facts.table.tool is not None for facts in runs)
    compared = tuple(headlines) if is_of_tools else document_runs.compared(headlines, counted)
    marked = document_runs.marked(findings)
    return Advice(compared, marked, detection.skipped(reasons, len(runs)))


def _findings(
    facts: Facts, chosen: Sequence[Chosen], reasons: dict[str, list[Message]], first: int
) -> tuple[list[Finding], Combined | None]:
    """The findings of one run in their order, and their joint saving.

    Args:
        facts: The facts of the run.
        chosen: The rules.
        reasons: Why rules could not judge; those of this run are added.
        first: Position of the first finding in the report.
    """
    prices = _prices(facts)
    judged = _judged_by_all(chosen, facts, prices, reasons)
    kept = _lifted(facts, _distinct(facts, prices, judged))
    ordered, combined = _ordered(facts, prices, kept, first)
    placed = where.with_shared([entry.finding for entry in ordered])
    return with_later_savings(placed, combined, first), combined


def _judged_by_all(
    chosen: Sequence[Chosen], facts: Facts, prices: Prices | None, reasons: dict[str, list[Message]]
) -> list[_Judged]:
    """The findings of all rules about one run; why a rule cannot judge it is added to its reasons."""
    judged: list[_Judged] = []
    for entry in chosen:
        if any(map(detection.is_too_long, reasons.get(entry.rule.id, ()))):
            continue  # once is enough to wait for it
        try:
            judged += _judged(entry, facts, prices)
        except Missing as missing:
            reasons.setdefault(entry.rule.id, []).append(missing.reason)
    return judged


def _where(facts: Facts, prices: Prices | None, change: StepChange | None) -> tuple[Selection, ...]:
    """Where in the recording a change is; nowhere in printed tables."""
    if facts.model is None or change is None:
        return ()
    return where.selections(Resolver(facts.model) if prices is None else prices.resolver, change)


def _with_recorded_times(facts: Facts, draft: Draft, places: Sequence[Selection]) -> Draft:
    """The draft whose texts say the time per step of the events that its change is about, as they were recorded."""
    recorded = where.ns_per_step(places)
    params = {
        key: value.recorded(recorded, facts.step_ns) if isinstance(value, OfEvents) else value
        for key, value in draft.params.items()
    }
    return replace(draft, params=params)


def _texts(facts: Facts, rule: Rule, draft: Draft) -> tuple[Message, Message, Message, Message]:
    """Title, summary, advice and exceptions of a finding."""
    code = rule.code if draft.code is None else draft.code
    params = {key: each(**draft.params) if isinstance(each, Text) else each for key, each in draft.params.items()}
    told = draft.summary or rule.summary
    summary = (of_whole_run(rule.id, told) if facts.is_whole_run else told)(**params)
    advice = (draft.advice or rule.advice)(**params)
    return (
        (draft.title or rule.title)(**params),
        summary,
        snippets.with_version(facts, advice, code),
        rule.not_when(**params),
    )


def _judged(entry: Chosen, facts: Facts, prices: Prices | None) -> list[_Judged]:
    """The findings of one rule.

    Raises:
        Missing: The rule cannot judge, or it failed; one broken rule must not prevent the report.
    """
    try:
        return [_finding(facts, prices, entry.rule, draft) for draft in detection.drafts(entry, facts)]
    except (Missing, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise Missing(detection.failed(error)) from None


def _budget(facts: Facts) -> Budget:
    found = Budget.of(facts.resources, is_estimate=facts.table is not None)
    own = facts.idle_per_step("profiler_overhead")  # which a program without the profiler does not need
    return replace(
        found,
        host=max(0.0, found.host - own),
        is_host_inflated=facts.is_host_inflated,
        is_of_ranks=facts.find("ranks", Ranks) is not None,
        unseen_waits=printed.unseen_waits(facts),
    )


def _prices(facts: Facts) -> Prices | None:
    """Prices by replays; None without a model, so that the budget bounds changes."""
    if facts.model is None or not facts.is_replayed:
        return None
    overhead = facts.capture.overhead_share if facts.capture else None
    with_stack = facts.summary is not None and facts.summary.options.with_stack
    if facts.capture is not None and not facts.capture.is_of_equal_steps(with_stack=with_stack):
        overhead = None
    # a profiler makes no step shorter: where steps without it took longer, other programs disturbed them
    plain = None if overhead is None else facts.step_ns / (1 + max(0.0, overhead))
    return Prices(facts.model, plain)


def _saving(facts: Facts, prices: Prices | None, change: StepChange) -> Saving:
    """The saving of a change alone, and what would decide it where it may be nothing or much."""
    found = _price(facts, prices, change)
    if found.wall_ns_per_step[0] > 0 or found.wall_share[1] <= _QUESTION_SHARE:
        return found
    match change:
        case WaitsGone():
            decided_by = _NEEDED_WAITS
        case LoaderShorter(by_workers=True):
            decided_by = _FREE_CORES
        case CollectivesShorter() if change.may_wait and program.may_hide_waits(facts):
            decided_by = _OTHER_RANKS
        case _:
            decided_by = _ANOTHER_RECORDING
    return replace(found, decided_by=decided_by())


def _price(facts: Facts, prices: Prices | None, change: StepChange) -> Saving:
    budget = _budget(facts)
    if prices is not None:
        return prices.saving(change, budget)
    found = replace(budget.saving(change), is_of_whole_run=facts.is_whole_run)
    if facts.tells_little:
        found = replace(found, arithmetic=None)
    causal = facts.model
    if causal is None or causal.doubt is None:
        return found
    match causal.doubt:
        case "error":
            basis = _ABSTAINS(basis=found.basis, error=causal.error_share)
        case "pinned":
            basis = _PINNED(basis=found.basis, share=causal.pinned_share)
        case "period":
            basis = _QUEUES(basis=found.basis, share=causal.period_share)
    return replace(found, basis=basis)


def _blocker(facts: Facts, prices: Prices | None, change: StepChange) -> str | None:
    """The resource for which a step still takes as long with a change; None if the recording does not show it."""
    if facts.tells_little or program.start_up(facts):  # missing events are no host's time, and later steps are shorter
        return None
    return _budget(facts).blocker(change) if prices is None else prices.blocker(change)


def _finding(facts: Facts, prices: Prices | None, rule: Rule, draft: Draft) -> _Judged:
    change = draft.change
    if change is not None:
        checks.change(change)
    found = _where(facts, prices, change)
    once = where.once(facts.model.context, change, found) if facts.model and change else None
    saving = None if change is None or once else _saving_of(facts, prices, change, found)
    latent = saving is not None and _is_latent(facts, saving)
    title, summary, advice, not_when = _texts(facts, rule, _with_recorded_times(facts, draft, found))
    code = snippets.fitting(facts, rule.code if draft.code is None else draft.code)
    finding = Finding(
        rule=rule.id,
        run=facts.run,
        severity=_severity(facts, draft, saving, once),
        confidence=draft.confidence or rule.confidence,
        latent=latent,
        blocked_by=_blocker(facts, prices, change) if latent and change else None,
        title=title,
        summary=where.explained(summary, saving, found),
        advice=advice,
        not_when=not_when,
        code=code,
        links=rule.links,
        evidence=tuple(replace(e, where=e.where[:5]) for e in draft.evidence),
        saving=saving,
        stage=rule.stage,
        where=found,
        once=once,
        action=snippets.action(rule, draft),
        code_before=rule.code_before if code is not None and code == rule.code else None,
        peak=draft.peak,
    )
    checks.finding(finding)
    return _Judged(rule, finding, draft)


def _saving_of(facts: Facts, prices: Prices | None, change: StepChange, found: Sequence[Selection]) -> Saving | None:
    """The saving of a change that is not outside of the steps.

    Of a share of many times, none of which it has mostly, a change finds nothing that it could remove: None.
    """
    is_nowhere = facts.model is not None and change.place is not None and not found
    return None if is_nowhere else replace(_saving(facts, prices, change), steps_share=program.steps_share(facts))


def _is_latent(facts: Facts, saving: Saving) -> bool:
    """Whether a fix removes time that would be worth something if another resource did not bound the step."""
    return saving.wall_share[1] < GAIN_SHARE <= saving.direct_ns_per_step[1] / max(facts.step_ns, 1.0)


def _distinct(facts: Facts, prices: Prices | None, judged: Sequence[_Judged]) -> list[_Judged]:
    """The findings without those that others explain better."""
    kept = distinct(facts, [(entry.rule, entry.draft) for entry in judged])
    return [
        entry if draft is entry.draft else _finding(facts, prices, entry.rule, draft)
        for entry, draft in zip(judged, kept, strict=True)
        if draft is not None
    ]


def _severity(facts: Facts, draft: Draft, saving: Saving | None, once: Once | None) -> str:
    """Severity by the likely gain per step; a finding's own severity counts if it is worse, up to the draft's ceiling.

    A ceiling is for what may be saved: what is saved at least lifts it, unless the finding is a guess. A finding that
    may only inform does so whatever it saves.

    If the recording does not show what bounds the program, no finding is severe; and none is for what it saves once, or
    about device work that takes next to nothing of a step, whatever its launches cost: that is another finding.
    """
    worst = max(_gain(facts, saving, once), draft.severity or "info", key=SEVERITIES.index)
    most = _MOST_OF_LITTLE if facts.tells_little else SEVERITIES[-1]
    if saving and program.is_cold_pass(facts):
        most = _MOST_OF_COLD
    if saving and saving.resource == "gpu" and saving.direct_ns_per_step[1] < GAIN_SHARE * facts.step_ns:
        most = min(most, _MOST_OF_SHORT_WORK, key=SEVERITIES.index)
    ceiling = draft.ceiling or most
    if ceiling != SEVERITIES[0]:
        ceiling = max(ceiling, _at_least(draft, saving), key=SEVERITIES.index)
    return min(worst, ceiling, most, key=SEVERITIES.index)


def _gain(facts: Facts, saving: Saving | None, once: Once | None) -> str:
    """The severity of what a fix most likely saves."""
    gained = once.share_of_recording if once else 0.0
    gained = program.share_of_recording(facts, _likely_share(saving)) if saving else gained
    gain = next((name for share, name in _STEPS_OF_SEVERITY if gained >= share), "info")
    return min(gain, _MOST_OF_ONCE, key=SEVERITIES.index) if once and not once.comes_back else gain


def _at_least(draft: Draft, saving: Saving | None) -> str:
    """The severity that a finding has for what it saves at least: the highest for half a step, info if a guess.

    What most likely halves the step is at least high, unless something unknown decides it.
    """
    if saving is None or draft.confidence == "C":
        return "info"
    steps = ((_HALF, "critical"), *_STEPS_OF_SEVERITY[1:])
    sure = next((name for share, name in steps if saving.wall_share[0] >= share), "info")
    halves = saving.decided_by is None and _likely_share(saving) >= _HALF
    return max(sure, "high" if halves else "info", key=SEVERITIES.index)


def _lifted(facts: Facts, judged: list[_Judged]) -> list[_Judged]:
    """The findings, those about the GPU's work at least low if they are worth it once a start-up or waste is gone."""
    elsewhere = [
        e.finding.saving for e in judged if e.finding.saving and e.finding.saving.resource in ("host", "loader")
    ]
    waste = max([facts.startup_per_step, *(_likely_share(saving) * facts.step_ns for saving in elsewhere)])
    if waste < _HALF * facts.step_ns or facts.tells_little:
        return judged
    least = _OF_THE_REST * (facts.step_ns - waste)
    return [_noted(entry) if _worth_noting(entry, facts.step_ns, least) else entry for entry in judged]


def _worth_noting(entry: _Judged, step_ns: float, least_ns: float) -> bool:
    saving = entry.finding.saving
    is_info = entry.finding.severity == SEVERITIES[0] != entry.draft.ceiling
    return (
        is_info and saving is not None and saving.resource == "gpu" and _likely_share(saving) * step_ns >= least_ns > 0
    )


def _noted(entry: _Judged) -> _Judged:
    return replace(entry, finding=replace(entry.finding, severity="low"))


def _likely_share(saving: Saving) -> float:
    """The most likely saving as a share of the step: the middle of the interval if only bounds are known."""
    (least, most), (_, upper) = saving.wall_share, saving.wall_ns_per_step
    if saving.point_ns_per_step is None or not upper:
        return (least + most) / 2
    return most * saving.point_ns_per_step / upper


def _rank(judged: _Judged) -> tuple[int, bool, float, int, float, str]:
    """Sort key: certain before uncertain, then by what each most likely saves by itself.

    First comes a recording that says little; then prices, and what is severe without one, those of the machine last;
    questions, which may save nothing, and new rules; risks without a price; what saves nothing yet or only informs.
    """
    finding, saving = judged.finding, judged.finding.saving
    memory = finding.peak.requested_bytes[1] if finding.peak else 0
    wall, direct = (_worth(saving), saving.direct_ns_per_step[1]) if saving else (0.0, float(memory))
    if finding.once is not None and finding.once.comes_back:
        wall = finding.once.point_ns  # of all steps, and more than it is of one
    severity = SEVERITIES.index(finding.severity)
    if finding.latent or severity == 0:
        place = 4 if severity == 0 else 3
    elif saving is None and finding.once is None:
        place = 0 if severity >= SEVERITIES.index("high") else 2
    else:
        place = 1 if finding.stage == "preview" or (saving is not None and saving.decided_by is not None) else 0
    place = -1 if judged.draft.is_of_recording else place
    return place, judged.draft.is_of_machine, -wall, -severity, -direct, finding.rule


def _worth(saving: Saving) -> float:
    """The most likely value of a saving, or its upper end if only bounds are known."""
    return saving.wall_ns_per_step[1] if saving.point_ns_per_step is None else saving.point_ns_per_step


def _ordered(
    facts: Facts, prices: Prices | None, judged: Iterable[_Judged], first: int
) -> tuple[list[_Judged], Combined | None]:
    """The findings of a run in their order, and their joint saving.

    Args:
        facts: The facts of the run.
        prices: Prices of changes by replays; None if nothing can be replayed.
        judged: Its findings.
        first: Position of the first of them in the report.
    """
    ranked = sorted(judged, key=_rank)
    changes = ((first + i, e.finding, e.draft.change) for i, e in enumerate(ranked))
    fixes = [Fix(found.rule, i, change) for i, found, change in changes if change and found.saving]
    budget = _budget(facts)
    return ranked, combine(budget, fixes) if prices is None else prices.combine(budget, fixes)
