"""The headline of a trace: what bounds its typical step, what the device does, and what takes the rest of its time.

The device bounds it if it works nearly all the time, else what it waits for longest, if that is at least a fifth.
"""

from __future__ import annotations

from math import fsum
from statistics import median
from typing import Any

from msgspec.structs import replace

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.host import HostOwner, HostOwners
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report import units
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import host_owners, idle_time
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.kind_of_work import (
    MOST,
    UNNAMED,
    computing_and_moving,
    computing_of,
    gpu_bound,
    has_few_rows,
    is_mixed,
    moving_of,
    other_work,
    own_time,
    reading_weights,
    with_shares,
)
from traceanalyzer.rules.engine.headlines.long_calls import with_long_call
from traceanalyzer.rules.engine.headlines.step_bound import MOST_WORDS, StepBound, first_short, unit
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.resources import StepResources

BUSY = 0.8
"""Share of a step that a device must work to bound it (own choice: four fifths)."""
WORTH = 0.2
"""Least share of a step that must be lost to a cause, known or unknown, before it is named."""
WORTH_BESIDE = 0.1
"""Least share of a step, or of the GPU's time, that is named beside what bounds the step (own choice: half of that)."""
_ALWAYS_COPIES = 0.9
"""Share of a step from which on copies in one direction bound it, even if kernels run beside them (own choice)."""
_OVER_BUS = frozenset({"HtoD", "DtoH"})
_COMPUTING = 0.7
"""Share of a step from which on a device that computes bounds it rather than the host (own choice)."""
_FEW_TOKENS = 100
"""Tokens per step below which products spend more time reading weights than computing: one of n tokens with weights of
16 bits does n operations a byte; GPUs of servers do 150 to 300 while they read one (data sheets: A100, H100)."""
_BARE = ("operator", "call")
"""Kinds of owners without anything around them that names a part of the program."""
_OWN_RULES = frozenset({"loader", "compilation"})
"""Roles that the sentence names by itself."""

_COMPUTES = Text("headline-share-computes", "{share:percent} computing", note="part of a list: GPU: 65 % computing")
_COPIES = Text("headline-share-copies", "{share:percent} copying", note="part of a list")
_COMMUNICATES = Text("headline-share-communicates", "{share:percent} communicating", note="part of a list")
_EARLIER_SHARE = Text(
    "headline-share-earlier",
    "{share:percent} on work launched earlier",
    note="part of a list: GPU: ...; launched before the step began",
)
_IDLE = Text("headline-share-idle", "{share:percent} idle", note="part of a list: GPU: 16 % idle")
_DEVICE = Text("detail-device", "GPU: {doing}.", note="a sentence; doing is a list: 65 % computing, 35 % idle")
_DEVICE_BECAUSE = Text(
    "detail-device-because",
    "GPU: {doing}, mostly because {cause}.",
    note="a sentence; doing is a list that ends with: 16 % idle; cause: the CPU launches kernels too slowly",
)
_INPUT = Text(
    "headline-typical-input-2",
    "Waiting for data: {part:part} of {unit}.",
    note="part reads: 35 of the 152 ms; unit is in the genitive: each step",
)
_INPUT_IN = Text(
    "headline-typical-input-in",
    "Waiting for data: {part:part} of {unit}, mostly for {owner}.",
    note="unit is in the genitive: each step; owner is a function, mark or module",
)
HOST = Text(
    "headline-typical-host-2",
    "Limited by the CPU: {cause}, so the GPU idles {part:part}.",
    note="cause is a clause about the CPU: it launches kernels too slowly; part reads: 168 of the 222 ms",
)
_HOST_IN = Text(
    "headline-typical-host-in",
    "Limited by the CPU in {owner}: {cause}, so the GPU idles {part:part}.",
    note="owner is a function, mark or module; cause: it launches kernels too slowly; part reads: 168 of the 222 ms",
)
_COMMUNICATION = Text(
    "headline-typical-communication-2",
    "Limited by communication: the GPU does nothing else for {part:part} of {unit}.",
    note="unit is in the genitive: each step",
)
_COMMUNICATION_OF_HOST = Text(
    "headline-typical-communication-host-2",
    "Limited by communication on the CPU: the GPU idles {part:part} of {unit}.",
    note="unit is in the genitive: each step",
)
PRODUCTS = Text(
    "headline-typical-gpu-compute-4",
    "Limited by GPU compute: {most} {work}, {part:part} of {unit}.",
    note="unit is in the genitive: each step; most: mostly; work: matrix multiplications and attention",
)
MOVES = Text(
    "headline-typical-gpu-memory-3",
    "Limited by GPU memory bandwidth: {most} {work}, {part:part} of {unit}.",
    note="unit is in the genitive: each step; most: mostly; work: elementwise kernels",
)
_MIXED = Text(
    "headline-typical-gpu-mixed",
    "Limited by the GPU, {part:part} of {unit}: {kinds}.",
    note="unit is in the genitive: each step; kinds is a list with shares: convolutions 42 %, moving data 58 %",
)
_ONLY_COPIES = Text(
    "headline-typical-copies-2",
    "Limited by copies: mostly {copy}, {part:part} of {unit}.",
    note="unit is in the genitive: each step; copy is a name: Memcpy HtoD (Pageable -> Device)",
)
_COPIES_BESIDE = Text(
    "headline-typical-copies-beside-2",
    "Limited by copies beside kernels: mostly {copy}, {part:part} of {unit}.",
    note="unit is in the genitive: each step; copy is a name: Memcpy HtoD (Pageable -> Device)",
)
_DECODE = Text(
    "headline-typical-decode-2",
    "Limited by GPU memory bandwidth: a decode step of {tokens:count} tokens reads all weights ({part:part}).",
    note="part reads: 35 of the 152 ms",
    one="Limited by GPU memory bandwidth: a decode step of one token reads all weights ({part:part}).",
)
_SOME_GPU = Text(
    "headline-typical-gpu-2",
    "Limited by the GPU: {part:part} of {unit}; names of kernels do not tell its work.",
    note="unit is in the genitive: each step",
)
OTHER_GPU = Text(
    "headline-typical-gpu-work-3",
    "Limited by the GPU: {most} {work}, {part:part} of {unit}.",
    note="unit is in the genitive: each step; most: mostly; work: sorting and selection",
)
_NOTHING = Text(
    "headline-typical-none-3",
    "No single cause dominates the {step:rounded_ns} of {unit}.",
    note="unit is in the genitive: each step",
)
_UNEXPLAINED = Text(
    "headline-typical-unexplained-2",
    "The trace does not show why the GPU idles {part:part} of {unit}.",
    note="unit is in the genitive: each step",
)
LATE = Text(
    "headline-typical-late-2",
    "Something outside the trace blocks the GPU for {part:part} of {unit}.",
    note="unit is in the genitive: each step",
)
_LOADING = Text(
    "headline-typical-start-up-2",
    "Loading and compiling code: the GPU waits {part:part} of {unit}.",
    note="unit is in the genitive: each step",
)
_EARLIER = Text(
    "headline-typical-earlier-work-2",
    "For {part:part} of {unit} the GPU most likely finished work from before the trace.",
    note="unit is in the genitive: each step",
)
_PAUSES = Text(
    "headline-typical-pauses-2",
    "The GPU pauses between kernels that are already queued: {part:part} of {unit}.",
    note="unit is in the genitive: each step",
)
BLOCKED = Text(
    "detail-blocked",
    "Work was launched meanwhile, but waits for something that the trace does not show, such as another stream or "
    "rank.",
)
_ALSO_UNEXPLAINED = Text(
    "detail-unexplained", "The trace does not explain {part:part}.", note="part is idle time of the GPU of a step"
)
ALSO_PENDING = Text(
    "detail-pending-2",
    "For {part:part} kernels are queued, but something outside the trace blocks them, such as another stream or rank.",
    note="part is idle time of the GPU of a step",
)
_GRAPHS = Text(
    "detail-graphs-2",
    "Launching is not the problem: {kernels:count} of {all:count} kernels are launched by graphs.",
    note="graphs are CUDA graphs or HIP graphs",
)
_OF_LOSS = {"input": _INPUT, "host": HOST, "communication": _COMMUNICATION, "start-up": _LOADING}
_SHOWN = (_EARLIER, "unrecorded_work"), (_PAUSES, "device_gap"), (LATE, "pending"), (_UNEXPLAINED, "unknown pending")
"""Texts about idle time that no resource causes, with the causes; of equal times the first."""
IN_PYTHON = Text("headline-cpu-python", "it is in Python between operators", "it is the CPU")
_CAUSES = {
    "allocation": (
        Text("headline-cause-allocation", "the CPU allocates or frees memory", "after: mostly because"),
        Text("headline-cpu-allocates", "it allocates or frees memory", "it is the CPU"),
    ),
    "profiler_overhead": (
        Text("headline-cause-profiler", "the profiler itself works", "after: mostly because"),
        Text("headline-cpu-profiles", "the profiler itself works", "it is the CPU"),
    ),
    "cpu_operators": (
        Text("headline-cause-cpu-operators", "operators compute on the CPU", "after: mostly because"),
        Text("headline-cpu-computes", "operators compute on it", "it is the CPU"),
    ),
    "synchronization": (
        Text("headline-cause-waits-2", "the CPU waits for the GPU between launches", "after: mostly because"),
        Text("headline-cpu-waits-2", "it waits for the GPU between launches", "it is the CPU"),
    ),
    "launch_bound": (
        Text("headline-cause-launches", "the CPU launches kernels too slowly", "after: mostly because"),
        Text("headline-cpu-launches", "it launches kernels too slowly", "it is the CPU"),
    ),
    "host_code": (
        Text("headline-cause-python", "the CPU is in Python between operators", "after: mostly because"),
        IN_PYTHON,
    ),
}
"""Causes of idle time that are the host's, in the order of all causes: as a clause, and as one about the CPU."""
_UNSEEN_CODE = (
    Text("headline-cause-unseen", "the CPU launches nothing", "after: mostly because"),
    Text("headline-cpu-launches-nothing", "it launches nothing", "it is the CPU"),
)
_OWNER = Text(
    "detail-owner",
    "While the GPU waits, {owner} takes {part:part}.",
    note="owner is a function, mark or module; part reads: 35 of the 152 ms",
)
_OWNER_WITH = Text(
    "detail-owner-with-role",
    "While the GPU waits, {owner} takes {part:part}, and {other} {other_part:part}.",
    note="owner and other are functions, marks or modules; part: 35 of the 152 ms",
)
_OWNER_OF_WHICH = Text(
    "detail-owner-of-which",
    "While the GPU waits, {owner} takes {part:part}; of that, {other} takes {other_part:part}.",
    note="owner and other are functions, marks or modules; part: 35 of the 152 ms",
)
_LEAVES = Text(
    "detail-owner-leaves",
    "It was not recorded which part of the program that is: there are no marks, modules or stacks around the "
    "operators (with_stack=True records stacks).",
)
_SILENT = Text(
    "detail-owner-silent",
    "For {part:part} it was not recorded what the CPU does (with_stack=True records it).",
    note="part reads: 35 of the 152 ms",
)


def verdict(facts: Facts) -> StepBound | None:
    """What bounds the typical step of a trace, or of ranks; None of a start-up, and without a step or device events."""
    recording = facts.find("recording", Recording)
    if recording is None or recording.typical is None or facts.is_startup:
        return None
    own = recording.typical.resources
    if own.gpu_ns is None or not own.step_ns:
        return None
    # between the kernels of a graph it starts the next one, and waits for nobody
    is_busy = own.gpu_ns + facts.idle_per_step("device_gap") >= BUSY * own.step_ns
    return _of_copies(facts, recording, own) or (_of_busy_gpu if is_busy else _of_waiting_gpu)(facts, recording, own)


def _of_copies(facts: Facts, recording: Recording, own: StepResources) -> StepBound | None:
    """The headline of a step in which copies beside which nothing runs take more than anything else; else None."""
    step, time, copies = own.step_ns, own.only_copies_ns or 0.0, facts.find("copies", Copies)
    most = max(_computing_ns(own), own.exposed_communication_ns or 0.0, *_losses(facts, own).values())
    if copies is None or not copies.rows:
        return None
    longest = max(copies.rows, key=lambda row: row.time_ns * (row.kind in _OVER_BUS))
    beside = facts.per_step(longest.time_ns) if longest.kind in _OVER_BUS else 0.0
    copy, text = max(copies.rows, key=lambda each: each.exposed_ns).name, _ONLY_COPIES
    if beside >= _ALWAYS_COPIES * step > time and _computing_ns(own) < BUSY * step:
        time, copy, text = min(beside, step), longest.name, _COPIES_BESIDE
    elif time < max(most, WORTH * step):
        return None
    message = text(part=(time, step), unit=unit(recording), copy=copy)
    return _with_device(facts, own, StepBound("gpu-memory", message, time / step))


def _of_waiting_gpu(facts: Facts, recording: Recording, own: StepResources) -> StepBound:
    """The headline of a waiting device: the largest loss, and unexplained time, if they are large enough to name."""
    step, losses = own.step_ns, _losses(facts, own)
    bound = max(losses, key=lambda name: losses[name])
    time, text = losses[bound], _OF_LOSS[bound]
    said: dict[str, Any] = {"unit": unit(recording)}
    if time < WORTH * step:
        idle, text = max(((facts.idle_per_step(*of.split()), text) for text, of in _SHOWN), key=lambda row: row[0])
        if idle < WORTH * step:
            return _with_device(facts, own, StepBound("none", _NOTHING(step=step, **said), time / step))
        found = _with_device(facts, own, StepBound("none", text(part=(idle, step), **said), None))
        return found.and_says(BLOCKED) if text is LATE else found
    if bound == "host" and _computing_ns(own) >= _COMPUTING * step:
        return _of_busy_gpu(facts, recording, own)
    if bound == "communication":  # as the shares say: the device communicates, or is idle
        time, idle = own.exposed_communication_ns or 0.0, facts.idle_per_step("communication")
        if idle > time:
            time, text = idle, _COMMUNICATION_OF_HOST
    said |= {"cause": _cause(facts)[1]()} if bound == "host" else {}
    found = StepBound(bound, text(part=(time, step), **said), time / step)
    if bound in ("host", "input"):
        found = (_with_owners if bound == "host" else _with_loader)(facts, found, said, step)
    found = _with_device(facts, own, found)
    unknown = facts.idle_per_step("unknown", "pending")
    if unknown >= WORTH * step:
        is_pending = 2 * facts.idle_per_step("pending") > unknown
        found = found.and_says(ALSO_PENDING if is_pending else _ALSO_UNEXPLAINED, part=(unknown, step))
    return found


def _of_busy_gpu(facts: Facts, recording: Recording, own: StepResources) -> StepBound:
    """The headline of a device that works nearly all the time: it mostly computes, or it mostly communicates.

    Links that carry something nearly all the time bound a step, too, although computation hides much of that, as does
    communication that takes longer than the one kind of work that the sentence would name.
    """
    step, compute, communication = own.step_ns, _computing_ns(own), own.exposed_communication_ns or 0.0
    found = _of_decode(recording, compute, step) or _of_work(facts, recording, compute, step)
    is_always = (own.communication_ns or 0.0) > max(compute, BUSY * step) and communication >= WORTH * step
    if is_always or communication > found.message.params["part"][0]:
        message = _COMMUNICATION(part=(communication, step), unit=unit(recording))
        return _with_device(facts, own, StepBound("communication", message, communication / step))
    is_delayed = _losses(facts, own)["host"] >= WORTH_BESIDE * step
    found = _with_device(facts, own, found, _cause(facts)[0]() if is_delayed else None)
    found = found if found.message.id == _DECODE.id else with_shares(facts, found)
    figures = facts.find("launches", LaunchFigures)
    if figures is not None and (figures.graphs.kernel_share or 0.0) >= MOST:  # which spares the device the launches
        found = found.and_says(_GRAPHS, kernels=figures.graphs.kernels, all=figures.kernels)
    return found


def _of_decode(recording: Recording, compute: float, step: float) -> StepBound | None:
    """The headline of a server that decodes few tokens a step, and so reads all weights for them; else None."""
    is_decode = all(step.phase == "decode" and step.tokens is not None for step in recording.steps)
    tokens = [step.tokens or 0 for step in recording.steps if is_decode and step.is_typical]
    if not tokens or max(tokens) >= _FEW_TOKENS:
        return None
    message = _DECODE(part=(compute, step), tokens=round(median(tokens)))
    return StepBound("gpu-memory", message, compute / step)


def _of_work(facts: Facts, recording: Recording, compute: float, step: float) -> StepBound:
    """The headline of a device that mostly computes, with the class of its work."""
    bound, share = gpu_bound(facts), compute / step
    of, part = unit(recording), (compute, step)
    if bound == "gpu-memory" and is_mixed(facts):
        return StepBound(bound, _MIXED(unit=of, part=part, kinds=computing_and_moving(facts)), share)
    if bound == "gpu-compute" and (weights := reading_weights(facts)) is not None:
        return StepBound("gpu-memory", MOVES(unit=of, **own_time(facts, weights, compute)), share)
    if bound == "gpu-compute":
        text = OTHER_GPU if has_few_rows(facts) else PRODUCTS  # which read weights rather than compute
        return StepBound(bound, text(unit=of, **own_time(facts, computing_of(facts), compute)), share)
    if bound == "gpu-memory":
        return StepBound(bound, MOVES(unit=of, **own_time(facts, moving_of(facts), compute)), share)
    work = other_work(facts)
    message = _SOME_GPU(unit=of, part=part)
    message = message if work is None else OTHER_GPU(unit=of, **own_time(facts, work, compute))
    return StepBound("gpu-compute" if bound == UNNAMED else bound, message, share)


def _computing_ns(own: StepResources) -> float:
    """Time in ns of a typical step in which the device neither only copies nor only communicates."""
    return (own.gpu_ns or 0.0) - (own.exposed_communication_ns or 0.0) - (own.only_copies_ns or 0.0)


def _losses(facts: Facts, own: StepResources) -> dict[str, float]:
    """Time of a typical step in which the device does not compute, by cause; without events none is the host's."""
    known = 0.0 if facts.resources.host_ns is None else min(facts.idle_per_step(*_CAUSES), own.host_ns)
    return {
        "input": own.exposed_loader_ns,
        "host": known,
        "communication": (own.exposed_communication_ns or 0.0) + facts.idle_per_step("communication"),
        "start-up": facts.idle_per_step("compilation"),
    }


def _cause(facts: Facts) -> tuple[Text, Text]:
    """The largest of the causes that are the host's, as a clause, and as one about the CPU."""
    largest = max(_CAUSES, key=facts.idle_per_step)
    is_after_waits = largest == "launch_bound" and idle_time.is_after_waits(facts, ("launch_bound",))
    if largest == "host_code" and facts.is_gpu_alone:
        return _UNSEEN_CODE
    return _CAUSES["synchronization" if is_after_waits else largest]


def _with_device(facts: Facts, own: StepResources, found: StepBound, cause: Message | None = None) -> StepBound:
    """Add the device's activities in a typical step, as shares of the step, and why it is idle if that is asked."""
    earlier = facts.idle_per_step("unrecorded_work")
    times = (
        (_COMPUTES, _computing_ns(own)),
        (_COPIES, own.only_copies_ns or 0.0),
        (_COMMUNICATES, own.exposed_communication_ns or 0.0),
        (_EARLIER_SHARE, earlier),
        (_IDLE, own.step_ns - (own.gpu_ns or 0.0) - earlier),
    )
    shares = units.adding_up([time / own.step_ns for _, time in times])
    doing = [text(share=share) for (text, _), share in zip(times, shares, strict=True) if share]
    if cause is None or not shares[-1]:
        return found.and_says(_DEVICE, doing=doing)
    return found.and_says(_DEVICE_BECAUSE, doing=doing, cause=cause)


def _with_loader(facts: Facts, found: StepBound, said: dict[str, Any], step_ns: float) -> StepBound:
    """What is said of a step that waits for its loader, with what the loader does, if it does it itself."""
    row = host_owners.largest(facts)
    if row is None or row.role not in ("preprocessing", "tokenization") or not row.idle_ns_per_step:
        return found
    owner, part = host_owners.name(row), (row.idle_ns_per_step, step_ns)
    if 2 * row.idle_ns_per_step >= (found.share or 0.0) * step_ns:
        named = _INPUT_IN(part=found.message.params["part"], owner=owner, **said)
        found = replace(found, message=first_short((named, found.message)))
    return found.and_says(_OWNER, owner=owner, part=part)


def _with_owners(facts: Facts, found: StepBound, said: dict[str, Any], step_ns: float) -> StepBound:
    """What is said of a step that the host bounds, with the parts of the program that take most of its idle time."""
    owners, row = host_owners.found(facts), host_owners.largest(facts)
    if owners is None or facts.is_gpu_alone:
        return found
    if row is not None and (row.idle_ns_per_step or 0.0) >= WORTH_BESIDE * step_ns:
        if 2 * (row.idle_ns_per_step or 0.0) >= (found.share or 0.0) * step_ns:  # which the sentence is about then
            part, (full, alone) = found.message.params["part"], host_owners.names(row)
            named = (_HOST_IN(part=part, owner=full, **said), _HOST_IN(part=part, owner=alone, **said), found.message)
            found = replace(found, message=first_short(named, MOST_WORDS - 2 * facts.is_cut))
        found = _named(owners, row, found, step_ns)
    elif fsum(row.idle_self_ns_per_step or 0.0 for row in owners.rows if row.kind in _BARE) >= WORTH * step_ns:
        found = found.and_says(_LEAVES)
    if (silent := owners.unowned.idle_self_ns_per_step or 0.0) >= WORTH * step_ns:
        found = found.and_says(_SILENT, part=(silent, step_ns))
    return with_long_call(owners, found, step_ns)


def _named(owners: HostOwners, row: HostOwner, found: StepBound, step_ns: float) -> StepBound:
    """Add the owner, and another owner whose work a rule gives advice about."""
    said = {"owner": host_owners.name(row), "part": (row.idle_ns_per_step or 0.0, step_ns)}
    for role in owners.roles:
        idle = role.idle_ns_per_step or 0.0
        if role.role == row.role or role.role in _OWN_RULES or idle < WORTH_BESIDE * step_ns:
            continue
        other = owners.rows[role.owner]
        # a mark and its own part with a role have one name; elsewhere only sums show whether one is in the other
        text = _OWNER_OF_WHICH if other.name == row.name else _OWNER_WITH
        if text is _OWNER_WITH and (other.idle_ns or 0) + (row.idle_ns or 0) > (owners.idle_ns or 0):
            continue
        return found.and_says(text, **said, other=host_owners.name(other), other_part=(idle, step_ns))
    return found.and_says(_OWNER, **said)
