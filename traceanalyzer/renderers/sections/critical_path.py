"""What decides how long the step is, and what would a faster part be worth?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from traceanalyzer.analyzers.accelerators import Accelerators
from traceanalyzer.renderers.sections import host_owners, kernel_classes
from traceanalyzer.renderers.words import word
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic
from traceanalyzer.simulation.critical_path import CriticalPath, CriticalStretch
from traceanalyzer.simulation.replay_error import Replay

TITLE = Text("path-title", "Critical path", "the chain of causes that decides how long a step takes")
_WORTH = Text("path-worth-title", "What a faster part is worth", "a table of parts of a program")

_MOST_TURNS = 5
"""What a sentence can tell one after the other (own choice)."""
_LEAST = 0.01
"""Share of the step from which on something is told."""
_MOST_HIDDEN = 0.05
"""Share of the step that may count with what is around it, for a sentence in the order of time (own choice)."""
_CHAINS = {
    "loader": "loader",
    "host": "host",
    "launch": "host",
    "wake_up": "host",
    "communication": "communication",
    "unrecorded": "unrecorded",
}
"""What a resource is in a sentence; all others are the GPU's."""
_PIECES = {
    "loader": Text("path-time-loader", "DataLoader {time:ns}", "part of a sentence: first A, then B, then C"),
    "host": Text("path-time-host", "host {time:ns}", "part of a sentence: first A, then B, then C"),
    "gpu": Text("path-time-gpu", "GPU {time:ns}", "part of a sentence: first A, then B, then C"),
    "communication": Text(
        "path-time-communication", "communication {time:ns}", "part of a sentence: first A, then B, then C"
    ),
    "unrecorded": Text(
        "path-time-unrecorded", "work that was not recorded {time:ns}", "part of a sentence: first A, then B, then C"
    ),
}
_THEN = Text("path-then", "{before}, then {next}", "each is a part of a step and its time, such as: host 40 ms")
_AND = Text("path-and", "{before}, {next}", "each is a part of a step and its time, such as: host 40 ms")
_ALL = Text("path-all-of-one", "The whole step is {part}.", "part is such as: host 40 ms")
_NEARLY = Text("path-nearly-all-of-one", "Nearly the whole step is {part}.", "part is such as: host 40 ms")
_IN_ORDER = Text("path-in-order", "The step is {parts}.", "parts is such as: host 40 ms, then GPU 78 ms")
_IN_ORDER_OF_ONE = Text(
    "path-in-order-of-one",
    "The step closest to the mean is {parts}.",
    "parts is such as: host 40 ms, then GPU 78 ms",
)
_WITH_SHORT = Text(
    "path-with-short-turns",
    "{said} Shorter turns in between take {time:ns} in all.",
    "said is a sentence such as: The step is host 40 ms, then GPU 78 ms.",
)
_IN_TURNS = Text(
    "path-in-turns",
    "In many short turns, the step is {parts}.",
    "parts is such as: GPU 78 ms, host 40 ms; the greatest first",
)
_SLACK = Text(
    "path-slack",
    "Kernels, copies and fills of {slack:ns} of {all:ns} could each take twice as long, one at a time, and the step "
    "would not get longer.",
)
_ERROR = Text(
    "path-replay-error",
    "Replayed from its dependencies, the step takes {modelled:ns} where {recorded:ns} were recorded: an error of "
    "{error:share}.",
)
_STARTS = Text("path-replay-starts", "Starts of device events are off by, median", "an error as a share of the step")
_STARTS_MOST = Text("path-replay-starts-most", "Starts, 95 % are off by at most", "an error as a share of the step")
_OTHER_DEVICES = Text(
    "path-other-devices",
    "Work of devices that are no GPUs is not part of the path; waiting for it counts as host time.",
)
_ABSTAINS = Text(
    "path-replay-abstains",
    "An error above 5 % is too much to predict savings from the replay; the path itself is that of the recording.",
    "the error of a replay of the dependencies in a trace",
)
_RESOURCES = {
    "loader": Text("path-loader", "DataLoader"),
    "host": Text("path-host", "Host"),
    "launch": Text("path-launch", "From launch to start", "time from the call that launches a kernel to its start"),
    "compute": Text("path-compute", "Kernels"),
    "copy": Text("path-copy", "Copies and fills"),
    "communication": Text("path-communication", "Communication"),
    "device_gap": Text("path-device-gap", "Between kernels", "pauses between kernels, which the GPU itself needs"),
    "wake_up": Text("path-wake-up", "From end to host", "time until a host that waits for the GPU goes on"),
    "unrecorded": Text("path-unrecorded", "Not recorded", "work that was launched before the recording"),
}
_RESOURCE = SectionColumn(Text("path-resource", "The step waits for"), "")
_TIME = SectionColumn(Text("path-per-step", "Time/step"), "ns")
_SHARE = SectionColumn(Text("path-share", "Share"), "share", has_bar=True)
_OPERATOR = SectionColumn(Text("path-operator", "Operator"), "", is_name=True)
_ON_PATH = SectionColumn(Text("path-on-path", "On path", "time of the step that waits for an operator"), "ns")
_HOST = SectionColumn(Text("path-of-host", "Host", "part of a time that the CPU takes"), "ns")
_DEVICE = SectionColumn(Text("path-of-device", "GPU", "part of a time that the GPU takes"), "ns")
_DEVICE_ALL = SectionColumn(
    Text("path-device-all", "GPU/step", "time of the GPU, whether the step waits for it or not"), "ns"
)
_GAIN = SectionColumn(
    Text("path-gain", "Step gains", "share of saved time of the GPU by which a step gets shorter"), "share"
)
_FREE = SectionColumn(Text("path-free", "Has slack", "time of kernels that could be slower without harm"), "ns")
_OWNER = SectionColumn(Text("path-owner", "Owner of host time", "part of a program that takes time"), "", is_name=True)
_PLACE = SectionColumn(Text("path-place", "Place", "kind, file and line"), "", is_name=True, is_extra=True)
_CLASS = SectionColumn(Text("path-class", "Kernels by kind of work"), "")
_KERNEL = SectionColumn(Text("path-slack-kernel", "Could be twice as slow"), "", is_name=True)
_UNNAMED = Text("path-no-operator", "(in no operator)")
_UNOWNED = Text("path-no-owner", "(nothing recorded)", "time of a thread in which no event was recorded")
_TERMS = (
    Term(
        Text("define-path", "Critical path"),
        Text(
            "define-path-say",
            "At each moment of a step, the one thing for which its end waits: host time, the DataLoader, a kernel, a "
            "copy, a pause between two of them. These times sum to the step. What is not on the path has slack.",
        ),
    ),
    Term(
        Text("define-gain", "Step gains"),
        Text(
            "define-gain-say",
            "How much shorter the step gets for each unit of time by which an operator's work on the device gets "
            "shorter: its device time on the critical path, as a share of all its device time. It holds for small "
            "changes; whatif replays large ones.",
        ),
    ),
    Term(
        Text("define-slack", "Has slack"),
        Text(
            "define-slack-say",
            "Device time of kernels, copies and fills any one of which could take twice as long without making the "
            "step longer. Several at once may make it longer.",
        ),
    ),
)


def resource_label(resource: str) -> Text | Message:
    """The words for a resource; its key where a later version added one."""
    return word(_RESOURCES, resource)


def build(report: Report, top: int) -> Iterator[Section]:
    """What the step waits for, with the error of its replay, and what operators, owners and classes are worth."""
    found = report.result("critical_path", CriticalPath)
    if found is None or not found.step_ns or not found.parts:
        return
    replay = report.result("replay", Replay)
    parts = sorted((part for part in found.parts if part.ns_per_step > 0), key=lambda part: -part.ns_per_step)
    rows = tuple((resource_label(part.resource), part.ns_per_step, part.share) for part in parts)
    yield Section(
        "critical-path",
        TITLE,
        messages=(_path(found), *_other_devices(report), *_replay(replay)),
        facts=tuple(_starts(replay)),
        tables=(SectionTable("critical_path", (_RESOURCE, _TIME, _SHARE), rows, len(rows), is_extra=True),),
        terms=_TERMS,
        topic=Topic.STEPS,
    )
    tables = [make(found, top) for make in (_operators, _device_operators, _owners, _classes, _kernels)]
    shown = tuple(table for table in tables if table.rows)
    if shown:
        yield Section(
            "critical-path-worth",
            _WORTH,
            messages=tuple(_slack(found)),
            tables=shown,
            topic=Topic.STEPS,
            is_detail=True,
        )


def _path(found: CriticalPath) -> Message:
    """The path in one sentence: in the order of time where it has few parts, else by size."""
    turns, hidden = _turns(found.stretches)
    whole = hidden + sum(ns for _, ns in turns)
    if turns and len(turns) <= _MOST_TURNS and hidden <= _MOST_HIDDEN * whole:
        parts = [_PIECES[chain](time=ns) for chain, ns in turns]
        if len(parts) == 1:
            return (_NEARLY if hidden else _ALL)(part=parts[0])
        said = (_IN_ORDER if found.steps == 1 else _IN_ORDER_OF_ONE)(parts=_chain(parts, _THEN))
        return _WITH_SHORT(said=said, time=hidden) if hidden >= _LEAST * whole else said
    sums: dict[str, float] = {}
    for part in found.parts:
        chain = _CHAINS.get(part.resource, "gpu")
        sums[chain] = sums.get(chain, 0.0) + part.ns_per_step
    kept = sorted((-ns, chain) for chain, ns in sums.items() if ns >= _LEAST * found.step_ns)
    return _IN_TURNS(parts=_chain([_PIECES[chain](time=-ns) for ns, chain in kept], _AND))


def _turns(stretches: Sequence[CriticalStretch]) -> tuple[list[tuple[str, int]], int]:
    """What the step waits for one after the other, with times in ns, and the time of turns too short to tell.

    The shortest turn is left out until there are few, and as long as it is too short to tell.
    """
    turns = _joined([(_CHAINS.get(each.resource, "gpu"), each.duration_ns) for each in stretches])
    whole, hidden = sum(ns for _, ns in turns), 0
    while len(turns) > 1:
        shortest = min(range(len(turns)), key=lambda place: turns[place][1])
        ns = turns[shortest][1]
        if len(turns) <= _MOST_TURNS and ns >= _LEAST * whole:
            break
        hidden += ns
        turns = _joined([*turns[:shortest], *turns[shortest + 1 :]])
    return turns, hidden


def _joined(turns: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Turns of which no two that follow each other are the same."""
    groups = groupby(turns, key=lambda turn: turn[0])
    return [(chain, sum(ns for _, ns in members)) for chain, members in groups]


def _chain(parts: Sequence[Message], link: Text) -> Message:
    """Parts of a sentence one after the other."""
    said = parts[0]
    for part in parts[1:]:
        said = link(before=said, next=part)
    return said


def _slack(found: CriticalPath) -> Iterator[Message]:
    if found.device_slack_ns_per_step and found.device_ns_per_step:
        yield _SLACK(slack=found.device_slack_ns_per_step, all=found.device_ns_per_step)


def _other_devices(report: Report) -> Iterator[Message]:
    others = report.result("accelerators", Accelerators)
    if others is not None and others.devices:
        yield _OTHER_DEVICES()


def _replay(found: Replay | None) -> Iterator[Message]:
    """How far the replay is from the recording, and whether it is trusted."""
    if found is not None:
        yield _ERROR(modelled=found.modelled_ns, recorded=found.recorded_ns, error=found.error_share)
        if found.abstained:
            yield _ABSTAINS()


def _starts(found: Replay | None) -> Iterator[Fact]:
    if found is not None and found.device_start_error_p50_share is not None:
        yield Fact(_STARTS, found.device_start_error_p50_share, "share")
        yield Fact(_STARTS_MOST, found.device_start_error_p95_share, "share")


def _operators(found: CriticalPath, top: int) -> SectionTable:
    """Operators by what the step waits for of them."""
    columns, fields = [_OPERATOR, _ON_PATH, _SHARE], ["ns_per_step"]
    if found.device_ns_per_step is not None:
        columns += [_HOST, _DEVICE]
        fields += ["host_ns_per_step", "device_ns_per_step"]
    rows = []
    for row in found.operators[:top]:
        ns, *others = (getattr(row, field) for field in fields)
        rows.append((row.operator or _UNNAMED, ns, ns / found.step_ns, *others))
    return SectionTable("critical_path_operators", tuple(columns), tuple(rows), len(found.operators))


def _device_operators(found: CriticalPath, top: int) -> SectionTable:
    """Operators with work on a device, by what the step gains if that gets faster."""
    known = [
        row for row in found.operators if row.device_total_ns_per_step and row.device_slack_ns_per_step is not None
    ]
    known.sort(key=lambda row: -row.device_ns_per_step)
    cells = tuple(
        (
            row.operator or _UNNAMED,
            row.device_total_ns_per_step,
            min(1.0, row.device_ns_per_step / row.device_total_ns_per_step),
            row.device_slack_ns_per_step,
        )
        for row in known[:top]
    )
    columns = (_OPERATOR, _DEVICE_ALL, _GAIN, _FREE)
    return SectionTable("critical_path_device_operators", columns, cells, len(known))


def _owners(found: CriticalPath, top: int) -> SectionTable:
    rows = tuple(
        (
            _UNOWNED if row.kind is None else host_owners.label(row),
            "" if row.kind is None else host_owners.where(row),
            row.ns_per_step,
            row.ns_per_step / found.step_ns,
        )
        for row in found.owners[:top]
    )
    return SectionTable("critical_path_owners", (_OWNER, _PLACE, _TIME, _SHARE), rows, len(found.owners))


def _classes(found: CriticalPath, top: int) -> SectionTable:
    rows = tuple(
        (kernel_classes.class_label(row.kernel_class or "other"), row.ns_per_step, row.ns_per_step / found.step_ns)
        for row in found.kernel_classes[:top]
    )
    return SectionTable("critical_path_classes", (_CLASS, _TIME, _SHARE), rows, len(found.kernel_classes))


def _kernels(found: CriticalPath, top: int) -> SectionTable:
    rows = tuple((row.name, row.slack_ns_per_step, row.ns_per_step) for row in found.kernels_with_slack[:top])
    columns = (_KERNEL, _FREE, _DEVICE_ALL)
    return SectionTable("critical_path_slack", columns, rows, len(found.kernels_with_slack))
