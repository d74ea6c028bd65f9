"""How close do operators come to the peak of the device?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.formats.words import word
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("roofline-title", "Operators against the device's limits")
_MODELLED = Text(
    "roofline-modelled",
    "{share:share} of device time is in operators whose work can be computed from their input shapes.",
)
_ROOF = Text("roofline-roof", "Limits of {name}: {source}.", "name of a GPU, title of a data sheet")
_NO_ROOF = Text(
    "roofline-no-roof",
    "The device is not in the table of data sheets, so rates are shown without a share of the limit.",
)
_COLUMNS = (
    (SectionColumn(Text("roofline-operator", "Operator"), "", is_name=True), "name"),
    (SectionColumn(Text("roofline-shapes", "Input shapes"), "", is_name=True), "input_shapes"),
    (SectionColumn(Text("roofline-calls", "Calls"), "count"), "calls"),
    (SectionColumn(Text("roofline-device", "Device time"), "ns"), "device_ns"),
    (SectionColumn(Text("roofline-tflops", "TFLOP/s"), "number"), "tflops_per_s"),
    (SectionColumn(Text("roofline-bandwidth", "GB/s"), "number"), "gb_per_s"),
    (SectionColumn(Text("roofline-intensity", "FLOP/byte"), "number"), "flops_per_byte"),
    (SectionColumn(Text("roofline-share", "Of the limit"), "share", has_bar=True), "roofline_share"),
    (SectionColumn(Text("roofline-bound", "Limited by"), ""), "bound"),
)
_BOUNDS = {"compute": Text("roofline-compute", "compute"), "memory": Text("roofline-memory", "memory")}
_TERMS = (
    Term(
        Text("define-limit", "Of the limit"),
        Text(
            "define-limit-say",
            "The achieved rate as a share of what the device can reach at the operator's FLOP per byte, "
            "according to its data sheet. FLOPs and bytes are computed from the input shapes.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of operators, those with most device time first."""
    found = report.result("roofline", Roofline)
    if found is None or not found.rows:
        return
    yield section_of(found, top, "roofline", TITLE)


def section_of(found: Roofline, top: int, name: str, title: Text) -> Section:
    """The section of one table of operators.

    Args:
        found: The operators.
        top: Number of operators to show.
        name: Id of the section.
        title: Its title.
    """
    rows = tuple(tuple(_cell(getattr(row, field), field) for _, field in _COLUMNS) for row in found.rows[:top])
    table = SectionTable(name.replace("-", "_"), tuple(column for column, _ in _COLUMNS), rows, len(found.rows))
    return Section(
        name,
        title,
        messages=tuple(_messages(found)),
        tables=(table,),
        topic=Topic.OPERATORS,
        terms=_TERMS,
        is_detail=True,
    )


def _messages(found: Roofline) -> Iterator[Message]:
    yield _MODELLED(share=found.modelled_share)
    yield _NO_ROOF() if found.roof is None else _ROOF(name=found.roof.name, source=found.roof.source)


def _cell(value: object, field: str) -> object:
    return word(_BOUNDS, value) if field == "bound" and isinstance(value, str) else value
