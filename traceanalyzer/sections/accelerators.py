"""What do accelerators other than GPUs do: MTIA cards, Ascend NPUs, Gaudi?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceanalyzer.analyzers.kernels.accelerators import Accelerators, AcceleratorTask, AcceleratorUse
from traceanalyzer.knowledge.accelerators import BUSY
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("accelerators-title", "{vendor} devices", "vendor is a kind of device, such as MTIA, NPU, HPU")
_WAITING = Text(
    "accelerators-waiting",
    "Queues of {vendor} device {device} wait for {time:ns} in total; waiting does not count as busy time.",
    "vendor is a kind of device, such as MTIA; device is its number",
)
_KINDS = {
    "work": Text("accelerators-kind-work", "Work"),
    "communication": Text("accelerators-kind-communication", "Communication"),
    "transfer": Text("accelerators-kind-transfer", "Transfer"),
    "waiting": Text("accelerators-kind-waiting", "Waiting"),
    "control": Text("accelerators-kind-control", "Bookkeeping", "of a queue of a device"),
}
_DEVICE = SectionColumn(Text("accelerators-device", "Device"), "")
_USE = (
    (SectionColumn(Text("accelerators-busy", "Busy", "time in which work or a transfer runs"), "ns"), "busy_ns"),
    (SectionColumn(Text("accelerators-share", "Share", "of the recording"), "share"), "busy_share"),
    (SectionColumn(Text("accelerators-work", "Work"), "ns"), "work_ns"),
    (SectionColumn(Text("accelerators-communication", "Communication"), "ns", is_extra=True), "communication_ns"),
    (SectionColumn(Text("accelerators-transfer", "Transfers"), "ns"), "transfer_ns"),
    (
        SectionColumn(Text("accelerators-only-waiting", "Only waiting", "while nothing runs on the device"), "ns"),
        "only_waiting_ns",
    ),
    (SectionColumn(Text("accelerators-streams", "Streams"), "count", is_extra=True), "streams"),
    (SectionColumn(Text("accelerators-events", "Events"), "count", is_extra=True), "events"),
)
_TASKS = (
    _DEVICE,
    SectionColumn(Text("accelerators-task", "Event"), "", is_name=True),
    SectionColumn(Text("accelerators-kind", "Kind"), ""),
    SectionColumn(
        Text("accelerators-type", "Type", "of task, or engine, as recorded"), "", is_name=True, is_extra=True
    ),
    SectionColumn(Text("accelerators-calls", "Calls"), "count"),
    SectionColumn(Text("accelerators-total", "Total"), "ns"),
    SectionColumn(Text("accelerators-longest", "Maximum"), "ns"),
)
_TERMS = (
    Term(
        Text("define-accelerators", "MTIA, NPU, HPU"),
        Text(
            "define-accelerators-say",
            "A device is busy while work, communication or a transfer runs on any of its streams. A queue that waits "
            "for another one does not count as busy. Shares are of the recording, or of the chosen steps.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of devices, and one of the longest activities on them."""
    found = report.result("accelerators", Accelerators)
    if found is None or not found.devices:
        return
    vendors = dict.fromkeys(use.vendor for use in found.devices)
    yield Section(
        "accelerators",
        TITLE(vendor=", ".join(vendors)),
        messages=tuple(_messages(found)),
        tables=(_devices(found, top), *_tasks(found, top)),
        terms=_TERMS,
        topic=Topic.ACCELERATORS,
        is_essential=True,
    )


def _messages(found: Accelerators) -> Iterator[Message]:
    """A note on waiting that lasts as long as work and could be mistaken for it."""
    for use in found.devices:
        summed = sum(task.total_ns for task in use.tasks if task.kind == "waiting")
        if summed >= use.busy_ns / 2:
            yield _WAITING(vendor=use.vendor, device=_number(use), time=summed)


def _devices(found: Accelerators, top: int) -> SectionTable:
    shown = [
        (column, field) for column, field in _USE if any(getattr(use, field) not in (None, 0) for use in found.devices)
    ]
    rows = tuple((_label(use), *(getattr(use, field) for _, field in shown)) for use in found.devices[:top])
    return SectionTable("accelerators", (_DEVICE, *(column for column, _ in shown)), rows, len(found.devices))


def _tasks(found: Accelerators, top: int) -> Iterator[SectionTable]:
    tasks = [(use, task) for use in found.devices for task in use.tasks]
    tasks.sort(key=lambda pair: (pair[1].kind not in BUSY, -pair[1].total_ns))
    rows = [_row(use, task) for use, task in tasks[:top]]
    shown = [place for place in range(len(_TASKS)) if any(row[place] is not None for row in rows)]
    columns = tuple(_TASKS[place] for place in shown)
    yield SectionTable(
        "accelerator_tasks", columns, tuple(tuple(row[place] for place in shown) for row in rows), len(tasks)
    )


def _row(use: AcceleratorUse, task: AcceleratorTask) -> tuple[Any, ...]:
    kind = _KINDS[task.kind]() if task.kind in _KINDS else task.kind
    return _label(use), task.name, kind, task.task, task.calls, task.total_ns, task.max_ns


def _label(use: AcceleratorUse) -> str:
    return f"{use.vendor} {_number(use)}"


def _number(use: AcceleratorUse) -> str:
    return "?" if use.device is None else str(use.device)
