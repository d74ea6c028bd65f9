"""What people see of each side: its headline, three figures, and one step as lanes that are cheap to draw."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from traceanalyzer.analyzers.serving import ThroughputFigures
from traceanalyzer.analyzers.steps import Lane, Timeline
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.analyzers.tables.throughput import PrintedThroughput
from traceanalyzer.knowledge import kernel_names, marks
from traceanalyzer.report.compared import ComparedSide, StepStrip, StripBand, StripLane
from traceanalyzer.report.model import Report, Resources

_CELLS = 1000
"""Pieces of a step that can be drawn apart (own choice: a page is that many pixels wide)."""
_HOSTS, _DEVICES = 2, 2
"""Threads and devices that are drawn (own choice: both sides fit on a screen)."""
_LONG_CALL = 5
"""Cells that a runtime call fills at least: launches are many and short, and waits are what people look for."""
_ORDER = ("cpu_exec", "communication", "dataloader", "runtime", "kernel", "memcpy")
"""Kinds of work, in the order in which they are drawn over each other."""
_COPY = re.compile(r"^(memcpy|memset|copy(host|device|buffer)|fill(buffer)?\b)", re.IGNORECASE)
_OPERATOR = re.compile(r"^\w+::|Backward\d*$")

_Spans = dict[str, list[tuple[int, int]]]


def of_traces(reports: Sequence[Report], whole: Report, resources: Resources | None) -> ComparedSide:
    """The view of a side that was recorded as traces: headline of the whole, step of the first, and means of all."""
    first = reports[0]
    rates = first.result("throughput", ThroughputFigures)
    return ComparedSide(
        headline=whole.headlines[0].message if whole.headlines else None,
        bound=whole.headlines[0].bound if whole.headlines else None,
        host_ns=resources.host_ns if resources else None,
        device_ns=resources.gpu_ns if resources else None,
        samples_per_s=rates.samples.per_s if rates else None,
        strip=strip(first.result("timeline", Timeline), _rank(first) if len(reports) > 1 else None),
    )


def of_table(report: Report, run: PrintedRun) -> ComparedSide:
    """The view of one run of a document: its totals, and the fastest rate of samples that the text gives for it."""
    rates = report.result("printed_throughput", tuple[PrintedThroughput, ...]) or ()
    headline = next((headline for headline in report.headlines if headline.run == run.id), None)
    return ComparedSide(
        headline=headline.message if headline is not None else None,
        bound=headline.bound if headline is not None else None,
        host_ns=None if run.cpu_ns is None else run.cpu_ns / run.steps,
        device_ns=None if run.device_ns is None else run.device_ns / run.steps,
        samples_per_s=max((r.per_s for r in rates if r.run == run.id and r.unit == "samples"), default=None),
    )


def _rank(report: Report) -> int | None:
    return report.trace.rank if report.trace is not None else None


def strip(timeline: Timeline | None, rank: int | None = None) -> StepStrip | None:
    """A step as lanes, of a rank where there are several; None without a timeline."""
    if timeline is None or not timeline.duration_ns:
        return None
    hosts: defaultdict[str, _Spans] = defaultdict(lambda: defaultdict(list))
    devices: defaultdict[str, _Spans] = defaultdict(lambda: defaultdict(list))
    for lane in timeline.lanes:
        label = lane.label.partition("/")[0] if lane.kind == "device" else lane.label
        for tone, start, duration in _drawn(lane, timeline):
            (devices if lane.kind == "device" else hosts)[label][tone].append((start, duration))
    lanes = (*_longest("host", hosts, _HOSTS, timeline), *_longest("device", devices, _DEVICES, timeline))
    return StepStrip(timeline.step, timeline.duration_ns, lanes, rank)


def _longest(kind: str, lanes: Mapping[str, _Spans], most: int, timeline: Timeline) -> Iterator[StripLane]:
    """The lanes with most to show, of threads or devices."""
    cell = max(1, timeline.duration_ns // _CELLS)
    for label, spans in sorted(lanes.items(), key=lambda lane: -_total(lane[1]))[:most]:
        yield StripLane(kind, label, tuple(_bands(spans, cell)))


def _drawn(lane: Lane, timeline: Timeline) -> Iterator[tuple[str, int, int]]:
    """Kind, start and duration of the slices that show what happens; of marks and Python only the loader."""
    for item in lane.slices:
        name = timeline.names[item.name] if item.name is not None and item.name < len(timeline.names) else ""
        if lane.kind == "device":
            copies = "communication" if kernel_names.is_communication(name) else "kernel"
            yield "memcpy" if _COPY.match(name) else copies, item.start_ns, item.duration_ns
        elif lane.kind == "launches":
            if item.duration_ns * _CELLS >= _LONG_CALL * timeline.duration_ns:
                yield "runtime", item.start_ns, item.duration_ns
        elif marks.is_dataloader(name):
            yield "dataloader", item.start_ns, item.duration_ns
        elif marks.is_collective(name):
            yield "communication", item.start_ns, item.duration_ns
        elif lane.kind == "host" and (not name or _OPERATOR.search(name)):
            yield "cpu_exec", item.start_ns, item.duration_ns


def _bands(spans: _Spans, cell: int) -> Iterator[StripBand]:
    for tone in _ORDER:
        if tone in spans:
            yield StripBand(tone, tuple((start, end - start) for start, end in _joined(spans[tone], cell)))


def _joined(spans: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """The spans as starts and ends, in the order of time, without gaps of at most so many ns."""
    joined: list[tuple[int, int]] = []
    for start, duration in sorted(spans):
        if joined and start <= joined[-1][1] + gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], start + duration)
        else:
            joined.append((start, start + duration))
    return joined


def _total(spans: _Spans) -> int:
    return sum(end - start for start, end in _joined((span for each in spans.values() for span in each), 0))
