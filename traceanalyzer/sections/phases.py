"""How long does each part take that a program or framework marked?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from traceanalyzer.analyzers.phases import Phase, PhasePlace, Phases
from traceanalyzer.analyzers.phases.kinds import StepKind
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("phases-title", "Phases", "parts of a program's step, by the ranges that people marked in it")
_BY_NAME = Text("phases-by-name-title", "Phases by name")
_UNMARKED = Text("phases-unmarked", "{share:share} of the device time was launched outside of all marks.")
_CROSSING = Text(
    "phases-crossing",
    "{count:count} marks lie partly outside of a step; only what is within steps counts as device and idle time per "
    "step.",
    one="{count:count} mark lies partly outside of a step; only what is within steps counts as device and idle time "
    "per step.",
)
_EMPTY = Text(
    "phases-empty",
    "{count:count} marks are empty: they begin and end at the same time.",
    one="{count:count} mark is empty: it begins and ends at the same time.",
)
_HIDDEN = Text(
    "phases-hidden",
    "{count:count} names with the least time are not listed: {calls:count} marks, {host:ns} of host time in all.",
    one="{count:count} name with the least time is not listed: {calls:count} marks, {host:ns} of host time in all.",
)
_INFERRED = Text("phases-inferred", "{phase} (inferred)", "a row of a table; phase is forward or backward")
_PASSES = {
    "forward": Text("phases-forward", "forward", "a pass of a training, in a row of a table"),
    "backward": Text("phases-backward", "backward", "a pass of a training, in a row of a table"),
}
_GROUPED = Text("phases-grouped", "{name} ({names:count} names)", "name holds * for numbers: layer_*")

_NAME = SectionColumn(
    Text("phases-name", "Mark", "a named range of a program, as with record_function"), "", is_name=True
)
_CALLS = SectionColumn(Text("phases-calls", "Calls"), "count")
_Column = tuple[SectionColumn, str]
_STEP: tuple[_Column, ...] = (
    (SectionColumn(Text("phases-host-per-step", "Host/step"), "ns"), "host_ns_per_step"),
    (SectionColumn(Text("phases-device-per-step", "Device/step"), "ns"), "device_ns_per_step"),
    (
        SectionColumn(Text("phases-idle-per-step", "Idle/step", "no device works"), "ns"),
        "idle_ns_per_step",
    ),
    (SectionColumn(Text("phases-host-self-per-step", "Host self/step"), "ns", is_extra=True), "host_self_ns_per_step"),
    (
        SectionColumn(Text("phases-device-self-per-step", "Device self/step"), "ns", is_extra=True),
        "device_self_ns_per_step",
    ),
)
_ALL: tuple[_Column, ...] = (
    (SectionColumn(Text("phases-host", "Host"), "ns"), "host_ns"),
    (SectionColumn(Text("phases-device", "Device"), "ns"), "device_ns"),
    (SectionColumn(Text("phases-idle", "Idle", "no device works"), "ns"), "idle_ns"),
    (SectionColumn(Text("phases-host-self", "Host self"), "ns", is_extra=True), "host_self_ns"),
    (SectionColumn(Text("phases-device-self", "Device self"), "ns", is_extra=True), "device_self_ns"),
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
_KINDS: tuple[_Column, ...] = (
    (SectionColumn(Text("phases-kind-steps", "Steps"), "count"), "steps"),
    (SectionColumn(Text("phases-kind-requests", "Requests/step", "median"), "count"), "median_requests"),
    (SectionColumn(Text("phases-kind-tokens", "Tokens/step", "median"), "count"), "median_tokens"),
    (SectionColumn(Text("phases-kind-host-median", "Host/step", "median"), "ns"), "median_host_ns"),
    (SectionColumn(Text("phases-kind-device-median", "Device/step", "median"), "ns"), "median_device_ns"),
    (SectionColumn(Text("phases-kind-host", "Host in all"), "ns"), "host_ns"),
    (SectionColumn(Text("phases-kind-device", "Device in all"), "ns"), "device_ns"),
    (SectionColumn(Text("phases-kind-idle", "Idle in all", "no device works"), "ns"), "idle_ns"),
    (SectionColumn(Text("phases-kind-all-tokens", "Tokens in all"), "count"), "tokens"),
)
_INDENT = "· "
_TERMS = (
    Term(
        Text("define-phases", "Phases"),
        Text(
            "define-phases-say",
            "Ranges set by the program or a framework. Host: their duration. Device: the time of everything launched "
            "inside them, each in full. Idle: the time in them in which no device works. Self: without the ranges "
            "inside. Times per step are those of the whole trace over all its steps. What autograd launches on its "
            "own threads counts for the range that waits for it. A pass without a range is inferred from the activity "
            "of autograd.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the inferred phases, the tree of marks with most host time, and the marks by name."""
    phases = report.result("phases", Phases)
    if phases is None or not phases.rows:
        return
    if phases.kinds:
        yield Section("phases-kinds", _KINDS_TITLE, tables=(_kinds(phases.kinds),), topic=Topic.PHASES)
    inferred = [row for row in phases.rows if row.is_inferred]
    rows: list[Phase | PhasePlace] = [*inferred, *_most_expensive(phases.tree, max(0, top - len(inferred)))]
    total = len(inferred) + len(phases.tree) + phases.hidden_places.count
    table = _table("phases", phases, rows, total)
    yield Section("phases", TITLE, messages=tuple(_messages(phases)), tables=(table,), terms=_TERMS, topic=Topic.PHASES)
    if len(phases.tree) > len(phases.rows) - len(inferred) or any(place.depth for place in phases.tree):
        total = len(phases.rows) + phases.hidden_rows.count
        table = _table("phases_by_name", phases, phases.rows[:top], total)
        yield Section("phases-by-name", _BY_NAME, tables=(table,), topic=Topic.PHASES, is_detail=True)


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
    least: list[int] = []
    for place in tree:
        least.append(place.host_ns if place.parent is None else min(place.host_ns, least[place.parent]))
    chosen = sorted(range(len(tree)), key=lambda row: (-least[row], tree[row].depth, row))[:top]
    return [tree[row] for row in sorted(chosen)]


def _table(name: str, phases: Phases, rows: Sequence[Phase | PhasePlace], total: int) -> SectionTable:
    """Table of the nonempty figures, per step if steps are known."""
    columns = [
        (column, field)
        for column, field in (_ALL if phases.steps is None else _STEP)
        if any(getattr(row, field) is not None for row in phases.rows)
    ]
    shown = tuple((_label(row), row.calls, *(getattr(row, field) for _, field in columns)) for row in rows)
    return SectionTable(name, (_NAME, _CALLS, *(column for column, _ in columns)), shown, total)


def _kinds(kinds: Sequence[StepKind]) -> SectionTable:
    """One row per kind of step, with the figures that marks show."""
    columns = [(column, field) for column, field in _KINDS if any(getattr(kind, field) is not None for kind in kinds)]
    head = SectionColumn(Text("phases-kind", "Kind of step"), "")
    rows = tuple((_kind(kind.kind), *(getattr(kind, field) for _, field in columns)) for kind in kinds)
    return SectionTable("phases_kinds", (head, *(column for column, _ in columns)), rows, len(rows))


def _kind(kind: str | None) -> Text | str:
    return _KIND_UNKNOWN if kind is None else _KIND_NAMES.get(kind, kind)


def _label(row: Phase | PhasePlace) -> str | Message:
    if isinstance(row, PhasePlace):
        return _INDENT * row.depth + row.name
    if row.is_inferred:
        return _INFERRED(phase=_PASSES[row.name]() if row.name in _PASSES else row.name)
    return row.name if row.names == 1 else _GROUPED(name=row.name, names=row.names)
