"""Compiled code breaks into several graphs in every step.

What it detects:
    Compiled regions that run within another region, as code after a graph break does: at least one per step, with at
    least 0.5 % of the step on the host between the regions.

Why it matters:
    At a graph break the program returns to Python, checks guards again and starts another graph. Nothing is fused
    across the break, and starting a small graph costs as much as starting a large one.

What to do:
    Move the line that causes the break out of the compiled function, or rewrite it so that it can be traced. A compile
    log (`--compile-log`) names the line and the reason; without one, `fullgraph=True` makes torch raise at the first
    break.

How the saving is estimated:
    At most the host time between the regions before and after the breaks, plus the time of checking guards, starting
    and leaving for all regions except one: a graph break in a loop or in a function that cannot be compiled also cuts
    the code around it into separate regions. At least the time of starting and leaving the regions after the breaks;
    the line itself may have to run in any case. In a program without a GPU at most half as much again: regions that are
    joined compute with fewer loops over their tensors, and pass fewer of these to autograd (in the lab 0.7 to 1.8 times
    the time above was saved). On a GPU at least nothing, because the GPU may work meanwhile.

When it is wrong:
    A custom operator that calls compiled code within a graph is not a break and does not count. A compiled function
    that is called on purpose from another compiled function after a break looks the same. Breaks around logging or
    checkpoints that happen in a few steps only are not reported.

References:
    https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.compilation.regions import GraphBreak
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_JOINED = 1.5
"""Greatest saving on a CPU as a multiple of the time at the breaks (measured in the lab, explained on the page)."""

_SUBJECT = Text("graph-breaks-subject", "graph breaks per step")
_NO_TABLE = Text("graph-breaks-no-table", "a printed table does not show which compiled regions follow each other")
_BASIS = Text(
    "graph-breaks-basis-regions",
    "at most the host time between the regions before and behind the breaks, and what checking guards, starting and "
    "leaving takes of all regions but one",
)
_BASIS_CPU = Text(
    "graph-breaks-basis-cpu",
    "at most {most:number} times the host time between the regions before and behind the breaks, and what checking "
    "guards, starting and leaving takes of all regions but one: joined regions also compute with fewer loops",
)
_SUMMARY_CAUSE = Text(
    "graph-breaks-summary-cause",
    "Graph breaks: {breaks:number} per step, with {time:ns} of host time between the parts of compiled code; the most "
    "frequent one is at {place}: {reason}.",
    note="place is a file and a line; reason is torch's text",
)
_SUMMARY_PLACE = Text(
    "graph-breaks-summary-place",
    "Graph breaks: {breaks:number} per step, with {time:ns} of host time between the parts of compiled code; the most "
    "frequent one is at {place}.",
    note="place is a file and a line",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("compilation", CompiledCode)
    breaks, between = found.breaks_per_step, found.between_ns_per_step
    if breaks is None or between is None or breaks < limits["breaks"] or between < limits["share"] * facts.step_ns:
        return
    where = tuple(
        CodePlace("python", _place(row) or f"{row.before} > {row.behind}", value=row.between_ns, unit="ns")
        for row in found.breaks[:5]
    )
    evidence = Evidence(_SUBJECT(), breaks, limits["breaks"], "number", where)
    interval = _saved(facts, found, between)
    basis = _BASIS() if facts.resources.gpu_ns is not None else _BASIS_CPU(most=_JOINED)
    change = TimeSaved("host", interval, basis, interval, {"compiled:breaks": interval[1]})
    params: dict[str, object] = {"breaks": breaks, "time": between}
    most = found.breaks[0]
    place = _place(most)
    if place is None:
        yield Draft((evidence,), change, params, ceiling="medium")
    elif most.reason is None:
        yield Draft((evidence,), change, {**params, "place": place}, ceiling="medium", summary=_SUMMARY_PLACE)
    else:
        params |= {"place": place, "reason": most.reason.rstrip(".")}
        yield Draft((evidence,), change, params, ceiling="medium", summary=_SUMMARY_CAUSE)


def _saved(facts: Facts, found: CompiledCode, between: float) -> tuple[float, float]:
    """Least and most time of a step that fewer regions save, in ns."""
    regions = found.regions_per_step or 0.0
    entering, behind = found.entering_ns_per_step or 0.0, found.entering_behind_ns_per_step or 0.0
    # The guards of a region after a break are checked between the two regions.
    guards = max(0.0, (found.guards_ns_per_step or 0.0) * (1 - (found.breaks_per_step or 0.0) / max(1.0, regions)))
    all_but_one = (entering + guards) * (1 - 1 / max(1.0, regions))
    most = between + all_but_one
    if facts.resources.gpu_ns is not None:
        return 0.0, min(most, facts.step_ns)
    return min(behind, most), min(_JOINED * most, facts.step_ns)


def _place(row: GraphBreak) -> str | None:
    if row.file is None:
        return None
    name = row.file.replace("\\", "/").rpartition("/")[2]
    return name if row.line is None else f"{name}:{row.line}"


RULE = Rule(
    id="graph-breaks",
    title=Text("graph-breaks-title", "Compiled code breaks into several graphs"),
    summary=Text(
        "graph-breaks-summary",
        "Graph breaks: {breaks:number} per step, with {time:ns} of host time between the parts of compiled code.",
    ),
    advice=Text(
        "graph-breaks-advice",
        "Move what cannot be traced (printing, logging, .item(), branches on values of tensors) out of the compiled "
        "function, or use torch.cond and torch.where. Record with TORCH_TRACE and add --compile-log to see each line "
        "and reason.",
        note="torch.cond, torch.where, TORCH_TRACE and --compile-log are code",
    ),
    not_when=Text(
        "graph-breaks-not-when",
        "The line that breaks has to run in Python, and the parts before and behind it are long.",
    ),
    severity="info to medium",
    confidence="B",
    tags=("host", "compile"),
    since="0.2",
    thresholds=(
        Threshold("breaks", 1.0, "number", "graph breaks per step", "own choice, because fewer do not recur"),
        Threshold(
            "share",
            0.005,
            "share",
            "host time between the regions over the step",
            "own choice, because less is within noise",
        ),
    ),
    code="torch.compile(model, fullgraph=True)  # raises at the first graph break and names it",
    links=("https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",),
    trace=_trace,
    no_table=_NO_TABLE(),
)
