"""Detects what holds the host up.

The rules are host-python-gap, postprocessing-in-step, host-waits-or-logs and threads-oversubscribed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.host import roles_at
from traceanalyzer.analyzers.host.beside_training import BesideTraining
from traceanalyzer.analyzers.host.pauses import HostPauses
from traceanalyzer.analyzers.host.thread_contention import ThreadContention, slow_at
from traceanalyzer.analyzers.idle import step_idle
from traceanalyzer.analyzers.waits.value_reads import ValueReads
from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.host_roles import OUTPUTS
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import host_owners, host_work, idle_time, program
from traceanalyzer.rules.engine.change import HostTime
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, page
from traceanalyzer.structure.events import EventSet

_PYTHON_GAP = page("host-python-gap")
_WAITS_OR_LOGS = page("host-waits-or-logs")
_OVERSUBSCRIBED = page("threads-oversubscribed")
_OUTPUTS = page("postprocessing-in-step")

_CODE_GC = "gc.collect(); gc.freeze(); gc.disable()  # before the loop; collect by hand now and then"

_ADVICE_BY_ROLE: Mapping[str | None, Text] = {
    "sampling": _PYTHON_GAP.text("advice-sampling"),
    "garbage-collection": _PYTHON_GAP.text("advice-garbage-collection"),
    "guards": _PYTHON_GAP.text("advice-guards"),
    "checkpointing": _PYTHON_GAP.text("advice-checkpointing"),
    "logging": _PYTHON_GAP.text("advice-logging"),
    "sleep": _PYTHON_GAP.text("advice-sleep"),
    "writing": _PYTHON_GAP.text("advice-writing"),
    "preparation": _PYTHON_GAP.text("advice-preparation"),
    "environment": _PYTHON_GAP.text("advice-environment"),
}

_RECURRING = 10
"""Least number of long gaps in a recording without steps (own choice: fewer may all be of its start or end)."""
_MOSTLY = 0.5
"""Share of the gaps without any open call from which on that is said (own choice: most of them)."""
_LEAST = 0.8
"""Own choice: some printing, logging and sleeping is needed."""
_LEAST_UNKNOWN = 0.5
"""Own choice: more of a pause may be needed if no name shows its purpose, such as the step of an environment."""
_MUCH = 0.3
"""Share of a step in gaps of which nothing was recorded from which on these matter most (own choice)."""
_QUEUED = 0.1
"""Share of a step spent waiting for a core from which on reports warn of it."""
_DISPENSABLE = frozenset({"sleep", "logging"})
"""Roles of host work (`knowledge.host_roles`) that a step can mostly do without."""


def _beside_launches(facts: Facts, limits: Limits) -> Drafts:
    """What the host does between launches: in the typical steps, or beside them where that is most of the recording."""
    found = idle_time.of_busiest(facts, limits["events"])
    other = host_owners.outside_of_steps(facts)
    if other is not None and other.share > limits["gap_share"]:
        yield _outside(facts, other, limits)
    elif found is not None:
        yield from _python_gap(facts, found, limits)


def _outside(facts: Facts, other: host_owners.WorkOutside, limits: Limits) -> Draft:
    """The finding about what the host does again and again outside of the typical steps, while the device waits."""
    least = _LEAST_UNKNOWN * (_LEAST_UNKNOWN if facts.is_host_inflated else 1.0)
    interval = facts.per_step(least * other.own_ns), facts.per_step(other.waits_ns)
    subject = _PYTHON_GAP.text("subject-outside")()
    return Draft(
        (_PYTHON_GAP.evidence(limits, "gap_share", other.share, (other.place,), subject=subject),),
        HostTime(interval, _PYTHON_GAP.text("basis-outside")(least=least), interval, within=other.at),
        {"time": other.own_ns, "all": other.recorded_ns, "what": host_owners.name(other.owner)},
        summary=_PYTHON_GAP.text("summary-outside"),
        advice=_ADVICE_BY_ROLE.get(other.owner.role, _PYTHON_GAP.text("advice-outside")),
        code="",
    )


def _python_gap(facts: Facts, found: idle_time.IdleDevice, limits: Limits) -> Drafts:
    if not found.device.typical_other_gap_ns:
        return
    if not _recurs(found):
        raise Missing(_PYTHON_GAP.text("no-steps")())
    time = found.device.typical_other_gap_ns
    silent = found.per_step(found.device.silent_gap_ns)
    parts = found.parts_without_profiler(facts, (1 / idle_time.STACKS, 0.5))
    share = parts.most * time / facts.step_ns
    if share <= limits["gap_share"]:
        return
    owner = host_owners.main_of_gaps(found.device, time)
    where = host_owners.of_gaps(found.device.gap_owners, found.idle.steps)
    subject = parts.counted(_subject(host_owners.total(where), time))
    unknown = _PYTHON_GAP.text("unknown")()
    where = where or host_owners.of_host_gaps(found.device.host_gaps[:5], found.idle.steps, unknown.text)
    evidence = _PYTHON_GAP.evidence(limits, "gap_share", share, where, subject=subject)
    params = host_work.figures(facts, time)
    params |= {"what": unknown if owner is None else host_owners.name(owner), "silent": min(silent, time)}
    draft = Draft((evidence,), _gaps_gone(found, parts, time, silent), params, ceiling="high")
    yield _with_advice(facts, draft, owner, is_silent=silent >= _MOSTLY * time)


def _subject(shown: float, time: float) -> Message:
    """What was measured, of which the places show a part."""
    if 0 < shown < time:
        return _PYTHON_GAP.text("subject-listed")(shown=shown, time=time)
    return _PYTHON_GAP.text("subject")()


def _recurs(found: idle_time.IdleDevice) -> bool:
    """Whether the gaps are those of steps, or so many in a whole recording that they are not of its start or end."""
    steps_from = found.idle.steps_from
    if steps_from == "whole-trace":
        return sum(row.gaps for row in found.device.host_gaps) >= _RECURRING
    return steps_from not in ("device-events", "host-annotations")


def _gaps_gone(found: idle_time.IdleDevice, parts: idle_time.GapParts, time: float, silent: float) -> HostTime:
    """The change without a part of long gaps; what nothing recorded needs can be done elsewhere or later."""
    least, most = parts.saved
    if most == 1:
        parts = replace(parts, saved=(max(least, min(_LEAST, silent / time)), most))
    least, most = parts.saved
    interval = least * time, most * time
    # gaps after a wait that emptied the queue are also claimed by the rules about waits
    claims = found.claims(("host_code", "synchronization"), most * time)
    gaps = step_idle.long_gaps_at(waits=found.waits_again_and_again)
    basis = parts.basis(_PYTHON_GAP.text("basis-all"), _PYTHON_GAP.text("basis-measured"), _PYTHON_GAP.text("basis"))
    return HostTime(interval, basis, interval, claims, at=gaps)


def _with_advice(facts: Facts, draft: Draft, owner: step_idle.GapOwner | None, *, is_silent: bool) -> Draft:
    """The draft with the advice about the owner of the gaps, or about results where nothing was recorded in them."""
    is_silent = is_silent and not facts.is_host_inflated
    if facts.is_gpu_alone:
        summary, advice = _PYTHON_GAP.text("summary-device-alone"), _PYTHON_GAP.text("advice-device-alone")
        draft = replace(draft, change=None, severity="high" if draft.evidence[0].observed >= _MUCH else "medium")
        return replace(draft, summary=summary, confidence="C", advice=advice, code="")
    is_unnamed = owner is None or owner.role is None
    inputs, results = _PYTHON_GAP.text("advice-inputs"), _PYTHON_GAP.text("advice-results")
    between = inputs if program.reads_only_values(facts) else results
    return replace(
        draft,
        summary=_PYTHON_GAP.text("summary-silent") if is_silent else None,
        confidence="C" if owner is None or owner.kind in ("operator", "call", "autograd") else None,
        advice=between if is_silent and is_unnamed and not program.may_train(facts) else _advice(owner),
        code=_CODE_GC if owner is not None and owner.role == "garbage-collection" else "",
    )


def _advice(owner: step_idle.GapOwner | None) -> Text | None:
    """Advice about an owner, by its role or else by its kind."""
    if owner is None:
        return _PYTHON_GAP.text("advice-unknown")
    if owner.role in _ADVICE_BY_ROLE:
        return _ADVICE_BY_ROLE[owner.role]
    if marks.is_optimizer_step(owner.name):
        return _PYTHON_GAP.text("advice-optimizer")
    if owner.kind in ("module", "backward", "autograd"):
        return _PYTHON_GAP.text("advice-model")
    return _PYTHON_GAP.text("advice-unknown") if owner.kind in ("operator", "call") else None


def _postprocessing(facts: Facts, limits: Limits) -> Drafts:
    idle_time.need_usual_idle_time(facts)
    owners = host_owners.found(facts)
    if owners is None:
        raise Missing(_OUTPUTS.text("no-owners")())
    time = host_owners.idle_per_step(owners, [row for row in owners.roles if row.role == OUTPUTS])
    share = time / facts.step_ns
    if share <= limits["idle_share"]:
        return
    rows = [row for row in host_owners.of_role(facts, OUTPUTS) if row.idle_self_ns][:5]
    where = tuple(host_owners.place(row, row.idle_self_ns_per_step) for row in rows)
    evidence = _OUTPUTS.evidence(limits, "idle_share", share, where)
    least = _LEAST_UNKNOWN * (_LEAST_UNKNOWN if facts.is_host_inflated else 1.0)
    interval = (least * time, time)
    claims = {EventSet.other(OUTPUTS): time}
    within = roles_at(roles=(OUTPUTS,), in_loader=False, name="outputs")
    change = HostTime(interval, _OUTPUTS.text("basis")(least=least), interval, claims, within=within)
    yield Draft((evidence,), change, {**host_work.figures(facts, time), "owner": host_owners.name(rows[0])})


def _waits_or_logs(facts: Facts, limits: Limits) -> Drafts:
    if _is_of_several_ranks(facts):
        raise Missing(_WAITS_OR_LOGS.text("ranks")())
    reads = facts.find("value_reads", ValueReads)
    if facts.resources.gpu_ns is not None and reads is not None:
        yield from _prints_beside_device(facts, reads, limits)
        return
    host_work.need_cpu_steps(facts)
    pauses = _recurring_pauses(facts, limits)
    printing = 0.0 if reads is None else facts.per_step(reads.printing_ns)
    waiting = 0.0 if pauses is None else _waiting(facts, pauses)
    time = printing + waiting
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    kept = _least(facts, printing, waiting, pauses)
    operators = 0.0 if reads is None else facts.per_step(reads.printing_operators)
    interval = kept * host_work.without_recording(facts, time, operators), _most(facts, printing, pauses)
    change = HostTime(
        interval,
        _WAITS_OR_LOGS.text("basis-share")(least=kept),
        interval,
        at=host_work.waits_and_prints(prints=bool(printing), waits=bool(waiting)),
    )
    evidence = _WAITS_OR_LOGS.evidence(limits, "share", share, _places(facts, reads, pauses))
    # at most "high": a part may be waiting for a core
    draft = Draft((evidence,), change, _parts_of(facts, printing, waiting), ceiling="high")
    yield _told(facts, draft, printing, waiting, pauses)


def _waiting(facts: Facts, pauses: HostPauses) -> float:
    """Time of pauses per step in ns; where the thread waited much for a core, as it counts in a step without that.

    A pause may be nothing but such waiting there: then what every step has counts, or what steps sleep.
    """
    on_core, found = host_work.on_core(facts), facts.per_step(pauses.time_ns)
    found -= _garbage(facts, found)
    if 1 - on_core >= _QUEUED:
        each = max(0.0, pauses.least_ns - _garbage(facts, float(pauses.least_ns)))
        if pauses.working_ns is None:  # in which step the waiting was is not known
            found = min(found, each) * on_core
        else:
            least = max(min(each / on_core, _room(facts, pauses)), host_work.asleep_ready_ns(facts))
            found = min(found / on_core, least)
    return max(0.0, found - host_work.lock_ns(facts))


def _room(facts: Facts, pauses: HostPauses) -> float:
    """What operators leave of a step at most, in ns, if no time on a core of theirs goes away."""
    works = 0.0 if pauses.working_ns is None else pauses.working_ns / host_work.on_core(facts)
    return max(0.0, facts.step_ns - works)


def _garbage(facts: Facts, found: float) -> float:
    """Part of pauses in ns in which garbage is collected, which work-beside-training tells of a training."""
    return min(found, host_work.garbage(facts)[0]) if facts.find("beside_training", BesideTraining) else 0.0


def _most(facts: Facts, printing: float, pauses: HostPauses | None) -> float:
    """What goes away at most: all code in no operator beyond what the rest has, if waiting for a core is elsewhere.

    Never what the operators themselves need on a core, nor waits for Python's lock.
    """
    silent = 0.0 if pauses is None else facts.per_step(max(pauses.time_ns, pauses.beyond_ns))
    silent = (silent - _garbage(facts, silent)) / host_work.on_core(facts)
    if pauses is not None:
        silent = max(min(silent, _room(facts, pauses)), host_work.asleep_ready_ns(facts))
    return host_work.most(facts, printing, max(0.0, silent - host_work.lock_ns(facts)))


def _prints_beside_device(facts: Facts, reads: ValueReads, limits: Limits) -> Drafts:
    """Printing on a program with a device, while that has nothing to do; its pauses are host-python-gap's."""
    if not reads.printing_idle_ns:
        return
    idle_time.need_usual_idle_time(facts)
    time = facts.per_step(reads.printing_idle_ns)
    printing = facts.per_step(reads.printing_ns)
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    kept = host_work.without_recording(facts, time, facts.per_step(reads.printing_operators))
    basis = _WAITS_OR_LOGS.text("basis-share")(least=_LEAST)
    change = host_work.without_runs(facts, (_LEAST * kept, printing), basis, prints=True)
    subject = _WAITS_OR_LOGS.text("subject-prints")()
    evidence = _WAITS_OR_LOGS.evidence(limits, "share", share, _places(facts, reads, None), subject=subject)
    params = {**_parts_of(facts, printing, 0.0), "time": time}
    yield Draft((evidence,), change, params, ceiling="high", summary=_WAITS_OR_LOGS.text("summary-prints"))


def _parts_of(facts: Facts, printing: float, waiting: float) -> dict[str, Any]:
    """The quantities of a sentence about printing and pauses, in ns per step."""
    return {"time": printing + waiting, "step": facts.step_ns, "printing": printing, "waiting": waiting}


def _recurring_pauses(facts: Facts, limits: Limits) -> HostPauses | None:
    """The pauses, if enough steps have some."""
    pauses = facts.find("host_pauses", HostPauses)
    if pauses is not None and pauses.paused_steps < limits["paused_share"] * pauses.steps:
        return None
    return pauses


def _told(facts: Facts, draft: Draft, printing: float, waiting: float, pauses: HostPauses | None) -> Draft:
    """The draft in the words for what takes most: printing, waiting, or computing without an operator."""
    title, summary, advice = None, None, None
    asleep = host_work.asleep_ns(facts)
    has_lines = any(place.kind == "python" for place in draft.evidence[0].where)
    if not waiting:
        summary = _WAITS_OR_LOGS.text("summary-prints")
    elif not printing:
        summary = _WAITS_OR_LOGS.text("summary-pauses")
        advice = _WAITS_OR_LOGS.text("advice-lines") if has_lines else _WAITS_OR_LOGS.text("advice-pauses")
        if asleep is None and not _is_explained(pauses):
            title, summary = _WAITS_OR_LOGS.text("title-unknown"), _WAITS_OR_LOGS.text("summary-unknown")
    if asleep is not None and asleep < waiting / 2 and waiting > printing:
        summary = _WAITS_OR_LOGS.text("summary-computes")
        advice = _WAITS_OR_LOGS.text("advice-computes-lines") if has_lines else _WAITS_OR_LOGS.text("advice-computes")
    is_sure = _is_explained(pauses) or 2 * waiting <= printing + waiting
    return replace(draft, title=title, summary=summary, advice=advice, confidence=None if is_sure else "C")


def _is_explained(pauses: HostPauses | None) -> bool:
    """Whether a name shows what pauses are for."""
    rows = () if pauses is None else pauses.owners
    return any(row.kind in ("function", "library", "module") or row.role is not None for row in rows)


def _least(facts: Facts, printing: float, waiting: float, pauses: HostPauses | None) -> float:
    """Share of the time that at least goes away: of printing, of pauses that names or a capture explain, of others."""
    rows = () if pauses is None else pauses.owners
    known = facts.per_step(sum(row.time_ns for row in rows if row.role in _DISPENSABLE))
    known = min(max(known, host_work.asleep_ns(facts) or 0.0), waiting)
    return (_LEAST * (printing + known) + _LEAST_UNKNOWN * (waiting - known)) / (printing + waiting)


def _is_of_several_ranks(facts: Facts) -> bool:
    ranks = facts.summary.world_size if facts.summary is not None else None
    if ranks is None and facts.capture is not None and facts.capture.facts.distributed is not None:
        ranks = facts.capture.facts.distributed.world_size
    return (ranks or 1) > 1 or facts.find("communication", Communication) is not None


def _places(facts: Facts, reads: ValueReads | None, pauses: HostPauses | None) -> tuple[CodePlace, ...]:
    """The longest pauses with their owners, or else the operator before them, then the lines that print."""
    places = []
    if pauses is not None:
        for row in pauses.owners[:3]:
            kind, name = "time", row.name
            if row.file is not None and row.line is not None:
                kind, name = "python", f"{row.file}({row.line}): {row.name}"
            places.append(CodePlace(kind, name, None, facts.per_step(row.time_ns), "ns", row.start_ns))
        if not places:
            name = pauses.after or "ProfilerStep"
            places.append(CodePlace("operator", name, None, pauses.longest_ns, "ns", pauses.longest_start_ns))
    if reads is not None:
        places += [host_work.place(line, reads.steps) for line in reads.printing_lines[:3]]
    return tuple(places)


def _oversubscribed(facts: Facts, limits: Limits) -> Drafts:
    contention = facts.need("thread_contention", ThreadContention)
    host_work.need_cpu_steps(facts)
    threads, cpus = contention.threads, contention.cpus
    beyond = facts.per_step(contention.beyond_ns)
    ratio, share = threads / cpus, beyond / facts.step_ns
    if ratio <= limits["threads_per_core"] or share <= limits["share"]:
        return
    most = 1 - cpus / threads
    interval = (min(beyond, most * facts.step_ns), most * facts.step_ns)
    where = (CodePlace("operator", contention.slowest or "aten::mm", None, beyond, "ns", contention.start_ns),)
    evidence = (
        _OVERSUBSCRIBED.evidence(limits, "share", share, where),
        _OVERSUBSCRIBED.evidence(limits, "threads_per_core", ratio, subject=_OVERSUBSCRIBED.text("threads")()),
    )
    change = HostTime(interval, _OVERSUBSCRIBED.text("basis")(most=most), at=slow_at())
    code = f"torch.set_num_threads({cpus})  # or OMP_NUM_THREADS={cpus} in the environment"
    yield Draft(
        evidence, change, {"threads": threads, "cpus": cpus, "beyond": beyond, "step": facts.step_ns}, code=code
    )


RULES = (
    _PYTHON_GAP.rule(trace=_beside_launches),
    _OUTPUTS.rule(trace=_postprocessing),
    _WAITS_OR_LOGS.rule(trace=_waits_or_logs),
    _OVERSUBSCRIBED.rule(trace=_oversubscribed),
)
