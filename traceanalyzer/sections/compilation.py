"""What does code of torch.compile cost on the host, and why are there graph breaks and recompilations?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections.columns import CALLS, STEP, TIME, Column, facts, known, optional, table

TITLE = Text("compilation-title", "Compiled code", "code that torch.compile made")
_FIGURES = optional(
    bool,
    Column(Text("compilation-regions-per-step", "Compiled regions per step"), "number", "regions_per_step"),
    Column(Text("compilation-breaks-per-step", "Graph breaks per step"), "number", "breaks_per_step"),
    Column(Text("compilation-between", "Host time between the parts, per step"), "ns", "between_ns_per_step"),
    Column(
        Text("compilation-checks", "Checks of guards per step", "before each call"), "number", "guard_checks_per_step"
    ),
    Column(Text("compilation-guards", "Host time of guards, per step"), "ns", "guards_ns_per_step"),
    Column(
        Text("compilation-sizes", "Host time of assert_size_stride, per step", "checks of sizes and strides"),
        "ns",
        "size_checks_ns_per_step",
    ),
    Column(Text("compilation-compiling", "Compilation in the recording", "time of it"), "ns", "compiling_ns"),
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
_BREAKS = optional(
    known,
    Column(
        Text("compilation-break", "Graph break at", "a file and a line"),
        "",
        lambda row: _place(row.file, row.line),
        is_name=True,
    ),
    Column(Text("compilation-break-calls", "Times"), "count", "calls"),
    Column(Text("compilation-break-time", "Between the regions"), "ns", "between_ns"),
    Column(
        Text("compilation-break-regions", "Regions", "two compiled regions, 0/0 > 1/0"),
        "",
        lambda row: f"{row.before} > {row.behind}" if row.before and row.behind else None,
        is_name=True,
    ),
    Column(Text("compilation-break-reason", "Reason"), "", "reason", is_name=True),
)
_FORWARD, _BACKWARD = Text("compilation-forward", "Forward"), Text("compilation-backward", "Backward")
_EARLIER = Text("compilation-earlier", "not recorded", "a compilation outside of the recording")
_FIRST = Text("compilation-first", "first compilation", "of a function")
_COMPILATIONS = optional(
    known,
    Column(
        Text("compilation-compiled", "Compiled function"),
        "",
        lambda row: _function(row.function, row.file, row.line),
        is_name=True,
    ),
    Column(Text("compilation-number", "Compilation", "an id such as 0/1"), "", "compilation", is_name=True),
    Column(
        Text("compilation-pass", "Pass", "forward or backward"),
        "",
        lambda row: (_BACKWARD if row.is_backward else _FORWARD)(),
    ),
    replace(STEP, cell=lambda row: row.step if row.start_ns is not None else _EARLIER(), is_name=True),
    TIME,
    Column(
        Text("compilation-reason", "Why again"),
        "",
        lambda row: "; ".join(row.reasons) or (None if row.is_again else _FIRST()),
        is_name=True,
    ),
)
_REGIONS = optional(
    known,
    Column(
        Text("compilation-region", "Compiled region"),
        "",
        lambda row: _region(row.compilation, row.function, row.file, row.line),
        is_name=True,
    ),
    CALLS,
    Column(Text("compilation-region-time", "Host", "time"), "ns", "host_ns"),
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
    compiled = report.result("compilation", CompiledCode)
    if compiled is None:
        return
    tables = tuple(
        table(id_, columns, rows[:top], total=len(rows))
        for id_, columns, rows in (
            ("graph_breaks", _BREAKS, compiled.breaks),
            ("compilations", _COMPILATIONS, compiled.compilations),
            ("compiled_regions", _REGIONS, compiled.regions),
        )
        if rows[:top]
    )
    messages = tuple(_messages(compiled, top))
    if tables or messages:
        yield Section(
            "compilation", TITLE(), messages, facts(_FIGURES, compiled), tables=tables, terms=_TERMS, topic=Topic.HOST
        )


def _messages(compiled: CompiledCode, top: int) -> Iterator[Message]:
    copies = compiled.input_copies
    if copies is not None and copies.calls:
        shapes = ", ".join(copies.shapes) or "?"
        yield _COPIED(count=copies.calls, device=copies.device_ns, host=copies.host_ns, shapes=shapes)
    for failure in compiled.failures[:top]:
        place = _place(failure.file, failure.line) or "?"
        yield _FAILED(function=failure.function or "?", place=place, error=failure.error)
    for guard in compiled.size_guards[:top]:
        yield _SIZE_GUARD(place=_place(guard.file, guard.line) or "?", expression=guard.expression)


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
