"""A large part of a step on the CPU is sleeping, waiting, printing or logging.

What it detects:
    Programs without a device that print or format tensors in typical steps, or in which nothing is recorded for 0.3 ms
    or longer in at least half of the steps; together more than five percent of the step. If Python stacks were
    recorded, the functions are named.

Why it matters:
    On a CPU, no other work overlaps this time. Formatting a tensor reads its values one by one, and nothing is computed
    while the program sleeps or waits for a disk or the network.

What to do:
    Look at the named functions, or at the code after the named operator. Log every hundred steps instead of in each,
    print a few numbers instead of tensors, let a thread write them, remove sleeps, and move work that must be done
    (reading, converting) into workers of the loader.

How the saving is estimated:
    At least 80 % of printing, and of pauses that are sleep or logging by the names in stacks; at least half of other
    pauses, because more of them may be needed; both without the cost of recording the operators in this time. At most
    all of this time. If a capture timed steps without the profiler and they are shorter, up to 20 % more, because this
    time is then a larger part of the step.

When it is wrong:
    The pause is necessary work in Python or in a library outside of PyTorch: an environment of reinforcement learning,
    a solver. With several ranks a pause may be waiting for another rank, so such programs are not judged.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.host import HostOwner
from traceanalyzer.analyzers.host.pauses import HostPauses, PauseOwner
from traceanalyzer.analyzers.waits.value_reads import ValueReads
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _host_work
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_LEAST = 0.8
"""Own choice: some printing, logging and sleeping is needed."""
_LEAST_UNKNOWN = 0.5
"""Own choice: more of a pause may be needed if no name shows its purpose, such as the step of an environment."""
_DISPENSABLE = frozenset({"sleep", "logging"})
"""Roles of host work (`knowledge.host_roles`) that a step can mostly do without."""

_SUBJECT = Text(
    "host-waits-or-logs-subject", "printing tensors, and long times in which nothing is recorded, share of the step"
)
_BASIS = Text(
    "host-waits-or-logs-basis-share",
    "at least {least:share} of this time without what recording it cost, because some of it may be needed; at most all "
    "of it, and up to a fifth more where a capture shows that the profiler made the rest of the step longer",
)
_RANKS = Text("host-waits-or-logs-ranks", "with several ranks a pause may be waiting for another rank")
_NO_TABLE = Text("host-waits-or-logs-no-table", "a printed table has no timeline, so it does not show pauses")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    _host_work.need_cpu_steps(facts)
    if _is_of_several_ranks(facts):
        raise Missing(_RANKS())
    reads, pauses = facts.find("value_reads", ValueReads), facts.find("host_pauses", HostPauses)
    printing = 0.0 if reads is None else reads.printing_ns / reads.steps
    recorded = 0.0 if reads is None else reads.printing_operators / reads.steps
    if pauses is not None and pauses.paused_steps < limits["paused_share"] * pauses.steps:
        pauses = None
    waiting = 0.0 if pauses is None else pauses.time_ns / pauses.steps
    time = printing + waiting
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    kept = _least(printing, waiting, pauses)
    interval = (kept * _host_work.without_recording(facts, time, recorded), _host_work.most(facts, time))
    change = TimeSaved("host", interval, _BASIS(least=kept), interval)
    evidence = Evidence(_SUBJECT(), share, limits["share"], "share", _places(reads, pauses))
    params: dict[str, object] = {"time": time, "step": facts.step_ns, "printing": printing, "waiting": waiting}
    summary = _SUMMARY_PRINTS if not waiting else _SUMMARY_PAUSES if not printing else None
    advice = None if printing else _ADVICE_LINES if any(p.kind == "python" for p in evidence.where) else _ADVICE_PAUSES
    confidence = _confidence(pauses, waiting, time)
    yield Draft((evidence,), change, params, ceiling="high", confidence=confidence, summary=summary, advice=advice)


def _least(printing: float, waiting: float, pauses: HostPauses | None) -> float:
    """Share of the time that at least goes away: of printing, of pauses that names explain, and of others."""
    rows = () if pauses is None else pauses.owners
    known = sum(row.time_ns for row in rows if row.role in _DISPENSABLE) / pauses.steps if pauses is not None else 0.0
    known = min(known, waiting)
    return (_LEAST * (printing + known) + _LEAST_UNKNOWN * (waiting - known)) / (printing + waiting)


def _is_of_several_ranks(facts: Facts) -> bool:
    told = facts.summary.world_size if facts.summary is not None else None
    if told is None and facts.capture is not None and facts.capture.facts.distributed is not None:
        told = facts.capture.facts.distributed.world_size
    return (told or 1) > 1 or facts.find("communication", Communication) is not None


def _confidence(pauses: HostPauses | None, waiting: float, time: float) -> str | None:
    """Lower if most of the time is a pause of unknown purpose."""
    told = pauses is not None and any(_tells(row) for row in pauses.owners)
    return None if told or 2 * waiting <= time else "C"


def _tells(row: PauseOwner | HostOwner) -> bool:
    return row.kind in ("function", "library", "module") or row.role is not None


def _places(reads: ValueReads | None, pauses: HostPauses | None) -> tuple[CodePlace, ...]:
    found = []
    if pauses is not None:
        for row in pauses.owners[:3]:
            is_line = row.file is not None and row.line is not None
            name = f"{row.file}({row.line}): {row.name}" if is_line else row.name
            kind = "python" if is_line else "time"
            found.append(CodePlace(kind, name, None, row.time_ns / pauses.steps, "ns", row.start_ns))
        if not found:
            name = pauses.after or "ProfilerStep"
            found.append(CodePlace("operator", name, None, pauses.longest_ns, "ns", pauses.longest_start_ns))
    for line in reads.printing_lines[:3] if reads is not None else ():
        kind = "python" if line.is_line else "operator"
        time = line.time_ns / reads.steps if reads is not None else None
        found.append(CodePlace(kind, line.name, None, time, "ns", line.start_ns))
    return tuple(found)


_SUMMARY_PRINTS = Text(
    "host-waits-or-logs-summary-prints",
    "Tensors are printed or formatted for {printing:ns} of a step of {step:ns}: their values are read one by one.",
)
_SUMMARY_PAUSES = Text(
    "host-waits-or-logs-summary-pauses",
    "For {waiting:ns} of a step of {step:ns}, in long pauses, no operator runs: the program sleeps, waits or computes "
    "outside of PyTorch.",
)
_ADVICE_PAUSES = Text(
    "host-waits-or-logs-advice-pauses",
    "Record with stacks (with_stack=True) to see which lines take the time. Remove sleeps, log every hundred steps, "
    "and let a thread or a process prepare what each step needs from outside while the step before it runs.",
    note="with_stack=True is code",
)
_ADVICE_LINES = Text(
    "host-waits-or-logs-advice-lines",
    "Look at the lines below. Remove sleeps, log every hundred steps, and let a thread or a process prepare what each "
    "step needs from outside, such as an environment or a file, while the step before it runs.",
    note="the lines of code are listed as evidence",
)

RULE = Rule(
    id="host-waits-or-logs",
    title=Text("host-waits-or-logs-title", "The step sleeps, waits, logs or runs code outside of PyTorch"),
    summary=Text(
        "host-waits-or-logs-summary",
        "{time:ns} of a step of {step:ns} are spent beside the training or inference: {printing:ns} printing or "
        "formatting tensors, {waiting:ns} in long pauses in which no operator runs.",
    ),
    advice=Text(
        "host-waits-or-logs-advice",
        "Log every hundred steps instead of each, print a few numbers instead of tensors, let a thread write them, and "
        "remove sleeps. Record with stacks (with_stack=True) to see which lines take the time.",
    ),
    not_when=Text(
        "host-waits-or-logs-not-when",
        "The pause is work outside of PyTorch that each step needs, such as the step of an environment.",
    ),
    severity="low to high",
    confidence="B",
    tags=("host",),
    since="0.2",
    thresholds=(
        Threshold(
            "share",
            0.05,
            "share",
            "printing and pauses over the typical step",
            "own choice, because a step on a CPU varies by some percent from run to run",
        ),
        Threshold(
            "paused_share",
            0.5,
            "share",
            "steps that have a pause",
            "own choice, because other programs also interrupt a step now and then",
        ),
    ),
    code="",
    links=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    trace=_trace,
    no_table=_NO_TABLE(),
)
