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


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="traceanalyzer")
def group() -> None:
    """Where PyTorch's GPU time goes, what to change, and what the change is worth.

    \b
    Example:
      traceanalyzer report trace.json.gz
    """  # noqa: D301 - \b is click's mark for "do not rewrap"


def main() -> None:
    """Run the program; errors become one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # Names of kernels may hold characters that the console has not.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        group.main(prog_name="traceanalyzer", standalone_mode=False)
        sys.stdout.flush()
    except TraceAnalyzerError as error:
        _fail(str(error))
    except click.ClickException as error:
        _fail(f"{error.format_message()} (see traceanalyzer --help)")
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output is gone; what Python flushes at exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> None:
    line = " ".join(message.split())
    with contextlib.suppress(OSError):
        print(f"traceanalyzer: {line}", file=sys.stderr)  # noqa: T201 - this is the place that prints
    sys.exit(UNUSABLE)
