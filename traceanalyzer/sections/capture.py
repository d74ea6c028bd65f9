"""How was the program set up, and what did recording it cost?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceanalyzer.analyzers.capture import Capture
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Topic
from traceanalyzer.trace.capture_facts import CapturedLoader, CapturedOptimizer, CaptureFacts

TITLE = Text("capture-title", "The program, as recorded by capture")
_OVERHEAD = Text(
    "capture-overhead",
    "A step takes {control:ns} without the profiler and {profiled:ns} with it, so times on the host are too high.",
)
_NO_OVERHEAD = Text("capture-no-overhead", "A step takes {control:ns} without the profiler and {profiled:ns} with it.")
_CUT = Text("capture-cut", "The recording ended after {steps:count} of {asked:count} steps.")
_NOTICEABLE = 0.05
"""Least recording overhead for which host times are unreliable."""

_TORCH = Text("capture-torch", "torch")
_CUDA = Text("capture-cuda", "CUDA")
_HIP = Text("capture-hip", "ROCm")
_CPUS = Text("capture-cpus", "CPU cores")
_THROUGHPUT = Text("capture-throughput", "Samples per second without the profiler, one process")
_DTYPES = Text("capture-dtypes", "Types of parameters")
_AUTOCAST = Text("capture-autocast", "Automatic precision")
_NONE = Text("capture-none", "none", "no automatic precision was used")
_LEFT_TO_TORCH = Text("capture-left-to-torch", "default", "a flag that was not given")
_PARALLEL = Text("capture-parallel", "Parallel training")
_COMPILED = Text("capture-compiled", "torch.compile")
_ACCUMULATION = Text("capture-accumulation", "Backward passes per step")
_LOADERS = (
    (SectionColumn(Text("capture-loader-batch", "Batch size"), "count"), "batch_size"),
    (SectionColumn(Text("capture-loader-workers", "Workers"), "count"), "workers"),
    (SectionColumn(Text("capture-loader-pin", "Pinned memory"), "bool"), "pin_memory"),
    (SectionColumn(Text("capture-loader-persistent", "Persistent workers"), "bool"), "persistent_workers"),
    (SectionColumn(Text("capture-loader-prefetch", "Prefetch factor"), "count"), "prefetch_factor"),
)
_OPTIMIZERS = (
    (SectionColumn(Text("capture-optimizer", "Optimizer"), "", is_name=True), "name"),
    (SectionColumn(Text("capture-optimizer-tensors", "Tensors"), "count"), "tensors"),
    (SectionColumn(Text("capture-optimizer-foreach", "foreach", "a flag of the optimizer"), "bool"), "foreach"),
    (SectionColumn(Text("capture-optimizer-fused", "fused", "a flag of the optimizer"), "bool"), "fused"),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the section on settings, loaders, optimizers and the cost of recording."""
    found = report.result("capture", Capture)
    if found is None:
        return
    tables = (
        _table("capture_loaders", _LOADERS, found.facts.loaders or (), top),
        _table("capture_optimizers", _OPTIMIZERS, found.facts.optimizers, top),
    )
    yield Section(
        "capture",
        TITLE,
        messages=tuple(_messages(found)),
        facts=tuple(fact for fact in _facts(found) if fact.value is not None),
        tables=tuple(table for table in tables if table.rows),
        topic=Topic.QUALITY,
        is_detail=True,
    )


def _messages(found: Capture) -> Iterator[Message]:
    if found.overhead_share is not None:
        text = _OVERHEAD if found.overhead_share >= _NOTICEABLE else _NO_OVERHEAD
        yield text(control=found.control_step_ns, profiled=found.profiled_step_ns)
    facts = found.facts
    if facts.steps_from is not None and facts.steps < facts.asked.steps:
        yield _CUT(steps=facts.steps, asked=facts.asked.steps)


def _facts(found: Capture) -> Iterator[Fact]:
    facts = found.facts
    yield Fact(_TORCH, facts.versions.torch, "")
    yield Fact(_CUDA, facts.versions.cuda, "")
    yield Fact(_HIP, facts.versions.hip, "")
    yield Fact(_CPUS, facts.host.cpus, "count")
    yield Fact(_THROUGHPUT, found.samples_per_s, "number")
    yield Fact(_DTYPES, _dtypes(facts), "")
    if facts.autocast is not None:
        yield Fact(_AUTOCAST, ", ".join(f"{a.dtype} ({a.device})" for a in facts.autocast) or _NONE, "")
    yield Fact(_PARALLEL, ", ".join(wrapper.name for wrapper in facts.parallel) or None, "")
    yield Fact(_COMPILED, facts.is_compiled, "bool")
    yield Fact(_ACCUMULATION, facts.backward_per_step, "number")


def _dtypes(facts: CaptureFacts) -> str | None:
    if facts.parameters is None or not facts.parameters.dtypes:
        return None
    return ", ".join(f"{d.dtype} ({d.tensors})" for d in facts.parameters.dtypes)


def _cell(row: CapturedLoader | CapturedOptimizer, field: str) -> Any:
    """Value of a field; a missing flag is the default of torch, other missing values are unknown."""
    value = getattr(row, field)
    return _LEFT_TO_TORCH if value is None and isinstance(row, CapturedOptimizer) else value


def _table(
    name: str,
    columns: tuple[tuple[SectionColumn, str], ...],
    rows: tuple[CapturedLoader | CapturedOptimizer, ...],
    top: int,
) -> SectionTable:
    cells = tuple(tuple(_cell(row, field) for _, field in columns) for row in rows[:top])
    return SectionTable(name, tuple(column for column, _ in columns), cells, len(rows))
