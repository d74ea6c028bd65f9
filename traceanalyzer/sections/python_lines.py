"""Which lines of Python cost most?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.modules.python_lines import Line, PythonLines
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Topic

TITLE = Text("lines-title", "Python lines by device self time")
_HOST_TITLE = Text("lines-host-title", "Python lines by host self time")
_OUTSIDE = Text("lines-outside-title", "Python lines outside of torch")
_UNATTRIBUTED = Text(
    "lines-unattributed", "For {share:share} of the device time, the line that launched it was not recorded."
)
_UNKNOWN = Text(
    "lines-unknown",
    "For {share:share} of the device time no line is known: neither one that launched it nor, for a backward pass, one "
    "of its forward pass.",
)
_NAME = SectionColumn(Text("lines-name", "Line"), "", is_name=True)
_CALLS = SectionColumn(Text("lines-calls", "Calls"), "count")
_BACKWARD_SELF = Text(
    "lines-backward-self",
    "Backward self",
    "device time of the backward pass of the operators that a line of the forward pass called",
)
_BACKWARD_TOTAL = Text("lines-backward-total", "Backward total", "the same with everything that the line called")
_DEVICE = (
    (SectionColumn(Text("lines-device-self", "Device self"), "ns"), "device_self_ns"),
    (SectionColumn(Text("lines-device-total", "Device total"), "ns"), "device_total_ns"),
)
_BACKWARD = (
    (SectionColumn(_BACKWARD_SELF, "ns"), "backward_device_self_ns"),
    (SectionColumn(_BACKWARD_TOTAL, "ns", is_extra=True), "backward_device_total_ns"),
)
_HOST = (
    (SectionColumn(Text("lines-host-self", "Host self"), "ns"), "host_self_ns"),
    (SectionColumn(Text("lines-host-total", "Host total"), "ns"), "host_total_ns"),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the ranking without torch's own code, and that with it."""
    lines = report.result("python_lines", PythonLines)
    if lines is None or not lines.rows:
        return
    backward = lines.backward_device_ns or 0
    share = (lines.unattributed_device_ns - backward) / lines.device_ns if lines.device_ns else 0.0
    messages = ((_UNKNOWN if backward else _UNATTRIBUTED)(share=share),) if share else ()
    if lines.rows_outside_torch:
        table = _table("python_lines_outside_torch", lines, lines.rows_outside_torch, top)
        yield Section(
            "python-lines-outside-torch", _OUTSIDE, messages=messages, tables=(table,), topic=Topic.HOST, is_detail=True
        )
        messages = ()
    title = TITLE if lines.device_ns else _HOST_TITLE
    table = _table("python_lines", lines, lines.rows, top)
    yield Section("python-lines", title, messages=messages, tables=(table,), topic=Topic.HOST, is_detail=True)


def _table(name: str, lines: PythonLines, rows: tuple[Line, ...], top: int) -> SectionTable:
    backward = _BACKWARD if lines.backward_device_ns else ()
    figures = (*_DEVICE, *backward, *_HOST) if lines.device_ns else _HOST
    shown = tuple((row.name, row.calls, *(getattr(row, field) for _, field in figures)) for row in rows[:top])
    return SectionTable(name, (_NAME, _CALLS, *(column for column, _ in figures)), shown, len(rows))
