"""What do devices do that write no kernels: MTIA cards, Ascend NPUs, Gaudi, GPUs in lists of the legacy profiler?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from traceanalyzer.analyzers.kernels.accelerators import Accelerators, AcceleratorTask, AcceleratorUse
from traceanalyzer.knowledge.accelerators import BUSY
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionTable, Term, Topic
from traceanalyzer.sections.columns import CALLS, DEVICE, MAXIMUM, TOTAL, Column, known, optional, table

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
_DEVICES = (
    Column(DEVICE.title, "", lambda use: _label(use)),  # noqa: PLW0108 - defined below
    *optional(
        bool,
        Column(Text("accelerators-busy", "Busy", "time in which work or a transfer runs"), "ns", "busy_ns"),
        Column(Text("accelerators-share", "Share", "of the recording"), "share", "busy_share"),
        Column(Text("accelerators-work", "Work"), "ns", "work_ns"),
        Column(Text("accelerators-communication", "Communication"), "ns", "communication_ns", is_extra=True),
        Column(Text("accelerators-transfer", "Transfers"), "ns", "transfer_ns"),
        Column(
            Text("accelerators-only-waiting", "Only waiting", "while nothing runs on the device"),
            "ns",
            "only_waiting_ns",
        ),
        Column(Text("accelerators-streams", "Streams"), "count", "streams", is_extra=True),
        Column(Text("accelerators-events", "Events"), "count", "events", is_extra=True),
    ),
)
_TASKS = optional(
    known,
    DEVICE.of(lambda row: _label(row.use)),
    Column(Text("accelerators-task", "Event"), "", "task.name", is_name=True),
    Column(Text("accelerators-kind", "Kind"), "", lambda row: _kind(row.task.kind)),
    Column(
        Text("accelerators-type", "Type", "of task, or engine, as recorded"),
        "",
        "task.task",
        is_name=True,
        is_extra=True,
    ),
    CALLS.of("task.calls"),
    TOTAL.of("task.total_ns"),
    MAXIMUM.of("task.max_ns"),
)
_TERM = Term(
    Text("define-accelerators", "MTIA, NPU, HPU"),
    Text(
        "define-accelerators-say",
        "A device is busy while work, communication or a transfer runs on any of its streams. A queue that waits "
        "for another one does not count as busy. Shares are of the trace, or of the chosen steps.",
    ),
)
_TERM_OF_LEGACY = Term(
    Text("define-legacy-list", "CUDA, by the legacy profiler"),
    Text(
        "define-legacy-list-say",
        "The legacy profiler measures each operator between two marks on the GPU. The GPU counts as busy between them, "
        "although it may wait for the CPU there. The total of an operator leaves out the operators inside it.",
    ),
)


class _Row(NamedTuple):
    """A task and its device."""

    use: AcceleratorUse
    task: AcceleratorTask


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of devices, and one of the longest activities on them."""
    accelerators = report.result("accelerators", Accelerators)
    if accelerators is None or not accelerators.devices:
        return
    vendors = dict.fromkeys(use.vendor for use in accelerators.devices)
    is_legacy = any(use.returned_ns is not None for use in accelerators.devices)
    yield Section(
        "accelerators",
        TITLE(vendor=", ".join(vendors)),
        messages=tuple(_messages(accelerators)),
        tables=(table("accelerators", _DEVICES, accelerators.devices, top), _tasks(accelerators, top)),
        terms=(_TERM_OF_LEGACY if is_legacy else _TERM,),
        topic=Topic.ACCELERATORS,
        is_essential=True,
    )


def _messages(accelerators: Accelerators) -> Iterator[Message]:
    """A note on waiting that lasts as long as work and could be mistaken for it."""
    for use in accelerators.devices:
        summed = sum(task.total_ns for task in use.tasks if task.kind == "waiting")
        if summed >= use.busy_ns / 2:
            yield _WAITING(vendor=use.vendor, device=_number(use), time=summed)


def _tasks(accelerators: Accelerators, top: int) -> SectionTable:
    """The activities of all devices, those that make a device busy first."""
    rows = [_Row(use, task) for use in accelerators.devices for task in use.tasks]
    rows.sort(key=lambda row: (row.task.kind not in BUSY, -row.task.total_ns))
    return table("accelerator_tasks", _TASKS, rows[:top], total=len(rows))


def _kind(kind: str) -> Message | str:
    return _KINDS[kind]() if kind in _KINDS else kind


def _label(use: AcceleratorUse) -> str:
    return f"{use.vendor} {_number(use)}"


def _number(use: AcceleratorUse) -> str:
    return "?" if use.device is None else str(use.device)
