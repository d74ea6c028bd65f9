"""How much memory is in use, which operators hold it at the peak, and does it grow?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.analyzers.memory.holders import Holder
from traceanalyzer.analyzers.memory.levels import StepMemory
from traceanalyzer.analyzers.memory.snapshot_peak import HeldKind
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, table
from traceanalyzer.sections.memory_snapshot import KIND, kind_label, largest_stack

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
    "{device}: {older:bytes} of the peak were allocated before the trace and not released in it, such as weights.",
    note="device is CPU or GPU and a number",
)
_DEVICES = (
    columns.DEVICE,
    Column(Text("memory-peak", "Peak allocated"), "bytes", "peak_allocated_bytes"),
    Column(Text("memory-reserved", "Peak reserved"), "bytes", "peak_reserved_bytes"),
    Column(Text("memory-capacity", "Capacity"), "bytes", "capacity_bytes"),
    columns.ALLOCATIONS,
    Column(Text("memory-allocated", "Total allocated"), "bytes", "allocated_bytes"),
)
_HOLDERS = (
    columns.DEVICE,
    columns.OPERATOR.of("part.operator"),
    columns.PYTHON_LINE.of("part.python_line"),
    Column(Text("memory-blocks", "Blocks"), "count", "part.blocks"),
    Column(Text("memory-held", "Held"), "bytes", "part.held_bytes"),
)
_KINDS = (
    columns.DEVICE,
    Column(KIND.title, KIND.unit, lambda row: kind_label(row.part.kind)),
    Column(Text("memory-blocks", "Blocks"), "count", "part.blocks"),
    Column(Text("memory-held", "Held"), "bytes", "part.held_bytes"),
)
_OPERATOR_COLUMNS = (
    columns.DEVICE,
    columns.OPERATOR,
    columns.CALLS,
    columns.ALLOCATIONS.of("self_allocations"),
    columns.ALLOCATED.of("self_allocated_bytes"),
    Column(Text("memory-self-increase", "Kept"), "bytes", "self_increase_bytes"),
    Column(Text("memory-total-allocated", "Allocated, total"), "bytes", "allocated_bytes"),
    Column(Text("memory-total-increase", "Kept, total"), "bytes", "increase_bytes"),
)
_STEP_COLUMNS = (
    columns.DEVICE,
    columns.STEP.of("part.name"),
    columns.ALLOCATIONS.of("part.allocations"),
    columns.ALLOCATED.of("part.allocated_bytes"),
    Column(Text("memory-step-freed", "Freed"), "bytes", "part.freed_bytes"),
    Column(Text("memory-step-peak", "Peak"), "bytes", "part.peak_bytes"),
    Column(Text("memory-step-end", "At the end"), "bytes", "part.end_bytes"),
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


class _OfDevice(NamedTuple):
    """A step of a device, or what holds memory on it."""

    device: str
    part: StepMemory | Holder | HeldKind


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of peaks, of memory held at each peak, of operators, and of steps."""
    memory = report.result("memory", MemoryUse)
    if memory is None or not memory.devices:
        return
    yield detail(
        "memory",
        TITLE,
        Topic.MEMORY,
        (table("memory", _DEVICES, memory.devices),),
        messages=_messages(memory),
        terms=_TERMS,
    )
    yield from _at_peak(memory, top)
    if memory.operators[:top]:
        rows = table("memory_operators", _OPERATOR_COLUMNS, memory.operators, top)
        yield detail("memory-operators", _OPERATORS, Topic.MEMORY, (rows,))
    if any(len(device.steps) > 1 for device in memory.devices):
        steps = [_OfDevice(device.device, step) for device in memory.devices for step in device.steps[:top]]
        rows = table("memory_steps", _STEP_COLUMNS, steps, total=sum(len(device.steps) for device in memory.devices))
        yield detail("memory-steps", _STEPS, Topic.MEMORY, (rows,))


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
    holders = [_OfDevice(device, holder) for device, held in contents for holder in held.holders[:top]]
    if not holders:
        return
    older = [_OLDER(device=device, older=held.older_bytes) for device, held in contents if held.older_bytes]
    for device in memory.devices:
        older += largest_stack(device.stacks, device.peak_allocated_bytes or 0)
    rows = table("memory_at_peak", _HOLDERS, holders, total=sum(len(held.holders) for _, held in contents))
    kinds = [_OfDevice(device.device, kind) for device in memory.devices for kind in device.kinds]
    tables = (table("memory_kinds_at_peak", _KINDS, kinds), rows) if kinds else (rows,)
    yield detail("memory-at-peak", _AT_PEAK, Topic.MEMORY, tables, messages=tuple(older))
