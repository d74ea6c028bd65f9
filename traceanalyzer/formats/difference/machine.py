"""Sections on GPU utilization and memory use before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from traceanalyzer.formats.difference.labels import columns
from traceanalyzer.report.difference import Difference, GpuUse, MemoryPeak
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import Section, SectionColumn, SectionTable

_GPU = Text("diff-gpu-title", "GPU")
_MEMORY = Text("diff-memory-title", "Peak memory")
_METRIC = SectionColumn(Text("diff-metric", "Metric"), "")
_POINTS = Text(
    "diff-points",
    "{points:number} points",
    "a difference of two shares: from 67 % to 83 % are 16 percentage points, and no 16 percent",
)
_GPU_METRICS = {
    "utilization": Text("diff-utilization", "GPU {device:count}: kernels run"),
    "busy_share": Text("diff-busy", "GPU {device:count}: busy, copies included"),
    "est_sm_efficiency": Text("diff-sm-efficiency", "GPU {device:count}: est. SM efficiency"),
    "tensor_core_share": Text("diff-tensor-cores", "GPU {device:count}: kernel time on tensor cores"),
}
_MEMORY_METRICS = {
    "allocated": Text("diff-allocated", "{device}: allocated"),
    "reserved": Text("diff-reserved", "{device}: reserved"),
}


def build(difference: Difference, top: int) -> Iterator[Section]:
    """Build the tables of devices with known figures."""
    gpus = [row for gpu in difference.gpus for row in _gpu(gpu)]
    if gpus:
        yield Section("diff-gpu", _GPU, tables=(_table("diff_gpu", gpus, "share", top),))
    memory = [row for peak in difference.memory for row in _memory(peak)]
    if memory:
        yield Section("diff-memory", _MEMORY, tables=(_table("diff_memory", memory, "bytes", top),))


def _table(name: str, rows: list[tuple[object, ...]], unit: str, top: int) -> SectionTable:
    base, head, change = columns(unit)
    if unit == "share":
        change = replace(change, unit="")
    return SectionTable(name, (_METRIC, base, head, change), tuple(rows[: max(top, 4)]), len(rows))


def _gpu(gpu: GpuUse) -> Iterator[tuple[object, ...]]:
    for field, label in _GPU_METRICS.items():
        base, head = getattr(gpu, f"base_{field}"), getattr(gpu, f"head_{field}")
        if base is not None or head is not None:
            change = _change(base, head)
            yield label(device=gpu.device), base, head, None if change is None else _POINTS(points=100 * change)


def _memory(peak: MemoryPeak) -> Iterator[tuple[object, ...]]:
    for field, label in _MEMORY_METRICS.items():
        base, head = getattr(peak, f"base_{field}_bytes"), getattr(peak, f"head_{field}_bytes")
        if base is not None or head is not None:
            yield label(device=peak.device), base, head, _change(base, head)


def _change(base: float | None, head: float | None) -> float | None:
    return None if base is None or head is None else head - base
