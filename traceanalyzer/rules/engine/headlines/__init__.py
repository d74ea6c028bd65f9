"""The headline of a run: one sentence about what bounds it, and what qualifies that."""

from __future__ import annotations

from math import fsum
from statistics import median

from msgspec.structs import replace

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.hangs import Hangs
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.tables.printed_memory import PrintedMemory
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Combined, Headline, Resources
from traceanalyzer.report.selection import Shares
from traceanalyzer.rules.engine import late_rank, program, stage_waits
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import compile_log, other_tools, printed, typical
from traceanalyzer.rules.engine.headlines.held_memory import of_snapshot, of_text, with_all_changes
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST, gpu_bound
from traceanalyzer.rules.engine.headlines.long_calls import of_searches, with_loop
from traceanalyzer.rules.engine.headlines.main_place import with_place
from traceanalyzer.rules.engine.headlines.outside import WARM_FIRST, with_outside
from traceanalyzer.rules.engine.headlines.removable import Removable, with_part
from traceanalyzer.rules.engine.headlines.standing import of_dumps
from traceanalyzer.rules.engine.headlines.step_bound import StepBound
from traceanalyzer.rules.engine.headlines.typical import WORTH_BESIDE
from traceanalyzer.rules.engine.headlines.unusual import (
    of_launches_alone,
    of_operators_alone,
    unusual,
    with_late_start,
    with_sharing,
    with_turns,
)
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.simulation.memory_replay import MemoryReplay
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.recording.repetition import FOUND_BY
from traceanalyzer.structure.typical import mean, rows_of

_UNEVEN_RATIO = 2.0
"""Longest over shortest step from which on a mean over them is said to be of uneven steps (own choice)."""
_SKEW, _MANY_STEPS = 1.25, 5
"""Mean over median of at least so many steps from which on the median is told as well (own choice)."""
_WARM_UP = 1.5
"""A first step longer than this factor times the median of the others is still warming up; the warning uses the same
limit."""

_MATTERS = 0.05
"""Share of the time of the others from which on a slow first step makes their mean longer (own choice)."""

_NOTHING = Text("headline-none-2", "Nothing dominates the {step:ns} of a step: the GPU works {busy:share} of it.")
_NO_GPU = Text("headline-no-gpu-2", "No verdict: no GPU activity was recorded.")
_RECORD_GPU = Text("detail-record-gpu", "Record with ProfilerActivity.CUDA.")
_UNREAD = Text(
    "headline-unread-device-3",
    "No verdict: {sign} shows an accelerator, but its events are in no known form.",
    note="sign is the name of an event, a category of events, or a device",
)
_NOT_IN_PART = Text(
    "headline-cut-without-device-2", "No verdict: the part of the file that could be read has no GPU events."
)
_CUT = Text("headline-cut-2", "Cut off: {headline}", note="of a file; headline is a sentence")
_READ = Text(
    "detail-cut",
    "The file is cut off: only its first {events:count} events could be read.",
    one="The file is cut off: only its first event could be read.",
)
_ONE_RANK = Text(
    "detail-one-rank",
    "The trace of one rank does not show how much of that is waiting: compare all ranks (traceanalyzer ranks FOLDER).",
)
_ALL_SENT = Text(
    "detail-equally-long",
    "All calls of one size take about as long, so hardly any of that is waiting for a late rank.",
    note="calls of a collective such as all_reduce; that is time of communication",
)
_ASLEEP = Text(
    "detail-asleep",
    "For {part:part} of a step the program is asleep, or waits for a lock, a process, a file or the network.",
    note="part reads: 35 of the 152 ms",
)
_DEVICE_ALONE = Text(
    "detail-device-alone",
    "Only the GPU was recorded: add ProfilerActivity.CPU to see which operator or line it is.",
)
_LIGHT = Text(
    "detail-device-alone-light",
    "Only the GPU was recorded (--light): record without it to see which operator or line it is.",
    note="--light is code",
)
_COLD = Text(
    "detail-cold-pass",
    "This is one cold pass: record a warm one.",
    note="a pass of the program that comes first, so that code is loaded or compiled in it",
)
_FIRST_CALLS = Text(
    "detail-first-calls",
    "First calls of operators take {time:rounded_ns} longer than later ones with equal shapes.",
)
_FIRST_STEP = Text(
    "detail-first-step",
    "This mean includes the first step of {first:ns}; the others take {median:ns} in the median.",
)
_UNEVEN = Text("detail-uneven-steps", "This is a mean over uneven steps of {shortest:ns} to {longest:ns}.")
_SKEWED = Text("detail-skewed-steps", "This is a mean over uneven steps: half of them take at most {median:ns}.")
_OUTSIDE = Text("detail-work-outside", "{share:share} of the GPU's recorded work lies outside of the steps.")
_START_UP = Text(
    "headline-start-up-3",
    "The trace is mostly start-up: {part:part} of loading and compiling code and allocating memory.",
)
_START_UP_IN = Text(
    "detail-start-up-in",
    "Most of it, {time:rounded_ns}, is in {name}, which most likely compiles code in its first calls.",
    note="name is an operator or a function of TorchScript",
)
_START_UP_REST = Text(
    "detail-start-up-rest",
    "Without the start-up {rest:rounded_ns} are left, for {busy:percent} of which the GPU works.",
    note="rest is a time",
)
_COMMUNICATES = Text(
    "detail-table-communicates", "Communication takes {time:ns} ({share:share}) of the GPU's time per step."
)
_COMMUNICATES_AT_LEAST = Text(
    "detail-table-communicates-at-least",
    "Communication takes at least {time:ns} ({share:share}) of the GPU's time per step; {hidden:share} of it is in "
    "rows that are not printed.",
    note="it is the GPU's time",
)


def headline(facts: Facts, combined: Combined | None, part: Removable | None = None) -> Headline:
    """What bounds a run: the GPU if it works nearly all the time, else what the GPU waits for.

    Args:
        facts: Of the run.
        combined: The joint saving of its findings.
        part: The part of a step that a finding removes and that the sentence may name.
    """
    if (standing := facts.find("hangs", Hangs)) is not None:
        bound = "none" if standing.verdict in ("none", "slow", "unfinished") else "hang"
        return Headline(facts.run, bound, of_dumps(standing), None, None, None)
    if (memory := facts.find("memory_snapshot", MemorySnapshotUse)) is not None:
        after = with_all_changes(memory, facts.find("memory_replay", MemoryReplay))
        return Headline(facts.run, "memory", of_snapshot(memory), qualifier=after)
    if (printed_memory := facts.find("printed_memory", PrintedMemory)) is not None:
        return Headline(facts.run, "memory", of_text(printed_memory), None, None, None)
    if facts.log is not None:
        return _headline(facts, compile_log.of_log(facts.need("compilation", CompiledCode), facts.log))
    if facts.table is not None and facts.table.tool is not None:
        return _headline(facts, other_tools.verdict(facts, facts.table), facts.resources, combined)
    told = unusual(facts)
    found = told or with_loop(facts, with_place(facts, with_part(facts, _usual(facts), part)))
    found = with_late_start(facts, with_sharing(facts, with_turns(facts, found)))
    found = with_outside(facts, _with_communication(facts, found))
    found = _with_cut(facts, found if told is not None else _with_device_alone(facts, found))
    return _headline(facts, found, facts.resources, combined, shares(facts))


def _headline(
    facts: Facts,
    found: StepBound,
    resources: Resources | None = None,
    combined: Combined | None = None,
    of_device: Shares | None = None,
) -> Headline:
    said = found.qualifier, found.details
    return Headline(facts.run, found.bound, found.message, found.share, resources, combined, of_device, *said)


def _with_cut(facts: Facts, found: StepBound) -> StepBound:
    """Say first that a file is cut off, and then how much of it was read."""
    if not facts.is_cut or facts.summary is None:
        return found
    read = replace(found, message=_CUT(headline=found.message), qualifier=None)
    read = read.qualified(_READ, events=facts.summary.events)
    others = () if found.qualifier is None else (found.qualifier,)
    return replace(read, details=(*others, *found.details))


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
    if not facts.is_startup and (start_up := program.start_up(facts)) is not None:
        told = StepBound("start-up", _START_UP(part=start_up), start_up[0] / start_up[1]).qualified(WARM_FIRST)
        return _with_compiling(facts, told, start_up[0])
    found = of_searches(facts) or typical.verdict(facts)
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
        return _of_startup(facts, share)
    if (found := of_launches_alone(facts) or (None if facts.is_cut else of_operators_alone(facts))) is not None:
        return found
    if (unseen := printed.unseen(facts)) is not None:
        return replace(unseen, share=share)
    if busy is not None:
        return StepBound("none", _NOTHING(step=step, busy=busy / step if step else None), share)
    return _of_no_device(facts, share)


def _of_no_device(facts: Facts, share: float | None) -> StepBound:
    """The headline of a step of which it is unknown what a device does."""
    if facts.is_cut:
        return StepBound("none", _NOT_IN_PART(), share)
    sign = printed.sign(facts)
    if sign:
        return StepBound("none", _UNREAD(sign=sign), share)
    return StepBound("none", _NO_GPU(), share).qualified(_RECORD_GPU)


def _of_startup(facts: Facts, share: float | None) -> StepBound:
    """The headline of a recording that is mostly start-up: what most of it is, and what is left without it."""
    recording = facts.find("recording", Recording)
    # all of it, though a device may work meanwhile, which is what findings say, too
    startup = mean(recording.startup_ns, max(1, len(recording.steps))) if recording else facts.startup_per_step
    busy = facts.resources.gpu_ns
    found = StepBound("start-up", _START_UP(part=(startup, facts.step_ns)), share).qualified(WARM_FIRST)
    found = _with_compiling(facts, found, startup)
    rest = facts.step_ns - facts.startup_per_step  # a device may work on during what is left out
    if busy is None or facts.table is not None or facts.tells_little or not rest:
        return found
    return found.and_says(_START_UP_REST, rest=rest, busy=min(1.0, busy / rest))


def _with_compiling(facts: Facts, found: StepBound, startup_ns: float) -> StepBound:
    """Add which operator most of a start-up is in, where code is most likely compiled in one."""
    calls = facts.find("runtime_calls", RuntimeCalls)
    compiling = [row for row in (calls.rows if calls else ()) if row.kind == "compiling" and row.is_inferred]
    most = max(compiling, key=lambda row: row.time_ns, default=None)
    if most is None or most.time_ns < MOST * startup_ns:
        return found
    return found.and_says(_START_UP_IN, time=most.time_ns, name=f"`{most.name}`")


def _with_device_alone(facts: Facts, found: StepBound) -> StepBound:
    """Say first that nothing of the host was recorded, where kernels were."""
    has_kernels = facts.find("kernel_classes", KernelClasses) is not None
    if not has_kernels or not facts.is_gpu_alone:
        return found
    text = _LIGHT if facts.capture is not None and facts.capture.facts.is_light else _DEVICE_ALONE
    others = () if found.qualifier is None else (found.qualifier,)
    return replace(found, qualifier=text(), details=(*others, *found.details))


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
    alone = alone or program.is_one_process_of_several_gpus(facts)
    own = facts.step_resources
    exposed = (own.exposed_communication_ns or 0.0) if own else 0.0
    if alone or facts.find("ranks", Ranks) is not None:
        return late_rank.of_ranks(facts, found, exposed)
    waits = late_rank.of_one(facts, found, exposed) or stage_waits.with_stage(facts, found)
    if waits is not None:
        return waits
    if found.bound != "communication":
        return found
    recorded = facts.find("communication", Communication)
    is_sent = recorded is not None and late_rank.last_equally_long(facts, rows_of(recorded))
    return found.qualified(_ALL_SENT if is_sent else _ONE_RANK)


def _qualified(facts: Facts, found: StepBound) -> StepBound:
    """Add what makes a mean misleading: a first step unlike the others, uneven steps, or work outside of the steps."""
    first, *others = _durations(facts) or [0]
    if len(others) > 1 and first > _WARM_UP * median(others) and first > _MATTERS * fsum(others):
        found = found.and_says(_FIRST_STEP, first=first, median=float(median(others)))
    elif others and max(first, *others) > _UNEVEN_RATIO * min(first, *others):
        found = found.and_says(_UNEVEN, shortest=min(first, *others), longest=max(first, *others))
    elif (half := _median_of_skewed(facts)) is not None:
        found = found.and_says(_SKEWED, median=half)
    if not facts.is_startup and (program.is_cold_pass(facts) or program.begins_cold(facts)):
        found = _of_cold_pass(facts, found)
    own = facts.step_resources
    outside = own.outside_device_ns / own.recorded_device_ns if own and own.recorded_device_ns else 0.0
    return found.qualified(_OUTSIDE, share=outside) if outside > MOST else found


def _of_cold_pass(facts: Facts, found: StepBound) -> StepBound:
    """Add that the only step is a cold one, and what its first calls of operators take if that is what shows it."""
    recording = facts.find("recording", Recording)
    time = recording.first_calls_ns if recording else 0
    found, is_worth = found.qualified(_COLD), program.begins_cold(facts) or time >= WORTH_BESIDE * facts.step_ns
    return found.and_says(_FIRST_CALLS, time=time) if is_worth else found


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


def _median_of_skewed(facts: Facts) -> float | None:
    """The median of the steps that count if a few of many make their mean much longer, whatever marks them."""
    recording = facts.find("recording", Recording)
    own = [step.duration_ns for step in recording.steps if step.is_typical] if recording else []
    if len(own) < _MANY_STEPS or facts.find("ranks", Ranks) is not None:
        return None
    half = float(median(own))
    return half if fsum(own) > _SKEW * half * len(own) else None


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
