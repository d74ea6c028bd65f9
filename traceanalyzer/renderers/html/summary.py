"""Prepares the first screen: what bounds the step, where it goes, how busy devices are, what is worth most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from traceanalyzer.analyzers.gpu import DeviceUse, GpuMetrics
from traceanalyzer.renderers import finding_texts, several_runs, silence
from traceanalyzer.renderers.html.findings import Findings, HtmlCard, prose, run_titles
from traceanalyzer.renderers.language import Language
from traceanalyzer.renderers.names import clean
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Headline, Report
from traceanalyzer.report.section import Section

_STEP = Text("html-step-length", "Step: {step:ns}.")
_DEVICE = Text("html-gpu", "GPU {device}")
_NAMED = Text("html-gpu-named", "GPU {device}: {name}")
_BUSY = Text("html-gpu-busy", "Busy", "with kernels, copies and fills")
_EFFICIENCY = Text("html-gpu-efficiency", "Est. SM efficiency")
_OCCUPANCY = Text("html-gpu-occupancy", "Est. occupancy")
_TENSOR_CORES = Text("html-gpu-tensor-cores", "Tensor cores")
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
    """What bounds one run, with figures."""

    run: str | None
    text: str
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
    """Everything on the first screen of the page."""

    headlines: tuple[SummaryOpening, ...]
    messages: tuple[str, ...]
    doubts: str | None
    parts: tuple[Piece, ...]
    facts: tuple[tuple[str, str], ...]
    gpus: tuple[DeviceMeters, ...]
    more_gpus: str | None
    best: tuple[HtmlCard, ...]
    no_findings: str | None


def build(report: Report, overview: Section | None, findings: Findings, language: Language) -> Summary:
    """Prepare the first screen of the page.

    Args:
        report: The report.
        overview: The section about the step, if there is one.
        findings: As shown below.
        language: The reader's.
    """
    metrics = report.result("gpu", GpuMetrics)
    gpus = metrics.devices if metrics else ()
    hidden = len(gpus) - _MOST_GPUS
    runs = run_titles(report, language)
    return Summary(
        headlines=tuple(_opening(headline, runs, language) for headline in several_runs.headlines(report)),
        messages=tuple(prose(language.say(message)) for message in overview.messages) if overview else (),
        doubts=language.text(_DOUBTS, count=len(report.warnings)) if report.warnings else None,
        parts=tuple(_parts(overview, language)) if overview else (),
        facts=tuple(facts(overview, language)) if overview else (),
        gpus=tuple(_device(gpu, report, language) for gpu in gpus[:_MOST_GPUS]),
        more_gpus=language.text(_MORE_GPUS, hidden=hidden) if hidden > 0 else None,
        best=findings.cards[:_BEST],
        no_findings=None if report.findings or not report.headlines else _silence(report, language),
    )


def _silence(report: Report, language: Language) -> str:
    """Why there is no finding, as one paragraph."""
    return " ".join(prose(language.say(message)) for message in silence.messages(report))


def facts(section: Section, language: Language) -> Iterator[tuple[str, str]]:
    """Labelled values of a section."""
    for fact in section.facts:
        yield language.text(fact.label), clean(language.quantity(fact.value, fact.unit))


def percent(share: float) -> str:
    """A share of a whole in percent, as a length on the page."""
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


def _device(gpu: DeviceUse, report: Report, language: Language) -> DeviceMeters:
    devices = report.trace.devices if report.trace else ()
    name = next((clean(device.name) for device in devices if device.id == gpu.device and device.name), None)
    rest = (
        (_BUSY, gpu.busy_share),
        (_EFFICIENCY, gpu.est_sm_efficiency),
        (_OCCUPANCY, gpu.est_achieved_occupancy),
        (_TENSOR_CORES, gpu.tensor_core_share),
    )
    return DeviceMeters(
        language.text(_NAMED, device=gpu.device, name=name) if name else language.text(_DEVICE, device=gpu.device),
        language.quantity(gpu.utilization, "share"),
        percent(gpu.utilization),
        tuple((language.text(text), language.quantity(share, "share")) for text, share in rest if share is not None),
    )
