"""The headline of a run: one sentence about what bounds it, and what qualifies that."""

from __future__ import annotations

from math import fsum
from statistics import median

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.hangs import Hangs
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.steps.outside import NO_STEP
from traceanalyzer.analyzers.tables.printed_memory import PrintedMemory
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Headline
from traceanalyzer.report.selection import Shares
from traceanalyzer.report.warnings import OUTSIDE_KINDS, STEP_REASONS
from traceanalyzer.rules.engine import host_owners, late_rank
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import compile_log, other_tools, printed, typical
from traceanalyzer.rules.engine.headlines.held_memory import of_snapshot, of_text
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST, gpu_bound
from traceanalyzer.rules.engine.headlines.standing import of_dumps
from traceanalyzer.rules.engine.headlines.typical import WORTH_BESIDE, StepBound
from traceanalyzer.rules.engine.headlines.unusual import of_launches_alone, unusual, with_late_start
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.structure.recording import Outside, Recording
from traceanalyzer.structure.recording.left_out import OTHER_PHASE, UNKNOWN
from traceanalyzer.structure.recording.program_steps import WHOLE
from traceanalyzer.structure.recording.repetition import FOUND_BY

_UNEVEN_RATIO = 2.0
"""Longest over shortest step from which on a mean over them is said to be of uneven steps (own choice)."""
_WARM_UP = 1.5
"""A first step longer than this factor times the median of the others is still warming up; the warning uses the same
limit."""
_WORTH_OUTSIDE = 0.2
"""Share of the recording from which on the headline mentions what lies outside of the typical steps."""
_WAITS = 0.05
"""The device waits if it works for less than this share of the time (own choice: copies of results remain)."""
_HARDLY_ANY = 0.1
"""Share of a time below which the host was hardly recorded in it (own choice)."""
_NO_REASON = frozenset({NO_STEP, OTHER_PHASE, UNKNOWN})
"""Reasons that say less than what the host does."""

_NOTHING = Text(
    "headline-none",
    "Nothing dominates a step of {step:ns}: the GPU works for {busy:share} of it, and no single cause "
    "explains the rest.",
)
_NO_GPU = Text(
    "headline-no-gpu",
    "GPU activity was not recorded, so it is unknown what bounds a step of {step:ns}; add ProfilerActivity.CUDA.",
)
_UNREAD = Text(
    "headline-unread-device-2",
    "It is unknown what bounds a step of {step:rounded_ns}: {sign} shows an accelerator, but the recording has none of "
    "its events in a known form.",
    note="sign is the name of an event, a category of events, or a device",
)
_NOT_IN_PART = Text(
    "headline-cut-without-device",
    "It is unknown what bounds a step of {step:rounded_ns}: the part of the file that could be read has no GPU events.",
)
_CUT = Text(
    "headline-cut",
    "The file is cut off: this is about its first {events:count} events. {headline}",
    one="The file is cut off: this is about its first event. {headline}",
    note="headline is a sentence",
)
_ONE_RANK = Text(
    "headline-one-rank",
    "{headline} The trace of one rank does not show how much of that is waiting: compare all ranks (traceanalyzer "
    "ranks).",
    note="headline is a sentence",
)
_ASLEEP = Text(
    "headline-asleep",
    "{headline} For {part:part} of a step the program is asleep, or waits for a lock, a process, a file or the "
    "network.",
    note="headline is a sentence; part reads: 35 of the 152 ms",
)
_DEVICE_ALONE = Text(
    "headline-device-alone",
    "{headline} Only the GPU was recorded: add ProfilerActivity.CPU to see which operator or line it is.",
    note="headline is a sentence",
)
_FIRST_STEP = Text(
    "headline-first-step",
    "{headline} This mean includes the first step of {first:ns}; the others take {median:ns} in the median.",
    note="headline is a sentence",
)
_UNEVEN = Text(
    "headline-uneven-steps",
    "{headline} This is a mean over uneven steps of {shortest:ns} to {longest:ns}.",
    note="headline is a sentence",
)
_OUTSIDE = Text(
    "headline-outside",
    "{headline} But {share:share} of the GPU's recorded work lies outside of the steps.",
    note="headline is a sentence",
)
_START_UP = Text(
    "headline-start-up-2",
    "This recording is mostly start-up: for {part:part} code is loaded or compiled, or "
    "memory is allocated, which happens only once. Record a few steps after a warm-up.",
)
_START_UP_IN = Text(
    "headline-start-up-in",
    "{headline} Most of it, {time:rounded_ns}, is in {name}, which most likely compiles code at its first call.",
    note="headline is a sentence; name is an operator or a function of TorchScript",
)
_START_UP_REST = Text(
    "headline-start-up-rest",
    "{headline} Without the start-up {rest:rounded_ns} are left, for {busy:percent} of which the GPU works.",
    note="headline is a sentence; rest is a time",
)
_COMMUNICATES = Text(
    "headline-table-communicates",
    "{headline} Communication takes {time:ns} ({share:share}) of the GPU's time per step.",
    note="headline is a sentence",
)
_COMMUNICATES_AT_LEAST = Text(
    "headline-table-communicates-at-least",
    "{headline} Communication takes at least {time:ns} ({share:share}) of the GPU's time per step; {hidden:share} of "
    "it is in rows that are not printed.",
    note="headline is a sentence; it is the GPU's time",
)
_ALSO_OUTSIDE = Text(
    "headline-also-outside-2",
    "{headline} Outside of the typical steps: {time:rounded_ns} {when}, {what}.",
    note="headline is a sentence; when: before the first step; what is a clause, such as: the GPU waits",
)
_OUTSIDE_TIME = Text(
    "headline-also-outside-time",
    "{headline} Outside of the typical steps: {time:rounded_ns} {when}.",
    note="headline is a sentence; when: before the first step",
)
_BECAUSE = Text(
    "outside-because", "because of {reason}", note="reason is a noun, such as: allocation of memory; ends a sentence"
)
_HOST_IN = Text(
    "outside-host-2",
    "for {part:rounded_ns} of it the host is in {owner}",
    note="after a time; owner is a function, mark, module or operator; ends a sentence",
)
_HOST_WAITS = Text(
    "outside-host-waits-2",
    "for {part:rounded_ns} of it the host is in {owner}, while the GPU waits",
    note="after a time; owner is a function, mark, module or operator; ends a sentence",
)
_HOST_WORKS = Text(
    "outside-host-works-2",
    "for {part:rounded_ns} of it the host is in {owner}, and the GPU works for {busy:percent}",
    note="after a time; owner is a function, mark, module or operator; busy is a share of the time; ends a sentence",
)
_GPU_WAITS = Text("outside-gpu-waits", "in which the GPU waits", note="after a time; ends a sentence")
_GPU_WORKS = Text(
    "outside-gpu-works",
    "in which the GPU works for {busy:percent}",
    note="after a time; busy is a share of that time; ends a sentence",
)
_SILENT = Text(
    "outside-silent", "in which hardly anything of the host was recorded", note="after a time; ends a sentence"
)
_SILENT_WAITS = Text(
    "outside-silent-waits",
    "in which hardly anything of the host was recorded and the GPU waits",
    note="after a time; ends a sentence",
)
_SILENT_WORKS = Text(
    "outside-silent-works",
    "in which hardly anything of the host was recorded and the GPU works for {busy:percent}",
    note="after a time; busy is a share of that time; ends a sentence",
)


def headline(facts: Facts, combined: Combined | None) -> Headline:
    """What bounds a run: the GPU if it works nearly all the time, else what the GPU waits for."""
    if (standing := facts.find("hangs", Hangs)) is not None:
        return Headline(
            facts.run,
            "none" if standing.verdict in ("none", "slow", "unfinished") else "hang",
            of_dumps(standing),
            None,
            None,
            None,
        )
    if (memory := facts.find("memory_snapshot", MemorySnapshotUse)) is not None:
        return Headline(facts.run, "memory", of_snapshot(memory), None, None, None)
    if (printed_memory := facts.find("printed_memory", PrintedMemory)) is not None:
        return Headline(facts.run, "memory", of_text(printed_memory), None, None, None)
    if facts.log is not None:
        found = compile_log.of_log(facts.need("compilation", CompiledCode), facts.log)
        return Headline(facts.run, found.bound, found.message, found.share, None, None)
    if facts.table is not None and facts.table.tool is not None:
        found = other_tools.verdict(facts, facts.table)
        return Headline(facts.run, found.bound, found.message, found.share, facts.resources, combined, None)
    found = unusual(facts) or _with_device_alone(facts, _usual(facts))
    found = with_late_start(facts, found)
    found = _with_outside(facts, _with_communication(facts, found))
    if facts.is_cut and facts.summary is not None:
        found = found.and_says(_CUT, events=facts.summary.events)
    return Headline(facts.run, found.bound, found.message, found.share, facts.resources, combined, shares(facts))


def shares(facts: Facts) -> Shares | None:
    """What the device does in a typical step; None without a device, and for printed causes."""
    own = facts.step_resources if facts.table is None else None
    if own is None or own.gpu_ns is None or own.only_copies_ns is None or not own.step_ns:
        return None
    communicates = own.exposed_communication_ns or 0.0
    ranks = facts.find("ranks", Ranks)
    waits = None if ranks is None or ranks.has_partial_groups else ranks.exposed_wait_ns
    waits = None if waits is None else min(waits, communicates)
    return Shares(
        computes=(own.gpu_ns - own.only_copies_ns - communicates) / own.step_ns,
        copies=own.only_copies_ns / own.step_ns,
        communicates=(communicates - (waits or 0.0)) / own.step_ns,
        waits_for_ranks=None if waits is None else waits / own.step_ns,
        idle=1 - own.gpu_ns / own.step_ns,
    )


def _usual(facts: Facts) -> StepBound:
    """What bounds a typical step, or a step by its sums, and what qualifies that."""
    found = typical.verdict(facts)
    if found is None:
        times, texts = _of_resources(facts) if facts.table is None else printed.parts(facts)
        found = printed.verdict(facts, times, texts)
        if found is None:
            return _qualified(facts, _of_nothing(facts, max(times.values(), default=0.0)))
    return _qualified(facts, _with_waiting(facts, _with_sleep(facts, found)))


def _of_resources(facts: Facts) -> printed.Parts:
    """The mean step of ranks whose typical step is not known, or the step of a trace without a device."""
    own = facts.need_step_resources()
    loader = own.exposed_loader_ns
    communication = own.exposed_communication_ns or 0.0
    if own.gpu_ns is None:
        times = {"input": loader}
        if not printed.sign(facts):  # else the host may wait for a device that was not recorded
            times |= {"communication": communication, "host": max(0.0, facts.step_ns - loader - communication)}
        return times, printed.WITHOUT_GPU
    starved = own.step_ns - own.gpu_ns - loader - facts.idle_per_step("compilation", "allocation", "unknown")
    times = {
        gpu_bound(facts): own.gpu_ns - communication,
        "input": loader,
        "communication": communication,
        "host": 0.0 if facts.resources.host_ns is None else max(0.0, min(own.host_ns, starved)),
    }
    return times, printed.WITH_GPU


def _of_nothing(facts: Facts, largest_ns: float) -> StepBound:
    """The headline of a step that nothing bounds, or of which it is unknown what does, with its largest loss."""
    step, busy = facts.step_ns, facts.resources.gpu_ns
    share = largest_ns / step if step else None
    if facts.is_startup:
        return StepBound("start-up", _of_startup(facts), share)
    if (found := of_launches_alone(facts)) is not None:
        return found
    if (unseen := printed.unseen(facts)) is not None:
        message = unseen
    elif busy is not None:
        message = _NOTHING(step=step, busy=busy / step if step else None)
    else:
        sign = printed.sign(facts)
        message = _UNREAD(step=step, sign=sign) if sign else _NO_GPU(step=step)
        message = _NOT_IN_PART(step=step) if facts.is_cut else message
    return StepBound("none", message, share)


def _of_startup(facts: Facts) -> Message:
    """The headline of a recording that is mostly start-up: what most of it is, and what is left without it."""
    startup = facts.startup_per_step
    busy = facts.resources.gpu_ns
    calls = facts.find("runtime_calls", RuntimeCalls)
    message = _START_UP(part=(startup, facts.step_ns))
    compiling = [row for row in (calls.rows if calls else ()) if row.kind == "compiling" and row.is_inferred]
    most = max(compiling, key=lambda row: row.time_ns, default=None)
    if most is not None and most.time_ns >= MOST * startup:
        message = _START_UP_IN(headline=message, time=most.time_ns, name=f"`{most.name}`")
    rest = facts.step_ns - startup
    if busy is None or facts.table is not None or facts.tells_little or not rest:
        return message
    return _START_UP_REST(headline=message, rest=rest, busy=min(1.0, busy / rest))


def _with_device_alone(facts: Facts, found: StepBound) -> StepBound:
    """Add that nothing of the host was recorded, where kernels were."""
    has_kernels = facts.find("kernel_classes", KernelClasses) is not None
    return found.and_says(_DEVICE_ALONE) if has_kernels and facts.is_gpu_alone else found


def _with_sleep(facts: Facts, found: StepBound) -> StepBound:
    """Add for how long the host sleeps or waits on the critical path, as far as stacks tell: that is no slow code."""
    path = facts.find("critical_path", CriticalPath)
    if found.bound != "host" or path is None or not path.step_ns:
        return found
    asleep = fsum(part.ns_per_step for part in path.parts if part.resource == "asleep")
    return found.and_says(_ASLEEP, part=(asleep, path.step_ns)) if asleep >= WORTH_BESIDE * path.step_ns else found


def _with_waiting(facts: Facts, found: StepBound) -> StepBound:
    """Add how much of the communication is waiting for other ranks, or that a single rank cannot show it."""
    alone = facts.summary is not None and facts.summary.world_size == 1
    if found.bound == "communication" and not alone and facts.find("ranks", Ranks) is None:
        return found.and_says(_ONE_RANK)
    own = facts.step_resources
    return late_rank.of_ranks(facts, found, (own.exposed_communication_ns or 0.0) if own else 0.0)


def _qualified(facts: Facts, found: StepBound) -> StepBound:
    """Add what makes a mean misleading: a first step unlike the others, uneven steps, or work outside of the steps."""
    first, *others = _durations(facts) or [0]
    if len(others) > 1 and first > _WARM_UP * median(others):
        found = found.and_says(_FIRST_STEP, first=first, median=float(median(others)))
    elif others and max(first, *others) > _UNEVEN_RATIO * min(first, *others):
        found = found.and_says(_UNEVEN, shortest=min(first, *others), longest=max(first, *others))
    own = facts.step_resources
    outside = own.outside_device_ns / own.recorded_device_ns if own and own.recorded_device_ns else 0.0
    return found.and_says(_OUTSIDE, share=outside) if outside > MOST else found


def _durations(facts: Facts) -> list[float]:
    """Durations of the steps that count, in their order, of ranks their means; none if something else marks them.

    The profiler must mark them, or they are passes that nothing marks, in which the program repeats itself.
    """
    recording = facts.find("recording", Recording)
    ranks = facts.find("ranks", Ranks)
    if ranks is not None:
        is_marked = facts.summary is not None and facts.summary.steps_from == "ProfilerStep"
        return [step.mean_ns for step in ranks.steps if is_marked]
    if recording is None or recording.steps_from not in ("ProfilerStep", *FOUND_BY):
        return []
    return [step.duration_ns for step in recording.steps if step.is_typical]


def _with_communication(facts: Facts, found: StepBound) -> StepBound:
    """Add what communication takes of the GPU's time in a table if it is much, and how much rows may hide."""
    run = facts.table
    if run is None or not run.device_ns or found.bound == "communication":
        return found
    time = printed.communication(facts)
    share = time / facts.on_device(run.device_ns)
    if share < WORTH_BESIDE:
        return found
    hidden = run.device_hidden_share or 0.0
    text = _COMMUNICATES if hidden < printed.UNSEEN else _COMMUNICATES_AT_LEAST
    return found.and_says(text, time=time, share=share, hidden=hidden)


def _with_outside(facts: Facts, found: StepBound) -> StepBound:
    """Add the largest time outside of the typical steps if all of them are a fifth of the recording."""
    recording = facts.find("recording", Recording)
    if recording is None or facts.summary is None or recording.steps_from == WHOLE or not recording.outside:
        return found
    if (recording.outside_ns or 0) < _WORTH_OUTSIDE * facts.summary.span_ns:
        return found
    part = max(recording.outside, key=lambda part: part.duration_ns)
    said = {"time": part.duration_ns, "when": OUTSIDE_KINDS[part.kind]()}
    what = _what(part)
    return found.and_says(_OUTSIDE_TIME, **said) if what is None else found.and_says(_ALSO_OUTSIDE, **said, what=what)


def _what(part: Outside) -> Message | None:
    """Why a time is outside, or what host and device do in it; None if nothing leads."""
    if part.reason not in _NO_REASON:
        return _BECAUSE(reason=STEP_REASONS[part.reason]())
    busy = None if part.device_busy_ns is None else part.device_busy_ns / part.duration_ns
    if part.owner is None and part.host_ns >= _HARDLY_ANY * part.duration_ns:
        return None if busy is None else _GPU_WAITS() if busy < _WAITS else _GPU_WORKS(busy=busy)
    said = {} if part.owner is None else {"owner": host_owners.name(part.owner), "part": part.owner.time_ns}
    if busy is None:
        return _HOST_IN(**said) if said else _SILENT()
    if busy < _WAITS:
        return _HOST_WAITS(**said) if said else _SILENT_WAITS()
    return _HOST_WORKS(**said, busy=busy) if said else _SILENT_WORKS(busy=busy)
