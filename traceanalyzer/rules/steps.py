"""Detects steps unlike the others: step-time-outliers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from traceanalyzer.analyzers.loader import DataLoader
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import if_known
from traceanalyzer.rules.engine.places import longest_steps
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, Missing, page
from traceanalyzer.structure.recording import RecordedStep, Recording

_OUTLIERS = page("step-time-outliers")
_EDGES = ("earlier-work", "recording-end")
"""Reasons that have to do with the recording alone."""
_WAITS = 0.1
"""Share of a step in waits for a loader or for other ranks from which on these may make steps uneven (own choice)."""
_TENTH = 10
_PARTS, _EACH = 4, 3
"""Parts of a recording in which steps must become longer, and least steps of each (own choice: by chance steps that
take as long as each other do so in one of 24 recordings, and not by a quarter)."""
_CACHED = "model.generate(input_ids, use_cache=True)"
_REASONS = {
    "loading": _OUTLIERS.text("loading"),
    "allocation": _OUTLIERS.text("allocation"),
    "loader": _OUTLIERS.text("loader"),
    "other-phase": _OUTLIERS.text("phase"),
    "communication": _OUTLIERS.text("communication"),
}


def _outliers(facts: Facts, limits: Limits) -> Drafts:
    recording = facts.need("recording", Recording)
    typical = recording.typical_step_ns
    if typical is None or recording.steps_from == "whole-trace" or len(recording.steps) < limits["steps"]:
        raise Missing(_OUTLIERS.text("few")())
    inner = [step for step in recording.steps if step.reason not in _EDGES]
    growing = _growing(facts, inner)
    if growing and growing[-1] / growing[0] > limits["growth"]:
        yield _of_growing(growing, inner, limits)
        return
    alike = _alike(facts, inner)
    if len(alike) >= limits["steps"] and _ratio(alike) > limits["uneven"]:
        yield _of_the_same_work(alike, limits)
        return
    long = [step for step in inner if typical and step.duration_ns / typical > limits["ratio"]]
    if not long:
        return
    longest = max(long, key=lambda step: (step.duration_ns, -step.start_ns))
    ratio = longest.duration_ns / typical
    evidence = _OUTLIERS.evidence(limits, "ratio", ratio, longest_steps(long))
    params = {
        "long": len(long),
        "steps": len(inner),
        "typical": typical,
        "name": longest.name,
        "longest": longest.duration_ns,
        "reason": _reason(facts, recording, longest)(),
    }
    yield Draft((evidence,), params=params, severity="info")


def _reason(facts: Facts, recording: Recording, longest: RecordedStep) -> Text:
    """Why the longest step is longer than the others."""
    if longest.reason == "loader" and longest == recording.steps[0] and _may_start_workers(facts, recording):
        return _OUTLIERS.text("first-batch")
    return _REASONS.get(longest.reason or "", _OUTLIERS.text("unknown"))


def _may_start_workers(facts: Facts, recording: Recording) -> bool:
    """Whether some loader may have worker processes that start in the first step: no marks tell of others before."""
    if recording.steps_from == "ProfilerStep" and recording.steps[0].name != "0":
        return False
    loaders = facts.find("dataloader", DataLoader)
    return loaders is not None and any(loader.in_process is False for loader in loaders.loaders)


def _alike(facts: Facts, steps: Sequence[RecordedStep]) -> list[RecordedStep]:
    """Steps of the same work that nothing recorded makes longer, by duration, without the tenth at either end.

    None where steps wait for a loader or for other ranks. The first step does not count, which may be cold.
    """
    own = facts.step_resources
    waits = own.exposed_loader_ns + (own.exposed_communication_ns or 0.0) if own else 0.0
    if facts.step_share(waits) > _WAITS:
        return []
    same = [step for step in steps[1:] if step.has_usual_work and step.reason in (None, "unknown")]
    same.sort(key=lambda step: (step.duration_ns, step.start_ns))
    edge = max(1, len(same) // _TENTH)
    return same[edge:-edge]


def _growing(facts: Facts, steps: Sequence[RecordedStep]) -> list[float]:
    """The usual duration in ns of passes of an inference in each part of the recording, if it grows from part to part.

    Empty if it does not. The first pass does not count, which may be cold.
    """
    times = [step.duration_ns for step in steps[1:] if step.reason in (None, "unknown")]
    if program.workload(facts) != "inference" or len(times) < _PARTS * _EACH or _have_equal_shapes(facts, steps):
        return []
    cuts = [len(times) * part // _PARTS for part in range(_PARTS + 1)]
    parts = [times[begin:end] for begin, end in pairwise(cuts)]
    usual = [float(median(part)) for part in parts]
    grows = all(before < after for before, after in pairwise(usual)) and min(parts[-1]) > usual[0]
    return usual if grows else []


def _have_equal_shapes(facts: Facts, steps: Sequence[RecordedStep]) -> bool:
    """Whether shapes were recorded, and show that all passes but the first do the same."""
    return bool(if_known(lambda: facts.shaped)) and all(step.has_usual_work for step in steps[1:])


def _of_growing(growing: Sequence[float], steps: Sequence[RecordedStep], limits: Limits) -> Draft:
    """The finding about passes that become longer and longer."""
    first, *_, last = growing
    subject = _OUTLIERS.text("subject-growing")()
    return Draft(
        (_OUTLIERS.evidence(limits, "growth", last / first, longest_steps(steps), subject=subject),),
        params={"steps": len(steps), "first": first, "last": last},
        severity="medium",
        confidence="C",
        title=_OUTLIERS.text("title-growing"),
        summary=_OUTLIERS.text("summary-growing"),
        advice=_OUTLIERS.text("advice-growing"),
        code=_CACHED,
    )


def _ratio(alike: Sequence[RecordedStep]) -> float:
    """The longest over the shortest of some steps, which are in the order of their durations."""
    return alike[-1].duration_ns / max(1, alike[0].duration_ns)


def _of_the_same_work(alike: Sequence[RecordedStep], limits: Limits) -> Draft:
    """The finding about steps that take different times for the same work."""
    shortest, longest = alike[0].duration_ns, alike[-1].duration_ns
    subject = _OUTLIERS.text("subject-uneven")()
    evidence = _OUTLIERS.evidence(limits, "uneven", _ratio(alike), longest_steps(alike), subject=subject)
    params = {"steps": len(alike), "shortest": shortest, "longest": longest}
    texts = (_OUTLIERS.text("title-uneven"), _OUTLIERS.text("summary-uneven"), _OUTLIERS.text("advice-uneven"))
    title, summary, advice = texts
    return Draft((evidence,), None, params, "low", title=title, summary=summary, advice=advice)


RULES = (_OUTLIERS.rule(trace=_outliers),)
