"""What decides how long the step is, and what would a faster part be worth?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.formats.words import word
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic
from traceanalyzer.sections import host_owners, kernel_classes, path_sentence
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.simulation.replay_error import Replay

_MOST_ROWS = 10
"""Most rows of each table of parts (own choice: later rows have little effect)."""
TITLE = Text("path-title", "Critical path", "the chain of causes that decides how long a step takes")
_WORTH = Text("path-worth-title", "What a faster part is worth", "a table of parts of a program")

_SLACK = Text(
    "path-slack",
    "Kernels, copies and fills of {slack:ns} of {all:ns} could each take twice as long, one at a time, and the step "
    "would not get longer.",
)
_REPLAYED = Text("path-replayed", "Step, replayed from its dependencies", "a label, followed by a time")
_RECORDED = Text("path-recorded", "Step, recorded", "a label, followed by a time")
_ERROR = Text("path-error", "Error of the replay", "a label, followed by a share of the step")
_STARTS = Text("path-replay-starts", "Starts of device events are off by, median", "an error as a share of the step")
_STARTS_MOST = Text("path-replay-starts-most", "Starts, 95 % are off by at most", "an error as a share of the step")
_OTHER_DEVICES = Text(
    "path-other-devices",
    "Work of devices that are no GPUs is not part of the path; waiting for it counts as host time.",
)
_ABSTAINS = Text(
    "path-replay-abstains",
    "The replay is {error:exact_share} off the recorded step, more than 5 %, so no saving is predicted from it. The "
    "path itself is that of the recording.",
    "of the dependencies in a trace",
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
    "asleep": Text(
        "path-asleep",
        "Sleep and waits of the program",
        "the program waits for a clock, a lock, a process, a file or the network",
    ),
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
_PLACE = SectionColumn(Text("path-place", "Place", "kind, file and line"), "", is_name=True)
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
    """The text of a resource; its key if a later version added it."""
    return word(_RESOURCES, resource)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the path by resource with the error of the replay, and tables by operator, owner and kernel class."""
    found = report.result("critical_path", CriticalPath)
    if found is None or not found.step_ns or not found.parts:
        return
    replay = report.result("replay", Replay)
    parts = sorted((part for part in found.parts if part.ns_per_step > 0), key=lambda part: -part.ns_per_step)
    rows = tuple((resource_label(part.resource), part.ns_per_step, part.share) for part in parts)
    yield Section(
        "critical-path",
        TITLE,
        messages=(*path_sentence.left_out(found), *_other_devices(report), *_distrust(replay)),
        facts=tuple(_errors(replay)),
        tables=(SectionTable("critical_path", (_RESOURCE, _TIME, _SHARE), rows, len(rows)),),
        terms=_TERMS,
        topic=Topic.STEPS,
        is_detail=True,
    )
    most = min(top, _MOST_ROWS)
    tables = [make(found, most) for make in (_operators, _device_operators, _owners, _classes, _kernels)]
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


def _slack(found: CriticalPath) -> Iterator[Message]:
    if found.device_slack_ns_per_step and found.device_ns_per_step:
        yield _SLACK(slack=found.device_slack_ns_per_step, all=found.device_ns_per_step)


def _other_devices(report: Report) -> Iterator[Message]:
    others = report.result("accelerators", Accelerators)
    if others is not None and others.devices:
        yield _OTHER_DEVICES()


def _distrust(found: Replay | None) -> Iterator[Message]:
    """Why no prediction is made from the replay."""
    if found is not None and found.abstained:
        yield _ABSTAINS(error=found.error_share)


def _errors(found: Replay | None) -> Iterator[Fact]:
    """Differences of the replay from the recording."""
    if found is not None:
        yield Fact(_REPLAYED, found.modelled_ns, "ns")
        yield Fact(_RECORDED, found.recorded_ns, "ns")
        yield Fact(_ERROR, found.error_share, "share")
        if found.device_start_error_p50_share is not None:
            yield Fact(_STARTS, found.device_start_error_p50_share, "share")
            yield Fact(_STARTS_MOST, found.device_start_error_p95_share, "share")


def _operators(found: CriticalPath, top: int) -> SectionTable:
    """Operators by their time on the critical path."""
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
    """Operators with device work, by the time that the step saves if that work gets faster."""
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
