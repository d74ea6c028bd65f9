"""All recorded steps of a side, and those that are unlike the typical ones.

A mean is judged over all steps that are the program's: what happens in every tenth of them is a change, too. An edge of
the recording shows a part of a step, start-up happens once, and an evaluation between epochs is other work; how many of
those a recording has says nothing about the program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from traceanalyzer.comparison.measurement import Measurement, UnlikeStep, mean
from traceanalyzer.report.gate import UnusualSteps
from traceanalyzer.report.model import Report
from traceanalyzer.structure.recording import RecordedStep, Recording
from traceanalyzer.structure.recording.left_out import EARLIER_WORK, ONE_TIME, OTHER_PHASE, RECORDING_END

_OF_RECORDING = frozenset({EARLIER_WORK, RECORDING_END, OTHER_PHASE})


def runs(reports: Sequence[Report]) -> tuple[tuple[float, ...], ...]:
    """Durations of the steps of each capture in ns; of several ranks their means. Empty if a report has none."""
    captures: defaultdict[int, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seen: defaultdict[int | None, int] = defaultdict(int)
    for report in reports:
        counted = [step for step, is_judged in _steps(report) if is_judged]
        if not counted:
            return ()
        rank = report.trace.rank if report.trace is not None else None
        for step in counted:
            captures[seen[rank]][step.name].append(float(step.duration_ns))
        seen[rank] += 1
    return tuple(tuple(map(mean, capture.values())) for capture in captures.values())


def _steps(report: Report) -> Iterator[tuple[RecordedStep, bool]]:
    """The steps, and whether each is judged."""
    recording = report.result("recording", Recording)
    is_begun = False
    for step in recording.steps if recording is not None else ():
        is_begun = is_begun or step.is_typical
        is_startup = step.reason in ONE_TIME and not is_begun
        yield step, step.is_typical or not (step.reason in _OF_RECORDING or is_startup)


def unlike(reports: Sequence[Report]) -> tuple[UnlikeStep, ...]:
    """The steps that are not typical, of all traces."""
    return tuple(
        UnlikeStep(step.reason or "unknown", step.duration_ns, is_judged)
        for report in reports
        for step, is_judged in _steps(report)
        if not step.is_typical
    )


def compare(base: Measurement, head: Measurement) -> tuple[UnusualSteps, ...]:
    """The steps that are unlike the typical ones, by reason, those that are judged first; none if a side knows none."""
    if not base.all_runs or not head.all_runs:
        return ()
    kinds = {(not step.is_judged, step.reason) for side in (base, head) for step in side.unlike}
    return tuple(
        _row(reason, [_durations(side, reason, is_judged=not is_apart) for side in (base, head)], not is_apart)
        for is_apart, reason in sorted(kinds)
    )


def _durations(side: Measurement, reason: str, *, is_judged: bool) -> list[float]:
    return [step.duration_ns for step in side.unlike if step.reason == reason and step.is_judged == is_judged]


def _row(reason: str, sides: Sequence[list[float]], is_judged: bool) -> UnusualSteps:
    one, two = sides
    base, head = (mean(side) if side else None for side in sides)
    return UnusualSteps(reason, len(one), len(two), base, head, is_judged)
