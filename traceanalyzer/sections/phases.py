"""How long does each part take that a program or framework marked?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from traceanalyzer.analyzers.phases import Phase, PhasePlace, Phases
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, known, optional, table

TITLE = Text("phases-title", "Phases", "parts of a program's step, by the ranges that people marked in it")
_BY_NAME = Text("phases-by-name-title", "Phases by name")
_UNMARKED = Text("phases-unmarked", "{share:share} of the device time was launched outside of all marks.")
_CROSSING = Text(
    "phases-crossing",
    "{count:count} marks lie partly outside of a step; only what is within typical steps counts per step.",
    one="{count:count} mark lies partly outside of a step; only what is within typical steps counts per step.",
)
_EMPTY = Text(
    "phases-empty",
    "{count:count} marks are empty: they begin and end at the same time.",
    one="{count:count} mark is empty: it begins and ends at the same time.",
)
_HIDDEN = Text(
    "phases-hidden",
    "{count:count} names with the least time are not listed: {calls:count} marks, {host:ns} of CPU time in all.",
    one="{count:count} name with the least time is not listed: {calls:count} marks, {host:ns} of CPU time in all.",
)
_INFERRED = Text("phases-inferred", "{phase} (inferred)", "a row of a table; phase is forward or backward")
_PASSES = {
    "forward": Text("phases-forward", "forward", "a pass of a training, in a row of a table"),
    "backward": Text("phases-backward", "backward", "a pass of a training, in a row of a table"),
}
_GROUPED = Text("phases-grouped", "{name} ({names:count} names)", "name holds * for numbers: layer_*")

_MARK = Column(
    Text("phases-name", "Mark", "a named range of a program, as with record_function"),
    "",
    lambda row: _label(row),  # noqa: PLW0108 - defined below
    is_name=True,
)
_PER_STEP = optional(
    known,
    Column(Text("phases-host-per-step", "CPU/step"), "ns", "host_ns_per_step"),
    Column(Text("phases-device-per-step", "Device/step"), "ns", "device_ns_per_step"),
    Column(Text("phases-idle-per-step", "Idle/step", "no device works"), "ns", "idle_ns_per_step"),
    Column(Text("phases-host-self-per-step", "CPU self/step"), "ns", "host_self_ns_per_step", is_extra=True),
    Column(Text("phases-device-self-per-step", "Device self/step"), "ns", "device_self_ns_per_step", is_extra=True),
)
_PER_TYPICAL_STEP = tuple(column.of(str(column.cell).replace("per_step", "per_typical_step")) for column in _PER_STEP)
_IN_ALL = optional(
    known,
    Column(Text("phases-host", "CPU"), "ns", "host_ns"),
    Column(Text("phases-device", "Device"), "ns", "device_ns"),
    columns.IDLE,
    replace(columns.HOST_SELF, is_extra=True),
    replace(columns.DEVICE_SELF, is_extra=True),
)
_KINDS_TITLE = Text("phases-kinds-title", "Steps by kind", "kinds of steps of a server: prefill, decode")
_KIND_NAMES = {
    "prefill": Text("phases-kind-prefill", "prefill", "a server computes prompts"),
    "decode": Text("phases-kind-decode", "decode", "a server generates tokens"),
    "mixed": Text("phases-kind-mixed", "mixed", "a server computes prompts and generates tokens in one step"),
    "capture": Text("phases-kind-capture", "graph capture"),
    "diffusion": Text("phases-kind-diffusion", "diffusion"),
}
_KIND_UNKNOWN = Text("phases-kind-unknown", "unknown", "the mark of a step does not tell its kind")
_KINDS = (
    Column(
        Text("phases-kind", "Kind of step"),
        "",
        lambda row: _KIND_UNKNOWN if row.kind is None else _KIND_NAMES.get(row.kind, row.kind),
    ),
    *optional(
        known,
        Column(Text("phases-kind-steps", "Steps"), "count", "steps"),
        Column(Text("phases-kind-requests", "Requests/step", "median"), "count", "median_requests"),
        Column(Text("phases-kind-tokens", "Tokens/step", "median"), "count", "median_tokens"),
        Column(Text("phases-kind-median-host", "CPU, median"), "ns", "median_host_ns"),
        Column(Text("phases-kind-median-device", "Device, median"), "ns", "median_device_ns"),
        Column(Text("phases-kind-host", "CPU in all"), "ns", "host_ns"),
        Column(Text("phases-kind-device", "Device in all"), "ns", "device_ns"),
        Column(Text("phases-kind-idle", "Idle in all", "no device works"), "ns", "idle_ns"),
        Column(Text("phases-kind-all-tokens", "Tokens in all"), "count", "tokens"),
    ),
)
_IN_GRAPHS_TITLE = Text(
    "phases-in-graphs-title", "Passes inside CUDA graphs", "forward and backward pass, by labels of kernels of graphs"
)
_IN_GRAPHS = (
    Column(Text("phases-in-graphs-pass", "Pass", "forward or backward"), "", lambda row: _PASSES[row.name]()),
    Column(Text("phases-in-graphs-events", "Kernels and copies"), "count", "events"),
    _PER_TYPICAL_STEP[1],
    _IN_ALL[1],
)
_INDENT = "· "
_TERMS = (
    Term(
        TITLE,
        Text(
            "define-phases-say",
            "Ranges set by the program or a framework. CPU: their duration. Device: the time of everything launched "
            "inside them, each in full. Idle: the time in them in which no device works. Self: without the ranges "
            "inside. Per step, only what lies in typical steps counts. What autograd launches on its own threads "
            "counts for the range that waits for it. A pass without a range is inferred from the activity of "
            "autograd.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the inferred phases, the tree of marks with most host time, and the marks by name."""
    phases = report.result("phases", Phases)
    if phases is None:
        return
    if phases.in_graphs:
        passes = table("phases_in_graphs", _IN_GRAPHS, phases.in_graphs)
        yield Section("phases-in-graphs", _IN_GRAPHS_TITLE, tables=(passes,), topic=Topic.PHASES)
    if not phases.rows:
        return
    if phases.kinds:
        yield Section(
            "phases-kinds", _KINDS_TITLE, tables=(table("phases_kinds", _KINDS, phases.kinds),), topic=Topic.PHASES
        )
    inferred = [row for row in phases.rows if row.is_inferred]
    rows: list[Phase | PhasePlace] = [*inferred, *_most_expensive(phases.tree, max(0, top - len(inferred)))]
    total = len(inferred) + len(phases.tree) + phases.hidden_places.count
    per_step = _PER_STEP if phases.rows[0].host_ns_per_typical_step is None else _PER_TYPICAL_STEP
    figures = columns.kept(_IN_ALL if phases.steps is None else per_step, phases.rows)
    shown = (_MARK, columns.CALLS, *figures)
    tables = (table("phases", shown, rows, total=total),)
    yield Section("phases", TITLE, messages=tuple(_messages(phases)), tables=tables, terms=_TERMS, topic=Topic.PHASES)
    if len(phases.tree) > len(phases.rows) - len(inferred) or any(place.depth for place in phases.tree):
        total = len(phases.rows) + phases.hidden_rows.count
        by_time = sorted(phases.rows, key=lambda row: -_time(row))
        tables = (table("phases_by_name", shown, by_time, top, total),)
        yield detail("phases-by-name", _BY_NAME, Topic.PHASES, tables)


def _messages(phases: Phases) -> Iterator[Message]:
    if phases.device_ns and phases.unmarked_device_ns and not any(row.is_inferred for row in phases.rows):
        yield _UNMARKED(share=phases.unmarked_device_ns / phases.device_ns)
    if phases.crossing:
        yield _CROSSING(count=phases.crossing)
    if phases.empty:
        yield _EMPTY(count=phases.empty)
    hidden = phases.hidden_rows
    if hidden.count:
        yield _HIDDEN(count=hidden.count, calls=hidden.calls, host=hidden.host_self_ns)


def _most_expensive(tree: Sequence[PhasePlace], top: int) -> list[PhasePlace]:
    """The places with most host time and those around them, in the order of the tree."""
    least: list[float] = []
    for place in tree:
        least.append(_time(place) if place.parent is None else min(_time(place), least[place.parent]))
    chosen = sorted(range(len(tree)), key=lambda row: (-least[row], tree[row].depth, row))[:top]
    return [tree[row] for row in sorted(chosen)]


def _time(row: Phase | PhasePlace) -> float:
    """Host time in ns by which rows are ranked: in typical steps, where they are known."""
    return row.host_ns if row.host_ns_per_typical_step is None else row.host_ns_per_typical_step


def _label(row: Phase | PhasePlace) -> str | Message:
    if isinstance(row, PhasePlace):
        return _INDENT * row.depth + row.name
    if row.is_inferred:
        return _INFERRED(phase=_PASSES[row.name]() if row.name in _PASSES else row.name)
    return row.name if row.names == 1 else _GROUPED(name=row.name, names=row.names)
