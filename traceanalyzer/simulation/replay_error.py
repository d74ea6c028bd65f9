"""How well does the causal model reproduce the recording?

The graph of the typical steps is replayed unchanged, from only the durations of calls and device events and the usual
latencies. The difference from the recorded times is the error of the model, which affects every prediction.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.simulation import model
from traceanalyzer.structure.context import Context


class Replay(msgspec.Struct, frozen=True):
    """The unchanged replay of the typical steps, without time that no recorded cause explains."""

    recorded_ns: float
    """Mean recorded duration in ns of the modelled steps: the typical steps, in long recordings the first of them."""
    modelled_ns: float
    """Mean duration in ns of these steps in the replay."""
    error_share: float
    """Difference of the two durations as a share of the recorded one, 0 or more."""
    device_start_error_p50_share: float | None
    """Median error of the starts of device events within their step, as a share of the step; null without device
    events."""
    device_start_error_p95_share: float | None
    """95th percentile of these errors, as a share of the step; null without device events."""
    abstained: bool
    """Whether the error, the pinned share or the share of the period is above 5 %, so that nothing is predicted from
    the model."""
    dropped_edges: int
    """Number of causes that were left out because the recorded times contradict them."""
    steps: int = 0
    """Number of modelled steps."""
    largest_step_error_share: float = 0.0
    """Largest error of a single step as a share of the mean recorded step, 0 or more."""
    unrecorded_starts: int = 0
    """Number of device events that wait for work launched before the recording; their starts are inputs."""
    unlinked_starts: int = 0
    """Number of device events without a recorded launch that do not directly follow other work; their starts, relative
    to the host, are inputs."""
    unexplained_waits: int = 0
    """Number of waits of at least 1 ms in which no recorded device event ended; their durations are inputs."""
    pinned_share: float = 0.0
    """Share of the device's time in the modelled steps whose modelled start is simply its recorded start."""
    period_share: float = 0.0
    """How much longer or shorter the steps would be if they went on, as a share of the recorded step, 0 or more."""

    @property
    def doubt(self) -> model.Doubt | None:
        """Why nothing is predicted from the model; None if it predicts."""
        return model.doubt(self.error_share, self.pinned_share, self.period_share) if self.abstained else None


def analyze(context: Context) -> Replay:
    """Replay the typical steps."""
    causal = model.require(context)
    errors = causal.start_errors_ns()
    recorded, inputs = causal.recorded_ns, causal.graph.inputs
    steps = causal.durations_ns(causal.times) - causal.durations_ns(causal.recorded)
    median, p95 = (float(np.percentile(errors, p)) / recorded for p in (50, 95)) if len(errors) else (None, None)
    return Replay(
        recorded_ns=recorded,
        modelled_ns=causal.modelled_ns,
        error_share=causal.error_share,
        device_start_error_p50_share=median,
        device_start_error_p95_share=p95,
        abstained=causal.abstains,
        dropped_edges=causal.times.dropped,
        steps=len(steps),
        largest_step_error_share=float(np.abs(steps).max()) / recorded,
        unrecorded_starts=inputs.unrecorded_starts,
        unlinked_starts=inputs.unlinked_starts,
        unexplained_waits=inputs.unexplained_waits,
        pinned_share=causal.pinned_share,
        period_share=causal.period_share,
    )
