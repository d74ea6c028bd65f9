"""Autograd's anomaly mode is left on.

What it detects:
    Evaluations of autograd in which `aten::isnan` checks the result after the function itself, for at least 80 % of the
    functions of the backward passes (functions that only add to gradients are never checked).
    `torch.autograd.set_detect_anomaly(True)`, `detect_anomaly()` and Lightning's `detect_anomaly=True` cause these
    checks.

Why it matters:
    Anomaly mode is for finding the operator that produced a NaN. In each forward pass it formats the Python stack of
    each operator; in each backward pass it searches every gradient and waits for the result. Steps take several times
    as long.

What to do:
    Turn it off, and turn it on again for a few steps when a NaN appears.

How the saving is estimated:
    At least the time that can be attributed to it: in the backward pass the time from the first check of each function
    to its end; in the forward pass the time between the start and the work of operators that extend the graph, less the
    same time of other operators. At most half as much again: stacks are also freed between the functions, and the rest
    of the step runs with colder caches. (In the lab the saving was 1.2 times the attributed time.)

When it is wrong:
    A program's own hooks that search for NaN after every function look the same, but cost less in the forward pass.
    While someone searches for a NaN, anomaly mode is on for a reason.

References:
    https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-debugging-apis
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.backward_pass import NanChecks
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_MORE = 1.5
"""Greatest ratio of the saving to the time that can be attributed to anomaly mode (own choice; the lab measured
1.2)."""

_SUBJECT = Text(
    "anomaly-mode-subject", "functions of the backward pass whose results are searched for NaN, share of all"
)
_BASIS = Text(
    "anomaly-mode-basis",
    "at least the checks and the formatting of stacks that can be told apart; at most half as much again, because "
    "stacks are also freed and the rest of the step runs with colder caches",
)
_NO_TABLE = Text("anomaly-mode-no-table", "a printed table does not show which operators autograd calls")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.find("nan_checks", NanChecks)
    if found is None or not found.functions or not found.steps:
        facts.need("operators", object)
        return
    share = found.checked / found.functions
    if share < limits["checked_share"] or found.checked < limits["functions"]:
        return
    time = (found.checks_ns + found.stacks_ns) / found.steps
    interval = (min(time, facts.step_ns), min(_MORE * time, facts.step_ns))
    where = CodePlace("operator", "aten::isnan", None, found.checks_ns / found.steps, "ns", found.start_ns)
    evidence = Evidence(_SUBJECT(), share, limits["checked_share"], "share", (where,))
    change = TimeSaved("host", interval, _BASIS())
    params = {
        "checks": found.checked / found.steps,
        "time": time,
        "step": facts.step_ns,
        "stacks": found.stacks_ns / found.steps,
    }
    yield Draft((evidence,), change, params, severity="medium")


RULE = Rule(
    id="anomaly-mode",
    title=Text("anomaly-mode-title", "Autograd's anomaly mode is on"),
    summary=Text(
        "anomaly-mode-summary",
        "Autograd searches the results of {checks:number} functions per step for NaN and formats a Python stack for "
        "each function of the graph: {time:ns} of a step of {step:ns}, of which {stacks:ns} are for stacks.",
    ),
    advice=Text(
        "anomaly-mode-advice",
        "Remove torch.autograd.set_detect_anomaly(True), detect_anomaly() or the trainer's detect_anomaly=True, and "
        "turn it on again only to find a NaN.",
        note="the names are code",
    ),
    not_when=Text("anomaly-mode-not-when", "A NaN is being searched for right now."),
    severity="medium to critical",
    confidence="A",
    tags=("host", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "checked_share",
            0.8,
            "share",
            "functions of the backward pass whose results are checked",
            "own choice: anomaly mode checks all, but those that return no tensor; hooks check some",
        ),
        Threshold(
            "functions",
            5,
            "count",
            "checked functions in the typical steps",
            "own choice, because a few may be checked by the program's own hooks",
        ),
    ),
    code="torch.autograd.set_detect_anomaly(False)",
    links=(
        "https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-debugging-apis",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
