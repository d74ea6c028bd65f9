"""Some steps take much longer than the others.

What it detects:
    Five or more marked steps of which at least one, not at an edge of the recording, is more than a fifth longer than
    the typical step.

Why it matters:
    In a run of thousands of steps, rare long ones add up; in a run of several ranks, each of them makes all others
    wait. A mean over a few steps that includes a long one is not meaningful.

What to do:
    Look for events that only a long step has: allocation of memory, compilation, an evaluation, a longer input, garbage
    collection, another program on the machine.

How the saving is estimated:
    Not at all: the savings of all findings are about the typical step.

When it is wrong:
    Batches of unequal length take unequal time for a good reason. A handful of steps does not show how often a long one
    occurs.

References:
    https://docs.pytorch.org/docs/stable/profiler.html
    https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _steps
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.recording import RecordedStep, Recording

_EDGES = ("earlier-work", "recording-end")
"""Reasons that have to do with the recording alone."""
_REASONS = {
    "loading": Text("step-time-outliers-loading", "code is loaded or compiled in it", note="it is a step"),
    "allocation": Text("step-time-outliers-allocation", "it takes memory from the driver", note="it is a step"),
    "loader": Text("step-time-outliers-loader", "it waits longer for its batch", note="it is a step"),
    "other-phase": Text("step-time-outliers-phase", "it does other work than the typical ones", note="it is a step"),
}
_UNKNOWN = Text("step-time-outliers-unknown", "the recording does not show why", note="after: the longest takes 182 ms")
_SUBJECT = Text("step-time-outliers-subject", "the longest step, as a multiple of the typical step")
_FEW = Text("step-time-outliers-few", "too few steps are marked to say which are unusual: record more")
_NO_TABLE = Text("step-time-outliers-no-table", "a printed table does not show single steps")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    recording = facts.need("recording", Recording)
    typical = recording.typical_step_ns
    if typical is None or recording.steps_from == "whole-trace" or len(recording.steps) < limits["steps"]:
        raise Missing(_FEW())
    long = [step for step in recording.steps if _is_long(step, limits["ratio"] * typical)]
    if not long:
        return
    longest = max(long, key=lambda step: (step.duration_ns, -step.start_ns))
    reason = _REASONS.get(longest.reason or "", _UNKNOWN)
    yield Draft(
        (Evidence(_SUBJECT(), longest.duration_ns / typical, limits["ratio"], "number", _steps.longest(long)),),
        params={
            "long": len(long),
            "steps": len(recording.steps),
            "typical": typical,
            "name": longest.name,
            "longest": longest.duration_ns,
            "reason": reason(),
        },
        severity="info",
    )


def _is_long(step: RecordedStep, least_ns: float) -> bool:
    return step.reason not in _EDGES and step.duration_ns > least_ns


RULE = Rule(
    id="step-time-outliers",
    title=Text("step-time-outliers-title", "Some steps are much longer than the others"),
    summary=Text(
        "step-time-outliers-summary",
        "{long:count} of {steps:count} steps are longer than the rest. A typical step takes {typical:ns}; the longest, "
        "step {name}, takes {longest:ns}: {reason}.",
        note="name is the number of a step; reason is a clause",
        one="{long:count} of {steps:count} steps is longer than the rest. A typical step takes {typical:ns}; step "
        "{name} takes {longest:ns}: {reason}.",
    ),
    advice=Text(
        "step-time-outliers-advice",
        "Compare a long step with a typical one, for instance with --steps: memory that is allocated, code that is "
        "compiled, a longer input, garbage collection. In a run of several ranks, a long step of one delays all.",
        note="--steps is an option of the program",
    ),
    not_when=Text(
        "step-time-outliers-not-when",
        "Batches differ in length on purpose, or the long step is an evaluation or a checkpoint.",
    ),
    severity="info",
    confidence="A",
    tags=("host", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "ratio",
            1.2,
            "number",
            "duration of a step over the typical step",
            "the same fifth by which a step differs from typical ones (docs/metrics/recording.md)",
        ),
        Threshold(
            "steps",
            5,
            "count",
            "steps that must be marked",
            "own choice, because fewer steps do not show which are usual",
        ),
    ),
    links=(
        "https://docs.pytorch.org/docs/stable/profiler.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
