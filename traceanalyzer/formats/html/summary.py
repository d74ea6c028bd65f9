"""Prepares the first screen: the bound of the step, its parts, device utilization, and the largest savings.

Figures come from the sections, except the resources of a headline: they overlap, so no section has them as parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from traceanalyzer.analyzers.idle.gpu import GpuMetrics
from traceanalyzer.formats import finding_texts, several_runs
from traceanalyzer.formats.html.findings import Findings, HtmlCard, prose, run_titles
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.names import clean
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Headline, Report
from traceanalyzer.report.section import Section, SectionTable
from traceanalyzer.structure.recording import Recording

_STEP = Text("html-step-length", "Step: {step:ns}.")
_DEVICE = Text("html-gpu", "GPU {device}")
_NAMED = Text("html-gpu-named", "GPU {device}: {name}")
_TYPICAL = Text(
    "html-utilization-typical",
    "In a typical step the GPU works for {share:share} of the time. The figures above cover all marked steps.",
    note="below the shares of time for which kernels run on each GPU",
)
_EARLIER = Text(
    "html-utilization-earlier-work",
    "In a typical step the GPU works for {share:share} of the time. The figures above also cover time in which it "
    "most likely still ran unrecorded work from before the recording.",
    note="below the shares of time for which kernels run on each GPU",
)
_DIFFERS = 0.1
"""Least difference between a GPU's utilization and its share of a typical step that a text explains."""
_MORE_GPUS = Text("html-more-gpus", "{hidden:count} more GPUs below", one="{hidden:count} more GPU below")
_DOUBTS = Text("html-doubts", "Warnings: {count:count}")

_TONES = {"gpu": "kernel", "host": "cpu-exec", "loader": "dataloader", "communication": "communication"}
_MOST_GPUS = 8
_BEST = 3


@dataclass(frozen=True)
class Meter:
    """One bar with its label."""

    label: str
    value: str
    share: str
    percent: str
    tone: str


@dataclass(frozen=True)
class SummaryOpening:
    """The bound of one run, with figures."""

    run: str | None
    text: Markup
    step: str
    resources: tuple[Meter, ...]


@dataclass(frozen=True)
class Piece:
    """One part of the stacked bar; begin and width are in percent."""

    tone: str
    label: str
    value: str
    share: str
    begin: str
    width: str


@dataclass(frozen=True)
class DeviceMeters:
    """Bars for one GPU."""

    label: str
    value: str
    percent: str
    rest: tuple[tuple[str, str], ...]
    """Other labelled values of the GPU."""


@dataclass(frozen=True)
class Summary:
    """All content of the first screen of the page."""

    headlines: tuple[SummaryOpening, ...]
    messages: tuple[Markup, ...]
    doubts: str | None
    parts: tuple[Piece, ...]
    facts: tuple[tuple[str, str], ...]
    gpus: tuple[DeviceMeters, ...]
    more_gpus: str | None
    why_other: str | None
    """Why the GPUs' utilization differs from that in the headline; None if they are about equal."""
    best: tuple[HtmlCard, ...]
    no_findings: Markup | None


def build(report: Report, shown: Iterable[Section], findings: Findings, language: Language) -> Summary:
    """Prepare the first screen of the page.

    Args:
        report: The report.
        shown: Its sections.
        findings: The findings of the page.
        language: The reader's language.
    """
    by_id = {section.id: section for section in shown}
    overview, gpu, advice = (by_id.get(id_) for id_ in ("overview", "gpu", "findings"))
    gpus = tuple(_devices(gpu.tables[0], report, language)) if gpu else ()
    hidden = len(gpus) - _MOST_GPUS
    runs = run_titles(report, language)
    return Summary(
        headlines=tuple(_opening(headline, runs, language) for headline in several_runs.headlines(report)),
        messages=tuple(prose(language.say(message)) for message in overview.messages) if overview else (),
        doubts=language.text(_DOUBTS, count=len(report.warnings)) if report.warnings else None,
        parts=tuple(_parts(overview, language)) if overview else (),
        facts=tuple(facts(overview, language)) if overview else (),
        gpus=gpus[:_MOST_GPUS],
        more_gpus=language.text(_MORE_GPUS, hidden=hidden) if hidden > 0 else None,
        why_other=_why_other(report, language),
        best=findings.cards[:_BEST],
        no_findings=_silence(advice, language) if advice and not advice.findings else None,
    )


def _why_other(report: Report, language: Language) -> str | None:
    """Why the utilization over all steps differs much from that in a typical step."""
    recording, gpu = report.result("recording", Recording), report.result("gpu", GpuMetrics)
    typical = recording.typical.resources if recording is not None and recording.typical is not None else None
    if recording is None or gpu is None or typical is None or typical.gpu_ns is None or not typical.step_ns:
        return None
    busy = next((device.busy_share for device in gpu.devices if device.device == typical.device), None)
    share = typical.gpu_ns / typical.step_ns
    if busy is None or abs(busy - share) < _DIFFERS:
        return None
    is_late = share > busy and recording.window is not None and recording.window.unrecorded_work_ns > 0
    return language.text(_EARLIER if is_late else _TYPICAL, share=share)


def _silence(advice: Section, language: Language) -> Markup:
    """Why there is no finding, as one paragraph."""
    return Markup(" ").join(prose(language.say(message)) for message in advice.messages)


def facts(section: Section, language: Language) -> Iterator[tuple[str, str]]:
    """Labelled values of a section."""
    for fact in section.facts:
        yield language.text(fact.label), clean(language.quantity(fact.value, fact.unit))


def percent(share: float) -> str:
    """A share in percent, as a CSS length."""
    return f"{100 * min(1.0, max(0.0, share)):.2f}"


def _opening(headline: Headline, runs: dict[str, str], language: Language) -> SummaryOpening:
    return SummaryOpening(
        runs.get(headline.run or ""),
        prose(language.say(headline.message)),
        language.text(_STEP, step=headline.resources.step_ns),
        tuple(
            Meter(
                finding_texts.resource_name(key, language),
                language.quantity(ns, "ns"),
                language.quantity(share, "share"),
                percent(share),
                _TONES[key],
            )
            for key, ns, share in finding_texts.resources(headline.resources)
            if ns
        ),
    )


def _parts(overview: Section, language: Language) -> Iterator[Piece]:
    begin = 0.0
    for part in overview.parts:
        yield Piece(
            part.role.replace("_", "-"),
            language.text(part.label),
            language.quantity(part.value, part.unit),
            language.quantity(part.share, "share"),
            percent(begin),
            percent(part.share),
        )
        begin += part.share


def _devices(table: SectionTable, report: Report, language: Language) -> Iterator[DeviceMeters]:
    """The table of devices as meters: the first column is the device, one is the bar, others are labelled values."""
    devices = report.trace.devices if report.trace else ()
    names = {device.id: clean(device.name) for device in reversed(devices) if device.name}
    bar = next(i for i, column in enumerate(table.columns) if column.has_bar)
    rest = [i for i, column in enumerate(table.columns) if i not in (0, bar) and not column.is_extra]
    for row in table.rows:
        name = names.get(row[0])
        yield DeviceMeters(
            language.text(_NAMED, device=row[0], name=name) if name else language.text(_DEVICE, device=row[0]),
            language.quantity(row[bar], "share"),
            percent(row[bar]),
            tuple(
                (language.text(table.columns[i].title), language.quantity(row[i], table.columns[i].unit))
                for i in rest
                if row[i] is not None
            ),
        )
