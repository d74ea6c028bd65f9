"""How was the program set up, and what did recording it cost?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.capture import Capture
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections.columns import Column, detail, facts, known, optional, table
from traceanalyzer.trace.capture_facts import CaptureFacts

TITLE = Text("capture-title", "The program, as recorded by capture")
_OVERHEAD = Text(
    "capture-overhead",
    "A step takes {control:ns} without the profiler and {profiled:ns} with it, so times on the host are too high.",
)
_NO_OVERHEAD = Text("capture-no-overhead", "A step takes {control:ns} without the profiler and {profiled:ns} with it.")
_CUT = Text("capture-cut", "The recording ended after {steps:count} of {asked:count} steps.")
_NOTICEABLE = 0.05
"""Least recording overhead for which host times are unreliable."""

_NONE = Text("capture-none", "none", "no automatic precision was used")
_LEFT_TO_TORCH = Text("capture-left-to-torch", "default", "a flag that was not given")
_FACTS = optional(
    known,
    Column(Text("capture-torch", "torch"), "", "facts.versions.torch"),
    Column(Text("capture-cuda", "CUDA"), "", "facts.versions.cuda"),
    Column(Text("capture-hip", "ROCm"), "", "facts.versions.hip"),
    Column(Text("capture-cpus", "CPU cores"), "count", "facts.host.cpus"),
    Column(
        Text("capture-throughput", "Samples per second without the profiler, one process"), "number", "samples_per_s"
    ),
    Column(Text("capture-dtypes", "Types of parameters"), "", lambda capture: _dtypes(capture.facts)),
    Column(Text("capture-autocast", "Automatic precision"), "", lambda capture: _autocast(capture.facts)),
    Column(
        Text("capture-parallel", "Parallel training"),
        "",
        lambda capture: ", ".join(wrapper.name for wrapper in capture.facts.parallel) or None,
    ),
    Column(Text("capture-compiled", "torch.compile"), "bool", "facts.is_compiled"),
    Column(Text("capture-accumulation", "Backward passes per step"), "number", "facts.backward_per_step"),
)
_LOADERS = (
    Column(Text("capture-loader-batch", "Batch size"), "count", "batch_size"),
    Column(Text("capture-loader-workers", "Workers"), "count", "workers"),
    Column(Text("capture-loader-pin", "Pinned memory"), "bool", "pin_memory"),
    Column(Text("capture-loader-persistent", "Persistent workers"), "bool", "persistent_workers"),
    Column(Text("capture-loader-prefetch", "Prefetch factor"), "count", "prefetch_factor"),
)
_OPTIMIZERS = (
    Column(Text("capture-optimizer", "Optimizer"), "", "name", is_name=True),
    Column(Text("capture-optimizer-tensors", "Tensors"), "count", "tensors"),
    Column(
        Text("capture-optimizer-foreach", "foreach", "a flag of the optimizer"), "bool", lambda row: _flag(row.foreach)
    ),
    Column(Text("capture-optimizer-fused", "fused", "a flag of the optimizer"), "bool", lambda row: _flag(row.fused)),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the section on settings, loaders, optimizers and the cost of recording."""
    capture = report.result("capture", Capture)
    if capture is None:
        return
    tables = (
        table("capture_loaders", _LOADERS, capture.facts.loaders or (), top),
        table("capture_optimizers", _OPTIMIZERS, capture.facts.optimizers, top),
    )
    yield detail(
        "capture",
        TITLE,
        Topic.QUALITY,
        (each for each in tables if each.rows),
        messages=_messages(capture),
        facts=facts(_FACTS, capture),
    )


def _messages(capture: Capture) -> Iterator[Message]:
    if capture.overhead_share is not None:
        text = _OVERHEAD if capture.overhead_share >= _NOTICEABLE else _NO_OVERHEAD
        yield text(control=capture.control_step_ns, profiled=capture.profiled_step_ns)
    captured = capture.facts
    if captured.steps_from is not None and captured.steps < captured.asked.steps:
        yield _CUT(steps=captured.steps, asked=captured.asked.steps)


def _autocast(captured: CaptureFacts) -> str | Text | None:
    if captured.autocast is None:
        return None
    return ", ".join(f"{a.dtype} ({a.device})" for a in captured.autocast) or _NONE


def _dtypes(captured: CaptureFacts) -> str | None:
    if captured.parameters is None or not captured.parameters.dtypes:
        return None
    return ", ".join(f"{d.dtype} ({d.tensors})" for d in captured.parameters.dtypes)


def _flag(value: bool | None) -> bool | Text:
    """The value of a setting, or that the program left it to torch."""
    return _LEFT_TO_TORCH if value is None else value
