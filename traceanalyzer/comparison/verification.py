"""Whether the fixes of findings gained what was predicted, finding by finding.

It is what a difference knows, asked the other way round: not what changed, but what became of each finding. A fix was
made if what its finding is about (`findings[].where`) takes less time; whether the step followed is measured for all
fixes that were made together, because the time of a step does not tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from traceanalyzer import comparison
from traceanalyzer._version import __version__
from traceanalyzer.comparison import Input
from traceanalyzer.comparison.findings import LEAST
from traceanalyzer.comparison.measurement import Measurement
from traceanalyzer.config import Config
from traceanalyzer.errors import UsageError
from traceanalyzer.inputs.opening import FileProgress
from traceanalyzer.pipeline import StepChoice
from traceanalyzer.report.brief import numbered
from traceanalyzer.report.compared import Interval, agreement, together
from traceanalyzer.report.difference import Difference, FindingChange
from traceanalyzer.report.gate import Noise
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Generator
from traceanalyzer.report.verification import OUTCOMES, SCHEMA_VERSION, Verification, VerifiedFinding

_PARTLY = 0.2
"""Least share by which what a finding is about shrinks if the finding is still there, and its fix counts as made (own
choice: two recordings of one program on a busy machine differ by 12 % in the median of many pairs)."""

_MEASURED = {
    "confirmed": Text(
        "verify-confirmed",
        "{made} The step became {measured:ns} shorter, as predicted ({low:ns} to {high:ns}).",
        "made is a sentence: Its events went from 20 to 3 ms per step",
    ),
    "better": Text(
        "verify-better",
        "{made} The step became {measured:ns} shorter, more than predicted ({low:ns} to {high:ns}).",
        "made is a sentence: Its events went from 20 to 3 ms per step",
    ),
    "at-least": Text(
        "verify-at-least",
        "{made} The step became {measured:ns} shorter, at least as much as predicted ({low:ns} to {high:ns}); how much "
        "more is within the noise of the steps.",
        "made is a sentence: Its events went from 20 to 3 ms per step",
    ),
    "worse": Text(
        "verify-worse",
        "{made} The step became {measured:ns} shorter, less than predicted ({low:ns} to {high:ns}).",
        "made is a sentence: Its events went from 20 to 3 ms per step",
    ),
    "cannot-tell": Text(
        "verify-noise",
        "{made} The step became {measured:ns} shorter; {low:ns} to {high:ns} were predicted, and the difference is "
        "within the noise of the steps.",
        "made is a sentence: Its events went from 20 to 3 ms per step",
    ),
}
_OUTCOME = {"as-predicted": "confirmed", "more": "better", "less": "worse", "cannot-tell": "cannot-tell"}
"""From how a measured gain agrees with a prediction to what that says of the finding."""
_REFUTED = Text(
    "verify-refuted",
    "{made} The step did not get shorter, although {low:ns} to {high:ns} were predicted.",
    "made is a sentence: Its events went from 20 to 3 ms per step",
)
_ALLOWED = Text(
    "verify-nothing-promised",
    "{made} The step did not get shorter; the prediction allowed for that ({low:ns} to {high:ns}).",
    "made is a sentence: Its events went from 20 to 3 ms per step",
)
_NO_PRICE = Text(
    "verify-no-price", "{made} No saving was predicted.", "made is a sentence: Its events went from 20 to 3 ms per step"
)
_UNCLEAR = Text(
    "verify-unclear",
    "{made} Whether the step followed cannot be told.",
    "made is a sentence: Its events went from 20 to 3 ms per step",
)
_MADE = Text(
    "verify-made", "Its events went from {base:ns} to {head:ns} per step.", "the events that a finding is about; times"
)
_GONE = Text("verify-gone", "The finding is gone.")
_NOT_DONE = Text(
    "verify-not-done",
    "Its events take as much time as before: {base:ns}, then {head:ns} per step.",
    "the events that a finding is about; times",
)
_STILL_THERE = Text("verify-still-there", "The finding is still there.")


class _Gain(NamedTuple):
    """What all fixes that were made were to gain, and what the step gained, in ns per step."""

    predicted: Interval | None
    measured: float | None
    noise: Interval | None
    """95 % confidence interval of the measured gain; None if there is none."""


def verify(
    before: Input,
    after: Input | None = None,
    *,
    findings: Iterable[str] = (),
    noise: str | Path | None = None,
    steps: StepChoice | None = None,
    config: Config | None = None,
    progress: FileProgress | None = None,
    jobs: int = 1,
) -> Verification:
    """Check what became of the findings of a measurement.

    Args:
        before: The measurement with the findings; as the base of `traceanalyzer.diff`.
        after: The same program after the change; None: `before` is a document with two runs.
        findings: Ids of findings (`host-sync`, `host-sync#2`), or of rules, for all of theirs; all by default.
        noise: Recordings of unchanged programs, as of `traceanalyzer.diff`.
        steps: The steps of traces that count.
        config: Settings of a project; `traceanalyzer.config.load` reads them.
        progress: From the name of a file to what takes the number of bytes after each read.
        jobs: As of `load`; files are read one after another.

    Raises:
        UnusableInputError: A side contains nothing that can be compared.
        UsageError: The sides are of different kinds, or the measurement has no such finding.
    """
    reading = comparison.reading(steps=steps, config=config, progress=progress, jobs=jobs)
    machine = None if noise is None else comparison.machine_noise(noise, reading)
    base, head = comparison.measured(before, after, reading)
    return of(base, head, tuple(findings), machine)


def of(base: Measurement, head: Measurement, asked: Sequence[str] = (), machine: Noise | None = None) -> Verification:
    """The same of two sides that have been read."""
    difference = comparison.compare(base, head, machine=machine)
    named = list(_named(difference.findings))
    chosen = _chosen(named, asked, base.side.name)
    done = [change for change in difference.findings if _is_done(change)]
    gain = _gain(done, base, head, difference)
    verified = tuple(_verified(name, change, gain, difference) for name, change in chosen)
    return Verification(
        schema_version=SCHEMA_VERSION,
        generator=Generator("traceanalyzer", __version__),
        base=difference.base,
        head=difference.head,
        outcome=min((each.outcome for each in verified), key=OUTCOMES.index, default="cannot-tell"),
        verdict=difference.verdict,
        fixes=len(done),
        predicted_ns=gain.predicted,
        measured_ns=gain.measured,
        measured_interval_ns=gain.noise,
        findings=verified,
    )


def _named(changes: Iterable[FindingChange]) -> Iterator[tuple[str, FindingChange]]:
    """The findings of the base with their ids, in the order of its report."""
    of_base = [(change.base_position, change) for change in changes if change.base_position is not None]
    ordered = [change for _, change in sorted(of_base, key=itemgetter(0))]
    yield from zip(numbered(change.rule for change in ordered), ordered, strict=True)


def _chosen(
    named: list[tuple[str, FindingChange]], asked: Sequence[str], where: str
) -> list[tuple[str, FindingChange]]:
    """The findings that were asked about: by their own ids, or all of a rule.

    Raises:
        UsageError: There is no such finding.
    """
    there = {name for name, _ in named} | {change.rule for _, change in named}
    for name in asked:
        if name not in there:
            known = ", ".join(name for name, _ in named) or "none"
            raise UsageError(f"{where}: has no finding {name}; it has: {known}")
    return [(name, change) for name, change in named if not asked or name in asked or change.rule in asked]


def _is_done(change: FindingChange) -> bool:
    """Whether what a finding of the base is about takes less time: its fix was made, at least in part."""
    if change.status in ("fixed", "new", "head-only"):
        return change.status == "fixed"
    is_gone = change.status == "base-only"
    before, after = change.base_ns, change.head_ns
    if before is None or after is None:
        return is_gone
    return before - after > (LEAST if is_gone else _PARTLY) * before


def _gain(done: Sequence[FindingChange], base: Measurement, head: Measurement, difference: Difference) -> _Gain:
    """What the fixes that were made promised together, and what the mean step gained."""
    before, after, times = base.step_ns, head.step_ns, difference.step_time
    if before is None or after is None:
        return _Gain(None, None, None)
    promised = [
        (each.resource, each.base_predicted_wall_ns) for each in done if each.base_predicted_wall_ns is not None
    ]
    change = times.mean.interval_ns if times is not None else None
    noise = None if change is None else (-change[1], -change[0])
    return _Gain(together(promised, base.resources, before), before - after, noise)


def _verified(name: str, change: FindingChange, gain: _Gain, difference: Difference) -> VerifiedFinding:
    """What became of a finding, with what decided."""
    outcome, reason = _judged(change, gain, difference)
    return VerifiedFinding(
        id=name,
        rule=change.rule,
        title=change.title,
        outcome=outcome,
        reason=reason,
        base_ns=change.base_ns,
        head_ns=change.head_ns,
        predicted_ns=change.base_predicted_wall_ns,
    )


def _judged(change: FindingChange, gain: _Gain, difference: Difference) -> tuple[str, Message]:
    """The outcome of a finding, and what decided."""
    obstacle = difference.comparability.obstacle
    if obstacle is not None:
        return "cannot-tell", obstacle.message
    return _made(change, gain, difference) if _is_done(change) else _not_made(change)


def _not_made(change: FindingChange) -> tuple[str, Message]:
    """A finding that is still there, or whose events take as much time as before."""
    if change.base_ns is not None and change.head_ns is not None:
        return "not-done", _NOT_DONE(base=change.base_ns, head=change.head_ns)
    return "not-done", _STILL_THERE()


def _made(change: FindingChange, gain: _Gain, difference: Difference) -> tuple[str, Message]:
    """Whether the step followed a fix that was made."""
    is_known = change.base_ns is not None and change.head_ns is not None
    made = _MADE(base=change.base_ns, head=change.head_ns) if is_known else _GONE()
    verdict, measured = difference.verdict, gain.measured
    if verdict.outcome == "inconclusive" or measured is None:
        return "cannot-tell", _UNCLEAR(made=made)
    if change.base_predicted_wall_ns is None or gain.predicted is None:
        return "cannot-tell", _NO_PRICE(made=made)
    low, high = gain.predicted
    if verdict.outcome in ("no-change", "slower"):
        if low > 0:
            return "refuted", _REFUTED(made=made, low=low, high=high)
        return "cannot-tell", _ALLOWED(made=made, low=low, high=high)
    outcome = _OUTCOME[agreement(gain.predicted, measured, gain.noise)]
    if outcome == "cannot-tell" and measured > high:
        return "confirmed", _MEASURED["at-least"](made=made, measured=measured, low=low, high=high)
    return outcome, _MEASURED[outcome](made=made, measured=measured, low=low, high=high)
