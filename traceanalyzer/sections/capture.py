"""How was the program set up, and what did recording it cost?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.capture import Capture
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.knowledge import frameworks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Report
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections.columns import Column, detail, facts, known, optional, table
from traceanalyzer.structure.recording import Recording
from traceanalyzer.trace.capture_facts import CaptureFacts

TITLE = Text("capture-title", "The program, as recorded by capture")
_STEP_TITLE = Text("capture-step-title", "The step without the profiler")
_OVERHEAD = Text(
    "capture-real-step",
    "A step takes {control:ns} without the profiler: savings are of this step. Recording made it {profiled:ns} "
    "({overhead:share} longer), and other times are of that.",
)
_ALL_RECORDED = Text(
    "capture-real-step-recorded",
    "A step takes {control:ns} without the profiler. Recording made it {profiled:ns} ({overhead:share} longer), and "
    "times and savings are of that.",
)
_UNEVEN = Text(
    "capture-real-step-uneven",
    "A typical step would take {plain:ns} without the profiler: savings are of that. Steps took {control:ns} in the "
    "median, and recording made them {overhead:share} longer; other times are of the recorded steps.",
)
_NO_OVERHEAD = Text(
    "capture-real-step-alike",
    "A step takes {control:ns} without the profiler, and took {profiled:ns} while it was recorded.",
)
_WITHIN_NOISE = Text(
    "capture-real-step-noise",
    "A step takes {control:ns} without the profiler, and took {profiled:ns} while it was recorded. What recording "
    "costs is less than steps differ by themselves; times and savings are of the recorded steps.",
)
_OTHER_STEPS = Text(
    "capture-other-steps",
    "A step takes {control:ns} without the profiler; the recorded steps took {profiled:ns}. Recording does not cost so "
    "much: they did something that the others did not, such as compiling. Savings and times are of the recorded steps.",
)
_OF_RANKS = Text(
    "capture-step-of-ranks",
    "A step takes {control:ns} without the profiler, mean over the ranks. While it was recorded it took {profiled:ns}; "
    "times and savings are of that.",
)
_SAMPLES = Text("capture-samples", "{rate:number} samples per second in this process.")
_TOKENS = Text("capture-tokens", "{rate:number} generated tokens per second in this process.")
_QUEUED = Text(
    "capture-queued",
    "The program waited for a core for {share:share} of the recorded steps: others use the cores. Times "
    "on the CPU are too long by as much and differ from step to step; record on a quiet machine.",
)
_LIGHT = Text(
    "capture-light",
    "Only devices were recorded (--light). The report cannot say which operators, shapes, modules and lines their work "
    "belongs to, nor what the CPU does between launches: record once without --light for that.",
    note="--light is code",
)
_FRAMEWORK = Text("capture-framework", "Framework: {framework}.", note="framework is a name")
_CALLS = Text("capture-calls", "Each call of the outermost module counts as a step.")
_UPDATES = Text(
    "capture-updates",
    "A step ends where parameters have changed after a backward pass: no optimizer was seen to step outside of one.",
)
_BACKWARDS = Text(
    "capture-backwards", "Each backward pass counts as a step: no parameters were seen to change after it."
)
_SEVERAL = Text(
    "capture-several-optimizers",
    "{count:count} optimizers step; a step of the program ends with each step of the first of them.",
)
_COUNTED = {"module": _CALLS, "update": _UPDATES, "backward": _BACKWARDS}
"""What is said of steps that neither one optimizer nor batches end."""
_CUT = Text("capture-cut", "The recording ended after {steps:count} of {asked:count} steps.")
_NOTICEABLE = 0.05
"""Least recording overhead for which host times are unreliable."""
_UNEVENLY = 0.1
"""Part by which the typical step differs from the median one, so that both are told (own choice)."""
_BUSY = 0.1
"""Least share of the recorded steps without a core that is told (own choice: a quiet machine has a few percent)."""

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
_STEPS = (
    Column(Text("capture-step-number", "Recorded step"), "count", lambda row: row[0]),
    Column(Text("capture-step-ns", "Time"), "ns", lambda row: row[1].ns),
    Column(Text("capture-step-cpu", "On a core"), "ns", lambda row: row[1].cpu_ns),
    Column(Text("capture-step-queued", "Waited for a core"), "ns", lambda row: row[1].queued_ns),
    Column(
        Text("capture-step-asleep", "Asleep", "waiting for something else than a core"),
        "ns",
        lambda row: row[1].asleep_ns,
    ),
)


def build_step(report: Report, top: int) -> Iterator[Section]:
    """Build the section on the step as it is without the profiler, which leads a report on a capture."""
    del top
    capture = report.result("capture", Capture)
    recording = report.result("recording", Recording)
    framework = recording.framework if recording else None
    with_stack = report.trace.options.with_stack if report.trace else None
    run = report.result("ranks", Ranks)
    combined = report.headlines[0].combined if report.headlines else None
    messages = () if capture is None else tuple(_of_step(capture, framework, with_stack, combined))
    if run is not None and run.control_step_ns is not None and run.mean_step_ns is not None:
        messages = (_OF_RANKS(control=run.control_step_ns, profiled=run.mean_step_ns),)
    if messages:
        yield Section("captured_step", _STEP_TITLE, messages, topic=Topic.SUMMARY, is_essential=True)


def _of_step(
    capture: Capture, framework: str | None, with_stack: bool | None, combined: Combined | None
) -> Iterator[Message]:
    """What a step takes, and what it does.

    Args:
        capture: What was captured.
        framework: Id of the framework that has the loop.
        with_stack: Whether stacks were recorded.
        combined: All savings together; None without savings.
    """
    if capture.facts.is_light:
        yield _LIGHT()
    if capture.queued_share is not None and capture.queued_share >= _BUSY:
        yield _QUEUED(share=capture.queued_share)
    yield from _overhead(capture, with_stack, combined)
    if capture.samples_per_s is not None:
        yield _SAMPLES(rate=capture.samples_per_s)
    if capture.tokens_per_s is not None:
        yield _TOKENS(rate=capture.tokens_per_s)
    counted = _COUNTED.get(capture.facts.steps_from or "")
    if counted is not None:
        yield counted()
    elif capture.facts.steps_from == "optimizer" and len(capture.facts.optimizers) > 1:
        yield _SEVERAL(count=len(capture.facts.optimizers))
    if framework is not None:
        yield _FRAMEWORK(framework=frameworks.loop_title(framework, capture.facts.frames))


def _overhead(capture: Capture, with_stack: bool | None, combined: Combined | None) -> Iterator[Message]:
    """What the profiler adds to a step; nothing where that is unknown."""
    control, profiled, overhead = capture.control_step_ns, capture.profiled_step_ns, capture.overhead_share
    plain = None if combined is None else combined.step_ns  # the step as priced, without the profiler
    if not capture.is_of_equal_steps(with_stack=with_stack):
        yield _OTHER_STEPS(control=control, profiled=profiled)
    elif control is None or profiled is None:
        return
    elif overhead is None:
        yield _WITHIN_NOISE(control=control, profiled=profiled)
    elif control and plain is not None and abs(plain - control) > _UNEVENLY * control:
        yield _UNEVEN(plain=plain, control=control, overhead=overhead)
    elif overhead < _NOTICEABLE:
        yield _NO_OVERHEAD(control=control, profiled=profiled)
    else:
        text = _OVERHEAD if plain is not None or combined is None else _ALL_RECORDED
        yield text(control=control, profiled=profiled, overhead=overhead)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the section on settings, loaders, optimizers and recorded steps."""
    capture = report.result("capture", Capture)
    if capture is None:
        return
    captured = capture.facts
    tables = (
        table("capture_loaders", _LOADERS, captured.loaders or (), top),
        table("capture_optimizers", _OPTIMIZERS, captured.optimizers, top),
        table("capture_steps", _STEPS, tuple(enumerate(captured.recorded)), top),
    )
    is_cut = captured.steps_from is not None and captured.steps < captured.asked.steps
    yield detail(
        "capture",
        TITLE,
        Topic.QUALITY,
        (each for each in tables if each.rows),
        messages=(_CUT(steps=captured.steps, asked=captured.asked.steps),) if is_cut else (),
        facts=facts(_FACTS, capture),
    )


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
