"""What do errors of failed allocations and summaries of memory in a text say?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.tables.printed_memory import PrintedAllocation, PrintedMemory
from traceanalyzer.knowledge import python_frames
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import named_code
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, facts, known, optional, table
from traceanalyzer.sections.memory_snapshot import FAILED_TITLE, FRAGMENTED, NOT_FRAGMENTED

_SUMMARY_TITLE = Text("printed-memory-title", "Memory by the summary")
_HOLDERS = Text(
    "printed-memory-holders",
    "The text does not say who holds the rest. A snapshot does: call torch.cuda.memory._record_memory_history() at the "
    "start, torch.cuda.memory._dump_snapshot('snapshot.pickle') where it fails, and report on that file.",
)
_LIMITED = Text(
    "printed-memory-limited",
    "What was free would have been enough: another process gave it back meanwhile, or something else limits the "
    "program.",
)


def _device(row: PrintedAllocation) -> str | None:
    return None if row.device is None else f"GPU{row.device}"


def _line(row: PrintedAllocation) -> str | None:
    """A line as people find it: the end of its path, and the function."""
    frame = None if row.line is None else python_frames.parse(row.line)
    return row.line if frame is None else named_code(frame.function, frame.path, frame.line)


_FAILURE = optional(
    known,
    Column(columns.DEVICE.title, "", _device),
    Column(Text("snapshot-asked", "Asked for"), "bytes", "asked_bytes"),
    Column(Text("snapshot-asked-by", "By"), "", _line, is_name=True),
    Column(Text("snapshot-device-free", "Free on the device"), "bytes", "device_free_bytes"),
    Column(Text("printed-memory-total", "The device has"), "bytes", "total_bytes"),
    Column(Text("printed-memory-allocated", "Held by tensors"), "bytes", "allocated_bytes"),
    Column(Text("snapshot-failed-inactive", "Reserved but unused"), "bytes", "inactive_bytes"),
    Column(Text("printed-memory-elsewhere", "Other processes and libraries"), "bytes", "elsewhere_bytes"),
)
_SUMMARY = optional(
    known,
    Column(columns.DEVICE.title, "", lambda row: f"GPU{row.device}"),
    Column(Text("printed-memory-allocated", "Held by tensors"), "bytes", "allocated_bytes"),
    Column(Text("printed-memory-peak", "At the peak"), "bytes", "peak_bytes"),
    Column(Text("snapshot-failed-reserved", "Reserved"), "bytes", "reserved_bytes"),
    Column(Text("printed-memory-stuck", "Unused, beside blocks in use"), "bytes", "stuck_bytes"),
    Column(Text("snapshot-failures", "Failed allocations"), "count", "failures"),
    Column(Text("printed-memory-retries", "Retries"), "count", "retries"),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build what failed, and what summaries say of each device."""
    found = report.result("printed_memory", PrintedMemory)
    if found is None:
        return
    if found.failures:
        alone = len(found.failures) == 1
        yield Section(
            "memory-failed",
            FAILED_TITLE(),
            tuple(_said(found.failures)),
            facts(_FAILURE, found.failures[0]) if alone else (),
            tables=() if alone else (table("printed_failures", _FAILURE, found.failures, top),),
            topic=Topic.MEMORY,
            is_essential=True,
        )
    if found.summaries:
        alone = len(found.summaries) == 1
        yield Section(
            "memory-summary",
            _SUMMARY_TITLE(),
            (_HOLDERS(),) if not found.failures else (),
            facts(_SUMMARY, found.summaries[0]) if alone else (),
            tables=() if alone else (table("printed_summaries", _SUMMARY, found.summaries, top),),
            topic=Topic.MEMORY,
            is_essential=True,
        )


def _said(failures: tuple[PrintedAllocation, ...]) -> Iterator[Message]:
    first = failures[0]
    if first.is_limited:
        yield _LIMITED()
    elif first.is_fragmentation is not None:
        yield FRAGMENTED() if first.is_fragmentation else NOT_FRAGMENTED()
    yield _HOLDERS()
