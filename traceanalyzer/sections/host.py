"""Which parts of the program take host time?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from traceanalyzer.analyzers.host import HostOwner, HostOwners, OwnerTimes
from traceanalyzer.analyzers.host.owner_calls import OwnerCall
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionTable, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, table
from traceanalyzer.simulation.critical_path import CriticalOwner
from traceanalyzer.structure.recording import HostPart, Recording
from traceanalyzer.structure.recording.program_steps import WHOLE

TITLE = Text("owners-title", "Where CPU time goes", "a table of the parts of a program that take time of the CPU")
_LONG = 0.3
"""Least share of a step of a single call that is reported."""
_MUCH = 0.2
"""Least share of time without an owner that is reported."""
_IDLE_SHARE = 0.2
"""Least share of GPU idle time for lack of work for which the section is on the first screen."""
_LEAST = 0.01
"""Least share of time of a role that is reported."""

_ROLES = {
    "preprocessing": Text("owners-preprocessing", "input preprocessing", "making a model's inputs out of raw data"),
    "postprocessing": Text("owners-postprocessing", "output postprocessing", "making results out of a model's outputs"),
    "requests": Text("owners-requests", "waiting for requests", "for work from outside of the program"),
    "preparation": Text("owners-preparation", "preparation of a model", "loading, converting or quantizing it"),
    "writing": Text("owners-writing", "saving of results", "writing pictures, tables or figures"),
    "tokenization": Text("owners-tokenization", "tokenization"),
    "sampling": Text("owners-sampling", "sampling", "choosing the next token"),
    "buffer-broadcast": Text(
        "owners-buffer-broadcast",
        "broadcast of buffers",
        "DistributedDataParallel sends the model's buffers to all ranks",
    ),
    "garbage-collection": Text("owners-garbage-collection", "garbage collection"),
    "guards": Text("owners-guards", "guards of compiled code", "checks before code of torch.compile runs"),
    "checkpointing": Text("owners-checkpointing", "saving of checkpoints"),
    "logging": Text("owners-logging", "logging"),
    "sleep": Text("owners-sleep", "sleeping"),
    "loader": Text("owners-loader", "data loader"),
    "compilation": Text("owners-compilation", "compilation"),
}
_KINDS = {
    "mark": Text("owners-kind-mark", "mark", "a named range of a program, as with record_function"),
    "module": Text("owners-kind-module", "module", "an nn.Module"),
    "function": Text("owners-kind-function", "function"),
    "library": Text("owners-kind-library", "library function"),
    "backward": Text("owners-kind-backward", "backward pass"),
    "autograd": Text("owners-kind-autograd", "autograd"),
    "operator": Text("owners-kind-operator", "operator"),
    "call": Text("owners-kind-call", "runtime call", "a call of CUDA's or ROCm's runtime"),
}
_WITH_ROLE = Text("owners-with-role", "{name}: {role}", "name of a function or mark, and what it is for")
_BACKWARD = Text("owners-backward", "{name}, backward", "the backward pass of a module")
_BETWEEN = Text("owners-autograd-between", "autograd, in no recorded function")
_UNOWNED = Text("owners-unowned", "(nothing recorded)", "time of a thread in which no event was recorded")
_PLACE = Text("owners-place", "{kind}, {file}:{line}", "kind is module or library function")
_SINGLE = Text(
    "owners-single-call-2",
    "One call of {call} takes {time:ns}, {length}.",
    "length: 60 % of a step; call is an operator or runtime call, or 'aten::cat in train_step'",
)
_SINGLE_WAITS = Text(
    "owners-single-call-waits-2",
    "One call of {call} takes {time:ns}, {length}; {waiting:ns} of it {wait} waits until {event} has ended.",
    "length: 60 % of a step; call, wait: runtime calls, or 'aten::cat in train_step'; event: a kernel or copy",
)
_SINGLE_EARLIER = Text(
    "owners-single-call-earlier-2",
    "One call of {call} takes {time:ns}, {length}; {waiting:ns} of it {wait} waits for work that was launched before "
    "the recording began.",
    "length: 60 % of a step; call is an operator or runtime call, or 'aten::cat in train_step', wait a runtime call",
)
_OF_STEP = Text("owners-call-of-step", "{share:percent} of a step", "how long a call takes")
_OF_TRACE = Text("owners-call-of-trace", "{share:percent} of the trace", "how long a call takes")
_LONGER = Text("owners-call-longer", "longer than a typical step", "how long a call takes")
_CALL_IN = Text("owners-call-in", "{call} in {owner}", "call is an operator or runtime call, owner a function or mark")
_SILENT = Text(
    "owners-silent",
    "For {share:percent} of the time the GPU has nothing to do and the CPU thread has no recorded events: most "
    "likely it runs Python code. Record stacks (with_stack=True) to see which.",
)
_TERMS = (
    Term(
        TITLE,
        Text(
            "define-owners-say",
            "Time per step of the thread that launches the work, and of autograd's thread while it waits for that. "
            "Each moment counts for the innermost mark, module or function of the program that is active, or for a "
            "library function that takes a large share; otherwise for the outermost operator. Idle: the part in which "
            "the GPU had nothing to do because nothing had been launched. With inner: including everything called "
            "inside.",
        ),
    ),
)

_NAME = Column(
    Text("owners-name", "Owner", "part of a program that takes time"),
    "",
    lambda row: label(row) if _is_owner(row) else _UNOWNED,
    is_name=True,
)
_WHERE = replace(columns.PLACE, cell=lambda row: where(row) if _is_owner(row) else "", is_extra=True)
_SELF = Column(Text("owners-self", "CPU/step"), "ns", "host_self_ns_per_step")
_IDLE = Column(
    Text("owners-idle", "GPU idle", "part of the time in which the GPU does nothing"), "ns", "idle_self_ns_per_step"
)
_TOTAL = Column(
    Text("owners-total", "With inner", "time with everything inside"), "ns", "host_ns_per_step", is_extra=True
)
_WAITS = Text("owners-waiting", "Waiting", "part of the time in which the host waits for the GPU")
_DEVICE = Text("owners-device", "Launched", "device time of what is launched")
_CALLS = Text("owners-calls", "Calls/step")
_MOSTLY = Column(
    Text("owners-mostly", "Mostly", "operator that takes most of an owner's time"),
    "",
    lambda row: _mostly(row) if _is_owner(row) else "",
    is_name=True,
    is_extra=True,
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of the owners with most own time, with the purpose of their work."""
    owners = report.result("host_owners", HostOwners)
    if owners is None or not owners.rows or not owners.time_ns:
        return
    yield Section(
        "host-owners",
        TITLE,
        messages=tuple(_messages(owners, report.result("recording", Recording))),
        facts=tuple(_facts(owners)),
        tables=(_table(owners, top),),
        terms=_TERMS,
        topic=Topic.HOST,
        is_detail=owners.idle_ns is not None and owners.idle_ns < _IDLE_SHARE * owners.time_ns,
    )


def _table(owners: HostOwners, top: int) -> SectionTable:
    """The owners, and at the end the time without one."""

    def per_step(field: str) -> Callable[[OwnerTimes], float | None]:
        return lambda row: None if getattr(row, field) is None else getattr(row, field) / owners.steps

    has_waits = any(row.waiting_self_ns for row in owners.rows)
    shown = (
        _NAME,
        _WHERE,
        _SELF,
        columns.share("host_self_ns", owners.time_ns),
        *([_IDLE] if owners.idle_ns is not None else []),
        *([Column(_WAITS, "ns", per_step("waiting_self_ns"))] if has_waits else []),
        _TOTAL,
        *([Column(_DEVICE, "ns", per_step("device_self_ns"), is_extra=True)] if owners.device_ns else []),
        Column(_CALLS, "number", lambda row: row.calls / owners.steps if _is_owner(row) else None, is_extra=True),
        _MOSTLY,
    )
    rows = [*owners.rows[:top], *([owners.unowned] if owners.unowned.host_self_ns >= _LEAST * owners.time_ns else [])]
    return table("host_owners", shown, rows, total=len(owners.rows) + len(rows) - len(owners.rows[:top]))


def _is_owner(row: OwnerTimes) -> bool:
    """Whether a row of the table is an owner; the last one may be the time without one."""
    return isinstance(row, HostOwner)


def _mostly(row: HostOwner) -> str:
    """The operator or call that takes most of the owner's own time, if it is a large part and not the owner itself."""
    is_large = row.kind not in ("operator", "call") and row.parts and row.parts[0].host_ns >= _LONG * row.host_self_ns
    return row.parts[0].name if is_large else ""


def label(row: HostOwner | CriticalOwner | HostPart) -> str | Text | Message:
    """The name of an owner, with its purpose."""
    name = row.name or ""
    if row.kind == "autograd":
        return _BETWEEN
    if row.kind == "backward":
        return _BACKWARD(name=name)
    role = None if row.role is None else _ROLES.get(row.role, row.role)
    return name if role is None else _WITH_ROLE(name=name, role=role() if isinstance(role, Text) else role)


def where(row: HostOwner | CriticalOwner) -> str | Text | Message:
    """Known kind, file and line of an owner."""
    kind = _KINDS.get(row.kind or "")
    if kind is None:
        return row.kind or ""
    if row.file is None or row.line is None:
        return kind
    return f"{row.file}:{row.line}" if row.kind == "function" else _PLACE(kind=kind(), file=row.file, line=row.line)


def _facts(owners: HostOwners) -> Iterator[Fact]:
    """Time per step by purpose."""
    for role in owners.roles:
        if role.host_ns >= _LEAST * owners.time_ns and role.role in _ROLES:
            yield Fact(_ROLES[role.role], role.host_ns_per_step, "ns")


def _messages(owners: HostOwners, recording: Recording | None) -> Iterator[Message]:
    calls = [(row.longest_call, row) for row in owners.rows if row.longest_call is not None and _is_own(row)]
    longest = max(calls, key=lambda entry: entry[0].duration_ns, default=None)
    step = owners.time_ns / owners.steps
    if longest is not None and longest[0].duration_ns >= _LONG * step:
        has_steps = recording is None or recording.steps_from != WHOLE
        yield _single(longest[0], longest[1], _length(longest[0].duration_ns / step, has_steps=has_steps))
    window = recording.window if recording is not None else None
    is_removed = window is not None and window.removed_ns > 0
    silent = owners.unowned.idle_self_ns or 0
    if silent >= _MUCH * owners.time_ns and not is_removed and _is_of_operators_alone(owners):
        yield _SILENT(share=silent / owners.time_ns)


def _is_of_operators_alone(owners: HostOwners) -> bool:
    """Whether operators were recorded and stacks were not; without operators a silence may be anything."""
    has_stacks = any(row.file is not None for row in owners.rows)
    return not has_stacks and any(row.kind != "call" for row in owners.rows)


def _is_own(row: HostOwner) -> bool:
    """Whether the longest call is mainly work of the owner itself.

    It is not if most of it belongs to owners inside, or if it only waits for the device, as programs and profilers do
    at the end of a measurement.
    """
    call = row.longest_call
    if call is None or call.duration_ns > row.host_self_ns:
        return False
    return row.kind != "call" or call.waits_for != "work"


def _length(share: float, *, has_steps: bool) -> Message:
    """How long a call takes, as a share of a typical step; what is longer is none of its parts."""
    if not has_steps:
        return _OF_TRACE(share=share)
    return _LONGER() if share > 1 else _OF_STEP(share=share)


def _single(call: OwnerCall, row: HostOwner, length: Message) -> Message:
    named = call.name if row.kind in ("operator", "call") else _CALL_IN(call=call.name, owner=row.name)
    measured = {"call": named, "time": call.duration_ns, "length": length}
    if call.wait is None or 2 * call.waiting_ns < call.duration_ns:
        return _SINGLE(**measured)
    waiting = {"waiting": call.waiting_ns, "wait": call.wait}
    if call.waits_for == "unrecorded-work":
        return _SINGLE_EARLIER(**measured, **waiting)
    return _SINGLE(**measured) if call.event is None else _SINGLE_WAITS(**measured, **waiting, event=call.event)
