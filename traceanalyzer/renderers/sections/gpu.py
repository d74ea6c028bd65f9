"""How busy is each GPU?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.gpu import GpuMetrics
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Topic

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


def build(report: Report, top: int) -> Iterator[Section]:
    """One table, one row per device."""
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
    yield Section("gpu", TITLE, tables=(table,), topic=Topic.GPU, is_essential=True)
