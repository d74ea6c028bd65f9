"""The sections of a difference of two reports, and its words, for all formats."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from msgspec.structs import replace

from traceanalyzer.formats import run_difference, step_difference
from traceanalyzer.formats.step_difference import short
from traceanalyzer.report.difference import (
    PART_LABELS,
    Change,
    ChangedPart,
    Cost,
    Difference,
    FindingChange,
    GpuUse,
    MemoryPeak,
    Ranking,
    Side,
)
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import shorten, word
from traceanalyzer.report.section import Fact, Section, SectionTable
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, known, optional, table

OUTCOMES = {
    "faster": Text("diff-outcome-faster", "Faster"),
    "slower": Text("diff-outcome-slower", "Slower"),
    "no-change": Text("diff-outcome-no-change", "No change"),
    "inconclusive": Text("diff-outcome-inconclusive", "Inconclusive"),
}
_BASE, _HEAD, _CHANGE = columns.BASE, columns.HEAD, columns.CHANGE
_TIMES = Text("diff-times-title", "Step time")
_PARTS = Text("diff-parts-title", "Parts of the step")
_PARTS_PRINTED = Text("diff-parts-printed-title", "Profiled time")
PART = Text("diff-part", "Part")
_PART_COLUMNS = (
    Column(PART, "", lambda part: word(PART_LABELS, part.id)),
    _BASE,
    _HEAD,
    _CHANGE,
)
_SHARE = Column(Text("diff-part-share", "Of the change"), "share", "change_share", if_any=known)
_CLEAR = Column(Text("diff-part-clear", "Beyond noise"), "bool", "clear", if_any=known)
_TRUST = Text("diff-trust-title", "Can they be compared?")
_SCORE = Text("diff-score", "Comparability")
_ALL_CHECKS = Text("diff-checks-title", "All conditions of the comparison")
_SIDE = Text(
    "diff-side",
    "{name}: {traces:count} traces, steps: {steps:count}",
    "a name, and how much it holds",
    "{name}: {traces:count} trace, steps: {steps:count}",
)
_RUN = Text("diff-side-run", "{name}, {run} ({title}), steps: {steps:count}", "a run of a document")
_IGNORED = Text(
    "diff-ignored",
    "{count:count} files of {name} are not traces and were left out: {files}.",
    one="{count:count} file of {name} is not a trace and was left out: {files}.",
)
STATUS = {
    "appeared": Text("diff-status-appeared", "new", "an operator or kernel that was not there before"),
    "vanished": Text("diff-status-vanished", "gone", "an operator or kernel that is not there any more"),
    "slower": Text("diff-status-slower", "slower"),
    "faster": Text("diff-status-faster", "faster"),
    "host-faster": Text("diff-status-host-faster", "CPU faster", "the device became slower"),
    "host-slower": Text("diff-status-host-slower", "CPU slower", "the device became faster"),
    "device-faster": Text("diff-status-device-faster", "GPU faster", "the CPU became slower"),
    "device-slower": Text("diff-status-device-slower", "GPU slower", "the CPU became faster"),
    "calls": Text("diff-status-calls", "number of calls", "only the number of calls changed"),
    "not-printed": Text("diff-status-not-printed", "not printed", "a row that one of two tables does not print"),
    "fixed": Text("diff-status-fixed", "fixed", "a finding that is gone"),
    "new": Text("diff-status-new", "new", "a finding that was not there before"),
    "kept": Text("diff-status-kept", "still there", "a finding"),
    "base-only": Text("diff-status-base-only", "only before", "a finding that is gone, maybe not fixed"),
    "head-only": Text("diff-status-head-only", "only after", "a finding that was not there, maybe not new"),
    "both": Text("diff-status-both", "both", "a finding of both sides, where they cannot be compared"),
}
"""Texts for the status of changes and findings."""
FINDINGS = Text("diff-findings-title", "Findings")
_STATUS_COLUMN = Column(Text("diff-row-status", "Status"), "", lambda change: word(STATUS, change.status))
_PRICE = Text("diff-price-alone", "{price:estimate}", "time that a fix was predicted to save")
_NO_PRICE = "-"


def price(change: FindingChange) -> Message | str:
    """The predicted saving, of the head where it has the finding."""
    low, high = change.predicted_wall_ns or (0.0, 0.0)
    if not round(high):  # nothing yet, or not known
        return _NO_PRICE
    return _PRICE(price=(low, None, high))


_FINDING_COLUMNS = (
    _STATUS_COLUMN,
    Column(Text("diff-finding-rule", "Finding"), "", lambda change: short(change.title)),
    *optional(
        known,
        replace(_BASE, is_extra=True),
        replace(_HEAD, is_extra=True),
        _CHANGE.of(lambda change: _change(change.base_ns, change.head_ns)),
    ),
    Column(Text("diff-finding-price", "Price", "time that a fix was predicted to save"), "", price),
)
_RANKINGS = {
    "callers": Text("diff-callers-title", "Device work by caller, time per step"),
    "operators": Text("diff-operators-title", "Operators, self time per step"),
    "operators_by_shape": Text("diff-by-shape-title", "Operators by input shapes, self time per step"),
    "kernels": Text("diff-kernels-title", "Kernels, time per step"),
    "kernels_by_operator": Text("diff-by-operator-title", "Kernels by the operator that launches them"),
    "modules": Text("diff-modules-title", "Modules, self time per step"),
}
_ON_SCREEN = ("callers", "operators", "kernels")
_SAME = Text("diff-rows-same", "{count:count} others did not change.", one="{count:count} other did not change.")
_TOP_LEVEL = Text("diff-caller-all", "(all)", "in place of a name: around all callers that have one")
_RESOURCES = {
    "device": Text("diff-on-device", "device", "time on a GPU"),
    "host": Text("diff-on-host", "CPU", "time on a CPU"),
}
_ON = Column(
    Text("diff-row-on", "On", "the device or the host"), "", lambda row: word(_RESOURCES, _main(row)), if_any=bool
)
_OF_HOSTS = ("operators", "operators_by_shape", "modules")
_OWNER = replace(columns.OPERATOR.of("owner"), if_any=bool)
_WITHIN = replace(_OWNER, title=Text("diff-row-within", "Within", "the callers around a caller"), is_extra=True)
_CALLS_COLUMNS = optional(
    bool,
    Column(
        Text("diff-row-calls-base", "Calls before"), "number", lambda row: _of(row, row.base, "calls"), is_extra=True
    ),
    Column(
        Text("diff-row-calls-head", "Calls after"), "number", lambda row: _of(row, row.head, "calls"), is_extra=True
    ),
)
_TIME_COLUMNS_OF_ROWS = optional(
    bool,
    _BASE.of(lambda row: _of(row, row.base, f"{_main(row)}_ns")),
    _HEAD.of(lambda row: _of(row, row.head, f"{_main(row)}_ns")),
    _CHANGE.of(lambda row: getattr(row, f"{_main(row)}_change_ns")),
)
_BOTH_CHANGES = optional(
    bool,
    Column(Text("diff-row-device", "Device change"), "+ns", "device_change_ns", is_extra=True),
    Column(Text("diff-row-host", "CPU change"), "+ns", "host_change_ns", is_extra=True),
)
_RANKING_COLUMNS = (
    *optional(
        bool, _STATUS_COLUMN, columns.NAME.of(lambda row: row.name or _TOP_LEVEL), columns.INPUT_SHAPES.of("detail")
    ),
    _OWNER,
    *_CALLS_COLUMNS,
    _ON,
    *_TIME_COLUMNS_OF_ROWS,
    *_BOTH_CHANGES,
)
_UNUSUAL = Text("diff-unusual-title", "Steps unlike the typical ones")
_MEMORY = Text("diff-memory-title", "Peak memory")
_METRIC = Column(Text("diff-metric", "Metric"), "", itemgetter(0))
_POINTS = Text(
    "diff-points-signed",
    "{points:+number} points",
    "a difference of two shares: from 67 % to 83 % are 16 percentage points, and no 16 percent",
)
_GPU_METRICS = {
    "utilization": Text("diff-utilization", "GPU {device:count}: kernels run"),
    "busy_share": Text("diff-busy", "GPU {device:count}: busy, copies included"),
    "est_sm_efficiency": Text("diff-sm-efficiency", "GPU {device:count}: est. SM efficiency"),
    "tensor_core_share": Text("diff-tensor-cores", "GPU {device:count}: kernel time on tensor cores"),
}
_MEMORY_METRICS = {
    "allocated": Text("diff-allocated", "{device}: allocated"),
    "reserved": Text("diff-reserved", "{device}: reserved"),
}


def build(difference: Difference, top: int) -> Iterator[Section]:
    """All nonempty sections, in the order of importance, with this number of rows of each table."""
    yield from _answers(difference)
    if difference.comparability.is_unrelated:
        return
    yield from _findings(difference, top)
    yield from run_difference.build(difference.run, top)
    yield from _machines(difference, top)
    yield from _rankings(difference, top)
    yield from _trust(difference)


def _answers(difference: Difference) -> Iterator[Section]:
    """The answer, the step times behind it, and the parts of the step."""
    yield Section(
        "verdict",
        word(OUTCOMES, difference.verdict.outcome),
        messages=tuple(step_difference.messages(difference)),
        is_essential=True,
    )
    times = difference.step_time
    if times is not None and not difference.comparability.is_unrelated:
        yield Section("times", _TIMES, tables=(step_difference.times(difference, times),), is_essential=True)
    if difference.unusual:
        yield Section("unusual", _UNUSUAL, tables=(step_difference.unusual(difference),))
    if difference.parts:
        yield Section("parts", _PARTS if times else _PARTS_PRINTED, tables=(_parts(difference.parts),))


def _parts(parts: tuple[ChangedPart, ...]) -> SectionTable:
    """The parts, with shares in the change unless parts changed in opposite directions.

    Some shares would be above 100 % then, and others below 0.
    """
    are_shares = all(0 <= part.change_share <= 1 for part in parts if part.change_share is not None)
    return table("diff_parts", (*_PART_COLUMNS, *([_SHARE] if are_shares else []), _CLEAR), parts)


def _trust(difference: Difference) -> Iterator[Section]:
    """The section on comparability: differences, notes, and all conditions in detail."""
    comparability = difference.comparability
    unlike = [check.message for check in comparability.checks if check.similarity is not None and check.similarity < 1]
    notes = [note for note in difference.notes if note not in unlike]
    messages = tuple(map(short, (*unlike, *notes, *_ignored(difference))))
    facts = (Fact(_SCORE, comparability.score, "share"), *_sides(difference))
    yield Section("trust", _TRUST, messages=messages, facts=facts)
    checks = tuple(short(check.message) for check in comparability.checks)
    yield Section("checks", _ALL_CHECKS, messages=checks, is_detail=True)


def _sides(difference: Difference) -> Iterator[Fact]:
    for label, side in ((_BASE.title, difference.base), (_HEAD.title, difference.head)):
        yield Fact(label, _side(side), "")


def _side(side: Side) -> Message:
    name = shorten(side.name, 120)
    if side.run is not None:
        return _RUN(name=name, run=side.run, title=shorten(side.title or "", 120), steps=side.steps)
    return _SIDE(name=name, steps=side.steps, traces=side.traces)


def _ignored(difference: Difference) -> Iterator[Message]:
    for side in (difference.base, difference.head):
        if side.ignored:
            yield _IGNORED(count=len(side.ignored), name=side.name, files=", ".join(side.ignored[:5]))


def _findings(difference: Difference, top: int) -> Iterator[Section]:
    """The table of fixed, new and remaining findings, with predicted savings."""
    if not difference.findings:
        return
    messages = (difference.prediction.message,) if difference.prediction is not None else ()
    rows = table("diff_findings", _FINDING_COLUMNS, difference.findings, top)
    yield Section("findings", FINDINGS, messages=messages, tables=(rows,), is_essential=True)


def _rankings(difference: Difference, top: int) -> Iterator[Section]:
    """All rankings with changes."""
    for ranking in difference.rankings:
        if ranking.rows:
            yield Section(
                f"diff-{ranking.key}",
                word(_RANKINGS, ranking.key),
                messages=(_SAME(count=ranking.same),) if ranking.same else (),
                tables=(_ranked(ranking, top),),
                is_detail=ranking.key not in _ON_SCREEN,
            )


def _ranked(ranking: Ranking, top: int) -> SectionTable:
    return table(f"diff_{ranking.key}", _columns(ranking.key), ranking.rows[:top], total=len(ranking.rows))


def _columns(key: str) -> tuple[Column, ...]:
    """The columns of a ranking: kernels run on devices, and callers have a path."""
    of_hosts = () if key in _OF_HOSTS else (_ON, *_BOTH_CHANGES)
    shown = tuple(column for column in _RANKING_COLUMNS if column not in of_hosts)
    return tuple(_WITHIN if key == "callers" and column is _OWNER else column for column in shown)


def _main(change: Change) -> str:
    """The resource that a row is about: the one that changed more; the device where neither did."""
    return "host" if abs(change.host_change_ns or 0.0) > abs(change.device_change_ns or 0.0) else "device"


def _of(change: Change, side: Cost | None, field: str) -> float | None:
    """Time on one side: 0 for a row that does not occur, None for a row that may only be missing in a printed table."""
    if side is None:
        other = change.head if change.base is None else change.base
        return None if change.status == "not-printed" or getattr(other, field, None) is None else 0.0
    value: float | None = getattr(side, field)
    return value


def _machines(difference: Difference, top: int) -> Iterator[Section]:
    """The tables of devices with known figures."""
    gpus = [row for gpu in difference.gpus for row in _gpu(gpu)]
    if gpus:
        yield Section("diff-gpu", columns.GPU.title, tables=(_metrics("diff_gpu", gpus, "share", top),))
    memory = [row for peak in difference.memory for row in _memory(peak)]
    if memory:
        yield Section("diff-memory", _MEMORY, tables=(_metrics("diff_memory", memory, "bytes", top),))


def _metrics(name: str, rows: list[tuple[object, ...]], unit: str, top: int) -> SectionTable:
    sides = (replace(side, unit=unit, cell=itemgetter(place)) for place, side in enumerate((_BASE, _HEAD), 1))
    change = replace(_CHANGE, unit="" if unit == "share" else f"+{unit}", cell=itemgetter(3))
    return table(name, (_METRIC, *sides, change), rows, max(top, 4))


def _gpu(gpu: GpuUse) -> Iterator[tuple[object, ...]]:
    for field, label in _GPU_METRICS.items():
        base = getattr(gpu, f"base_{field}")
        head = getattr(gpu, f"head_{field}")
        if base is not None or head is not None:
            change = _change(base, head)
            yield label(device=gpu.device), base, head, None if change is None else _POINTS(points=100 * change)


def _memory(peak: MemoryPeak) -> Iterator[tuple[object, ...]]:
    for field, label in _MEMORY_METRICS.items():
        base = getattr(peak, f"base_{field}_bytes")
        head = getattr(peak, f"head_{field}_bytes")
        if base is not None or head is not None:
            yield label(device=peak.device), base, head, _change(base, head)


def _change(base: float | None, head: float | None) -> float | None:
    return None if base is None or head is None else head - base
