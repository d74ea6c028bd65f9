"""The headline of a trace: what bounds its typical step, what the device does, and what takes the rest of its time.

The device bounds the step if it works nearly all the time. Otherwise the resource that it waits for longest does, if
that is at least a fifth of the step. All figures are of the typical step, so they agree with the rest of the report.
"""

from __future__ import annotations

from math import fsum
from statistics import median
from typing import Any

import msgspec

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.host import HostOwner, HostOwners
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import host_owners, idle_time, program
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import kind_of_work
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST, UNNAMED, unit
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
_LONG = 0.3
"""Share of a step from which on a single call is named."""
_FEW_TOKENS = 100
"""Tokens per step below which products spend more time reading weights than computing: one of n tokens with weights of
16 bits does n operations a byte; GPUs of servers do 150 to 300 while they read one (data sheets: A100, H100)."""
_BARE = ("operator", "call")
"""Kinds of owners without anything around them that names a part of the program."""
_OWN_RULES = frozenset({"loader", "compilation"})
"""Roles that the sentence names by itself."""

_COMPUTES = Text("headline-device-computes", "computes {share:percent}", note="part of a list: the GPU computes 65 %")
_COPIES = Text("headline-device-copies", "copies {share:percent}", note="part of a list: the GPU copies 4 %")
_COMMUNICATES = Text("headline-device-communicates", "communicates {share:percent}", note="part of a list: the GPU ...")
_EARLIER_SHARE = Text(
    "headline-device-earlier",
    "finishes earlier work {share:percent}",
    note="part of a list: the GPU ...; work that was launched before the recording began",
)
_IDLE = Text("headline-device-idle", "is idle {share:percent}", note="part of a list: the GPU is idle 16 %")
_DEVICE = Text("headline-device", "The GPU {doing}", note="a sentence; doing is a list: computes 65 %, is idle 35 %")
_NO_REST = Text("headline-device-no-rest", "The rest is less than 1 %", note="a sentence; of a step")
_REST = Text(
    "headline-device-rest",
    "In the rest it {doing}",
    note="a sentence; it is the GPU; doing is a list: communicates 26 %, is idle 5 %",
)
_REST_BECAUSE = Text(
    "headline-device-rest-because",
    "In the rest it {doing}, mostly because {cause}",
    note="a sentence; it is the GPU; doing is a list: communicates 26 %, is idle 5 %; cause: the CPU runs code",
)
_INPUT = Text(
    "headline-typical-input",
    "Bound by input: for {part:part} of {unit} the GPU waits while the program waits for its DataLoader. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_HOST = Text(
    "headline-typical-host",
    "Bound by the host: for {part:part} of {unit} the GPU does nothing, mostly because {cause}. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_COMMUNICATION = Text(
    "headline-typical-communication",
    "Bound by communication: for {part:part} of {unit} the GPU only communicates, or waits for other ranks. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_COMMUNICATION_OF_HOST = Text(
    "headline-typical-communication-host",
    "Bound by communication: for {part:part} of {unit} the GPU does nothing while the host communicates. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_PRODUCTS = Text(
    "headline-typical-gpu-compute-2",
    "Bound by GPU compute: for {part:part} of {unit} the GPU computes, mostly {work}. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence; work: matrix products and attention",
)
_MOVES = Text(
    "headline-typical-gpu-memory",
    "Bound by GPU memory: for {part:part} of {unit} the GPU computes, mostly operations that move data. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_COPIES_BESIDE = Text(
    "headline-typical-copies-beside",
    "Bound by copies: for {part:part} of {unit} the GPU copies, mostly {copy}, and computes beside that. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence; copy is a name",
)
_ONLY_COPIES = Text(
    "headline-typical-copies",
    "Bound by copies: for {part:part} of {unit} the GPU only copies, mostly {copy}. {device}.",
    note="unit is in the genitive: a typical step; copy is a name: Memcpy HtoD (Pageable -> Device)",
)
_DECODE = Text(
    "headline-typical-decode",
    "Bound by GPU memory: for {part:part} of {unit} the GPU computes. A decode step of {tokens:count} tokens reads all "
    "weights and caches for little arithmetic.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
    one="Bound by GPU memory: for {part:part} of {unit} the GPU computes. A decode step of one token reads all weights "
    "and caches for little arithmetic.",
)
_SOME_GPU = Text(
    "headline-typical-gpu",
    "Bound by the GPU: for {part:part} of {unit} it computes, but the names of its kernels do not show what. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_OTHER_GPU = Text(
    "headline-typical-gpu-work",
    "Bound by the GPU: for {part:part} of {unit} it computes, mostly {work}. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence; work: sorting and selection",
)
_NOTHING = Text(
    "headline-typical-none-2",
    "No single cause dominates the {step:rounded_ns} of {unit}. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_UNEXPLAINED = Text(
    "headline-typical-unexplained",
    "The recording does not show why the GPU does nothing for {part:part} of {unit}. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_LATE = Text(
    "headline-typical-late",
    "For {part:part} of {unit} the GPU does nothing although work was launched; it is not shown what that waits for. "
    "{device}.",
    note="unit is in the genitive: a typical step; device is a sentence",
)
_LOADING = Text(
    "headline-typical-start-up",
    "Bound by start-up: for {part:part} of {unit} the GPU waits while code is loaded or compiled. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_EARLIER = Text(
    "headline-typical-earlier-work",
    "For {part:part} of {unit} the GPU most likely finished work from before the recording. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_PAUSES = Text(
    "headline-typical-pauses",
    "For {part:part} of {unit} the GPU pauses between kernels that are already queued. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_ALSO_UNEXPLAINED = Text(
    "headline-also-unexplained",
    "{headline} The recording does not explain {part:part}.",
    note="headline is a sentence; part is idle time of the GPU of a step",
)
_ALSO_PENDING = Text(
    "headline-also-pending",
    "{headline} For {part:part} it does nothing while work that was launched long before waits for something that is "
    "not in the recording.",
    note="headline is a sentence; it is the GPU; part is idle time of the GPU of a step",
)
_GRAPHS = Text(
    "headline-graphs",
    "{headline} {kernels:count} of {all:count} recorded kernels were launched by graphs, so launching them is not what "
    "takes the time.",
    note="headline is a sentence; graphs are CUDA graphs or HIP graphs",
)
_COLD = Text(
    "headline-cold-pass",
    "{headline} This is one cold pass: record a warm one.",
    note="headline is a sentence; a pass of the program that comes first, so that code is loaded or compiled in it",
)
_OF_LOSS = {"input": _INPUT, "host": _HOST, "communication": _COMMUNICATION, "start-up": _LOADING}
_SHOWN = (_EARLIER, "unrecorded_work"), (_PAUSES, "device_gap"), (_LATE, "pending"), (_UNEXPLAINED, "unknown pending")
"""Texts about idle time that no resource causes, with the causes; of equal times the first."""
_CAUSES = {
    "allocation": Text("headline-cause-allocation", "the CPU allocates or frees memory", "after: mostly because"),
    "profiler_overhead": Text("headline-cause-profiler", "the profiler itself works", "after: mostly because"),
    "cpu_operators": Text("headline-cause-cpu-operators", "operators compute on the CPU", "after: mostly because"),
    "synchronization": Text("headline-cause-synchronization", "waits let its queue run empty", "after: mostly because"),
    "launch_bound": Text("headline-cause-launches", "the CPU launches kernels too slowly", "after: mostly because"),
    "host_code": Text(
        "headline-cause-host-code", "the CPU runs code between operators", "Python code, mostly; after: mostly because"
    ),
}
"""Causes of idle time that are the host's, in the order of all causes."""
_UNSEEN_CODE = Text("headline-cause-unseen", "the CPU launches nothing", "after: mostly because")

_OWNER = Text(
    "headline-owner",
    "{headline} While the GPU waits, {owner} takes {part:part}.",
    note="headline is a sentence; owner is a function, mark or module; part reads: 35 of the 152 ms",
)
_OWNER_WITH = Text(
    "headline-owner-with-role",
    "{headline} While the GPU waits, {owner} takes {part:part}, and {other} {other_part:part}.",
    note="headline is a sentence; owner and other are functions, marks or modules; part: 35 of the 152 ms",
)
_OWNER_OF_WHICH = Text(
    "headline-owner-of-which",
    "{headline} While the GPU waits, {owner} takes {part:part}; of that, {other} takes {other_part:part}.",
    note="headline is a sentence; owner and other are functions, marks or modules; part: 35 of the 152 ms",
)
_LEAVES = Text(
    "headline-owner-leaves",
    "{headline} It was not recorded which part of the program that is: there are no marks, modules or stacks around "
    "the operators (with_stack=True records stacks).",
    note="headline is a sentence",
)
_SILENT = Text(
    "headline-owner-silent",
    "{headline} For {part:part} it is unknown what the host does: no event of its thread was recorded.",
    note="headline is a sentence; part reads: 35 of the 152 ms",
)
_CALL = Text(
    "headline-long-call",
    "{headline} A single call of `{call}` in {owner} takes {time:ns}.",
    note="headline is a sentence; call is an operator or runtime call; owner a function, mark or module",
)
_CALL_WAITS = Text(
    "headline-long-call-waits",
    "{headline} A single call of `{call}` in {owner} takes {time:ns}: {wait} waits until {event} has ended.",
    note="headline is a sentence; call is an operator, wait a runtime call, event a kernel or copy",
)
_CALL_EARLIER = Text(
    "headline-long-call-earlier",
    "{headline} A single call of `{call}` in {owner} takes {time:ns}: {wait} waits for work that was launched before "
    "the recording began.",
    note="headline is a sentence; call is an operator, wait a runtime call",
)


class StepBound(msgspec.Struct, frozen=True):
    """What bounds a step."""

    bound: str
    message: Message
    share: float | None
    """Share of the step that the bound takes; None if nothing bounds it."""

    def and_says(self, text: Text, **params: Any) -> StepBound:
        """The same, with a sentence after its own."""
        return StepBound(self.bound, text(headline=self.message, **params), self.share)


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
    found = _of_copies(facts, recording, own) or (_of_busy_gpu if is_busy else _of_waiting_gpu)(facts, recording, own)
    return found.and_says(_COLD) if found.bound == "start-up" and program.is_cold_pass(facts) else found


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
    message = text(part=(time, step), unit=unit(recording), device=_device(facts, own), copy=copy)
    return StepBound("gpu-memory", message, time / step)


def _of_waiting_gpu(facts: Facts, recording: Recording, own: StepResources) -> StepBound:
    """The headline of a waiting device: the largest loss, and unexplained time, if they are large enough to name."""
    step, losses = own.step_ns, _losses(facts, own)
    bound = max(losses, key=lambda name: losses[name])
    time, text = losses[bound], _OF_LOSS[bound]
    said: dict[str, Any] = {"unit": unit(recording), "device": _device(facts, own)}
    if time < WORTH * step:
        idle, text = max(((facts.idle_per_step(*of.split()), text) for text, of in _SHOWN), key=lambda row: row[0])
        if idle >= WORTH * step:
            return StepBound("none", text(part=(idle, step), **said), None)
        return StepBound("none", _NOTHING(step=step, **said), time / step)
    if bound == "host" and _computing_ns(own) >= _COMPUTING * step:
        return _of_busy_gpu(facts, recording, own)
    if bound == "communication":  # as the shares say: the device communicates, or is idle
        time, idle = own.exposed_communication_ns or 0.0, facts.idle_per_step("communication")
        if idle > time:
            time, text = idle, _COMMUNICATION_OF_HOST
    said |= {"cause": _cause(facts)} if bound == "host" else {}
    message = text(part=(time, step), **said)
    if bound in ("host", "input"):
        message = (_with_owners if bound == "host" else _with_loader)(facts, message, step)
    unknown = facts.idle_per_step("unknown", "pending")
    if unknown >= WORTH * step:
        is_pending = 2 * facts.idle_per_step("pending") > unknown
        message = (_ALSO_PENDING if is_pending else _ALSO_UNEXPLAINED)(headline=message, part=(unknown, step))
    return StepBound(bound, message, time / step)


def _of_busy_gpu(facts: Facts, recording: Recording, own: StepResources) -> StepBound:
    """The headline of a device that works nearly all the time: it mostly computes, or it mostly communicates."""
    step, compute, communication = own.step_ns, _computing_ns(own), own.exposed_communication_ns or 0.0
    if communication > compute:
        message = _COMMUNICATION(part=(communication, step), unit=unit(recording), device=_device(facts, own))
        return StepBound("communication", message, communication / step)
    is_decode = all(step.phase == "decode" and step.tokens is not None for step in recording.steps)
    tokens = [step.tokens or 0 for step in recording.steps if is_decode and step.is_typical]
    if tokens and max(tokens) < _FEW_TOKENS:
        bound, message = "gpu-memory", _DECODE(part=(compute, step), unit=unit(recording), tokens=round(median(tokens)))
    else:
        bound = kind_of_work.gpu_bound(facts)
        said = {"unit": unit(recording), "device": _rest(facts, own), "part": (compute, step)}
        message = kind_of_work.with_shares(facts, _of_work(facts, bound, said))
    figures = facts.find("launches", LaunchFigures)
    if figures is not None and (figures.graphs.kernel_share or 0.0) >= MOST:  # which spares the device the launches
        message = _GRAPHS(headline=message, kernels=figures.graphs.kernels, all=figures.kernels)
    return StepBound("gpu-compute" if bound == UNNAMED else bound, message, compute / step)


def _of_work(facts: Facts, bound: str, said: dict[str, Any]) -> Message:
    """The sentence on a device that mostly computes, with the class of its work."""
    if bound == "gpu-compute":
        return _PRODUCTS(**said, work=kind_of_work.computing_of(facts))
    if bound == "gpu-memory":
        return _MOVES(**said)
    work = kind_of_work.other_work(facts)
    return _SOME_GPU(**said) if work is None else _OTHER_GPU(**said, work=work)


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


def _cause(facts: Facts) -> Message:
    """The largest of the causes that are the host's."""
    largest = max(_CAUSES, key=facts.idle_per_step)
    is_after_waits = largest == "launch_bound" and idle_time.is_after_waits(facts, ("launch_bound",))
    if largest == "host_code" and facts.is_gpu_alone:
        return _UNSEEN_CODE()
    return _CAUSES["synchronization" if is_after_waits else largest]()


def _device(facts: Facts, own: StepResources) -> Message:
    """The device's activities in a typical step, as shares of the step."""
    return _DEVICE(doing=(_COMPUTES(share=_computing_ns(own) / own.step_ns), *_beside_computing(facts, own)))


def _rest(facts: Facts, own: StepResources) -> Message:
    """The device's activities while it does not compute, and why it is idle if that is much."""
    if not (doing := _beside_computing(facts, own)):
        return _NO_REST()
    if _losses(facts, own)["host"] < WORTH_BESIDE * own.step_ns:
        return _REST(doing=doing)
    return _REST_BECAUSE(doing=doing, cause=_cause(facts))


def _beside_computing(facts: Facts, own: StepResources) -> tuple[Message, ...]:
    earlier = facts.idle_per_step("unrecorded_work")
    shares = (
        (_COPIES, own.only_copies_ns or 0.0),
        (_COMMUNICATES, own.exposed_communication_ns or 0.0),
        (_EARLIER_SHARE, earlier),
        (_IDLE, own.step_ns - (own.gpu_ns or 0.0) - earlier),
    )
    return tuple(text(share=time / own.step_ns) for text, time in shares if round(100 * time / own.step_ns))


def _with_loader(facts: Facts, headline: Message, step_ns: float) -> Message:
    """The sentence on a step that waits for its loader, with what the loader does, if it does it itself."""
    row = host_owners.largest(facts)
    if row is None or row.role not in ("preprocessing", "tokenization") or not row.idle_ns_per_step:
        return headline
    return _OWNER(headline=headline, owner=host_owners.name(row), part=(row.idle_ns_per_step, step_ns))


def _with_owners(facts: Facts, headline: Message, step_ns: float) -> Message:
    """The sentence on a step that the host bounds, with the parts of the program that take most of its idle time."""
    owners, row = host_owners.found(facts), host_owners.largest(facts)
    if owners is None or facts.is_gpu_alone:
        return headline
    if row is not None and (row.idle_ns_per_step or 0.0) >= WORTH_BESIDE * step_ns:
        headline = _named(owners, row, headline, step_ns)
    elif fsum(row.idle_self_ns_per_step or 0.0 for row in owners.rows if row.kind in _BARE) >= WORTH * step_ns:
        headline = _LEAVES(headline=headline)
    silent = owners.unowned.idle_self_ns_per_step or 0.0
    headline = _SILENT(headline=headline, part=(silent, step_ns)) if silent >= WORTH * step_ns else headline
    return _with_long_call(owners, headline, step_ns)


def _named(owners: HostOwners, row: HostOwner, headline: Message, step_ns: float) -> Message:
    """Add the owner, and another owner whose work a rule gives advice about."""
    said = {"headline": headline, "owner": host_owners.name(row), "part": (row.idle_ns_per_step or 0.0, step_ns)}
    for role in owners.roles:
        idle = role.idle_ns_per_step or 0.0
        if role.role == row.role or role.role in _OWN_RULES or idle < WORTH_BESIDE * step_ns:
            continue
        other = owners.rows[role.owner]
        # a mark and its own part with a role have one name; elsewhere only sums show whether one is in the other
        text = _OWNER_OF_WHICH if other.name == row.name else _OWNER_WITH
        if text is _OWNER_WITH and (other.idle_ns or 0) + (row.idle_ns or 0) > (owners.idle_ns or 0):
            continue
        return text(**said, other=host_owners.name(other), other_part=(idle, step_ns))
    return _OWNER(**said)


def _with_long_call(owners: HostOwners, headline: Message, step_ns: float) -> Message:
    """Add the longest call that takes much of a step while the device does nothing for at least half of that."""
    calls = [
        (call, row)
        for row in owners.rows
        if (call := row.longest_call) is not None and call.duration_ns >= _LONG * step_ns
        if 2 * (row.idle_self_ns or 0) >= call.duration_ns and call.name != row.name
    ]
    if not calls:
        return headline
    call, row = max(calls, key=lambda entry: entry[0].duration_ns)
    said = {"headline": headline, "call": call.name, "owner": host_owners.name(row), "time": call.duration_ns}
    if call.wait is None or 2 * call.waiting_ns < call.duration_ns:
        return _CALL(**said)
    if call.waits_for == "unrecorded-work":
        return _CALL_EARLIER(**said, wait=call.wait)
    return _CALL(**said) if call.event is None else _CALL_WAITS(**said, wait=call.wait, event=call.event)
