"""What do collectives cost, how fast are they, and how much of them does computation hide?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

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
    "communication-waiting",
    "Durations include waiting for other ranks; one trace cannot separate it from transfer.",
)
_ROWS = (
    (SectionColumn(Text("communication-operation", "Collective"), ""), "operation"),
    (SectionColumn(Text("communication-group", "Process group"), "", is_name=True), "process_group"),
    (SectionColumn(Text("communication-ranks", "Ranks"), "count"), "group_size"),
    (SectionColumn(Text("communication-type", "Type"), ""), "dtype"),
    (SectionColumn(Text("communication-size", "Message"), "bytes"), "message_bytes"),
    (SectionColumn(Text("communication-calls", "Calls"), "count"), "calls"),
    (SectionColumn(Text("communication-total", "Total"), "ns"), "total_ns"),
    (SectionColumn(Text("communication-mean", "Mean"), "ns"), "mean_ns"),
    (SectionColumn(Text("communication-least", "Min"), "ns"), "min_ns"),
    (
        SectionColumn(
            Text("communication-algorithm", "Algorithm GB/s", "size over time, as nccl-tests define it"), "number"
        ),
        "algorithm_gb_per_s",
    ),
    (SectionColumn(Text("communication-bus", "Bus GB/s", "as nccl-tests define it"), "number"), "bus_gb_per_s"),
)
_DEVICE = SectionColumn(Text("communication-device", "GPU"), "")
_STEP = SectionColumn(Text("communication-step", "Step"), "")
_TIME = SectionColumn(Text("communication-time", "Communication"), "ns")
_EXPOSED = SectionColumn(Text("communication-exposed", "Exposed", "while no other kernel runs"), "ns")
_OVERLAP = SectionColumn(
    Text("communication-overlap", "Overlapped", "share that computation hides"), "share", has_bar=True
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
    found = report.result("communication", Communication)
    if found is None:
        return
    yield Section(
        "communication",
        TITLE,
        messages=tuple(_messages(found)),
        tables=tuple(_tables(found, top)),
        topic=Topic.COMMUNICATION,
        terms=_TERMS,
        is_detail=True,
    )


def _messages(found: Communication) -> Iterator[Message]:
    yield _WAITING()
    if found.calls_without_size:
        text = _NO_SIZES if found.calls_without_size == found.calls else _SOME_SIZES
        yield text(calls=found.calls_without_size, all=found.calls)


def _tables(found: Communication, top: int) -> Iterator[SectionTable]:
    overlaps = [(d.device, d.window or d.whole) for d in found.devices]
    devices = tuple((number, o.communication_ns, o.exposed_ns, o.overlap_share) for number, o in overlaps)
    yield SectionTable("communication_devices", (_DEVICE, _TIME, _EXPOSED, _OVERLAP), devices[:top], len(devices))
    shown = [(column, field) for column, field in _ROWS if any(getattr(r, field) is not None for r in found.rows)]
    rows = tuple(tuple(getattr(row, field) for _, field in shown) for row in found.rows[:top])
    yield SectionTable("communication", tuple(column for column, _ in shown), rows, len(found.rows))
    steps = tuple((step.name, step.calls, step.communication_ns, step.exposed_ns) for step in found.steps[:top])
    calls = SectionColumn(Text("communication-step-calls", "Collectives"), "count")
    yield SectionTable("communication_steps", (_STEP, calls, _TIME, _EXPOSED), steps, len(found.steps))
