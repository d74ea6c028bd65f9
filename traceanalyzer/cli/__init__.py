"""The command line. It parses, calls and prints; everything it imports at start-up is click."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module

import click

from traceanalyzer._version import __version__
from traceanalyzer.errors import TraceAnalyzerError

COMMANDS = {"report": "Report on one trace."}
"""Commands and their one-line help; each is a module of this package, imported when it is called."""

UNUSABLE = 2
INTERRUPTED = 130


class _Lazy(click.Group):
    """A group that imports a command when it is called, so that --help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"traceanalyzer.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_Lazy, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="traceanalyzer")
@click.pass_context
def group(context: click.Context) -> None:
    """Where PyTorch's GPU time goes, what to change, and what the change is worth.

    \b
    Example:
      traceanalyzer report trace.json.gz
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the program; errors become one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # Names of kernels may hold characters that the console has not.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        _run()
    except TraceAnalyzerError as error:
        _fail(str(error))
    except click.ClickException as error:
        _fail(f"{error.format_message()} (see traceanalyzer --help)")
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _forget_output()
    except OSError as error:
        _forget_output()
        _fail(f"standard output: cannot be written: {error.strerror or error}")


def _run() -> None:
    """As `group.main`, which would turn a closed pipe into exit code 1."""
    with contextlib.suppress(click.exceptions.Exit), group.make_context("traceanalyzer", sys.argv[1:]) as context:
        group.invoke(context)
    if sys.stdout is not None:
        sys.stdout.flush()


def _forget_output() -> None:
    """What Python flushes at exit goes nowhere: the reader of our output is gone, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line(message: str) -> str:
    """A message in one line without control characters: file names may hold any."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(message.split()))


def _fail(message: str) -> None:
    with contextlib.suppress(OSError):
        print(f"traceanalyzer: {one_line(message)}", file=sys.stderr)  # noqa: T201 - this is the place that prints
    sys.exit(UNUSABLE)
