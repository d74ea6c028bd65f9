"""`traceanalyzer capture`: records training steps without changing the code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer import config, output
from traceanalyzer.capture.agent.settings import Settings
from traceanalyzer.cli import forget_output, one_line
from traceanalyzer.cli.parameters import files, folders
from traceanalyzer.config import Config
from traceanalyzer.errors import TraceAnalyzerError, UsageError

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report

_DEFAULTS = Settings(folder="traces")
_BEYOND_DEVICES = {
    "with_stack": "--stacks",
    "profile_memory": "--memory",
    "with_modules": "--modules",
    "with_flops": "--flops",
}
"""What is not recorded of devices alone, with its option."""


@click.command("capture", context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=files)
@click.option(
    "-o",
    "--output",
    "folder",
    default="traces",
    metavar="DIR",
    shell_complete=folders,
    help="Where traces go  [default: traces].",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=_DEFAULTS.steps,
    metavar="N",
    help=f"Steps to record  [default: {_DEFAULTS.steps}].",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=_DEFAULTS.warmup,
    metavar="N",
    help=f"Warm-up steps before them, not recorded  [default: {_DEFAULTS.warmup}].",
)
@click.option("--wait", type=click.IntRange(min=0), default=0, metavar="N", help="Steps to skip before the warm-up.")
@click.option(
    "--slowest",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Look at N steps, and keep the recording with the slowest.",
)
@click.option(
    "--every", type=click.IntRange(min=0), default=0, metavar="N", help="Record again after N steps, until the end."
)
@click.option("--on-signal", is_flag=True, help="Record when SIGUSR1 reaches traceanalyzer, as often as it does.")
@click.option(
    "--shapes/--no-shapes", "record_shapes", default=True, help="Record shapes of the inputs  [default: yes]."
)
@click.option("--stacks", "with_stack", is_flag=True, help="Record frames of Python; slows the program down a lot.")
@click.option("--memory", "profile_memory", is_flag=True, help="Record every allocation.")
@click.option("--modules", "with_modules", is_flag=True, help="Record modules of TorchScript models.")
@click.option("--flops", "with_flops", is_flag=True, help="Record estimates of floating-point operations.")
@click.option("--light", is_flag=True, help="Record devices alone, without operators: costs least, tells less.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=0),
    default=_DEFAULTS.limit_s,
    metavar="SECONDS",
    help="If no steps are detected, record at most SECONDS; with 0, nothing  [default: 5].",
)
@click.option("--report", is_flag=True, help="Print the report afterwards, on all ranks together.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print what was written.")
def command(program: tuple[str, ...], folder: str, report: bool, quiet: bool, **recording: Any) -> None:
    """Record training steps without changing the code.

    PROGRAM is the command that starts your program, with its arguments; put -- before it, so that its options are not
    read as options of capture. A step ends when an optimizer has stepped or, without an optimizer, when the next
    batch is requested. One trace per rank is written to DIR. Then the program goes on without the profiler.

    \b
    Examples:
      traceanalyzer capture -- python train.py --epochs 1
      traceanalyzer capture -o runs/ -- torchrun --nproc-per-node 2 train.py
      traceanalyzer capture --report -- python train.py
      traceanalyzer capture --slowest 200 -- python train.py

    \b
    Exit codes:
      the program's own; 128 and the number of the signal that ended it
      2    the program could not be started
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    from traceanalyzer.capture import launch  # noqa: PLC0415 - asking for help imports nothing

    if recording["on_signal"]:
        if recording["every"]:
            raise UsageError("--every and --on-signal: choose one; both say when to record again")
        recording["limit_s"] = 0.0  # programs without steps are not recorded from their beginning
    if recording["light"]:
        beyond = [name for name in _BEYOND_DEVICES if recording[name]]
        if beyond:
            raise UsageError(f"--light and {_BEYOND_DEVICES[beyond[0]]}: choose one; --light records devices alone")
    settings = _checked_settings() if report else Config()
    output.require_local(folder)
    outcome = launch.run(program, Settings(folder=folder, **recording), _silent if quiet else _say)
    for warning in outcome.warnings:
        _say(f"traceanalyzer: warning: {warning}")
    for trace in outcome.traces:
        if not quiet:
            _say(f"Wrote {_relative(trace)}")
    if report:
        _report_on_each(outcome.traces, settings)
    sys.exit(outcome.code)


def _checked_settings() -> Config:
    """The project's settings; errors in them are reported before the program runs, not after."""
    from traceanalyzer.cli import delivery  # noqa: PLC0415 - only where it is asked for
    from traceanalyzer.rules.engine import selection  # noqa: PLC0415

    settings = config.load()
    delivery.chosen_language(None, settings)
    selection.choose(settings)
    return settings


def _say(text: str) -> None:
    click.echo(one_line(text), err=True)


def _silent(_: str) -> None:
    """Say nothing at all."""


def _relative(trace: Path) -> Path:
    """Path of a trace as the user would write it."""
    here = Path.cwd()
    return trace.relative_to(here) if trace.is_relative_to(here) else trace


def _report_on_each(traces: Sequence[Path], settings: Config) -> None:
    """Print the reports; where that fails, the traces are there, and the exit code is still that of the program."""
    try:
        if len(traces) > 1 and _report_on_run(traces, settings):
            return
        for trace in traces:
            try:
                _report(trace, settings)
            except TraceAnalyzerError as error:
                _say(f"traceanalyzer: warning: {error}")
    except BrokenPipeError:
        forget_output()


def _report_on_run(traces: Sequence[Path], settings: Config) -> bool:
    """Print one report on all ranks, as `traceanalyzer ranks` does. Returns whether the traces are ranks of one run."""
    from traceanalyzer import multirank  # noqa: PLC0415 - only where it is asked for

    try:
        run = multirank.collect(map(str, traces))
    except TraceAnalyzerError:
        return False
    if len(run.members) < len(traces):
        return False
    _show(run.report(settings), settings)
    for line in run.summary:
        _say(line)
    return True


def _report(trace: Path, settings: Config) -> None:
    """Print the report of a trace, as `traceanalyzer report` does."""
    from traceanalyzer.inputs.opening import load  # noqa: PLC0415 - only where it is asked for
    from traceanalyzer.pipeline import analyze  # noqa: PLC0415

    _show(analyze(load(trace), config=settings), settings)


def _show(report: Report, settings: Config) -> None:
    from traceanalyzer.cli import delivery  # noqa: PLC0415 - only where it is asked for
    from traceanalyzer.formats import terminal  # noqa: PLC0415

    with delivery.guarded():
        terminal.show(report, sys.stdout, top=settings.top, language=delivery.chosen_language(None, settings))
