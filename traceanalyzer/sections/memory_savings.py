"""What would a program save of its memory, and how well does the replay agree with the recording?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import word
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, facts, known, table
from traceanalyzer.simulation.allocator.savings import SavedBytes
from traceanalyzer.simulation.memory_replay import MemoryReplay, ReplayedDevice

TITLE = Text("memory-savings-title", "What would free memory")
_SAID = Text(
    "memory-savings-said",
    "What the allocator did is replayed with each change alone, and with all together. What they save lies between the "
    "bounds.",
)
_AGREES = Text(
    "memory-savings-agrees",
    "The unchanged replay of {device} reserves as much as was recorded, {peak:bytes}.",
    "device is GPU0 and the like",
)
_DIFFERS = Text(
    "memory-savings-differs",
    "The unchanged replay of {device} reserves {replayed:bytes}, and {recorded:bytes} were recorded; what is saved of "
    "reserved memory is uncertain by the difference.",
    "device is GPU0 and the like",
)
_OBSTACLES = {
    "no-history": Text(
        "memory-savings-no-history",
        "{device} cannot be replayed: the snapshot has no history of it.",
        "device is GPU0 and the like",
    ),
    "stopped": Text(
        "memory-savings-stopped",
        "{device} cannot be replayed: recording had stopped before the dump.",
        "device is GPU0 and the like",
    ),
    "contradiction": Text(
        "memory-savings-contradiction",
        "{device} cannot be replayed: entries of its history are missing.",
        "device is GPU0 and the like",
    ),
    "outside": Text(
        "memory-savings-outside",
        "{device} cannot be replayed: blocks of its history lie in no segment.",
        "device is GPU0 and the like",
    ),
    "impossible": Text(
        "memory-savings-impossible",
        "{device} cannot be replayed: the file has sizes that no device has.",
        "device is GPU0 and the like",
    ),
    "long": Text(
        "memory-savings-long-requested",
        "The history of {device} is too long for a replay of the allocator, so what is saved of reserved memory is "
        "unknown.",
        "device is GPU0 and the like",
    ),
    "trace": Text(
        "memory-savings-trace",
        "A trace has no segments, so what is saved of the reserved memory of {device} is unknown; it shows what "
        "tensors take, as the allocator rounds it.",
        "device is GPU0 and the like",
    ),
}
_IDEAS = {
    "checkpoint": Text("memory-idea-checkpoint", "Checkpoint the layers", "a change of a program"),
    "halved": Text("memory-idea-halved", "Half the micro-batch", "a change of a program"),
    "logits": Text("memory-idea-logits", "Compute the loss in parts", "a change of a program"),
    "state": Text("memory-idea-state", "State of the optimizer in 8 bits", "a change of a program"),
    "gradients-freed": Text("memory-idea-gradients-freed", "Free gradients after the update", "a change of a program"),
    "gradients-zeroed": Text(
        "memory-idea-gradients-zeroed", "Free gradients instead of filling them with zeros", "a change of a program"
    ),
    "gradients-once": Text("memory-idea-gradients-once", "Keep gradients once", "a change of a program"),
    "no-graph": Text("memory-idea-no-graph", "Run without a graph", "a change of a program"),
    "not-kept": Text("memory-idea-not-kept", "Keep no tensors of steps", "a change of a program"),
    "expandable": Text("memory-idea-expandable", "Let segments grow", "a change of a program"),
}
_TOGETHER = Text("memory-idea-together", "All together", "all changes of a program at once")


class _Row(NamedTuple):
    device: str | None
    idea: Message
    held: int | None
    saved: SavedBytes
    fits: bool | None = None


_YES = Text("memory-savings-yes", "yes", "memory is enough then")
_NO = Text("memory-savings-no", "no", "memory is not enough then")
_COLUMNS = (
    Column(columns.DEVICE.title, "", "device", if_any=known),
    Column(Text("memory-savings-change", "Change", "of a program"), "", "idea"),
    Column(
        Text("memory-savings-peak", "Saves of the peak"),
        "",
        lambda row: _interval(row.saved.requested_least, row.saved.requested_most),
    ),
    Column(
        Text("memory-savings-of-reserved", "Saves of reserved"),
        "",
        lambda row: _interval(row.saved.reserved_least, row.saved.reserved_most),
        if_any=known,
    ),
    Column(
        Text("memory-savings-fits", "Then memory is enough"),
        "",
        lambda row: None if row.fits is None else (_YES() if row.fits else _NO()),
        if_any=known,
    ),
    Column(Text("memory-savings-held", "Held at the peak"), "bytes", "held", is_extra=True),
)
_EXACT = Text("memory-savings-exact", "{size:bytes}", "bytes that a change saves, in a table")
_RANGE = Text("memory-savings-range", "{least:bytes} to {most:bytes}", "bytes that a change saves, in a table")
_FIGURES = (
    Column(Text("memory-savings-active", "Peak of active memory"), "bytes", "active_peak_bytes", if_any=known),
    Column(Text("memory-savings-reserved", "Peak of reserved memory"), "bytes", "recorded_peak_bytes", if_any=known),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build how well the replay agrees, and what each change saves."""
    found = report.result("memory_replay", MemoryReplay)
    if found is None or not found.devices:
        return
    is_alone = len(found.devices) == 1
    rows = [row for device in found.devices for row in _rows(device, None if is_alone else f"GPU{device.device}")]
    said = [_agreement(device) for device in found.devices]
    yield Section(
        "memory-savings",
        TITLE(),
        tuple([_SAID(), *said] if rows else said),
        facts(_FIGURES, found.devices[0]) if is_alone else (),
        tables=(table("memory_savings", _COLUMNS, rows, max(top, len(rows))),) if rows else (),
        topic=Topic.MEMORY,
        is_detail=all(device.obstacle == "trace" for device in found.devices),  # then memory is seldom what was asked
        is_essential=bool(rows),
    )


def _rows(device: ReplayedDevice, name: str | None) -> Iterator[_Row]:
    for one in device.changes:
        yield _Row(name, _named(one.idea), one.held_bytes or None, one.saved, one.fits)
    if device.together is not None and len(device.changes) > 1:
        yield _Row(name, _TOGETHER(), None, device.together)


def _agreement(device: ReplayedDevice) -> Message:
    name, recorded, replayed = f"GPU{device.device}", device.recorded_peak_bytes, device.replayed_peak_bytes
    if device.obstacle is not None or recorded is None or replayed is None:
        return _OBSTACLES.get(device.obstacle or "", _OBSTACLES["contradiction"])(device=name)
    if recorded == replayed:
        return _AGREES(device=name, peak=recorded)
    return _DIFFERS(device=name, recorded=recorded, replayed=replayed)


def _named(idea: str) -> Message:
    found = word(_IDEAS, idea)
    return found() if isinstance(found, Text) else found


def _interval(least: int | None, most: int | None) -> Message | None:
    if least is None or most is None:
        return None
    return _EXACT(size=most) if least == most else _RANGE(least=least, most=most)
