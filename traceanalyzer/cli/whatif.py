"""`traceanalyzer whatif`: what a step would take with some changes."""

from __future__ import annotations

import click

from traceanalyzer import config, formats, multirank
from traceanalyzer.cli import delivery, one_line, parameters
from traceanalyzer.cli.parameters import ParamType
from traceanalyzer.cli.progress import reading, reading_each
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.what_if import FORMATS, answer
from traceanalyzer.inputs import opening
from traceanalyzer.multirank import MeasuredRun
from traceanalyzer.pipeline import StepChoice
from traceanalyzer.prediction import whatif
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Report
from traceanalyzer.simulation.edits import LEAST_FACTOR, MOST_FACTOR
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.model import Trace

_FORMATS = {name: formats.EVERY[name] for name in FORMATS}
"""Formats of a prediction, and their suffixes."""

_WITHOUT_EVENTS = {
    TableDocument: "contains printed tables",
    CompileLog: "is a compile log",
    FlightDump: "is a dump of the flight recorder",
    LoggedHang: "is the log of a hang",
    MemorySnapshot: "is a memory snapshot",
    Report: "is a saved report",
    Difference: "is a saved difference",
}


class _Factor(ParamType[float]):
    """How many times as fast: a number from 0, which is free."""

    name = "FACTOR"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number of times as fast."""
        try:
            number = float(str(value))
        except ValueError:
            self.fail(f"{value} is not a number", param, ctx)
        if not (number == 0 or LEAST_FACTOR <= number <= MOST_FACTOR):
            self.fail(f"{value} must be 0 (free), or from {LEAST_FACTOR:g} to {MOST_FACTOR:g}", param, ctx)
        return number


class _Speedup(ParamType[tuple[str, float]]):
    """`SELECTOR=FACTOR`; the selector may contain equals signs."""

    name = "SELECTOR=FACTOR"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """The selector and the factor."""
        if isinstance(value, tuple):
            return value
        selector, equals, factor = str(value).rpartition("=")
        if not equals or not selector:
            self.fail(f"{value} has no factor; write SELECTOR=FACTOR, such as aten::mm=2", param, ctx)
        return selector, _Factor().convert(factor, param, ctx)


@click.command("whatif")
@click.argument("given", metavar="TRACE...", nargs=-1, required=True, shell_complete=parameters.files)
@click.option(
    "--loader", type=_Factor(), metavar="MS", help="With workers, waits for the loader take at most MS milliseconds."
)
@click.option(
    "--speedup",
    type=_Speedup(),
    multiple=True,
    metavar="SELECTOR=FACTOR",
    help="FACTOR times as fast; 0 takes no time. Repeatable.",
)
@click.option(
    "--free",
    multiple=True,
    metavar="SELECTOR",
    help="Assume that SELECTOR takes no time where it runs; launches stay. Repeatable.",
)
@click.option(
    "--gone", multiple=True, metavar="SELECTOR", help="Assume that SELECTOR is gone, launches included. Repeatable."
)
@click.option(
    "--no-sync",
    multiple=True,
    metavar="SELECTOR",
    help="These calls no longer wait for the GPU: '*' for all, a runtime function, or an operator. Repeatable.",
)
@click.option("--bandwidth", type=_Factor(), metavar="FACTOR", help="Collectives are FACTOR times as fast.")
@click.option("--overlap", is_flag=True, help="Collectives overlap with computation.")
@click.option("--graphs", is_flag=True, help="CUDA graphs launch all kernels of a step, one after each wait.")
@click.option(
    "--rank",
    "ranks",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Of several ranks: rank N takes no longer than the median of all. Repeatable.",
)
@parameters.output("the prediction", formats.suffixes(_FORMATS))
@parameters.form(_FORMATS)
@parameters.top("20")
@parameters.lang
@parameters.steps()
@parameters.jobs
@parameters.force
@parameters.quiet
def command(
    *,
    given: tuple[str, ...],
    loader: float | None,
    speedup: tuple[tuple[str, float], ...],
    free: tuple[str, ...],
    gone: tuple[str, ...],
    no_sync: tuple[str, ...],
    bandwidth: float | None,
    overlap: bool,
    graphs: bool,
    ranks: tuple[int, ...],
    outputs: tuple[str, ...],
    form: str | None,
    top: int | None,
    lang: str | None,
    steps: tuple[int | None, int | None] | None,
    skip_warmup: int,
    jobs: int,
    force: bool,
    quiet: bool,
) -> None:
    """Predict what a step would take with changes.

    The dependencies of the recorded step are replayed with all changes together. If no change is given, a table shows
    what would help most.

    A SELECTOR is loader, gpu, host, communication, or the name of an operator, a kernel, a class of kernels
    (gemm, elementwise) or an owner of host time (a function or module), looked up in this order; * and ? are
    wildcards, and kernel:NAME, class:NAME, owner:NAME or operator:NAME names the kind. A change of an operator applies
    to its work on the GPU, with everything that it calls; if it has none there, to its time on the host, like a change
    of an owner.

    Traces of several ranks of one run, named one by one or by their folder, are replayed together. Then only --rank
    applies; without it, a table shows what each rank costs the others.

    \b
    Examples:
      traceanalyzer whatif trace.json.gz
      traceanalyzer whatif trace.json.gz --loader 0
      traceanalyzer whatif trace.json.gz --speedup "aten::convolution*=2"
      traceanalyzer whatif trace.json.gz --gone class:elementwise -o whatif.html
      traceanalyzer whatif traces/ --rank 2

    \b
    Exit codes:
      0    done
      2    unusable input or usage, such as a selector that finds nothing
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    top = top or settings.top
    targets = delivery.targets(outputs, form, known=_FORMATS)
    spoken = delivery.chosen_language(lang, settings)
    first, last = steps or (None, None)
    speedups = dict(speedup)
    if len(speedups) < len(speedup):
        raise UsageError("--speedup: the same selector is given twice")
    choice = StepChoice(first, last, skip_warmup)
    measured = _measured(given, choice, jobs, quiet=quiet)
    prediction = whatif(
        measured,
        loader=loader,
        speedup=speedups,
        free=free,
        gone=gone,
        no_sync=no_sync,
        bandwidth=bandwidth,
        overlap=overlap,
        graphs=graphs,
        ranks=ranks,
        steps=choice,
    )
    for line in measured.summary if isinstance(measured, MeasuredRun) else ():
        click.echo(one_line(line), err=True)
    delivery.deliver_answer(answer(prediction, spoken), targets, top, force=force, quiet=quiet)


def _measured(given: tuple[str, ...], steps: StepChoice, jobs: int, *, quiet: bool) -> Trace | MeasuredRun:
    """The one trace that was named, or the ranks of a run.

    Raises:
        UnusableInputError: No file can be used.
        UsageError: The inputs have no events to replay, or are not one run.
    """
    if len(given) > 1 or not opening.is_one_file(given[0]):
        with reading_each(quiet=quiet) as progress:
            return multirank.collect(given, steps, progress, jobs)
    with reading(given[0], quiet=quiet) as advance:
        trace = opening.read(given[0], advance, jobs)
    if not isinstance(trace, Trace):
        raise UsageError(f"{given[0]}: {_WITHOUT_EVENTS[type(trace)]} without events to replay; name the trace")
    return trace
