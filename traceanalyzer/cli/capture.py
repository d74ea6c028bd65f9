"""`traceanalyzer capture`: record the steps of a training whose code nobody touches."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from traceanalyzer.capture.agent.settings import Settings
from traceanalyzer.cli import one_line

_DEFAULTS = Settings(folder="traces")


@click.command("capture", context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-o", "--output", "folder", default="traces", metavar="DIR", help="Where traces go  [default: traces].")
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
    help=f"Steps before them that are not recorded  [default: {_DEFAULTS.warmup}].",
)
@click.option("--wait", type=click.IntRange(min=0), default=0, metavar="N", help="Steps before the warm-up.")
@click.option(
    "--shapes/--no-shapes", "record_shapes", default=True, help="Record shapes of the inputs  [default: yes]."
)
@click.option("--stacks", "with_stack", is_flag=True, help="Record frames of Python; slows the program down a lot.")
@click.option("--memory", "profile_memory", is_flag=True, help="Record every allocation.")
@click.option("--modules", "with_modules", is_flag=True, help="Record modules of TorchScript models.")
@click.option("--flops", "with_flops", is_flag=True, help="Record estimates of floating-point operations.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=0),
    default=_DEFAULTS.limit_s,
    metavar="SECONDS",
    help="Of a program that makes no steps, record so much at most; 0 records nothing of it  [default: 30].",
)
@click.option("--report", is_flag=True, help="Then print the report on each trace.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print what was written.")
def command(program: tuple[str, ...], folder: str, report: bool, quiet: bool, **recording: Any) -> None:
    """Record the steps of a training whose code nobody touches.

    PROGRAM is how you start it, arguments and all; -- before it keeps its options apart from these. Steps end where
    an optimizer has stepped, or, without optimizers, where the next batch is asked for. One trace per rank is written
    to DIR, and the program then runs on as if nothing had been.

    \b
    Examples:
      traceanalyzer capture -- python train.py --epochs 1
      traceanalyzer capture -o runs/ -- torchrun --nproc-per-node 2 train.py
      traceanalyzer capture --report -- python train.py

    \b
    Exit codes:
      the program's own; 128 and the number of the signal that ended it
      2    the program could not be started
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    from traceanalyzer.capture import launch  # noqa: PLC0415 - asking for help imports nothing

    outcome = launch.run(program, Settings(folder=folder, **recording))
    for warning in outcome.warnings:
        _say(f"traceanalyzer: warning: {warning}")
    for trace in outcome.traces:
        if not quiet:
            _say(f"Wrote {_relative(trace)}")
    if report:
        for trace in outcome.traces:
            _report(trace)
    sys.exit(outcome.code)


def _say(text: str) -> None:
    click.echo(one_line(text), err=True)


def _relative(trace: Path) -> Path:
    """As the user would write it."""
    here = Path.cwd()
    return trace.relative_to(here) if trace.is_relative_to(here) else trace


def _report(trace: Path) -> None:
    """As `traceanalyzer report` prints it."""
    from traceanalyzer import config  # noqa: PLC0415 - only where it is asked for
    from traceanalyzer.pipeline import analyze, load  # noqa: PLC0415
    from traceanalyzer.renderers import language, terminal  # noqa: PLC0415

    settings = config.load()
    spoken = language.of(settings.language)
    terminal.show(analyze(load(trace), config=settings), sys.stdout, top=settings.top, language=spoken)
