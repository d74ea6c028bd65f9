"""How much does the program get done: samples and tokens per second, and which share of the device's peak?

Everything is of typical steps, as they were recorded; whatever is not certain is unknown, with the reason.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.serving.batches import Samples, samples, typical
from traceanalyzer.analyzers.serving.tokens import Tokens, tokens
from traceanalyzer.analyzers.serving.utilization import Utilization, utilization
from traceanalyzer.structure.analysis import STEPS, Analysis
from traceanalyzer.structure.context import Context


class ThroughputFigures(msgspec.Struct, frozen=True):
    """What one process of the program gets done in a typical step, as recorded."""

    steps: int
    """Number of typical steps."""
    typical_step_ns: float | None
    """Mean duration of a typical step in ns; null where the program's steps are not known."""
    samples: Samples
    """Samples per second."""
    tokens: Tokens
    """Tokens per second."""
    utilization: Utilization
    """Share of the device's peak that products need."""


def analyze(context: Context) -> ThroughputFigures:
    """Samples, tokens and products of typical steps."""
    steps = context.cached(typical)
    return ThroughputFigures(
        steps=len(steps),
        typical_step_ns=steps.length_ns / len(steps) if len(steps) else None,
        samples=samples(context),
        tokens=tokens(context),
        utilization=utilization(context),
    )


ANALYSES = (Analysis(520, "throughput", ThroughputFigures, analyze, needs=(STEPS,)),)
