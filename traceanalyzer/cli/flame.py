"""What `traceanalyzer report` writes as flame graphs: speedscope's files, and collapsed stacks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import click

from traceanalyzer.analyzers.host import flame_graphs
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import FLAME_GRAPHS
from traceanalyzer.formats.language import Language
from traceanalyzer.pipeline import StepChoice, context_of
from traceanalyzer.trace.model import Trace

COLLAPSED, SPEEDSCOPE = "collapsed", "speedscope"
_STEPS, _RECORDING = "steps", "recording"
_NAMES = {"host": "host time", "device": "GPU time", "idle": "idle time of a GPU"}


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of flame graphs, `--over` and `--weight`."""
    over = click.option(
        "--over",
        type=click.Choice((_STEPS, _RECORDING)),
        help="In speedscope and collapsed: the typical steps or the whole recording  [default: steps].",
    )
    weight = click.option(
        "--weight",
        type=click.Choice(flame_graphs.QUANTITIES),
        help="In collapsed: time of the host, the GPU time that it launches, or GPU idle time  [default: host].",
    )
    return over(weight(command))


def check(forms: Collection[str], over: str | None, weight: str | None, steps: StepChoice) -> None:
    """Refuse options of flame graphs where none is written, or that do not fit its format.

    Raises:
        UsageError: There is such an option.
    """
    if over is not None and not FLAME_GRAPHS.keys() & forms:
        raise UsageError("--over is about flame graphs; add -o x.speedscope.json or -o x.collapsed")
    if weight is not None and COLLAPSED not in forms:
        raise UsageError(
            "--weight is about collapsed stacks; add -o x.collapsed (speedscope's file has all quantities)"
        )
    if over == _RECORDING and not steps.is_everything:
        raise UsageError("--over recording covers the whole recording; leave out --steps and --skip-warmup")


def speedscope(trace: Trace, steps: StepChoice, over: str | None, language: Language) -> str:
    """The text of a speedscope file.

    Raises:
        UsageError: Nothing was recorded on host threads.
    """
    from traceanalyzer.formats import flame_files  # noqa: PLC0415 - only for this format

    graphs = _graphs(trace, steps, over)
    if not graphs.graphs:
        raise _nothing(trace, "host")
    return flame_files.speedscope(graphs, trace.info.name, language=language)


def collapsed(trace: Trace, steps: StepChoice, over: str | None, weight: str | None) -> str:
    """Collapsed stacks.

    Raises:
        UsageError: There is no time of the quantity.
    """
    from traceanalyzer.formats import flame_files  # noqa: PLC0415 - only for this format

    quantity = weight or flame_graphs.HOST
    graph = _graphs(trace, steps, over).of(quantity)
    if graph is None:
        raise _nothing(trace, quantity)
    return flame_files.collapsed(graph)


def _graphs(trace: Trace, steps: StepChoice, over: str | None) -> flame_graphs.FlameGraphs:
    context = context_of(trace, steps, None)
    return flame_graphs.of_recording(context) if over == _RECORDING else flame_graphs.of_steps(context)


def _nothing(trace: Trace, quantity: str) -> UsageError:
    return UsageError(
        f"{trace.info.name}: has no {_NAMES[quantity]} that host threads explain; there is no flame graph"
    )
