"""What does code of torch.compile cost on the host, and why are there graph breaks and recompilations?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from traceanalyzer.analyzers.compilation import CompiledCode, Compiling
from traceanalyzer.analyzers.compilation.regions import CompiledRegion
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import code_place, named_code
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections.columns import CALLS, STEP, TIME, Column, facts, known, optional, table

TITLE = Text("compilation-title", "Compiled code", "code that torch.compile made")
_FIGURES = optional(
    bool,
    Column(Text("compilation-regions-per-step", "Compiled regions per step"), "number", "regions_per_step"),
    Column(Text("compilation-breaks-per-step", "Graph breaks per step"), "number", "breaks_per_step"),
    Column(Text("compilation-between", "CPU time between the parts, per step"), "ns", "between_ns_per_step"),
    Column(
        Text("compilation-checks", "Checks of guards per step", "before each call"), "number", "guard_checks_per_step"
    ),
    Column(Text("compilation-guards", "CPU time of guards, per step"), "ns", "guards_ns_per_step"),
    Column(
        Text("compilation-sizes", "CPU time of assert_size_stride, per step", "checks of sizes and strides"),
        "ns",
        "size_checks_ns_per_step",
    ),
    Column(Text("compilation-compiling", "Compilation in the trace", "time of it"), "ns", "compiling_ns"),
)
_COPIED = Text(
    "compilation-copied",
    "{count:count} copies into static inputs of graphs take {device:ns} on the device and {host:ns} on the CPU in the "
    "typical steps: {shapes}. Inputs at fixed addresses (torch._dynamo.mark_static_address) need none.",
    "a graph reads its inputs from fixed addresses; shapes are of tensors",
    one="{count:count} copy into a static input of a graph takes {device:ns} on the device and {host:ns} on the CPU "
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
        lambda row: code_place(row.file, row.line),
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
_LOGGED_BREAKS = optional(
    known,
    _BREAKS[0],
    Column(Text("compilation-break-code", "Line", "text of a line of code"), "", "code", is_name=True),
    Column(Text("compilation-break-function", "In", "a function"), "", "function", is_name=True, is_extra=True),
    _BREAKS[-1],
)
_CACHES = optional(
    bool,
    Column(Text("compilation-cache", "Cache"), "", "cache", is_name=True),
    Column(Text("compilation-hits", "Hits", "of a cache"), "count", "hits"),
    Column(Text("compilation-misses", "Misses", "of a cache"), "count", "misses"),
    Column(Text("compilation-bypasses", "Bypasses", "of a cache: graphs that cannot be cached"), "count", "bypasses"),
    Column(Text("compilation-missed", "Misses took", "time of compiling them"), "ns", "missed_ns"),
    Column(Text("compilation-saved", "Hits saved", "time"), "ns", "saved_ns"),
    Column(Text("compilation-bypassed", "Why not cached"), "", lambda row: "; ".join(row.bypass_reasons), is_name=True),
)
_PHASES = (
    Column(Text("compilation-dynamo", "Dynamo", "a phase of torch.compile"), "ns", "dynamo_ns"),
    Column(Text("compilation-aot", "AOTAutograd", "a phase of torch.compile"), "ns", "aot_ns"),
    Column(Text("compilation-inductor", "Inductor", "a phase of torch.compile"), "ns", "inductor_ns"),
    Column(Text("compilation-backend", "Other backend", "of torch.compile, not Inductor"), "ns", "other_backend_ns"),
)
_BACKWARD_TIME = Column(Text("compilation-backward-time", "Backward pass", "time"), "ns", "backward_ns")
_LOG_FIGURES = optional(
    bool,
    Column(Text("compilation-count", "Compilations"), "count", "compilations"),
    Column(Text("compilation-again", "Recompilations"), "count", "recompilations"),
    Column(Text("compilation-logged-time", "Time of all compilations"), "ns", "compiling_ns"),
    *_PHASES,
    _BACKWARD_TIME,
    Column(Text("compilation-log-span", "From the first to the last entry of the log"), "ns", "span_ns"),
)
_FORWARD, _BACKWARD = Text("compilation-forward", "Forward"), Text("compilation-backward", "Backward")
_PASS = Text("compilation-pass", "Pass", "forward or backward")
_EARLIER = Text("compilation-earlier", "not recorded", "a compilation outside of the recording")
_FIRST = Text("compilation-first", "first compilation", "of a function")
_OUTCOMES = ((1, "hits"), (2, "misses"), (3, "bypasses"))
"""Columns of caches, and what they count."""


def _phase(name: str) -> Callable[[Compiling], int | None]:
    return lambda row: getattr(row.phases, name) if row.phases else None


def _is_unknown(row: Compiling) -> bool:
    return row.function is None and row.place[0] is None


_CALL_COLUMNS = optional(
    known,
    Column(
        Text("compilation-compiled", "Compiled function"),
        "",
        lambda row: None if _is_unknown(row) else named_code(row.function, *row.place),
        is_name=True,
    ),
    Column(
        Text("compilation-caller", "Called at", "a file and a line"),
        "",
        lambda row: None if row.is_library else code_place(row.caller_file, row.caller_line),
        is_name=True,
        is_extra=True,
    ),
    Column(Text("compilation-number", "Compilation", "an id such as 0/1"), "", "compilation", is_name=True),
    Column(
        _PASS,
        "",
        lambda row: (_BACKWARD if row.is_backward else _FORWARD)(),
    ),
    replace(STEP, cell=lambda row: row.step if row.start_ns is not None else _EARLIER(), is_name=True),
    Column(Text("compilation-start", "Started", "time since the first entry of a log"), "ns", "logged_start_ns"),
    TIME,
    *(replace(phase, cell=_phase(str(phase.cell)), is_extra=True) for phase in _PHASES),
    _BACKWARD_TIME,
)
_COMPILATIONS = (
    *_CALL_COLUMNS,
    *optional(bool, *(replace(_CACHES[place], cell=f"cache_{name}", is_extra=True) for place, name in _OUTCOMES)),
    Column(
        Text("compilation-reason", "Why again"),
        "",
        lambda row: "; ".join(row.reasons) or (None if row.is_again else _FIRST()),
        is_name=True,
        if_any=known,
    ),
)


def _region(row: CompiledRegion) -> str:
    named = () if row.function is None and row.file is None else (named_code(row.function, row.file, row.line),)
    return " ".join((row.compilation or "?", *named))


_ALONE = (
    *(column for column in _COMPILATIONS[:-1] if column.title not in (_PASS, STEP.title)),
    _COMPILATIONS[-1].of(lambda row: "; ".join(row.reasons) or None),
)
"""Columns of the compilations in a log without a trace."""
_REGIONS = optional(
    known,
    Column(
        Text("compilation-region", "Compiled region"),
        "",
        _region,
        is_name=True,
    ),
    CALLS,
    Column(Text("compilation-region-time", "CPU", "time"), "ns", "host_ns"),
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
    is_alone = report.trace is None
    shown = {(row.file, row.line, row.reason) for row in compiled.breaks}
    only_logged = [row for row in compiled.logged_breaks if (row.file, row.line, row.reason) not in shown]
    tables = tuple(
        table(id_, columns, rows[:top], total=len(rows))
        for id_, columns, rows in (
            ("graph_breaks", _BREAKS, compiled.breaks),
            ("logged_graph_breaks", _LOGGED_BREAKS, only_logged),
            ("compilations", _ALONE if is_alone else _COMPILATIONS, compiled.compilations),
            ("compiled_regions", _REGIONS, compiled.regions),
            ("graph_caches", _CACHES, compiled.caches),
        )
        if rows[:top]
    )
    messages = tuple(_messages(compiled, top))
    figures = (*facts(_FIGURES, compiled), *(facts(_LOG_FIGURES, compiled.log) if compiled.log else ()))
    if tables or messages:
        topic = Topic.RUNS if is_alone else Topic.HOST
        yield Section(
            "compilation", TITLE(), messages, figures, tables=tables, terms=_TERMS, topic=topic, is_essential=is_alone
        )


def _messages(compiled: CompiledCode, top: int) -> Iterator[Message]:
    copies = compiled.input_copies
    if copies is not None and copies.calls:
        shapes = ", ".join(copies.shapes) or "?"
        yield _COPIED(count=copies.calls, device=copies.device_ns, host=copies.host_ns, shapes=shapes)
    for failure in compiled.failures[:top]:
        place = code_place(failure.file, failure.line) or "?"
        yield _FAILED(function=failure.function or "?", place=place, error=failure.error)
    for guard in compiled.size_guards[:top]:
        yield _SIZE_GUARD(place=code_place(guard.file, guard.line) or "?", expression=guard.expression)
