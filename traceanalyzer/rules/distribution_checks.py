"""torch.distributions checks its arguments again and again, and reads a value for each check.

What it detects:
    Python frames of `torch/distributions/distribution.py` in which a value of a tensor is read: without a GPU, if they
    take more than three percent of the step; with one, ten or more per step. With a GPU, `aten::_is_all_true` whose
    result is read at once is enough, which hardly anything else calls.

Why it matters:
    Each distribution that is made checks its parameters, and each `log_prob` checks its samples, with a handful of
    operators. Then Python must know the result: on a GPU the host waits until all before has run.

What to do:
    Switch the checks off when the program works: `torch.distributions.Distribution.set_default_validate_args(False)`
    for all, or `validate_args=False` for one.

How the saving is estimated:
    On a CPU at least half of the time of the checks without what recording their operators costs, at most twice that
    time: recording Python frames slows both the checks and the rest of the step down, and it is not known which more.
    (Measured with a small policy on a CPU: 13 % of the recorded step, 15 to 19 % of the step without the profiler.)
    With a GPU not at all: the host may run ahead without these waits, or wait elsewhere.

When it is wrong:
    The checks find NaN in the parameters of a policy early; without them a run goes on with NaN.

References:
    https://docs.pytorch.org/docs/stable/distributions.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.waits.distribution_checks import DistributionChecks
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _host_work
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_LEAST, _MOST = 0.5, 2.0
"""Own choice: recording frames takes up to half of the time of code that consists of short functions."""
_SHARE = Text("distribution-checks-share", "checks of distributions, share of the step")
_CALLS = Text("distribution-checks-calls", "values read per step to check distributions")
_BASIS = Text(
    "distribution-checks-basis",
    "at least half of the time of the checks without what recording their operators cost, at most twice that time, "
    "because recording Python frames slows them and the rest of the step down",
)
_NO_FRAMES = Text(
    "distribution-checks-no-frames",
    "operators show checks of distributions, but no Python frames show what these take: record with stacks",
)
_NO_TABLE = Text("distribution-checks-no-table", "a printed table has no Python frames")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("distribution_checks", DistributionChecks)
    calls, time = found.checks / max(1, found.steps), found.time_ns / max(1, found.steps)
    where = tuple(CodePlace("python", row.name, value=row.checks, unit="count") for row in found.lines) or (
        CodePlace("operator", "aten::_is_all_true", value=found.checks, unit="count"),
    )
    params = {"calls": calls, "time": time, "step": facts.step_ns}
    if facts.resources.gpu_ns is not None:
        if calls >= limits["calls_per_step"]:
            evidence = Evidence(_CALLS(), calls, limits["calls_per_step"], "number", where)
            confidence = "A" if found.by_frames else "B"
            yield Draft((evidence,), params=params, severity="low", confidence=confidence, summary=_SUMMARY_GPU)
        return
    if not found.by_frames:
        raise Missing(_NO_FRAMES())
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    _host_work.need_cpu_steps(facts)
    least = _LEAST * _host_work.without_recording(facts, time, found.operators / found.steps)
    interval = (least, min(_MOST * time, facts.step_ns))
    change = TimeSaved("host", interval, _BASIS(), interval)
    yield Draft((Evidence(_SHARE(), share, limits["host_share"], "share", where),), change, params, ceiling="medium")


_SUMMARY_GPU = Text(
    "distribution-checks-summary-gpu",
    "{calls:number} times per step torch.distributions checks its arguments and reads the result, for which the host "
    "waits until the GPU has done all before.",
)

RULE = Rule(
    id="distribution-checks",
    title=Text("distribution-checks-title", "torch.distributions checks its arguments in each step"),
    summary=Text(
        "distribution-checks-summary",
        "{calls:number} times per step torch.distributions checks its arguments and reads the result, which takes "
        "{time:ns} of a step of {step:ns}.",
    ),
    advice=Text(
        "distribution-checks-advice",
        "Switch the checks off when the program works, for all distributions or with validate_args=False for one.",
        note="validate_args=False is code",
    ),
    not_when=Text(
        "distribution-checks-not-when",
        "The program is still being debugged: the checks find NaN and other invalid parameters early.",
    ),
    severity="low to medium",
    confidence="A",
    tags=("host",),
    since="0.2",
    thresholds=(
        Threshold(
            "host_share",
            0.03,
            "share",
            "checks over the step, where no device works",
            "own choice, because a step on a CPU varies by some percent from run to run",
        ),
        Threshold(
            "calls_per_step",
            10,
            "number",
            "checks per step, where a GPU works",
            "own choice: a training that makes a few distributions per step hardly waits for them",
        ),
    ),
    code="torch.distributions.Distribution.set_default_validate_args(False)",
    links=("https://docs.pytorch.org/docs/stable/distributions.html",),
    trace=_trace,
    no_table=_NO_TABLE(),
    stage="preview",
)
