"""The picture "Where the step goes": its parts as one bar, and below it what is in use at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum

from markupsafe import Markup

from traceanalyzer.formats import cards
from traceanalyzer.formats.html.figures import FigureLanguage, cleaned
from traceanalyzer.formats.language import Language
from traceanalyzer.report import units
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Headline, Report
from traceanalyzer.report.names import clean
from traceanalyzer.report.section import Section, SectionColumn, SectionPart, SectionTable

_DEVICE = Text("html-gpu", "GPU {device}")
_NAMED = Text("html-gpu-named", "GPU {device}: {name}")
_MORE_GPUS = Text("html-more-gpus", "{hidden:count} more GPUs below", one="{hidden:count} more GPU below")
_STEP = Text("html-step-length", "Step: {step:ns}.")
_CPU = Text("html-cpu", "CPU")
_ALONE = Text("html-part-alone", "{part} alone", "part is such as DataLoader: time in which only that is going on")
_REST = Text("html-rest", "Rest", "parts of a step that are too small for a legend")

_TONES = {"gpu": "kernel", "host": "cpu-exec", "loader": "dataloader", "communication": "communication"}
_MOST_GPUS = 8
_LEAST = 0.01
"""Least share of a part that has a place in the legend, and of a resource that is shown."""
_WHOLE = 1.005
"""Share from which on work is more than what the step has room for."""


@dataclass(frozen=True)
class Meter:
    """One bar with its label."""

    label: str
    share: str
    of_step: float
    """The share of the step, from 0 to 1."""
    tone: str

    @property
    def percent(self) -> str:
        """The length of the bar, as a CSS length."""
        return percent(self.of_step)


@dataclass(frozen=True)
class Piece:
    """One part of the stacked bar; begin and width are in percent."""

    tone: str
    label: str
    share: str
    begin: str
    width: str
    is_named: bool
    """Whether it is in the legend."""


@dataclass(frozen=True)
class WhereTimeGoes:
    """The picture of one run."""

    run: str | None
    step: str | None
    """The duration of the step, where nothing else on the page says it."""
    says: tuple[Markup, ...]
    parts: tuple[Piece, ...]
    meters: tuple[Meter, ...]
    do_overlap: bool
    """Whether the bars add up to more than the step."""
    more_gpus: str | None
    details: tuple[tuple[str, str], ...]
    """Labelled values, which are folded."""


def pictures(
    report: Report,
    headlines: Sequence[Headline],
    by_id: dict[str, Section],
    says: tuple[Markup, ...],
    details: Iterable[tuple[str, str]],
    runs: dict[str, str],
    language: FigureLanguage,
) -> Iterator[WhereTimeGoes]:
    """One picture for each run of which anything is known.

    Args:
        report: The report.
        headlines: Its headlines, one for each run.
        by_id: Its sections.
        says: What is said of the step in sentences.
        details: Labelled values of the step.
        runs: Titles of the runs, if there are several.
        language: The reader's language, without decimals.
    """
    overview, gpu = by_id.get("overview"), by_id.get("gpu")
    parts = tuple(pieces(overview.parts, language)) if overview else ()
    gpus = tuple(_gpus(gpu.tables[0], report, language)) if gpu else ()
    values = (*details, *(_rest(gpu.tables[0], language) if gpu else ()))
    first = WhereTimeGoes(None, None, says, parts, (), do_overlap=False, more_gpus=None, details=values)
    for headline in headlines or (None,):
        meters = tuple(_meters(headline, gpus, language))
        overlaps = fsum(meter.of_step for meter in meters) >= _WHOLE
        shown = replace(first, meters=meters, do_overlap=overlaps, more_gpus=_more(gpus, language))
        if headline is not None:
            step = None if overview else _step(headline, language)
            shown = replace(shown, run=runs.get(headline.run or ""), step=step)
        shown = replace(shown, parts=tuple(_told_apart(shown.parts, meters, language)))
        if shown.meters or shown.parts:
            yield shown
        first = replace(first, says=(), parts=(), details=())


def _told_apart(parts: Iterable[Piece], meters: Sequence[Meter], language: FigureLanguage) -> Iterator[Piece]:
    """The parts; one that is in use for longer, beside others, is said to be what it is alone."""
    in_full = {meter.label: meter.share for meter in meters}
    for part in parts:
        is_other = in_full.get(part.label, part.share) != part.share
        yield replace(part, label=language.unmarked.text(_ALONE, part=part.label)) if is_other else part


def _meters(headline: Headline | None, gpus: Sequence[Meter], language: FigureLanguage) -> Iterator[Meter]:
    """What is in use: each of several GPUs, or the busiest; then the other resources."""
    resources = list(_resources(headline, language)) if headline else []
    has_gpu = any(meter.tone == "kernel" for meter in resources)
    if len(gpus) > 1 or not has_gpu:
        yield from gpus[:_MOST_GPUS]
        resources = [meter for meter in resources if meter.tone != "kernel"]
    yield from resources


def _more(gpus: Sequence[Meter], language: FigureLanguage) -> str | None:
    hidden = len(gpus) - _MOST_GPUS
    return language.text(_MORE_GPUS, hidden=hidden) if hidden > 0 else None


def _step(headline: Headline, language: FigureLanguage) -> str | None:
    if headline.resources is None:
        return None
    return language.about("headline", headline.run).text(_STEP, step=headline.resources.step_ns)


def pieces(parts: Sequence[SectionPart], language: FigureLanguage) -> Iterator[Piece]:
    """The stacked bar; parts below 1 % are together the rest."""
    named = [part for part in parts if part.share >= _LEAST]
    small = [part for part in parts if part.share < _LEAST]
    rest = fsum(part.share for part in small)
    shown = units.adding_up([*(part.share for part in named), rest])
    begin = 0.0
    for part, rounded in zip(named, shown, strict=False):
        role = part.role.replace("_", "-")
        share = language.marked(language.unmarked.quantity(rounded, "share"), part.share, f"part-{part.role}-share")
        yield Piece(role, language.text(part.label), share, percent(begin), percent(part.share), is_named=True)
        begin += part.share
    if small:
        share = language.marked(language.unmarked.quantity(shown[-1], "share"), rest, "parts-rest-share")
        is_named = shown[-1] > 0
        yield Piece("waiting", language.text(_REST), share, percent(begin), percent(rest), is_named=is_named)


def percent(share: float) -> str:
    """A share in percent, as a CSS length."""
    return f"{100 * min(1.0, max(0.0, share)):.2f}"


def resource_label(key: str, language: Language) -> str:
    """What a resource is called on a page."""
    return language.text(_CPU) if key == "host" else cards.resource_name(key, language)


def _resources(headline: Headline, language: FigureLanguage) -> Iterator[Meter]:
    """What of the step each resource is in use, unless it works on others in it, too: a server launches ahead."""
    language = language.about("headline", headline.run)
    for key, _, share in cards.resources(headline.resources) if headline.resources else ():
        if _LEAST <= share < _WHOLE:
            label = resource_label(key, language)
            yield Meter(label, language.quantity(share, "share", f"resource-{key}-share"), share, _TONES[key])


def _gpus(table: SectionTable, report: Report, language: FigureLanguage) -> Iterator[Meter]:
    """What of the step kernels run on each GPU; the first column of the table is the device, one is the bar."""
    devices = report.trace.devices if report.trace else ()
    names = {device.id: clean(device.name) for device in reversed(devices) if device.name}
    bar = next(i for i, column in enumerate(table.columns) if column.has_bar)
    for row in table.rows:
        name = names.get(row[0]) if len(table.rows) > 1 else None
        told = language.about(f"device-{row[0]}")
        label = told.text(_NAMED, device=row[0], name=name) if name else told.text(_DEVICE, device=row[0])
        share = told.quantity(row[bar], "share", f"{_id(table.columns[bar])}.value")
        yield Meter(label, share, row[bar], "kernel")


def _rest(table: SectionTable, language: FigureLanguage) -> Iterator[tuple[str, str]]:
    """The other figures of the only GPU; of several they are in its section."""
    if len(table.rows) != 1:
        return
    (row,) = table.rows
    told = language.about(f"device-{row[0]}")
    for value, column in list(zip(row, table.columns, strict=True))[1:]:
        if value is not None and not column.is_extra:
            yield told.text(column.title), cleaned(told.quantity(value, column.unit, f"{_id(column)}.value"))


def _id(column: SectionColumn) -> str:
    return column.title.id
