"""How busy is each GPU?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.idle.gpu import GpuMetrics
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("gpu-title", "GPU")
_COLUMNS = (
    (SectionColumn(Text("gpu-device", "GPU"), ""), "device"),
    (
        SectionColumn(
            Text("gpu-utilization", "Utilization", "share of the step window in which a kernel runs"),
            "share",
            has_bar=True,
        ),
        "utilization",
    ),
    (SectionColumn(Text("gpu-busy", "Busy", "share in which a kernel, copy or fill runs"), "share"), "busy_share"),
    (SectionColumn(Text("gpu-idle", "Idle"), "share", is_extra=True), "idle_share"),
    (SectionColumn(Text("gpu-sm-efficiency", "Est. SM efficiency"), "share"), "est_sm_efficiency"),
    (SectionColumn(Text("gpu-occupancy", "Est. occupancy"), "share"), "est_achieved_occupancy"),
    (SectionColumn(Text("gpu-tensor-cores", "Tensor cores"), "share"), "tensor_core_share"),
)
_TERMS = (
    Term(
        Text("define-utilization", "Utilization"),
        Text(
            "define-utilization-say",
            "Share of the window in which at least one kernel runs. One tiny kernel at a time gives 100 %.",
        ),
    ),
    Term(
        Text("define-busy", "Busy, Idle"),
        Text("define-busy-say", "Share of the window in which a kernel, copy or fill runs; idle is the rest."),
    ),
    Term(
        Text("define-efficiency", "Est. SM efficiency"),
        Text(
            "define-efficiency-say",
            "The profiler's estimate of how many multiprocessors have work: min(1, blocks per SM of all "
            "running kernels), averaged over the window.",
        ),
    ),
    Term(
        Text("define-occupancy", "Est. occupancy"),
        Text(
            "define-occupancy-say",
            "The profiler's estimate of achieved occupancy, weighted by the time of the kernels. Low values "
            "are normal for matrix kernels.",
        ),
    ),
    Term(
        Text("define-tensor-cores", "Tensor cores"),
        Text(
            "define-tensor-cores-say",
            "Share of kernel time in kernels whose names show that they use matrix units.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table with one row per device."""
    del top
    metrics = report.result("gpu", GpuMetrics)
    if metrics is None or not metrics.devices:
        return
    shown = [
        (column, field)
        for column, field in _COLUMNS
        if any(getattr(device, field) is not None for device in metrics.devices)
    ]
    rows = tuple(tuple(getattr(device, field) for _, field in shown) for device in metrics.devices)
    table = SectionTable("gpu", tuple(column for column, _ in shown), rows, len(rows))
    yield Section("gpu", TITLE, tables=(table,), topic=Topic.GPU, terms=_TERMS, is_essential=True)
