"""Predicts from a trace what a step would take with some changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from traceanalyzer.errors import UsageError
from traceanalyzer.pipeline import StepChoice, context_of
from traceanalyzer.simulation import what_if
from traceanalyzer.simulation.what_if import ChangeAsked, WhatIf
from traceanalyzer.trace.model import Trace


def whatif(
    measured: Trace,
    *,
    loader: float | None = None,
    speedup: Mapping[str, float] | None = None,
    free: Sequence[str] = (),
    no_sync: Sequence[str] = (),
    bandwidth: float | None = None,
    overlap: bool = False,
    graphs: bool = False,
    steps: StepChoice | None = None,
) -> WhatIf:
    """Predict what the typical step would take with all changes together; if none is given, rank what would help most.

    Args:
        measured: A trace that `load` returned.
        loader: What a wait for the loader takes at most, in ms; 0 for no waits.
        speedup: How many times as fast, by selector; 0 for no time at all. `simulation.selectors` lists the selectors.
        free: Selectors of what should take no time.
        no_sync: Calls that no longer wait for the device: `*`, functions of the runtime, or operators around them.
        bandwidth: How many times as fast collectives are.
        overlap: Whether collectives overlap with computation.
        graphs: Whether one graph launches all kernels of a step.
        steps: The steps that count; all by default.

    Raises:
        UsageError: Not a trace, no step, a selector that matches nothing in the trace, or a negative factor.
    """
    if not isinstance(measured, Trace):
        raise UsageError(f"{getattr(measured, 'name', 'this')}: only a trace can be replayed")
    asked = [] if loader is None else [ChangeAsked("loader", factor=loader * 1e6)]
    asked += [ChangeAsked("speedup", name, factor) for name, factor in (speedup or {}).items()]
    asked += [ChangeAsked("free", name, 0.0) for name in free]
    asked += [ChangeAsked("no-sync", name) for name in no_sync]
    asked += [] if bandwidth is None else [ChangeAsked("bandwidth", factor=bandwidth)]
    asked += [ChangeAsked(kind) for kind, wanted in (("overlap", overlap), ("graphs", graphs)) if wanted]
    return what_if.ask(context_of(measured, steps, None), asked)
