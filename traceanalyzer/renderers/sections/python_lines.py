"""Which lines of Python cost most?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.python_lines import Line, PythonLines
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Topic

TITLE = Text("lines-title", "Python lines by device self time")
_HOST_TITLE = Text("lines-host-title", "Python lines by host self time")
_OUTSIDE = Text("lines-outside-title", "Python lines outside of torch")
_UNATTRIBUTED = Text(
    "lines-unattributed", "For {share:share} of the device time, the line that launched it was not recorded."
)
_NAME = SectionColumn(Text("lines-name", "Line"), "", is_name=True)
_CALLS = SectionColumn(Text("lines-calls", "Calls"), "count")
_DEVICE = (
    (SectionColumn(Text("lines-device-self", "Device self"), "ns"), "device_self_ns"),
    (SectionColumn(Text("lines-device-total", "Device total"), "ns"), "device_total_ns"),
)
_HOST = (
    (SectionColumn(Text("lines-host-self", "Host self"), "ns"), "host_self_ns"),
    (SectionColumn(Text("lines-host-total", "Host total"), "ns"), "host_total_ns"),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """The ranking without torch's own code, and the one with it."""
    lines = report.result("python_lines", PythonLines)
    if lines is None or not lines.rows:
        return
    share = lines.unattributed_device_ns / lines.device_ns if lines.device_ns else 0.0
    messages = (_UNATTRIBUTED(share=share),) if share else ()
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
    figures = (*_DEVICE, *_HOST) if lines.device_ns else _HOST
    shown = tuple((row.name, row.calls, *(getattr(row, field) for _, field in figures)) for row in rows[:top])
    return SectionTable(name, (_NAME, _CALLS, *(column for column, _ in figures)), shown, len(rows))
