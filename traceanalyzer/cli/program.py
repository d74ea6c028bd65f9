"""The group of all commands."""

from __future__ import annotations

import contextlib
from importlib import import_module

import click

from traceanalyzer._version import __version__
from traceanalyzer.cli import COMMANDS, overview
from traceanalyzer.errors import UsageError


class _Lazy(click.Group):
    """A group that imports a command when it is called, so that the others cost nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"traceanalyzer.cli.{cmd_name}").command
        return command

    def get_help(self, ctx: click.Context) -> str:
        return overview().rstrip()


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="traceanalyzer", message="%(prog)s %(version)s")
def group() -> None:
    """Where PyTorch's GPU time goes, what to change, and what the change is worth."""


def run(arguments: list[str]) -> None:
    """As `group.main`, which would turn a closed pipe into exit code 1.

    Raises:
        UsageError: What click found wrong.
        KeyboardInterrupt: The user gave up.
    """
    try:
        with contextlib.suppress(click.exceptions.Exit), group.make_context("traceanalyzer", arguments) as context:
            group.invoke(context)
    except click.ClickException as error:
        raise UsageError(f"{error.format_message()} (see traceanalyzer --help)") from None
    except click.Abort:
        raise KeyboardInterrupt from None
