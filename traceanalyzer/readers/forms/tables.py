"""Reads tables of other tools, and the timers that they print in lines of logs."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from msgspec.structs import replace

from traceanalyzer.knowledge.marks import part_of
from traceanalyzer.readers.forms import values
from traceanalyzer.readers.forms.descriptions import Form, FormColumn, forms
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.surroundings import heading_above
from traceanalyzer.trace.document import ProfilerTable, TableRow, TableTotals
from traceanalyzer.trace.model import Loss

FORM_COLUMN_UNKNOWN = "read-form-column-unknown"
FORM_ROW_UNREADABLE = "read-form-row-unreadable"

_LONGEST = 4000
"""Number of characters of a line that are searched."""
_MOST_OTHER_LINES = 5
_ON_DEVICE = frozenset({"kernel", "copy"})
_BARS = "|│"
_RULE = re.compile(r"-{3}.*-{3}|(?=.*[-=─]{3})[\s|+:=_─│┼-]+")
_LOADING = re.compile(r"dataloader\.py:[0-9]+\((?:\w+\.)?(?:__next__|_next_data)\)")
"""Functions of torch in which a program waits for a batch."""
_LOOP = re.compile(r"[0-9]+: (?:async )?for\b.*\bin\b.*\b\w*loader\w*\b", re.IGNORECASE)
"""Lines of programs in which they wait for a batch."""
_RESULT = re.compile(
    r"\.(?:item|cpu|tolist|numpy|synchronize)\(\)|\{method '(?:item|cpu|tolist)' of 'torch\.|_cuda_synchronize\b"
)
"""Lines and functions in which a program waits for what it launched on a device before."""


@dataclass(frozen=True)
class _Head:
    """The header of a table: its columns in order, and what separates their cells."""

    form: Form
    columns: tuple[FormColumn | None, ...]
    """None for a column with an unknown name."""
    separator: str | None
    row: str
    units: Mapping[int, str] = field(default_factory=dict)
    """Units that the header gives, by column."""


def read_tables(lines: Lines, *, with_others: bool) -> tuple[list[ProfilerTable], list[Loss]]:
    """All tables of other tools in a document, and what could not be read.

    Args:
        lines: The document.
        with_others: Whether it has tables of the profiler, too; then no table that a person made counts.
    """
    known = [form for form in forms()["table"] if not (with_others and form.row == "named")]
    tables: list[ProfilerTable] = []
    losses: Counter[str] = Counter()
    first = 0
    end = 0
    for index in range(len(lines)):
        if index < end or not (head := _head(lines[index], known)):
            continue
        body = _Body(lines, index, head)
        if body.rows:
            tables.append(_table(lines, index, head, body))
            losses[FORM_COLUMN_UNKNOWN] += sum(column is None for column in head.columns)
            losses[FORM_ROW_UNREADABLE] += body.other_lines
            first, end = first or lines.number(index), body.end
    return tables, [Loss(loss, losses[loss], {"line": first}) for loss in sorted(losses) if losses[loss]]


def _head(line: str, known: Sequence[Form]) -> _Head | None:
    """The header in a line; None if it is of no form, or has no names or no times."""
    text = line.rstrip()
    if len(line) > _LONGEST:
        return None
    if '","' in text:  # each name of a CSV file may be quoted
        text = text.replace('"', "")
    form = next((form for form in known if form.header and form.header.search(text)), None)
    if form is None:
        return None
    separator = "|" if any(bar in text for bar in _BARS) else "," if text.count(",") > 1 else None
    if separator is None:
        return _Head(form, tuple(_in_order(text, form.columns)), None, form.row)
    head = _of_cells(form, _cells(text, separator), separator)
    holds = {column.holds for column in head.columns if column}
    return head if "name" in holds and {"total", "self"} & holds else None


def _of_cells(form: Form, names: Sequence[str], separator: str) -> _Head:
    """The header whose cells are these names."""
    units: dict[int, str] = {}
    row = form.row
    columns: list[FormColumn | None] = []
    for place, name in enumerate(names):
        match, column = _matching(name, form.columns, {column.holds for column in columns if column})
        groups = match.groupdict() if match else {}
        row = (groups.get("row") or row).lower()
        units |= {place: groups["unit"]} if groups.get("unit") else {}
        columns.append(column)
    return _Head(form, tuple(columns), separator, row, units)


def _matching(
    name: str, columns: Sequence[FormColumn], taken: set[str]
) -> tuple[re.Match[str] | None, FormColumn | None]:
    for column in columns:
        if (column.holds == "skip" or column.holds not in taken) and (match := column.pattern.fullmatch(name)):
            return match, column
    return None, None


def _in_order(text: str, columns: Sequence[FormColumn]) -> Iterator[FormColumn | None]:
    """The columns of a header without separators; words of unknown names are unknown columns."""
    at = 0
    taken: set[str] = set()
    while (start := re.compile(r"\S").search(text, at)) is not None:
        at = start.start()
        for column in columns:
            match = column.pattern.match(text, at)
            if match and column.holds not in taken and (match.end() == len(text) or text[match.end()].isspace()):
                taken |= {column.holds} - {"skip"}
                yield column
                at = match.end()
                break
        else:
            yield None
            at = text.find(" ", at) if " " in text[at:] else len(text)


def _cells(line: str, separator: str) -> list[str]:
    text = line.strip().strip(">").strip()
    if separator == ",":
        return [cell.strip() for cell in next(csv.reader([text]), [])]
    text = text if "|" in text else text.replace("│", "|")
    text = text.removeprefix("|").removesuffix("|")
    return [cell.strip().strip("*`").strip() for cell in text.split("|")]


class _Body:
    """The rows below a header."""

    def __init__(self, lines: Lines, at: int, head: _Head) -> None:
        self.rows: list[TableRow] = []
        self.other_lines = 0
        self.end = at + 1
        self.whole: int | None = None
        self._head, self._kind = head, head.row
        self.unit = _above(lines, at, head.form, head.form.scale, "scale")
        others = 0
        for index in range(at + 1, len(lines)):
            text = lines[index].rstrip()
            if not text.strip() and self.rows:
                break
            if not text.strip() or _RULE.fullmatch(text.strip()):
                continue
            if self._goes_on(text):
                self.end = index + 1
            elif self._take(lines.number(index), text):
                self.other_lines += others
                others, self.end = 0, index + 1
            elif others == _MOST_OTHER_LINES or text.startswith("```"):
                break
            else:
                others += not self._is_without_time(text)

    def _goes_on(self, text: str) -> bool:
        """Whether a line is the rest of the last row's name, whose brackets it closes."""
        last = self.rows[-1] if self.rows and self._head.separator is None else None
        whole = f"{last.name} {text.strip()}" if last else ""
        if last is None or _is_closed(last.name) or not _is_closed(whole) or text.strip()[:1].isdigit():
            return False
        self.rows[-1] = replace(last, name=whole)
        return True

    def _is_without_time(self, text: str) -> bool:
        """Whether it is a line of a program that did not run."""
        return (
            any(column and column.holds == "line" for column in self._head.columns)
            and text.split(maxsplit=1)[0].isdigit()
        )

    def _take(self, line: int, text: str) -> bool:
        for label, kind in self._head.form.labels.items():
            if text.lstrip().startswith(label):
                self._kind, text = kind, text.replace(label, " " * len(label), 1)
        cells = self._split(text)
        row = cells and self._row(line, cells)
        if not row:
            return False
        if row.name == self._head.form.whole:
            self.whole = row.cpu_total_ns
        else:
            self.rows.append(row)
        return True

    def _split(self, text: str) -> dict[int, str] | None:
        """The cells of a row by column; None if it has not as many."""
        columns = self._head.columns
        if self._head.separator:
            cells = _cells(text, self._head.separator)
            return dict(enumerate(cells)) if len(cells) == len(columns) else None
        return self._by_words(text.split())

    def _by_words(self, words: list[str]) -> dict[int, str] | None:
        """The cells of a row without separators: the name has all words that the other columns leave."""
        counts = {
            place: column.words if column else 1
            for place, column in enumerate(self._head.columns)
            if column is None or column.holds != "label"
        }
        name = next((n for n, column in enumerate(self._head.columns) if column and column.holds == "name"), None)
        left = len(words) - sum(count for place, count in counts.items() if place != name)
        if left < 1:
            return None
        found = {}
        position = 0
        for place, count in counts.items():
            end = position + (left if place == name else count)
            found[place], position = " ".join(words[position:end]), end
        return found

    def _row(self, line: int, cells: Mapping[int, str]) -> TableRow | None:
        """The row that the cells describe; None if its time cannot be read."""
        found: dict[str, str] = {}
        times: dict[str, int | None] = {}
        for place, column in enumerate(self._head.columns):
            if column is None or column.holds in ("skip", "label") or place not in cells:
                continue
            found[column.holds] = cells[place]
            if column.unit:
                words = cells[place].split()
                first = words[0] if column.words > 1 and words else cells[place]
                times[column.holds] = values.time_ns(first, self._unit(place, column))
        time = times.get("self") if times.get("total") is None else times["total"]
        if not found.get("name") or time is None:
            return None
        return make_row(
            line,
            f"{found['line']}: {found['name']}" if "line" in found else found["name"],
            self._kind,
            time,
            own=times.get("self"),
            device=times.get("device"),
            calls=values.count(found.get("calls", "")),
            share=values.share(found.get("share", "")),
            is_nested=self._head.form.nested,
        )

    def _unit(self, place: int, column: FormColumn) -> str | Decimal:
        if column.unit == "header":
            return self._head.units.get(place, "")
        if column.unit in ("timer", "scale"):
            number = values.number(self.unit or "")
            return self.unit or "" if number is None else number
        return "" if column.unit == "printed" else column.unit


def _is_closed(name: str) -> bool:
    """Whether all brackets of a name are closed."""
    return all(name.count(opening) == name.count(closing) for opening, closing in ("{}", "()"))


def make_row(
    line: int,
    name: str,
    kind: str,
    time: int,
    *,
    own: int | None = None,
    device: int | None = None,
    calls: int | None = None,
    share: float | None = None,
    is_nested: bool = False,
    within: str | None = None,
) -> TableRow:
    """A row of another tool's table, with its time where it belongs: on the device, or on the host.

    Args:
        line: 1-based line of the document.
        name: As printed.
        kind: What the row is.
        time: Its time in ns, with what it contains.
        own: Its time without what it contains, where it is printed.
        device: Its time on the device, where the table has both.
        calls: Number of calls.
        share: Share of the time, as printed.
        is_nested: Whether `time` contains that of other rows.
        within: Name of the row that contains it.
    """
    if kind == "kernel" and name.startswith("[CUDA mem"):
        kind = "copy"
    row = TableRow(line=line, name=name, calls=calls, form_row=kind, within=within)
    if kind in _ON_DEVICE:
        return replace(row, self_device_ns=time, device_total_ns=time, self_device_share=share)
    part = _part_of_code(name) if kind in ("function", "line") else part_of(name)
    own = own if own is not None or is_nested or within else time
    part = None if kind == "call" else part
    return replace(row, self_cpu_ns=own, cpu_total_ns=time, cpu_total_share=share, device_total_ns=device, part=part)


def _part_of_code(name: str) -> str | None:
    """What a function or a line of a program waits for; None if it is not known to wait."""
    if _LOADING.search(name) or _LOOP.match(name):
        return "loader"
    return "result" if _RESULT.search(name) else None


def _above(lines: Lines, at: int, form: Form, pattern: re.Pattern[str] | None, group: str) -> str | None:
    """What a pattern finds in the lines above a header, the nearest first."""
    if pattern is None:
        return None
    found = (pattern.search(lines[index]) for index in range(at - 1, max(-1, at - 1 - form.above), -1))
    match = next((match for match in found if match), None)
    if match is None:
        return None
    groups = match.groupdict()
    return groups.get(group) or groups.get("unit")


def _table(lines: Lines, at: int, head: _Head, body: _Body) -> ProfilerTable:
    whole = body.whole
    if whole is None and head.form.before and (total := _above(lines, at, head.form, head.form.before, "total")):
        has_unit = "unit" in head.form.before.groupindex
        whole = values.time_ns(total, "s" if has_unit else body.unit or "")
    return make_table(head.form, lines.number(at), heading_above(lines, at), _placed(body.rows, head.form), whole)


def _placed(rows: Sequence[TableRow], form: Form) -> list[TableRow]:
    """The rows, each with what contains it, as the form knows it and as their times allow."""
    times = {row.name: row.cpu_total_ns or 0 for row in rows}
    outer = {
        name: next((full for full in _containers(name, form, times) if times[full] >= time), None)
        for name, time in times.items()
    }
    return [replace(row, within=outer[row.name]) if outer[row.name] else row for row in rows]


def make_table(
    form: Form, line: int, title: str | None, rows: Sequence[TableRow], whole: int | None, steps: int | None = None
) -> ProfilerTable:
    """A table of a form; without a printed total, the sum of what contains no other row, or what shares mean."""
    of_host = [row for row in rows if row.form_row not in (*_ON_DEVICE, "call")]
    device = [row for row in rows if row.form_row in _ON_DEVICE]
    if whole is None and not form.nested:
        whole = _sum([(row.cpu_total_ns, row.cpu_total_share) for row in of_host if not row.within])
    on_device = _sum([(row.self_device_ns, row.self_device_share) for row in device])
    return ProfilerTable(
        title=title,
        section=title,
        line=line,
        columns=tuple(
            name
            for name in ("name", "calls", "self_cpu_ns", "cpu_total_ns", "self_device_ns", "device_total_ns")
            if any(getattr(row, name) is not None for row in rows)
        ),
        device=None,
        rows=tuple(rows),
        totals=TableTotals(self_cpu_ns=whole, self_device_ns=on_device),
        form=form.id,
        tool=form.tool,
        form_steps=steps,
    )


def _sum(times: Sequence[tuple[int | None, float | None]]) -> int | None:
    """The sum of times, or what the largest share of the total says, if that is more: rows may be missing."""
    known = [(time, share) for time, share in times if time is not None]
    if not known:
        return None
    time, share = max(known, key=lambda pair: pair[0])
    return max(sum(time for time, _ in known), round(time / share) if share and share >= _LEAST_SHARE else 0)


_LEAST_SHARE = 0.05
"""Own choice: shares are printed with one digit, so that a total from a smaller one could be wrong by a hundredth."""


def read_pairs(lines: Lines) -> list[ProfilerTable]:
    """Timers in lines of logs; each is one table, with the sums over all lines."""
    return [table for form in forms()["pairs"] if (table := _of_pairs(lines, form)) is not None]


def _timers(lines: Lines, form: Form) -> tuple[int, dict[str, list[int]]]:
    """The first line with timers of a form, and all times by name."""
    times: dict[str, list[int]] = {}
    first = None
    for index in range(len(lines)):
        text = lines[index][:_LONGEST]
        if not form.line or not form.pair or not form.line.search(text):
            continue
        first = index if first is None else first
        for match in form.pair.finditer(text):
            unit = match.groupdict().get("unit") or form.unit
            if (time := values.time_ns(match["value"], unit)) is not None:
                times.setdefault(match["name"], []).append(time)
    return first or 0, times


def _of_pairs(lines: Lines, form: Form) -> ProfilerTable | None:
    first, times = _timers(lines, form)
    if not times or len(times) < form.least:
        return None
    outer = {name: _within(name, form, times) for name in times}
    steps = max(len(own) for name, own in times.items() if outer[name] is None)
    rows = [
        make_row(lines.number(first), name, "phase", sum(own), calls=len(own), within=outer[name])
        for name, own in times.items()
        if name != form.whole
    ]
    whole = sum(times[form.whole]) if form.whole in times else None
    return make_table(form, lines.number(first), heading_above(lines, first), rows, whole, steps) if rows else None


def _within(name: str, form: Form, known: Mapping[str, object]) -> str | None:
    """The timer that contains another one, if it is printed, too."""
    return next(_containers(name, form, known), None)


def _containers(name: str, form: Form, known: Mapping[str, object]) -> Iterator[str]:
    """The printed names that may contain another one, as the form knows it, the likeliest first."""
    containers = [match.expand(outer) for pattern, outer in form.within if (match := pattern.fullmatch(name))]
    found = (full for inner in containers for full in known if full == inner or full.endswith(f".{inner}"))
    return (full for full in found if full != name)
