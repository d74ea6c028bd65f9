"""Renders self-contained HTML pages that need no network and no other file, and open quickly.

The page of a report has its sections in groups, the most important first. Data for the script is embedded as JSON that
cannot end its element, for any names in it.

Four things are more than the layout of a section: strip and timeline show times, which no section has; resources of a
headline are meters, because they overlap; findings are cards with addresses, to which others link; the tree of modules
opens.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from traceanalyzer import sections
from traceanalyzer.formats import charts, environment, report_charts, svg
from traceanalyzer.formats.charts import Chart
from traceanalyzer.formats.html import (
    cells,
    figures,
    flames,
    labels,
    strip,
    summary,
    timeline_data,
    waterfall,
)
from traceanalyzer.formats.html.cells import LIMIT, HtmlGrid, PageDetail, stages
from traceanalyzer.formats.html.figures import FigureLanguage
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Generator, Report
from traceanalyzer.report.names import clean, clipped, shorten
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import communication, kernels, memory, modules, phases, ranks, steps

if TYPE_CHECKING:
    from traceanalyzer.formats.html.difference import Opening

_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def as_json(value: Any) -> Markup:
    """Encode a value for a `<script type="application/json">`, without `</script>`, `<!--` and line separators."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_ESCAPES))  # noqa: S704 - nothing is left that HTML could act upon


def policy(style: str, script: str) -> str:
    """A Content-Security-Policy that allows only this style, this script, and images in the page."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def verbatim(source: str) -> Markup:
    """Mark a style or script of this package as safe, unchanged."""
    return Markup(source)  # noqa: S704 - a file of this package, no value in it


MARK = "traceanalyzer"
"""Text that identifies a page of this program, which may be overwritten."""

_TITLE = Text("html-title", "Profile of {name}")
_EVENTS = Text("html-events", "{span:ns}, {events:count} events", one="{span:ns}, {events:count} event")
_TABLES = Text("html-tables", "{count:count} profiler tables", one="{count:count} profiler table")
_RANK = Text("html-rank", "rank {rank} of {world}")
_ROWS = Text("html-rows", "{count:count} rows", one="{count:count} row")
_TREE_MORE = Text("html-more-modules", "{shown:count} of {total:count} modules. All of them:")
_TYPICAL = Text("html-waterfall-step", "Step {step}, {duration:ns}: the typical step that is closest to the mean.")
_ALL = Text("html-waterfall-whole", "The whole trace, {duration:ns}.")

GROUPS: dict[str, Text] = {
    Topic.STORY: Text("html-group-story", "From the first measurement to the last"),
    "findings": Text("html-group-findings", "Findings"),
    Topic.RUNS: Text("html-group-runs", "Runs"),
    Topic.RANKS: ranks.TITLE,
    Topic.PHASES: phases.TITLE,
    "timeline": Text("html-group-timeline", "Timeline"),
    "flames": Text("html-group-flames", "Flame graph"),
    Topic.STEPS: steps.STEPS_TITLE,
    Topic.GPU: Text("html-group-gpu", "GPU and its idle time"),
    Topic.ACCELERATORS: Text("html-group-accelerators", "Devices without recorded kernels"),
    Topic.OPERATORS: Text("html-group-operators", "Operators"),
    Topic.KERNELS: kernels.TITLE,
    Topic.HOST: Text("html-group-cpu", "CPU, launches and copies"),
    Topic.COMMUNICATION: communication.TITLE,
    Topic.MEMORY: memory.TITLE,
    Topic.MODULES: modules.TITLE,
    Topic.MORE: Text("html-group-more", "More"),
    Topic.QUALITY: Text("html-group-quality", "Trace quality"),
    "definitions": Text("html-group-definitions", "How every metric is defined"),
}
"""Titles of the groups in order of importance: the topics of sections, and groups that only a page has."""

_STYLES = ("style", "parts", "timeline")
_SCRIPTS = (
    "page",
    "tables",
    "timeline_data",
    "timeline_range",
    "timeline_pointer",
    "timeline",
    "timeline_links",
    "flames",
    "finder",
)
_PLAIN_SCRIPTS = ("page", "tables", "finder")
_UNFOLDED = (Topic.RUNS, Topic.RANKS, Topic.ACCELERATORS)
"""Topics whose first section is open on the page of a trace; everything else is folded."""
_OF_RANKS = ("chart-ranks-strips", "chart-ranks-cost")
"""Pictures of ranks that the first screen shows, the one that says most first."""
_VERDICT = 160
"""Most characters of the verdict in the title of the page."""


@dataclass(frozen=True)
class PagePicture:
    """One chart, drawn in both widths."""

    title: str
    description: str
    wide: Markup
    narrow: Markup
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PageSection:
    """One section of the page."""

    id: str
    title: str | None
    messages: tuple[Markup, ...]
    facts: tuple[tuple[str, str], ...]
    charts: tuple[PagePicture, ...]
    grids: tuple[HtmlGrid, ...]
    is_folded: bool
    size: str | None
    back: str = ""
    """Where a reader comes from who follows a link of a picture to it."""


@dataclass
class PageGroup:
    """Sections under a common heading."""

    id: str
    title: str
    blocks: list[PageSection] = field(default_factory=list)
    tree: cells.ModuleTree | None = None
    tree_more: str | None = None


def render(report: Report, top: int | None = None, *, language: Language = ENGLISH) -> str:
    """Render the whole report as HTML, in the most detail that fits `LIMIT`."""
    text = ""
    for detail in stages(top):
        text = assemble(report, language, detail)
        if len(text.encode("utf-8", "replace")) <= LIMIT:
            break
    return text


def assemble(report: Report, language: Language, detail: PageDetail) -> str:
    """Assemble the page in the given detail."""
    language = figures.FigureLanguage(language.of_report(report))
    shown = sections.build(report, detail.rows)
    tree = cells.module_tree(report, language.unmarked, detail)
    flame = flames.build(report, language, detail)
    advice = summary.build_findings(report, language, detail)
    anchored = tuple((card.id, card.finding) for card in advice.cards)
    times = timeline_data.times(report, anchored, detail)
    timeline = waterfall.build(report, language, detail, times, [card.card for card in advice.cards])
    terms = _terms(shown, flame, has_timeline=timeline is not None)
    groups = _groups(language)
    drawn = flames.linked(_charts(report, language), shown)
    ranked = next((each for name in _OF_RANKS for each in drawn if each[1].id == name), None)
    _fill(groups, report, shown, tree, [each for each in drawn if each is not ranked], language, detail)
    special = {"findings": advice.cards, "timeline": timeline, "flames": flame, "definitions": terms}
    return (
        environment(autoescape=True)
        .get_template("html/report.html.j2")
        .render(
            page=_frame(report, _present(groups, _order(shown, report), special), language),
            word=SimpleNamespace(**labels.labels(language)),
            summary=summary.build_summary(report, shown, advice, language),
            findings=advice,
            waterfall=_waterfall(timeline, report, language) if timeline else None,
            flames=flame,
            flames_back=flames.way_back(drawn, "flames"),
            as_json=as_json,
            definitions=_definitions(terms, language),
            say=summary.prose,
            named=lambda text: cells.name_of(text, detail),
            brief=lambda text: shorten(clean(text), detail.name),
            code=figures.cleaned_code,
            ranked=picture(ranked[1], language) if ranked else None,
            strip=strip.build(report, times, language.whole(summary.step_ns(report))),
            shows={anchor: times.link(anchor, finding) if times else None for anchor, finding in anchored},
            moment=times.moment if times else lambda _: None,
        )
    )


def _charts(report: Report, language: FigureLanguage) -> list[tuple[str, Chart]]:
    """The charts with the sections that show them; their titles have figures, their pictures only texts."""
    plain_texts, marked = (report_charts.of_report(report, each) for each in (language.unmarked, language))
    return [
        (owner, replace(chart, title=told.title, description=told.description))
        for (owner, chart), (_, told) in zip(plain_texts, marked, strict=True)
    ]


def _groups(language: Language) -> dict[str, PageGroup]:
    return {key: PageGroup(key, language.text(title)) for key, title in GROUPS.items()}


def _definitions(terms: Iterable[Term], language: Language) -> list[tuple[str, str]]:
    return [(language.text(term.name), language.text(term.meaning)) for term in terms]


def _present(groups: Mapping[str, PageGroup], order: Iterable[str], special: Mapping[str, Any]) -> list[PageGroup]:
    """The groups with any content, of their own kind or of sections, in order."""
    ordered = (groups[key] for key in order)
    return [group for group in ordered if special.get(group.id) or group.blocks or group.tree]


def _terms(shown: Iterable[Section], flame: flames.Flames | None, *, has_timeline: bool) -> list[Term]:
    """What the page defines, each term once."""
    terms = [term for section in shown for term in section.terms]
    if has_timeline:
        terms += waterfall.TERMS
    if flame is not None:
        terms += flame.terms
    return list(dict.fromkeys(terms))


def _frame(report: Report, groups: Sequence[PageGroup], language: Language) -> dict[str, Any]:
    """What is around the content: titles, style, script, and the groups to which links lead."""
    style = sheets()
    script = "".join(source(f"{name}.js") for name in _SCRIPTS)
    verdict = summary.verdict(report, figures.rounded(language, summary.step_ns(report)))
    name = clean(report.source.name)
    return {
        "html_lang": language.html_lang,
        "generator": f"{MARK} {report.generator.version}",
        "title": language.text(_TITLE, name=name),
        "tab_title": " - ".join(filter(None, (clipped(verdict, _VERDICT), name))),
        "description": verdict,
        "facts": tuple(_facts(report, language)),
        "groups": groups,
        "style": verbatim(style),
        "script": verbatim(script),
        "policy": policy(style, script),
        "labels": as_json(labels.script_labels(language)),
    }


def _order(shown: Iterable[Section], report: Report) -> list[str]:
    """The groups in order; kernels come before operators if the sections are in that order.

    What holds memory in a snapshot follows its figures.
    """
    order = list(GROUPS)
    if report.trace is None:
        order.remove("flames")
        order.insert(order.index(Topic.MEMORY) + 1, "flames")
    pair = (Topic.OPERATORS, Topic.KERNELS)
    first = next((section.topic for section in shown if section.topic in pair), Topic.OPERATORS)
    if first is Topic.KERNELS:
        order.remove(Topic.KERNELS)
        order.insert(order.index(Topic.OPERATORS), Topic.KERNELS)
    return order


def sheets() -> str:
    """The style of all pages."""
    return "".join(source(f"{name}.css") for name in _STYLES)


def source(name: str, folder: str = "html") -> str:
    """Text of a template's file for the page; it must stay unchanged, because the policy contains its hash."""
    env = environment(autoescape=True)
    assert env.loader is not None  # noqa: S101 - the environment is ours
    return env.loader.get_source(env, f"{folder}/{name}")[0]


def _facts(report: Report, language: Language) -> Iterator[str]:
    trace = report.trace
    if trace is None:
        tables = report.result("tables", tuple)
        if tables is not None:
            yield language.text(_TABLES, count=len(tables))
        return
    names = dict.fromkeys(clean(device.name) for device in trace.devices[:16] if device.name)
    yield from (language.marked(name, name, "device") for name in names)
    yield language.text(_EVENTS, events=trace.events, span=trace.span_ns)
    if trace.rank is not None and trace.world_size is not None:
        yield language.text(_RANK, rank=trace.rank, world=trace.world_size)


def _fill(
    groups: dict[str, PageGroup],
    report: Report,
    shown: Iterable[Section],
    tree: cells.ModuleTree | None,
    drawn: Sequence[tuple[str, Chart]],
    language: Language,
    detail: PageDetail,
) -> None:
    """Add each section to its group; of a trace, only the first of the most important groups are open."""
    for section in shown:
        if section.topic is Topic.SUMMARY or (section.is_tree and tree):
            continue
        group = groups[section.topic]
        pictures = tuple(picture(chart, language) for owner, chart in drawn if owner == section.id)
        made = block(section, pictures, group, language, detail, fold=report.trace is not None)
        group.blocks.append(replace(made, back=flames.way_back(drawn, made.id)))
    if tree is not None:
        groups["modules"].tree = tree
        if len(tree.nodes) < tree.total:
            groups["modules"].tree_more = language.text(_TREE_MORE, shown=len(tree.nodes), total=tree.total)


def block(
    section: Section,
    pictures: tuple[PagePicture, ...],
    group: PageGroup,
    language: Language,
    detail: PageDetail,
    *,
    fold: bool = False,
) -> PageSection:
    """A section in its group, without a title if it equals that of the group.

    Args:
        section: The section.
        pictures: Its charts.
        group: The group so far.
        language: The reader's language.
        detail: The level of detail.
        fold: Whether only the most important sections are open.
    """
    language = language.about(section.id)
    title = figures.cleaned(language.text(section.title))
    grids = tuple(cells.grid(table, title, language, detail) for table in section.tables if table.rows)
    rows = sum(len(grid.rows) for grid in grids)
    is_first = not group.blocks
    is_folded = (section.is_detail and not is_first) or (fold and not (is_first and section.topic in _UNFOLDED))
    return PageSection(
        id=f"section-{section.id}",
        title=None if title == group.title and is_first and not is_folded else title,
        messages=tuple(summary.prose(language.say(message)) for message in section.messages),
        facts=tuple(summary.facts(section, language)),
        charts=pictures,
        grids=grids,
        is_folded=is_folded,
        size=language.text(_ROWS, count=rows) if rows else None,
    )


def picture(chart: Chart, language: Language) -> PagePicture:
    """A chart in both widths, with its legend."""
    legend = tuple((part.role.replace("_", "-"), part.label) for part in chart.legend)
    return PagePicture(
        chart.title,
        chart.description,
        svg.element(chart, language, charts.WIDE),
        svg.element(chart, language, charts.NARROW),
        legend,
    )


def _waterfall(fall: waterfall.Waterfall, report: Report, language: Language) -> dict[str, Any]:
    marked = report.trace is not None and report.trace.steps_from == "ProfilerStep"
    return {
        "message": language.text(_TYPICAL if marked else _ALL, step=fall.step, duration=fall.duration_ns),
        "tones": [(tone.replace("_", "-"), label) for tone, label in fall.tones],
        "strips": fall.strips,
        "grid": waterfall.GRID,
        "data": as_json(fall.data),
    }


def plain(
    generator: Generator,
    title: str,
    shown: Iterable[Section],
    language: Language,
    charts_of: Mapping[str, Iterable[Chart]] | None = None,
    opening: Opening | None = None,
) -> str:
    """Render a page of sections.

    Args:
        generator: The program that creates it.
        title: Its title, safe to show.
        shown: The sections.
        language: Language of the texts.
        charts_of: Charts by the id of the section that shows them.
        opening: What is above them, of a difference; it has the content of some sections.
    """
    detail = next(iter(stages(None)))
    style = sheets()
    script = "".join(source(f"{name}.js") for name in _PLAIN_SCRIPTS)
    language = figures.FigureLanguage(language)
    groups: list[PageGroup] = []
    for section in shown:
        if opening is not None and section.id in opening.sections:
            continue
        if not (groups and section.is_detail):  # details are folded below the section before them
            groups.append(PageGroup(section.id, figures.cleaned(language.text(section.title))))
        pictures = tuple(picture(chart, language.unmarked) for chart in (charts_of or {}).get(section.id, ()))
        groups[-1].blocks.append(block(section, pictures, groups[-1], language, detail))
    return (
        environment(autoescape=True)
        .get_template("html/plain.html.j2")
        .render(
            page={
                "html_lang": language.html_lang,
                "generator": f"{MARK} {generator.version}",
                "title": title,
                "tab": opening.tab if opening is not None else title,
                "groups": groups,
                "style": verbatim(style),
                "script": verbatim(script),
                "policy": policy(style, script),
                "labels": as_json(labels.script_labels(language)),
            },
            opening=opening,
            word=SimpleNamespace(**labels.labels(language) | {"all_rows_command": "-o x.json"}),
            say=summary.prose,
            brief=lambda text: shorten(clean(text), detail.name),
        )
    )
