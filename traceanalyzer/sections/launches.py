"""How long does work wait between launch and start?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("launches-title", "Launches")
_QUEUES = Text("launches-queues-title", "Launch queues")
_GRAPHS_LEFT_OUT = Text(
    "launches-graphs",
    "{launches:count} graph launches started {kernels:count} kernels, {share:share} of kernel time; the figures "
    "about single launches do not include them.",
    one="{launches:count} graph launch started {kernels:count} kernels, {share:share} of kernel time; the figures "
    "about single launches do not include them.",
)
_UNLINKED = Text(
    "launches-unlinked",
    "{count:count} kernels have no launch in the trace and are left out.",
    one="{count:count} kernel has no launch in the trace and is left out.",
)
_BLOCKED = Text(
    "launches-blocked",
    "{calls:count} calls waited {time:ns} in total because the queue was full ({length:count} launches or more).",
    one="{calls:count} call waited {time:ns} because the queue was full ({length:count} launches or more).",
)
_KERNELS = Text("launches-kernels", "Kernels launched one by one")
_CALL = Text("launches-call", "Launch call, median")
_MEDIAN = Text("launches-delay-median", "Launch delay, median")
_P95 = Text("launches-delay-p95", "Launch delay, 95th percentile")
_MAX = Text("launches-delay-max", "Launch delay, maximum")
_SHORT = Text("launches-short", "Kernels shorter than their launch call")
_SHORT_SHARE = Text("launches-short-share", "Their share of these kernels' time")
_BY_KERNEL = (
    (SectionColumn(Text("launches-kernel", "Kernel"), "", is_name=True), "name"),
    (SectionColumn(Text("launches-calls", "Calls"), "count"), "calls"),
    (SectionColumn(Text("launches-kernel-total", "Delay"), "ns"), "total_ns"),
    (SectionColumn(Text("launches-kernel-median", "Median"), "ns"), "median_ns"),
    (SectionColumn(Text("launches-kernel-p95", "95th percentile"), "ns"), "p95_ns"),
    (SectionColumn(Text("launches-kernel-max", "Maximum"), "ns"), "max_ns"),
    (SectionColumn(Text("launches-kernel-short", "Shorter than launch"), "count"), "shorter_than_launch"),
)
_BY_STREAM = (
    (SectionColumn(Text("launches-device", "GPU"), ""), "device"),
    (SectionColumn(Text("launches-stream", "Stream"), ""), "stream"),
    (SectionColumn(Text("launches-queue-launches", "Launches"), "count"), "launches"),
    (SectionColumn(Text("launches-queue-mean", "Mean length"), "number"), "mean_length"),
    (SectionColumn(Text("launches-queue-max", "Longest"), "count"), "max_length"),
)
_TERMS = (
    Term(
        Text("define-delay", "Launch delay"),
        Text(
            "define-delay-say",
            "From the end of the launch call to the start of the kernel. Long delays mean that work queues up, "
            "which is good for a GPU.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of launch delays, of the kernels that wait longest, and of the queues."""
    launches = report.result("launches", LaunchFigures)
    if launches is None:
        return
    rows = tuple(tuple(getattr(row, field) for _, field in _BY_KERNEL) for row in launches.by_kernel[:top])
    table = SectionTable("launch_delays", tuple(column for column, _ in _BY_KERNEL), rows, len(launches.by_kernel))
    yield Section(
        "launches",
        TITLE,
        messages=tuple(_messages(launches)),
        facts=tuple(_facts(launches)),
        tables=(table,) if rows else (),
        topic=Topic.HOST,
        terms=_TERMS,
        is_detail=True,
    )
    if launches.queues:
        lengths = tuple(tuple(getattr(row, field) for _, field in _BY_STREAM) for row in launches.queues[:top])
        queues = SectionTable("launch_queues", tuple(column for column, _ in _BY_STREAM), lengths, len(launches.queues))
        yield Section("launch-queues", _QUEUES, tables=(queues,), topic=Topic.HOST, is_detail=True)


def _messages(launches: LaunchFigures) -> Iterator[Message]:
    graphs, blocked = launches.graphs, launches.blocked
    if graphs.launches:
        yield _GRAPHS_LEFT_OUT(launches=graphs.launches, kernels=graphs.kernels, share=graphs.kernel_share)
    if launches.unlinked_kernels:
        yield _UNLINKED(count=launches.unlinked_kernels)
    if blocked.calls:
        yield _BLOCKED(calls=blocked.calls, time=blocked.time_ns, length=blocked.full_length)


def _facts(launches: LaunchFigures) -> Iterator[Fact]:
    yield Fact(_KERNELS, launches.launched_kernels, "count")
    if launches.delay is None:
        return
    yield Fact(_CALL, launches.median_call_ns, "ns")
    yield Fact(_MEDIAN, launches.delay.median_ns, "ns")
    yield Fact(_P95, launches.delay.p95_ns, "ns")
    yield Fact(_MAX, launches.delay.max_ns, "ns")
    yield Fact(_SHORT, launches.short_kernels.calls_share, "share")
    yield Fact(_SHORT_SHARE, launches.short_kernels.time_share, "share")
