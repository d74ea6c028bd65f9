"""Detects what holds the host up.

The rules are host-stalls, host-python-gap, postprocessing-in-step, host-waits-or-logs and threads-oversubscribed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import fsum

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.host import roles_at
from traceanalyzer.analyzers.host.pauses import HostPauses, pauses_at
from traceanalyzer.analyzers.host.stalls import HostStalls, stalls_at
from traceanalyzer.analyzers.host.thread_contention import ThreadContention, slow_at
from traceanalyzer.analyzers.idle.gap_details import OF_OTHER_RULES
from traceanalyzer.analyzers.idle.step_idle import MOST_OWNERS, DeviceInSteps, GapOwner, HostGap, long_gaps_at
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.analyzers.waits.value_reads import ValueReads, value_runs_at
from traceanalyzer.knowledge.host_roles import OUTPUTS
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners, host_work, idle_time, program
from traceanalyzer.rules.engine.change import HostTime, RanksTogether
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import ITS_OWN, EventSet, Occurrences, event_set
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.typical import mean

_PYTHON_GAP = page("host-python-gap")
_WAITS_OR_LOGS = page("host-waits-or-logs")
_OVERSUBSCRIBED = page("threads-oversubscribed")
_STALLS = page("host-stalls")
_OUTPUTS = page("postprocessing-in-step")
_STALLS_SHOWN = 8

_CODE_GC = "gc.collect(); gc.freeze(); gc.disable()  # before the loop; collect by hand now and then"

_ADVICE_BY_ROLE: Mapping[str | None, Text] = {
    "sampling": _PYTHON_GAP.text("advice-sampling"),
    "garbage-collection": _PYTHON_GAP.text("advice-garbage-collection"),
    "guards": _PYTHON_GAP.text("advice-guards"),
    "checkpointing": _PYTHON_GAP.text("advice-checkpointing"),
    "logging": _PYTHON_GAP.text("advice-logging"),
    "sleep": _PYTHON_GAP.text("advice-sleep"),
}

_RECURRING = 10
"""Least number of long gaps in a recording without steps (own choice: fewer may all be of its start or end)."""
_MOSTLY = 0.5
"""Share of the gaps without any open call from which on that is said (own choice: most of them)."""
_LEAST = 0.8
"""Own choice: some printing, logging and sleeping is needed."""
_LEAST_UNKNOWN = 0.5
"""Own choice: more of a pause may be needed if no name shows its purpose, such as the step of an environment."""
_DISPENSABLE = frozenset({"sleep", "logging"})
"""Roles of host work (`knowledge.host_roles`) that a step can mostly do without."""


def _python_gap_in_trace(facts: Facts, limits: Limits) -> Drafts:
    idle = idle_time.enough(facts, limits["events"])
    device = idle_time.busiest(facts, idle)
    if device is None or not device.time_ns or not device.typical_other_gap_ns:
        return
    is_whole = idle.steps_from == "whole-trace" and sum(row.gaps for row in device.host_gaps) >= _RECURRING
    if idle.steps_from in ("whole-trace", "device-events", "host-annotations") and not is_whole:
        raise Missing(_PYTHON_GAP.text("no-steps")())
    step, time, silent = facts.step_ns, device.typical_other_gap_ns, mean(device.silent_gap_ns, idle.steps)
    measured = program.gaps_without_profiler(facts, device)
    least, most = measured or ((1 / idle_time.STACKS, 0.5) if facts.is_host_inflated else (0.5, 1.0))
    share = most * time / step
    if share <= limits["gap_share"]:
        return
    counted = most
    if measured and facts.is_replayed:
        least, most = 0.5, 1.0  # a replay takes what recording cost off all of the host's time
    if most == 1:  # what nothing recorded needs can be done elsewhere or later
        least = max(least, min(_LEAST, silent / time))
    text = _PYTHON_GAP.text("basis-measured") if measured else _PYTHON_GAP.text("basis")
    basis = _PYTHON_GAP.text("basis-all")(least=least) if most == 1 else text(least=least, most=most)
    interval, gaps = (least * time, most * time), long_gaps_at(waits=idle_time.waits_again_and_again(idle, device))
    change = HostTime(interval, basis, interval, _claims(device, interval[1]), at=gaps)
    owners = [row for row in device.gap_owners if row.role not in OF_OTHER_RULES]
    where = host_owners.of_gaps(owners, idle.steps)
    shown = host_owners.total(where)
    subject = _PYTHON_GAP.text("subject")()
    if 0 < shown < time:
        subject = _PYTHON_GAP.text("subject-listed")(shown=shown, time=time)
    where = where or tuple(_place(row, mean(row.time_ns, idle.steps)) for row in device.host_gaps[:5])
    evidence = Evidence(idle_time.counted(subject, counted), share, limits["gap_share"], "share", where)
    first = owners[0] if owners and _is_largest(owners[0], device, time) else None
    what = _PYTHON_GAP.text("unknown")() if first is None else host_owners.name(first)
    is_silent = silent >= _MOSTLY * time and not facts.is_host_inflated
    if is_silent and not program.may_train(facts) and (first is None or first.role is None):
        advice: Text | None = _PYTHON_GAP.text("advice-results")
    else:
        advice = _advice(first)
    params: dict[str, object] = {"time": OfEvents(time), "step": step, "share": OfEvents(time, is_share=True)}
    yield Draft(
        (evidence,),
        change,
        params | {"what": what, "silent": min(silent, time)},
        ceiling="high",
        summary=_PYTHON_GAP.text("summary-silent") if is_silent else None,
        confidence="C" if first is None or first.kind in ("operator", "call", "autograd") else None,
        advice=advice,
        code=_CODE_GC if first is not None and first.role == "garbage-collection" else "",
    )


def _is_largest(owner: GapOwner, device: DeviceInSteps, time: float) -> bool:
    """Whether an owner has no less of the gaps than the time in which nothing was recorded.

    What ten owners leave may belong to further ones and is not known to be unrecorded.
    """
    listed = sum(row.time_ns for row in device.gap_owners if row.role not in OF_OTHER_RULES)
    is_complete = len(device.gap_owners) < MOST_OWNERS
    return not is_complete or owner.time_ns >= time * max(1, device.owner_steps) - listed


def _advice(owner: GapOwner | None) -> Text | None:
    """Advice about an owner, by its role or else by its kind."""
    if owner is None:
        return _PYTHON_GAP.text("advice-unknown")
    if owner.role in _ADVICE_BY_ROLE:
        return _ADVICE_BY_ROLE[owner.role]
    if owner.kind in ("module", "backward", "autograd"):
        return _PYTHON_GAP.text("advice-model")
    return _PYTHON_GAP.text("advice-unknown") if owner.kind in ("operator", "call") else None


def _claims(device: DeviceInSteps, time: float) -> dict[EventSet, float]:
    """Claims on the gaps; gaps after a wait that emptied the queue are also claimed by the rules about waits."""
    times = {row.cause: row.time_ns for row in device.causes if row.cause in ("host_code", "synchronization")}
    total = sum(times.values())
    return {EventSet.idle(cause): time * ns / total for cause, ns in times.items() if ns}


def _place(row: HostGap, time_ns: float) -> CodePlace:
    kinds = {
        "python": row.python_line,
        "operator": row.operator,
        "time": row.annotation or _PYTHON_GAP.text("unknown")().text,
    }
    kind, name = next((kind, name) for kind, name in kinds.items() if name)
    return CodePlace(kind, name, value=time_ns, unit="ns", start_ns=row.longest_start_ns)


def _postprocessing(facts: Facts, limits: Limits) -> Drafts:
    idle_time.need_usual_idle_time(facts)
    owners = host_owners.found(facts)
    if owners is None:
        raise Missing(_OUTPUTS.text("no-owners")())
    time = mean(sum(row.idle_ns or 0 for row in owners.roles if row.role == OUTPUTS), owners.steps)
    share = time / facts.step_ns
    if share <= limits["idle_share"]:
        return
    rows = [row for row in host_owners.of_role(facts, OUTPUTS) if row.idle_self_ns][:5]
    where = tuple(host_owners.place(row, row.idle_self_ns_per_step) for row in rows)
    evidence = Evidence(_OUTPUTS.text("subject")(), share, limits["idle_share"], "share", where)
    least = _LEAST_UNKNOWN * (_LEAST_UNKNOWN if facts.is_host_inflated else 1.0)
    interval, claims = (least * time, time), {EventSet.other(OUTPUTS): time}
    within = roles_at(roles=(OUTPUTS,), in_loader=False, name="outputs")
    change = HostTime(interval, _OUTPUTS.text("basis")(least=least), interval, claims, within=within)
    params = {
        "time": OfEvents(time),
        "step": facts.step_ns,
        "share": OfEvents(time, is_share=True),
        "owner": host_owners.name(rows[0]),
    }
    yield Draft((evidence,), change, params)


def _prints_beside_device(facts: Facts, limits: Limits) -> Drafts:
    """Printing on a program with a device, while that has nothing to do; its pauses are host-python-gap's."""
    reads = facts.find("value_reads", ValueReads)
    if reads is None or not reads.printing_idle_ns:
        return
    idle_time.need_usual_idle_time(facts)
    time, printing = mean(reads.printing_idle_ns, reads.steps), mean(reads.printing_ns, reads.steps)
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    kept = host_work.without_recording(facts, time, mean(reads.printing_operators, reads.steps))
    interval, within = (_LEAST * kept, printing), value_runs_at(prints=True)
    basis, subject = _WAITS_OR_LOGS.text("basis-share")(least=_LEAST), _WAITS_OR_LOGS.text("subject-prints")()
    change = HostTime(interval, basis, interval, within=within, device=ITS_OWN)
    evidence = Evidence(subject, share, limits["share"], "share", _places(reads, None))
    params: dict[str, object] = {"time": time, "step": facts.step_ns, "printing": printing, "waiting": 0.0}
    yield Draft((evidence,), change, params, ceiling="high", summary=_WAITS_OR_LOGS.text("summary-prints"))


def _waits_or_logs_in_trace(facts: Facts, limits: Limits) -> Drafts:
    if _is_of_several_ranks(facts):
        raise Missing(_WAITS_OR_LOGS.text("ranks")())
    if facts.resources.gpu_ns is not None and facts.find("value_reads", ValueReads) is not None:
        yield from _prints_beside_device(facts, limits)
        return
    host_work.need_cpu_steps(facts)
    reads, pauses = facts.find("value_reads", ValueReads), facts.find("host_pauses", HostPauses)
    printing = 0.0 if reads is None else mean(reads.printing_ns, reads.steps)
    recorded = 0.0 if reads is None else mean(reads.printing_operators, reads.steps)
    if pauses is not None and pauses.paused_steps < limits["paused_share"] * pauses.steps:
        pauses = None
    waiting = 0.0
    if pauses is not None:
        waiting = max(0.0, mean(pauses.time_ns, pauses.steps) - host_work.queued_ns(facts))
    time = printing + waiting
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    asleep = host_work.asleep_ns(facts)
    kept = _least(printing, waiting, pauses, asleep or 0.0)
    at = _waits_and_prints(prints=bool(printing), waits=bool(waiting))
    interval = (kept * host_work.without_recording(facts, time, recorded), host_work.most(facts, time))
    change = HostTime(interval, _WAITS_OR_LOGS.text("basis-share")(least=kept), interval, at=at)
    where = _places(reads, pauses)
    evidence = Evidence(_WAITS_OR_LOGS.text("subject")(), share, limits["share"], "share", where)
    params: dict[str, object] = {"time": time, "step": facts.step_ns, "printing": printing, "waiting": waiting}
    summary, advice = None, None
    if not waiting:
        summary = _WAITS_OR_LOGS.text("summary-prints")
    elif not printing:
        has_lines = any(place.kind == "python" for place in where)
        summary = _WAITS_OR_LOGS.text("summary-pauses")
        advice = _WAITS_OR_LOGS.text("advice-lines") if has_lines else _WAITS_OR_LOGS.text("advice-pauses")
    if asleep is not None and asleep < waiting / 2 and waiting > printing:
        summary, advice = _WAITS_OR_LOGS.text("summary-computes"), _WAITS_OR_LOGS.text("advice-computes")
    told = ("function", "library", "module")  # owners that show what a pause is for
    is_told = pauses is not None and any(row.kind in told or row.role is not None for row in pauses.owners)
    confidence = None if is_told or 2 * waiting <= time else "C"  # most of the time is a pause of unknown purpose
    # at most "high": a part may be waiting for a core
    draft = Draft((evidence,), change, params, ceiling="high", confidence=confidence)
    yield replace(draft, summary=summary, advice=advice)


@event_set
def _waits_and_prints(context: Context, *, prints: bool, waits: bool) -> Iterator[Occurrences]:
    """When the program prints, and when it pauses."""
    if prints:
        yield from value_runs_at(prints=True).found(context)
    if waits:
        yield from pauses_at().found(context)


def _least(printing: float, waiting: float, pauses: HostPauses | None, asleep: float) -> float:
    """Share of the time that at least goes away: of printing, of pauses that names or a capture explain, of others."""
    rows = () if pauses is None else pauses.owners
    known = (
        mean(sum(row.time_ns for row in rows if row.role in _DISPENSABLE), pauses.steps) if pauses is not None else 0.0
    )
    known = min(max(known, asleep), waiting)
    return (_LEAST * (printing + known) + _LEAST_UNKNOWN * (waiting - known)) / (printing + waiting)


def _is_of_several_ranks(facts: Facts) -> bool:
    ranks = facts.summary.world_size if facts.summary is not None else None
    if ranks is None and facts.capture is not None and facts.capture.facts.distributed is not None:
        ranks = facts.capture.facts.distributed.world_size
    return (ranks or 1) > 1 or facts.find("communication", Communication) is not None


def _places(reads: ValueReads | None, pauses: HostPauses | None) -> tuple[CodePlace, ...]:
    """The longest pauses with their owners, or else the operator before them, then the lines that print."""
    places = []
    if pauses is not None:
        for row in pauses.owners[:3]:
            kind, name = "time", row.name
            if row.file is not None and row.line is not None:
                kind, name = "python", f"{row.file}({row.line}): {row.name}"
            places.append(CodePlace(kind, name, None, mean(row.time_ns, pauses.steps), "ns", row.start_ns))
        if not places:
            name = pauses.after or "ProfilerStep"
            places.append(CodePlace("operator", name, None, pauses.longest_ns, "ns", pauses.longest_start_ns))
    if reads is not None:
        places += [host_work.place(line, reads.steps) for line in reads.printing_lines[:3]]
    return tuple(places)


def _oversubscribed_in_trace(facts: Facts, limits: Limits) -> Drafts:
    contention = facts.need("thread_contention", ThreadContention)
    host_work.need_cpu_steps(facts)
    threads, cpus = contention.threads, contention.cpus
    beyond = mean(contention.beyond_ns, contention.steps)
    ratio, share = threads / cpus, beyond / facts.step_ns
    if ratio <= limits["threads_per_core"] or share <= limits["share"]:
        return
    most = 1 - cpus / threads
    interval = (min(beyond, most * facts.step_ns), most * facts.step_ns)
    where = (CodePlace("operator", contention.slowest or "aten::mm", None, beyond, "ns", contention.start_ns),)
    evidence = (
        Evidence(_OVERSUBSCRIBED.text("subject")(), share, limits["share"], "share", where),
        Evidence(_OVERSUBSCRIBED.text("threads")(), ratio, limits["threads_per_core"], "number", ()),
    )
    change = HostTime(interval, _OVERSUBSCRIBED.text("basis")(most=most), at=slow_at())
    params = {"threads": threads, "cpus": cpus, "beyond": beyond, "step": facts.step_ns}
    code = f"torch.set_num_threads({cpus})  # or OMP_NUM_THREADS={cpus} in the environment"
    yield Draft(evidence, change, params, code=code)


def _stalls(facts: Facts, limits: Limits) -> Drafts:
    """Stalls of a trace, or of the ranks of a run, where one that stalls makes all wait."""
    run = facts.find("ranks", Ranks)
    if run is not None:
        yield from _stalls_of_ranks(facts, run, limits)
        return
    found, recording = facts.need("host_stalls", HostStalls), facts.need("recording", Recording)
    if recording.typical is None:
        return
    steps = recording.typical.steps
    time = mean(found.time_ns, steps)
    share, is_alone = time / facts.step_ns, found.stalls < limits["stalls"]
    least = limits["alone_share" if is_alone else "share"]
    if share < least or not found.rows:
        return
    where = tuple(
        CodePlace(row.kind, row.name, None, mean(row.time_ns, steps), "ns", row.longest_start_ns)
        for row in found.rows[:_STALLS_SHOWN]
    )
    evidence = Evidence(_STALLS.text("subject")(), share, least, "share", where)
    change = HostTime((_LEAST * time, time), _STALLS.text("basis")(), at=stalls_at())
    params: dict[str, object] = {
        "stalls": round(mean(found.stalls, steps)),
        "longest": found.longest_ns,
        "time": OfEvents(time),
    }
    params |= {"step": facts.step_ns, "operator": found.rows[0].name}
    if is_alone:
        draft = Draft((evidence,), change, params, confidence="C")
        yield replace(draft, summary=_STALLS.text("summary-alone"), advice=_STALLS.text("advice-alone"))
        return
    yield Draft((evidence,), change, params)


def _stalls_of_ranks(facts: Facts, run: Ranks, limits: Limits) -> Drafts:
    rows = [row for row in run.ranks if (row.stalls or 0.0) * row.steps >= limits["stalls"]]
    step = run.mean_step_ns or 0.0
    if not rows or not step:
        return
    stalled = fsum(row.stalled_ns or 0.0 for row in run.ranks) / len(run.ranks)
    share = stalled / step
    if share < limits["share"]:
        return
    where = tuple(CodePlace("rank", str(row.rank), None, row.stalled_ns, "ns") for row in rows)
    evidence = Evidence(_STALLS.text("subject-ranks")(), share, limits["share"], "share", where)
    replayed = facts.find("stragglers", Stragglers)
    host = next((row.slowdown for row in replayed.by_kind if row.kind == "host"), 1.0) if replayed else 1.0
    most = step - step / host
    interval = min(stalled, most), most
    change = RanksTogether(
        interval,
        _STALLS.text("basis-ranks")(),
        interval,
        {EventSet.other("waiting for ranks"): most},
    )
    params = {
        "ranks": len(rows),
        "all": len(run.ranks),
        "stalls": round(fsum(row.stalls or 0.0 for row in rows) / len(rows)),
        "longest": max(row.longest_stall_ns or 0.0 for row in rows),
        "time": stalled,
        "step": step,
        "wait": run.exposed_wait_ns or 0.0,
        "transfer": run.transfer_ns or 0.0,
    }
    summary = _STALLS.text("summary-ranks")
    yield Draft((evidence,), change if most else None, params, summary=summary)


RULES = (
    _STALLS.rule(trace=_stalls),
    _PYTHON_GAP.rule(trace=_python_gap_in_trace),
    _OUTPUTS.rule(trace=_postprocessing),
    _WAITS_OR_LOGS.rule(trace=_waits_or_logs_in_trace),
    _OVERSUBSCRIBED.rule(trace=_oversubscribed_in_trace),
)
