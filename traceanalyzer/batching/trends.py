"""The page of a history: how the step of each program changed from run to run, and which run was the first slower one.

A run is compared with those before it, back to the last change, by the tests of `diff`; the next run must confirm it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from statistics import median

from traceanalyzer._version import __version__
from traceanalyzer.batching.history import HistoryRow
from traceanalyzer.batching.index import BOUND, BOUNDS, BUSY, GPU, RUN, STEP
from traceanalyzer.comparison import verdict
from traceanalyzer.comparison.measurement import Measurement, StepRow
from traceanalyzer.formats import html, markdown
from traceanalyzer.formats.charts import Series, StackedBars
from traceanalyzer.formats.difference_sections import OUTCOMES
from traceanalyzer.formats.language import Language
from traceanalyzer.inputs.storage import Folder
from traceanalyzer.report.difference import Comparability, Side, Verdict
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Generator
from traceanalyzer.report.names import clean, word
from traceanalyzer.report.section import Section
from traceanalyzer.sections.columns import Column, known, table

HTML, MARKDOWN = "history.html", "history.md"
PAGES = (HTML, MARKDOWN)

TITLE = Text("history-title", "How steps changed from run to run")
_SERIES = Text("history-series", "{name} on {device}", "name of a program, name of a GPU")
_SERIES_OF_RANKS = Text("history-series-ranks", "{name} on {ranks:count} x {device}", "ranks is a number of GPUs")
_SERIES_WITHOUT = Text("history-series-without-gpu", "{name} without a GPU", "name of a program")
_SLOWER = Text(
    "history-first-slower",
    "The first run that got slower is {name}, recorded {when}. {reason}",
    "name of a run, its time, and a sentence: the median step is 5 % slower",
)
_STEADY = Text(
    "history-none-slower",
    "None of {count:count} runs is slower than those before it, as far as their steps show.",
)
_CHART = Text("history-chart", "Typical step of each run")
_CHART_SAY = Text(
    "history-chart-description",
    "{count:count} runs, from {low:ns} to {high:ns}; the dashed line is the median, {median:ns}. Runs that got slower: "
    "{slower:count}.",
)
_ONCE = Text("history-once", "Programs with a single run")
_WHEN = Column(Text("history-column-when", "Recorded", "time when a run was recorded"), "", lambda run: when(run.row))
_RUN = Column(RUN, "", "row.name", is_name=True)
_OUTCOME = Column(
    Text("history-column-outcome", "Against those before", "whether a run is slower or faster than those before it"),
    "",
    "outcome",
    if_any=bool,
)
_CHANGE = Column(
    Text("history-column-change", "Change", "of the step"),
    "+share",
    lambda run: run.verdict.change_share if run.verdict else None,
    if_any=known,
)
_ONLY_HERE = {
    "slower": Text("history-slower-once", "Slower, the next is not", "a run and the next one"),
    "faster": Text("history-faster-once", "Faster, the next is not", "a run and the next one"),
}
_SAVING = Column(
    Text("history-column-saving", "All fixes save", "time per step"),
    "estimate",
    lambda run: None if run.row.saving_high_ns is None else (run.row.saving_low_ns, None, run.row.saving_high_ns),
    if_any=known,
)
_COLUMNS = (
    _WHEN,
    _RUN,
    Column(STEP, "ns", "row.step_ns"),
    _CHANGE,
    _OUTCOME,
    Column(BUSY, "share", "row.busy_share", if_any=known),
    Column(BOUND, "", lambda run: word(BOUNDS, run.row.bound) if run.row.bound else None, if_any=known),
    _SAVING,
)
_SHOWN = 200
_OLDER = 10
"""Most runs before another one with which it is compared; what ran long ago matters less (own choice)."""


@dataclass(frozen=True)
class RunInSeries:
    """A run of a program, and how it compares with those before it."""

    row: HistoryRow
    verdict: Verdict | None
    """None for the first run, and for those without steps."""

    is_change: bool = False
    """Whether steps change here: this run differs from those before it by more than noise, and so does the next."""

    @property
    def is_slower(self) -> bool:
        """Whether steps get slower here."""
        return self.is_change and self.verdict is not None and self.verdict.outcome == "slower"

    @property
    def outcome(self) -> Text | Message | str:
        """How it compares, in words."""
        if self.verdict is None:
            return ""
        known_words = OUTCOMES if self.is_change else {**OUTCOMES, **_ONLY_HERE}
        return word(known_words, self.verdict.outcome)


def series(rows: Iterable[HistoryRow]) -> dict[tuple[str, str, int], list[RunInSeries]]:
    """The runs of each program in the order of time, compared with those before them."""
    by_series: defaultdict[tuple[str, str, int], list[HistoryRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.recorded_ns or 0, row.name)):
        by_series[row.series].append(row)
    return {key: list(_compared(by_series[key])) for key in sorted(by_series)}


def _compared(rows: list[HistoryRow]) -> Iterator[RunInSeries]:
    """Each run with how it compares with those before it, back to the last change.

    One of twenty runs that are alike differs by chance: a change must show in the next run, too, if there is one.
    """
    before: list[HistoryRow] = []
    timed = [row for row in rows if row.step_durations_ns]
    following = {id(row): later for row, later in zip_longest(timed, timed[1:])}
    for row in rows:
        if id(row) not in following:
            yield RunInSeries(row, None)
            continue
        compared = _verdict(before[-_OLDER:], row) if before else None
        is_change = compared is not None and compared.outcome in _ONLY_HERE
        if compared is not None and is_change and (later := following[id(row)]) is not None:
            is_change = _verdict(before[-_OLDER:], later).outcome == compared.outcome
        before = [row] if is_change else [*before, row]
        yield RunInSeries(row, compared, is_change)


def _verdict(before: list[HistoryRow], row: HistoryRow) -> Verdict:
    base, head = _measurement(before), _measurement([row])
    return verdict.judge(base, head, verdict.compare(base, head), Comparability(None, ()), None)


def _measurement(rows: list[HistoryRow]) -> Measurement:
    """The steps of some runs, as one side of a comparison."""
    first = rows[0]
    parts = {"kernel": 1.0} if first.devices else {}  # tells a program on a GPU from one on a CPU
    runs = tuple(tuple(StepRow(float(ns), parts) for ns in row.step_durations_ns) for row in rows)
    side = Side(first.name, "kineto", None, None, len(rows), (), (), sum(map(len, runs)), None, (), ())
    return Measurement(side, runs, None, {}, {}, {}, {}, None, (), None, None)


def when(row: HistoryRow) -> str | None:
    """When a run was recorded, in UTC to the minute; None if unknown."""
    if row.recorded_ns is None:
        return None
    return f"{datetime.fromtimestamp(row.recorded_ns // 10**9, UTC):%Y-%m-%d %H:%M}"


def write(rows: Iterable[HistoryRow], folder: Folder, language: Language) -> None:
    """Write the trends as an HTML and as a Markdown page."""
    several: list[list[RunInSeries]] = []
    once: list[list[RunInSeries]] = []
    for runs in series(rows).values():
        (several if len(runs) > 1 else once).append(runs)
    several.sort(key=lambda runs: not any(run.is_slower for run in runs))
    shown, pictures = [], {}
    for number, runs in enumerate(several, 1):
        id_ = f"series-{number}"
        shown.append(_section(id_, runs))
        pictures[id_] = [_chart(id_, runs, language)]
    if once:
        shown.append(_alone([runs[0] for runs in once]))
    generator, title = Generator("traceanalyzer", __version__), language.text(TITLE)
    page = html.plain(generator, title, shown, language, pictures)
    text = markdown.fitted(markdown.MARK, generator, title, lambda _: shown, language)
    _save(folder, HTML, page)
    _save(folder, MARKDOWN, text)


def _save(folder: Folder, name: str, text: str) -> None:
    with folder.creating(name) as file:
        file.write(text.encode("utf-8", "replace"))


def _alone(runs: list[RunInSeries]) -> Section:
    """Programs of which there is one run."""
    columns = (_WHEN, _RUN, Column(GPU, "", "row.device", if_any=known), *_COLUMNS[2:])
    return Section("once", _ONCE, tables=(table("once", columns, runs, _SHOWN),))


def _section(id_: str, runs: list[RunInSeries]) -> Section:
    """One program: what got slower first, and its runs, the last one first."""
    name, device, ranks = runs[-1].row.series
    title = _SERIES_WITHOUT(name=name)
    if device:
        title = (
            _SERIES_OF_RANKS(name=name, device=device, ranks=ranks) if ranks > 1 else _SERIES(name=name, device=device)
        )
    return Section(
        id_,
        title,
        messages=(_message(runs),),
        tables=(table(id_, _COLUMNS, runs[::-1], _SHOWN),),
        is_essential=True,
    )


def _message(runs: list[RunInSeries]) -> Message:
    first = next((run for run in runs if run.is_slower and run.verdict), None)
    if first is None or first.verdict is None:
        return _STEADY(count=len(runs))
    return _SLOWER(name=f"`{clean(first.row.name)}`", when=when(first.row) or "?", reason=first.verdict.reason)


def _chart(id_: str, runs: list[RunInSeries], language: Language) -> StackedBars:
    """The typical step of each run that has one, those marked that got slower."""
    known_runs = [run for run in runs if run.row.step_ns is not None] or runs[:1]
    steps = tuple(run.row.step_ns or 0.0 for run in known_runs)
    marked = tuple(number for number, run in enumerate(known_runs) if run.is_slower)
    told = {"low": min(steps), "high": max(steps), "median": median(steps)}
    return StackedBars(
        f"chart-{id_}",
        language.text(_CHART),
        language.text(_CHART_SAY, count=len(steps), slower=len(marked), **told),
        "ns",
        tuple((when(run.row) or "?")[5:10] for run in known_runs),
        (Series(language.text(STEP), "cpu_exec", steps),),
        median(steps),
        marked,
    )
