"""What do collectives cost, how fast are they, and how much of them does computation hide?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.communication import Communication, DeviceCommunication, Overlap
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, known, optional, table

TITLE = Text("communication-title", "Communication")
_NO_SIZES = Text(
    "communication-no-sizes",
    "{calls:count} of {all:count} collectives have no recorded message size, so their bandwidth is unknown (torch "
    "before 2.2).",
    one="{calls:count} of {all:count} collectives has no recorded message size, so its bandwidth is unknown (torch "
    "before 2.2).",
)
_SOME_SIZES = Text(
    "communication-some-sizes",
    "{calls:count} of {all:count} collectives have no recorded message size, so their bandwidth is unknown.",
    one="{calls:count} of {all:count} collectives has no recorded message size, so its bandwidth is unknown.",
)
_WAITING = Text(
    "communication-waiting", "Durations include waiting for other ranks; one trace cannot separate it from transfer."
)
_COLLECTIVES = optional(
    known,
    columns.COLLECTIVE,
    columns.PROCESS_GROUP,
    columns.RANKS,
    Column(Text("communication-type", "Type"), "", "dtype"),
    columns.MESSAGE_SIZE,
    columns.CALLS,
    columns.TOTAL,
    columns.MEAN,
    columns.MIN,
    columns.ALGORITHM,
    columns.BUS,
)
_TIME = Column(Text("communication-time", "Communication"), "ns", "communication_ns")
_DEVICES = (
    columns.GPU,
    _TIME.of(lambda device: _overlap(device).communication_ns),
    columns.EXPOSED.of(lambda device: _overlap(device).exposed_ns),
    Column(
        Text("communication-overlap", "Overlapped", "share that computation hides"),
        "share",
        lambda device: _overlap(device).overlap_share,
        has_bar=True,
    ),
)
_STEPS = (
    columns.STEP,
    Column(Text("communication-step-calls", "Collectives"), "count", "calls"),
    _TIME,
    columns.EXPOSED,
)
_TERMS = (
    Term(
        Text("define-exposed", "Exposed communication"),
        Text("define-exposed-say", "Time of collectives while no other kernel runs on the same GPU."),
    ),
    Term(
        Text("define-bandwidth", "Algorithm and bus GB/s"),
        Text(
            "define-bandwidth-say",
            "As nccl-tests define them: algorithm bandwidth is size over time; bus bandwidth multiplies it by"
            " a factor that depends on the operation and the number of ranks. Durations include waiting for "
            "other ranks.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of overlap by device, of collectives, and of time by step."""
    communication = report.result("communication", Communication)
    if communication is None:
        return
    yield detail(
        "communication",
        TITLE,
        Topic.COMMUNICATION,
        (
            table("communication_devices", _DEVICES, communication.devices, top),
            table("communication", _COLLECTIVES, communication.rows, top),
            table("communication_steps", _STEPS, communication.steps, top),
        ),
        messages=_messages(communication),
        terms=_TERMS,
    )


def _messages(communication: Communication) -> Iterator[Message]:
    yield _WAITING()
    if communication.calls_without_size:
        text = _NO_SIZES if communication.calls_without_size == communication.calls else _SOME_SIZES
        yield text(calls=communication.calls_without_size, all=communication.calls)


def _overlap(device: DeviceCommunication) -> Overlap:
    """The overlap within the steps, or in the whole recording if there are none."""
    return device.window or device.whole
