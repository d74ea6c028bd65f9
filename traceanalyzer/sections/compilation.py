"""What does code of torch.compile cost on the host, and why are there graph breaks and recompilations?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("compilation-title", "Compiled code", "code that torch.compile made")
_FIGURES = (
    (Text("compilation-regions-per-step", "Compiled regions per step"), "regions_per_step", "number"),
    (Text("compilation-breaks-per-step", "Graph breaks per step"), "breaks_per_step", "number"),
    (Text("compilation-between", "Host time between the parts, per step"), "between_ns_per_step", "ns"),
    (Text("compilation-checks", "Checks of guards per step", "before each call"), "guard_checks_per_step", "number"),
    (Text("compilation-guards", "Host time of guards, per step"), "guards_ns_per_step", "ns"),
    (
        Text("compilation-sizes", "Host time of assert_size_stride, per step", "checks of sizes and strides"),
        "size_checks_ns_per_step",
        "ns",
    ),
    (Text("compilation-compiling", "Compilation in the recording", "time of it"), "compiling_ns", "ns"),
)
_COPIED = Text(
    "compilation-copied",
    "{count:count} copies into static inputs of graphs take {device:ns} on the device and {host:ns} on the host in the "
    "typical steps: {shapes}. Inputs at fixed addresses (torch._dynamo.mark_static_address) need none.",
    "a graph reads its inputs from fixed addresses; shapes are of tensors",
    one="{count:count} copy into a static input of a graph takes {device:ns} on the device and {host:ns} on the host "
    "in the typical steps: {shapes}. Inputs at fixed addresses (torch._dynamo.mark_static_address) need none.",
)
_FAILED = Text(
    "compilation-failed",
    "The compilation of {function} ({place}) failed: {error}",
    "place is a file and a line; error is torch's text",
)
_SIZE_GUARD = Text(
    "compilation-size-guard",
    "{place} fixes a size for the compiled code: {expression}",
    "place is a file and a line; expression is a condition such as Eq(s0, 3)",
)
_BREAK = SectionColumn(Text("compilation-break", "Graph break at", "a file and a line"), "", is_name=True)
_BREAKS = (
    _BREAK,
    SectionColumn(Text("compilation-break-calls", "Times"), "count"),
    SectionColumn(Text("compilation-break-time", "Between the regions"), "ns"),
    SectionColumn(Text("compilation-break-regions", "Regions", "two compiled regions, 0/0 > 1/0"), "", is_name=True),
    SectionColumn(Text("compilation-break-reason", "Reason"), "", is_name=True),
)
_COMPILED = SectionColumn(Text("compilation-compiled", "Compiled function"), "", is_name=True)
_COMPILATIONS = (
    _COMPILED,
    SectionColumn(Text("compilation-number", "Compilation", "an id such as 0/1"), "", is_name=True),
    SectionColumn(Text("compilation-pass", "Pass", "forward or backward"), ""),
    SectionColumn(Text("compilation-step", "Step"), "", is_name=True),
    SectionColumn(Text("compilation-time", "Time"), "ns"),
    SectionColumn(Text("compilation-reason", "Why again"), "", is_name=True),
)
_FORWARD, _BACKWARD = Text("compilation-forward", "Forward"), Text("compilation-backward", "Backward")
_EARLIER = Text("compilation-earlier", "not recorded", "a compilation outside of the recording")
_FIRST = Text("compilation-first", "first compilation", "of a function")
_REGIONS = (
    SectionColumn(Text("compilation-region", "Compiled region"), "", is_name=True),
    SectionColumn(Text("compilation-region-calls", "Calls"), "count"),
    SectionColumn(Text("compilation-region-time", "Host", "time"), "ns"),
)
_TERMS = (
    Term(
        Text("define-compilation", "Graph break"),
        Text(
            "define-compilation-say",
            "A line that torch.compile cannot trace ends a graph: Python runs the line, and the code behind it is "
            "compiled as a function of its own, whose region runs within the region before it. 0/1 is the second "
            "compilation of the first function.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of graph breaks, compilations and regions."""
    found = report.result("compilation", CompiledCode)
    if found is None:
        return
    tables = tuple(table for table in (_breaks(found, top), _compilations(found, top), _regions(found, top)) if table)
    messages = tuple(_messages(found, top))
    if tables or messages:
        facts = tuple(Fact(label, value, unit) for label, field, unit in _FIGURES if (value := getattr(found, field)))
        yield Section("compilation", TITLE(), messages, facts, tables=tables, terms=_TERMS, topic=Topic.HOST)


def _messages(found: CompiledCode, top: int) -> Iterator[Message]:
    copies = found.input_copies
    if copies is not None and copies.calls:
        shapes = ", ".join(copies.shapes) or "?"
        yield _COPIED(count=copies.calls, device=copies.device_ns, host=copies.host_ns, shapes=shapes)
    for failure in found.failures[:top]:
        place = _place(failure.file, failure.line) or "?"
        yield _FAILED(function=failure.function or "?", place=place, error=failure.error)
    for guard in found.size_guards[:top]:
        yield _SIZE_GUARD(place=_place(guard.file, guard.line) or "?", expression=guard.expression)


def _breaks(found: CompiledCode, top: int) -> SectionTable | None:
    rows = tuple(
        (
            _place(row.file, row.line),
            row.calls,
            row.between_ns,
            f"{row.before} > {row.behind}" if row.before and row.behind else None,
            row.reason,
        )
        for row in found.breaks[:top]
    )
    return _shown("graph_breaks", _BREAKS, rows, len(found.breaks))


def _compilations(found: CompiledCode, top: int) -> SectionTable | None:
    rows = tuple(
        (
            _function(row.function, row.file, row.line),
            row.compilation,
            (_BACKWARD if row.is_backward else _FORWARD)(),
            row.step if row.start_ns is not None else _EARLIER(),
            row.time_ns,
            "; ".join(row.reasons) or (None if row.is_again else _FIRST()),
        )
        for row in found.compilations[:top]
    )
    return _shown("compilations", _COMPILATIONS, rows, len(found.compilations))


def _regions(found: CompiledCode, top: int) -> SectionTable | None:
    rows = tuple(
        (_region(row.compilation, row.function, row.file, row.line), row.calls, row.host_ns)
        for row in found.regions[:top]
    )
    return _shown("compiled_regions", _REGIONS, rows, len(found.regions))


def _shown(
    name: str, columns: tuple[SectionColumn, ...], rows: tuple[tuple[Any, ...], ...], count: int
) -> SectionTable | None:
    """A table without empty columns; None without rows."""
    kept = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    if not rows:
        return None
    return SectionTable(
        name, tuple(columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows), count
    )


def _region(compilation: str | None, function: str | None, file: str | None, line: int | None) -> str:
    named = _function(function, file, line)
    return " ".join(filter(None, (compilation or "?", named)))


def _function(function: str | None, file: str | None, line: int | None) -> str | None:
    place = _place(file, line)
    if place is None:
        return function
    return place if function is None else f"{place} {function}"


def _place(file: str | None, line: int | None) -> str | None:
    """The last two parts of a path, and the line: enough to find it."""
    if file is None:
        return None
    short = "/".join(file.replace("\\", "/").split("/")[-2:])
    return short if line is None else f"{short}:{line}"
