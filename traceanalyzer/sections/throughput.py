"""Throughput in samples and tokens per second, and the share of the device's peak that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.capture import Capture
from traceanalyzer.analyzers.serving import ThroughputFigures
from traceanalyzer.analyzers.serving.tokens import TokenRate
from traceanalyzer.analyzers.serving.utilization import Utilization
from traceanalyzer.analyzers.tables.throughput import PrintedThroughput
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, word
from traceanalyzer.report.section import Fact, Section, Term, Topic
from traceanalyzer.sections.columns import Column, detail, table

TITLE = Text("throughput-title", "Throughput")
_PRINTED = Text("throughput-printed-title", "Throughput as the text gives it")

_MEASURE = Column(Text("throughput-measure", "Typical steps of this process"), "", lambda row: row[0])
_RATE = Column(Text("throughput-rate", "Rate"), "number", lambda row: row[1])
_OF_PEAK = Column(Text("throughput-of-peak", "Of the peak", "share of the device's peak"), "share", lambda row: row[1])
_BASIS = Column(Text("throughput-basis", "From", "what a figure follows from"), "", lambda row: row[2])
_SAMPLES = Text("throughput-samples", "Samples per second")
_TOKENS = Text("throughput-tokens", "Tokens per second")
_TOKENS_OF = {
    "prefill": Text("throughput-tokens-prefill", "Tokens per second, prefill", "prefill: a server reads prompts"),
    "decode": Text("throughput-tokens-decode", "Tokens per second, decode", "decode: a server generates tokens"),
    "mixed": Text("throughput-tokens-mixed", "Tokens per second, prefill and decode in one step"),
}
_GENERATED = Text("throughput-generated", "Generated tokens per second")
_MFU = Text("throughput-mfu", "MFU", "model FLOPs utilization")
_HFU = Text("throughput-hfu", "HFU", "hardware FLOPs utilization")

_TERMS = (
    Term(
        _MFU,
        Text(
            "throughput-mfu-say",
            "The time that the matrix multiplications, convolutions and attention of the model would take at the "
            "device's dense peak for their types, over the time that a typical step takes.",
        ),
    ),
    Term(
        _HFU,
        Text(
            "throughput-hfu-say",
            "The same with the matrix multiplications that the backward pass computes again to save memory, so it is "
            "never less than MFU.",
        ),
    ),
)

_BY_SETTING = Text(
    "throughput-by-setting",
    "{batches:number} x {size:count} a step, by the loader's setting",
    note="number of batches in a step, samples in a batch",
)
_BY_SHAPES = Text(
    "throughput-by-shapes",
    "{batches:number} x {size:count} a step, by shapes",
    note="number of batches in a step, samples in a batch, by the shapes of operators",
)
_BY_MARKS = Text("throughput-by-marks", "{tokens:number} a step, by marks", "tokens in a step, by the server's marks")
_BY_IDS = Text("throughput-by-ids", "{tokens:number} a step, by shapes", "tokens in a step, by the shapes of their ids")
_BY_REQUESTS = Text("throughput-by-requests", "1 of each of {requests:number} requests", "tokens of a decoding step")
_BY_PRODUCTS = Text(
    "throughput-by-products",
    "{flops:number} TFLOP a step",
    note="operations of products: of matrices, convolutions and attention",
)

_COVERED = Text(
    "throughput-covered", "MFU and HFU count {coverage:share} of the time of kernels that may multiply matrices."
)
_UNKNOWN = {
    "coverage": Text(
        "throughput-coverage",
        "MFU is unknown: only {coverage:share} of the time of kernels that may multiply matrices is counted; the rest "
        "has no recorded shapes, or no model.",
    ),
    "device": Text("throughput-device", "MFU is unknown: the device's peak is not in the table of data sheets."),
    "types": Text(
        "throughput-types",
        "MFU is unknown: the trace does not show the types with which, or the units on which, the matrix "
        "multiplications were computed.",
    ),
    "above-peak": Text(
        "throughput-above-peak",
        "MFU is withheld: it would exceed 100 %, so the peak or the number of operations does not fit this program.",
    ),
}
_AS_PRINTED = Text("throughput-as-printed", "Throughput as printed")
_SHOWN = 3

_UNITS = {
    "samples": Text("throughput-unit-samples", "samples"),
    "sequences": Text("throughput-unit-sequences", "sequences"),
    "images": Text("throughput-unit-images", "images"),
    "frames": Text("throughput-unit-frames", "frames", "of a video"),
    "tokens": Text("throughput-unit-tokens", "tokens"),
    "iterations": Text("throughput-unit-iterations", "iterations"),
    "steps": Text("throughput-unit-steps", "steps"),
    "batches": Text("throughput-unit-batches", "batches"),
    "requests": Text("throughput-unit-requests", "requests"),
}

_PRINTED_COLUMNS = (
    Column(Text("throughput-run", "Run", "id of a run in a text, such as run-1"), "", "run"),
    Column(Text("throughput-words", "As printed"), "", "words", is_name=True),
    Column(Text("throughput-per-second", "Per second"), "number", "per_s"),
    Column(Text("throughput-counted", "Of"), "", lambda rate: word(_UNITS, rate.unit)),
)

_Row = tuple[Text | Message, float, Message]
"""Label, value, and basis of a figure."""


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the throughput that a trace shows for certain, or that a text states."""
    figures = report.result("throughput", ThroughputFigures)
    if figures is not None:
        tables = (
            table("throughput", (_MEASURE, _RATE, _BASIS), tuple(_rates(figures))),
            table("utilization", (_MEASURE, _OF_PEAK, _BASIS), tuple(_shares(figures.utilization))),
        )
        known = tuple(each for each in tables if each.rows)
        if known:
            yield detail("throughput", TITLE, Topic.STEPS, known, messages=_messages(figures), terms=_TERMS)
    printed = report.result("printed_throughput", tuple[PrintedThroughput, ...]) or ()
    if printed:
        rows = table("printed_throughput", _PRINTED_COLUMNS, printed, top)
        yield detail("printed-throughput", _PRINTED, Topic.RUNS, (rows,))


def facts(report: Report) -> Iterator[Fact]:
    """Throughput figures of a trace, without their basis; no rates of steps that a capture timed unprofiled."""
    figures, capture = report.result("throughput", ThroughputFigures), report.result("capture", Capture)
    if figures is not None:
        rates = _rates(figures) if capture is None or capture.control_step_ns is None else ()
        yield from (Fact(label, value, "number") for label, value, _ in rates if isinstance(label, Text))
        shares = figures.utilization
        if shares.mfu is not None:
            yield Fact(_MFU, shares.mfu, "share")
        if shares.hfu != shares.mfu:
            yield Fact(_HFU, shares.hfu, "share")


def printed_facts(report: Report, run: str) -> Iterator[Fact]:
    """Throughput figures of a run that a text states."""
    rates = report.result("printed_throughput", tuple[PrintedThroughput, ...]) or ()
    printed = tuple(clean(rate.printed) for rate in rates if rate.run == run)
    if printed:
        yield Fact(_AS_PRINTED, ", ".join(printed[:_SHOWN]), "")


def _rates(figures: ThroughputFigures) -> Iterator[_Row]:
    samples = figures.samples
    if samples.per_s is not None:
        text = _BY_SETTING if samples.source == "capture" else _BY_SHAPES
        yield _SAMPLES, samples.per_s, text(size=samples.batch_size, batches=samples.batches_per_step)
    for rate in figures.tokens.rates:
        yield from _token_rows(rate)


def _shares(utilization: Utilization) -> Iterator[_Row]:
    for label, share, flops in (
        (_MFU, utilization.mfu, utilization.model_flops_per_step),
        (_HFU, utilization.hfu, utilization.hardware_flops_per_step),
    ):
        if share is not None and flops is not None:
            yield label, share, _BY_PRODUCTS(flops=flops / 1e12)


def _token_rows(rate: TokenRate) -> Iterator[_Row]:
    label = _TOKENS if rate.phase is None else word(_TOKENS_OF, rate.phase)
    text = _BY_MARKS if rate.source == "marks" else _BY_IDS
    yield label, rate.per_s, text(tokens=rate.tokens_per_step)
    if rate.generated_per_s is not None:
        yield _GENERATED, rate.generated_per_s, _BY_REQUESTS(requests=rate.requests_per_step)


def _messages(figures: ThroughputFigures) -> Iterator[Message]:
    products = figures.utilization
    text = _UNKNOWN.get(products.unknown or "")
    if text is not None:
        yield text(coverage=products.coverage) if products.unknown == "coverage" else text()
    if products.mfu is not None:
        yield _COVERED(coverage=products.coverage)
