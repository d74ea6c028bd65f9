"""What do collectives cost, how fast are they, and how much of them does computation hide?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Column, Section, Table

TITLE = Text("communication-title", "Communication")
_NO_SIZES = Text(
    "communication-no-sizes",
    "{calls:count} of {all:count} collectives have no recorded message size, so no bandwidth (torch before 2.2).",
    one="{calls:count} of {all:count} collectives has no recorded message size, so no bandwidth (torch before 2.2).",
)
_WAITING = Text(
    "communication-waiting",
    "Durations include the time in which a rank waits for the others; one trace cannot tell it from transfer.",
)
_ROWS = (
    (Column(Text("communication-operation", "Collective"), ""), "operation"),
    (Column(Text("communication-group", "Process group"), "", is_name=True), "process_group"),
    (Column(Text("communication-ranks", "Ranks"), "count"), "group_size"),
    (Column(Text("communication-type", "Type"), ""), "dtype"),
    (Column(Text("communication-size", "Message"), "bytes"), "message_bytes"),
    (Column(Text("communication-calls", "Calls"), "count"), "calls"),
    (Column(Text("communication-total", "Total"), "ns"), "total_ns"),
    (Column(Text("communication-mean", "Mean"), "ns"), "mean_ns"),
    (Column(Text("communication-least", "Min"), "ns"), "min_ns"),
    (
        Column(Text("communication-algorithm", "Algorithm GB/s", "size over time, as nccl-tests define it"), "number"),
        "algorithm_gb_per_s",
    ),
    (Column(Text("communication-bus", "Bus GB/s", "as nccl-tests define it"), "number"), "bus_gb_per_s"),
)
_DEVICE = Column(Text("communication-device", "GPU"), "")
_STEP = Column(Text("communication-step", "Step"), "")
_TIME = Column(Text("communication-time", "Communication"), "ns")
_EXPOSED = Column(Text("communication-exposed", "Exposed", "while no other kernel runs"), "ns")
_OVERLAP = Column(Text("communication-overlap", "Overlapped", "share that computation hides"), "share")


def build(report: Report, top: int) -> Iterator[Section]:
    """Overlap by device, the collectives, and time by step."""
    found = report.result("communication", Communication)
    if found is None:
        return
    yield Section(
        "communication", TITLE, messages=tuple(_messages(found)), tables=tuple(_tables(found, top)), is_detail=True
    )


def _messages(found: Communication) -> Iterator[Message]:
    yield _WAITING()
    if found.calls_without_size:
        yield _NO_SIZES(calls=found.calls_without_size, all=found.calls)


def _tables(found: Communication, top: int) -> Iterator[Table]:
    overlaps = [(d.device, d.window or d.whole) for d in found.devices]
    devices = tuple((number, o.communication_ns, o.exposed_ns, o.overlap_share) for number, o in overlaps)
    yield Table("communication_devices", (_DEVICE, _TIME, _EXPOSED, _OVERLAP), devices[:top], len(devices))
    shown = [(column, field) for column, field in _ROWS if any(getattr(r, field) is not None for r in found.rows)]
    rows = tuple(tuple(getattr(row, field) for _, field in shown) for row in found.rows[:top])
    yield Table("communication", tuple(column for column, _ in shown), rows, len(found.rows))
    steps = tuple((step.name, step.calls, step.communication_ns, step.exposed_ns) for step in found.steps[:top])
    calls = Column(Text("communication-step-calls", "Collectives"), "count")
    yield Table("communication_steps", (_STEP, calls, _TIME, _EXPOSED), steps, len(found.steps))
