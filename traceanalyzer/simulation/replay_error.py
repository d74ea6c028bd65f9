"""How well does the causal model reproduce the recording?

The graph of the typical steps is replayed unchanged, from the durations of calls and device events and the usual
latencies alone. What is left of the recorded times is the error of the model, which every prediction carries.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.simulation import model


class Replay(msgspec.Struct, frozen=True):
    """The unchanged replay of the typical steps, without what the recorded causes do not explain."""

    recorded_ns: float
    """Mean duration in ns of the steps that are modelled, as recorded: the typical step, or of long recordings its
    first occurrences."""
    modelled_ns: float
    """The same duration in the replay."""
    error_share: float
    """Difference of the two as a share of the recorded duration, 0 or more."""
    device_start_error_p50_share: float | None
    """Median by which the starts of device events are off, within their step, as a share of the step; null without
    device events."""
    device_start_error_p95_share: float | None
    """The difference that 95 % of the starts do not exceed, as a share of the step; null without device events."""
    abstained: bool
    """Whether the error is so large, above 5 % of the step, that nothing is predicted from the model."""
    dropped_edges: int
    """Causes that the recorded times contradict, and that were left out."""
    steps: int = 0
    """Number of steps that are modelled."""
    largest_step_error_share: float = 0.0
    """Largest error of a single step as a share of the mean recorded step, 0 or more."""
    unrecorded_starts: int = 0
    """Device events that wait for work that was launched before the recording: their starts are inputs of the model."""
    unlinked_starts: int = 0
    """Device events that no recorded launch or other event explains: their starts, relative to the host, are inputs."""
    unexplained_waits: int = 0
    """Waits of at least 1 ms in which no recorded device event ended: their durations are inputs."""


def analyze(context: Context) -> Replay:
    """Replay the typical steps."""
    found = model.require(context)
    errors = found.start_errors_ns()
    recorded, inputs = found.recorded_ns, found.graph.inputs
    steps = found.durations_ns(found.times) - found.durations_ns(found.recorded)
    median, p95 = (float(np.percentile(errors, p)) / recorded for p in (50, 95)) if len(errors) else (None, None)
    return Replay(
        recorded_ns=recorded,
        modelled_ns=found.modelled_ns,
        error_share=found.error_share,
        device_start_error_p50_share=median,
        device_start_error_p95_share=p95,
        abstained=found.abstains,
        dropped_edges=found.times.dropped,
        steps=len(steps),
        largest_step_error_share=float(np.abs(steps).max()) / recorded,
        unrecorded_starts=inputs.unrecorded_starts,
        unlinked_starts=inputs.unlinked_starts,
        unexplained_waits=inputs.unexplained_waits,
    )
