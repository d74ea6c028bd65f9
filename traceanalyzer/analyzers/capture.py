"""What did the capture see that the trace cannot show, and how much did the profiler slow the steps down?"""

from __future__ import annotations

import msgspec

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.capture_facts import CaptureFacts, StepTimes

_MOST_OVERHEAD = 4.0
"""Own choice: recording without stacks costs less than this many times the step (three, in steps of tiny operators)."""


class Capture(msgspec.Struct, frozen=True):
    """The recorded facts, and figures that follow from them."""

    facts: CaptureFacts
    """What the capture recorded about the program in addition to the events, as in the capture schema."""
    control_step_ns: int | None
    """Duration of a step without the profiler, in ns, from the control phase with more steps: the median of three or
    more steps, else the mean. Null if no step was measured without the profiler."""
    profiled_step_ns: int | None
    """Duration of a recorded step in ns: the median of three or more steps, else the mean. Null if no recorded step was
    measured."""
    overhead_share: float | None
    """Recorded step over step without the profiler, minus 1: how much longer recording makes a step. Null if one of the
    two was not measured, or if they differ by no more than steps of one kind do, or recorded steps are shorter."""
    samples_per_s: float | None
    """Samples per second of this process without the profiler, from the batch size of its only loader, or from the
    tensors that the outermost module is given where its calls are the steps; null with several loaders, without control
    steps or where a figure is unknown."""
    tokens_per_s: float | None = None
    """Generated tokens per second of this process without the profiler, where each step is a call within a function
    `generate`; null elsewhere."""
    queued_share: float | None = None
    """Share of the recorded steps in which the thread that makes them was ready to run but had no core, because other
    threads or programs had them all. Null if the system does not count it."""

    def is_of_equal_steps(self, *, with_stack: bool | None) -> bool:
        """Whether steps with and without the profiler can be the same work; else the recorded ones compiled, say."""
        return bool(with_stack) or self.overhead_share is None or self.overhead_share <= _MOST_OVERHEAD


def analyze(context: Context) -> Capture:
    """The facts of the trace, and the overhead that its control steps show."""
    facts = context.trace.info.capture
    assert facts is not None, "missing() was asked first"  # noqa: S101
    control, profiled = facts.timing.control_ns, facts.timing.profiled_ns
    rate = _rows_per_s(facts, control)
    samples, tokens = (None, rate) if facts.generates else (rate, None)
    return Capture(
        facts, control, profiled, facts.timing.overhead_share, samples, tokens, _queued_share(facts.timing.profiled)
    )


def _queued_share(times: StepTimes | None) -> float | None:
    if times is None or times.queued_ns is None or not times.mean_ns:
        return None
    return min(1.0, times.queued_ns / times.mean_ns)


def _rows_per_s(facts: CaptureFacts, control_ns: int | None) -> float | None:
    if control_ns and facts.rows_per_step is not None:
        return facts.rows_per_step * 1e9 / control_ns
    if not control_ns or facts.batches_per_step is None or not facts.loaders or len(facts.loaders) != 1:
        return None
    size = facts.loaders[0].batch_size
    return None if size is None else size * facts.batches_per_step * 1e9 / control_ns


_CAPTURE = Need(
    Text(
        "skip-no-capture",
        "the trace was not recorded with traceanalyzer capture, so settings of the program are unknown",
    ),
    lambda context: context.trace.info.capture is not None,
)
ANALYSES = (Analysis(50, "capture", Capture, analyze, needs=(_CAPTURE,)),)
