"""Predicts the duration of a step with some changes, from a trace or from the traces of all ranks of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from traceanalyzer import multirank
from traceanalyzer.errors import UsageError
from traceanalyzer.multirank import MeasuredRun
from traceanalyzer.pipeline import StepChoice, context_of
from traceanalyzer.simulation import what_if
from traceanalyzer.simulation.what_if import ChangeAsked, WhatIf
from traceanalyzer.trace.model import Trace


def whatif(
    measured: Trace | MeasuredRun | str | Path | Iterable[str | Path],
    *,
    loader: float | None = None,
    speedup: Mapping[str, float] | None = None,
    free: Sequence[str] = (),
    gone: Sequence[str] = (),
    no_sync: Sequence[str] = (),
    bandwidth: float | None = None,
    overlap: bool = False,
    graphs: bool = False,
    ranks: Sequence[int] = (),
    steps: StepChoice | None = None,
) -> WhatIf:
    """Predict what the typical step would take with all changes together; if none is given, rank what would help most.

    Args:
        measured: A trace that `load` returned. Or, to ask about ranks, the ranks of one run: files, a folder, patterns
            or URLs as for `traceanalyzer.ranks`, or what `multirank.collect` returned.
        loader: What a wait for the loader takes at most, in ms, because workers load ahead; 0 for no waits.
        speedup: How many times as fast, by selector; 0 for no time at all. `simulation.selectors` lists the selectors.
        free: Selectors of what should take no time where it runs; launches stay.
        gone: Selectors of what should be gone: its work, its launches and, of operators, their time on the host.
        no_sync: Calls that no longer wait for the device: `*`, functions of the runtime, or operators around them.
        bandwidth: How many times as fast collectives are.
        overlap: Whether collectives overlap with computation.
        graphs: Whether one graph launches all kernels of a step.
        ranks: Numbers of the ranks whose work takes no longer than the median of all ranks.
        steps: The steps that count; all by default. Of what `multirank.collect` returned, they were chosen before.

    Raises:
        UnusableInputError: No file of a run can be used.
        UsageError: Not a trace, no step, a selector that matches nothing in the trace, or a negative factor. Of a run:
            the ranks cannot be replayed together, a rank that is not there, or another change.
    """
    asked: list[ChangeAsked] = []
    if loader is not None:
        asked.append(ChangeAsked("loader", factor=loader * 1e6))
    asked += (ChangeAsked("speedup", name, factor) for name, factor in (speedup or {}).items())
    asked += (ChangeAsked("free", name, 0.0) for name in free)
    asked += (ChangeAsked("gone", name, 0.0) for name in gone)
    asked += (ChangeAsked("no-sync", name) for name in no_sync)
    if bandwidth is not None:
        asked.append(ChangeAsked("bandwidth", factor=bandwidth))
    if overlap:
        asked.append(ChangeAsked("overlap"))
    if graphs:
        asked.append(ChangeAsked("graphs"))
    return _predicted(measured, asked, ranks, steps)


def _predicted(
    measured: Trace | MeasuredRun | str | Path | Iterable[str | Path],
    asked: Sequence[ChangeAsked],
    ranks: Sequence[int],
    steps: StepChoice | None,
) -> WhatIf:
    """Apply changes to a trace, or ask what a run would take without its late ranks."""
    if isinstance(measured, Trace) and measured.ranks:
        measured = multirank.of_merged(measured, steps)
    if isinstance(measured, Trace):
        if ranks:
            raise UsageError(f"--rank {ranks[0]}: needs the traces of several ranks; name all files or their folder")
        return what_if.ask(context_of(measured, steps, None), asked)
    if isinstance(measured, str | Path):
        measured = [measured]
    if isinstance(measured, Iterable):
        measured = multirank.collect([str(path) for path in measured], steps)
    if not isinstance(measured, MeasuredRun):
        raise UsageError(f"{getattr(measured, 'name', 'this')}: only a trace can be replayed")
    if asked:
        raise UsageError(f"--{asked[0].kind}: only --rank applies to several ranks; name the trace of one of them")
    return measured.what_if(ranks)
