"""How much memory is in use, which operators hold it at the peak, and does it grow?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("memory-title", "Memory")
_AT_PEAK = Text("memory-at-peak-title", "In memory at the peak")
_OPERATORS = Text("memory-operators-title", "Memory by operator")
_STEPS = Text("memory-steps-title", "Memory by step")
_RELATIVE = Text(
    "memory-relative",
    "The records of {device} have no totals, so the peak is unknown; levels count from the start of the trace.",
)
_GROWTH = Text(
    "memory-growth",
    "{device} grows by {growth:bytes} per step, measured at the ends of {steps:count} steps.",
    note="device is CPU or GPU and a number",
    one="{device} grows by {growth:bytes} per step, measured at the end of {steps:count} step.",
)
_OLDER = Text(
    "memory-older",
    "{device}: {older:bytes} of the peak were allocated before the recording and not released in it, such as weights.",
    note="device is CPU or GPU and a number",
)
_DEVICE = SectionColumn(Text("memory-device", "Device"), "")
_DEVICES = (
    (_DEVICE, "device"),
    (SectionColumn(Text("memory-peak", "Peak allocated"), "bytes"), "peak_allocated_bytes"),
    (SectionColumn(Text("memory-reserved", "Peak reserved"), "bytes"), "peak_reserved_bytes"),
    (SectionColumn(Text("memory-capacity", "Capacity"), "bytes"), "capacity_bytes"),
    (SectionColumn(Text("memory-allocations", "Allocations"), "count"), "allocations"),
    (SectionColumn(Text("memory-allocated", "Total allocated"), "bytes"), "allocated_bytes"),
)
_OPERATOR = SectionColumn(Text("memory-operator", "Operator"), "", is_name=True)
_LINE = SectionColumn(Text("memory-line", "Python line"), "", is_name=True)
_BLOCKS = SectionColumn(Text("memory-blocks", "Blocks"), "count")
_HELD = SectionColumn(Text("memory-held", "Held"), "bytes")
_OPERATOR_COLUMNS = (
    (_DEVICE, "device"),
    (_OPERATOR, "name"),
    (SectionColumn(Text("memory-calls", "Calls"), "count"), "calls"),
    (SectionColumn(Text("memory-self-allocations", "Allocations"), "count"), "self_allocations"),
    (SectionColumn(Text("memory-self-allocated", "Allocated"), "bytes"), "self_allocated_bytes"),
    (SectionColumn(Text("memory-self-increase", "Kept"), "bytes"), "self_increase_bytes"),
    (SectionColumn(Text("memory-total-allocated", "Allocated, total"), "bytes"), "allocated_bytes"),
    (SectionColumn(Text("memory-total-increase", "Kept, total"), "bytes"), "increase_bytes"),
)
_STEP_COLUMNS = (
    (SectionColumn(Text("memory-step", "Step"), ""), "name"),
    (SectionColumn(Text("memory-step-allocations", "Allocations"), "count"), "allocations"),
    (SectionColumn(Text("memory-step-allocated", "Allocated"), "bytes"), "allocated_bytes"),
    (SectionColumn(Text("memory-step-freed", "Freed"), "bytes"), "freed_bytes"),
    (SectionColumn(Text("memory-step-peak", "Peak"), "bytes"), "peak_bytes"),
    (SectionColumn(Text("memory-step-end", "At the end"), "bytes"), "end_bytes"),
)
_TERMS = (
    Term(
        Text("define-allocated", "Allocated, Reserved"),
        Text(
            "define-allocated-say",
            "Allocated is what the allocator of PyTorch handed out; reserved is what it holds from the "
            "driver. Memory of other libraries is in neither.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of peaks, of memory held at each peak, of operators, and of steps."""
    memory = report.result("memory", MemoryUse)
    if memory is None or not memory.devices:
        return
    rows = tuple(tuple(getattr(device, field) for _, field in _DEVICES) for device in memory.devices)
    table = SectionTable("memory", tuple(column for column, _ in _DEVICES), rows, len(rows))
    yield Section(
        "memory",
        TITLE,
        messages=tuple(_messages(memory)),
        tables=(table,),
        topic=Topic.MEMORY,
        terms=_TERMS,
        is_detail=True,
    )
    yield from _at_peak(memory, top)
    operators = tuple(tuple(getattr(row, field) for _, field in _OPERATOR_COLUMNS) for row in memory.operators[:top])
    if operators:
        columns = tuple(column for column, _ in _OPERATOR_COLUMNS)
        table = SectionTable("memory_operators", columns, operators, len(memory.operators))
        yield Section("memory-operators", _OPERATORS, tables=(table,), topic=Topic.MEMORY, is_detail=True)
    if any(len(device.steps) > 1 for device in memory.devices):
        yield Section("memory-steps", _STEPS, tables=(_steps(memory, top),), topic=Topic.MEMORY, is_detail=True)


def _messages(memory: MemoryUse) -> Iterator[Message]:
    for device in memory.devices:
        if device.is_relative:
            yield _RELATIVE(device=device.device)
        growth = device.growth_bytes_per_step
        if growth is not None and growth > 0:
            yield _GROWTH(device=device.device, growth=growth, steps=len(device.steps))


def _at_peak(memory: MemoryUse, top: int) -> Iterator[Section]:
    """The holders of the memory of each device at its peak."""
    contents = [(device.device, device.at_peak) for device in memory.devices if device.at_peak is not None]
    holders = [(device, holder) for device, held in contents for holder in held.holders[:top]]
    if not holders:
        return
    stacks = any(holder.python_line is not None for _, holder in holders)
    columns = (_DEVICE, _OPERATOR, *([_LINE] if stacks else []), _BLOCKS, _HELD)
    rows = tuple(
        (device, holder.operator, *([holder.python_line] if stacks else []), holder.blocks, holder.held_bytes)
        for device, holder in holders
    )
    older = tuple(_OLDER(device=device, older=held.older_bytes) for device, held in contents if held.older_bytes)
    table = SectionTable("memory_at_peak", columns, rows, sum(len(held.holders) for _, held in contents))
    yield Section("memory-at-peak", _AT_PEAK, messages=older, tables=(table,), topic=Topic.MEMORY, is_detail=True)


def _steps(memory: MemoryUse, top: int) -> SectionTable:
    """Up to `top` steps of each device, in the order of time."""
    rows = tuple(
        (device.device, *(getattr(step, field) for _, field in _STEP_COLUMNS))
        for device in memory.devices
        for step in device.steps[:top]
    )
    columns = (_DEVICE, *(column for column, _ in _STEP_COLUMNS))
    return SectionTable("memory_steps", columns, rows, sum(len(device.steps) for device in memory.devices))
