"""The command `traceanalyzer`: a group whose commands are imported when they are used, and its overview."""

from __future__ import annotations

import contextlib
import gc
import sys
from importlib import import_module
from types import ModuleType

import click
from click import shell_completion

from traceanalyzer._version import __version__
from traceanalyzer.cli import suggestions
from traceanalyzer.cli.commands import COMMANDS, COMPLETION, EXAMPLE, overview
from traceanalyzer.errors import UsageError

PROGRAM = "traceanalyzer"
SHELLS = ("bash", "zsh", "fish")
"""For which completion is documented and tested."""

_MOST_YOUNG = 50_000
"""New objects from which on Python looks for unreachable circles among them (own choice: a report on a small trace
makes fewer, and there are hardly any circles). After every 700, as usual, it takes a fiftieth of a report's time."""


class _Lazy(click.Group):
    """A group of commands that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = _imported(f"traceanalyzer.cli.{cmd_name}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Resolve as click does, but the error about an unknown option says where options belong."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            example = f"traceanalyzer {EXAMPLE} -o report.html"
            raise UsageError(f"{error.option_name}: no such option here; options follow a command: {example}") from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, but answer an unknown command with the one that was probably meant."""
        name, *arguments = args
        if name in COMMANDS or ctx.resilient_parsing:
            return name, self.get_command(ctx, name), arguments
        raise UsageError(suggestions.instead_of(name, arguments))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[shell_completion.CompletionItem[str]]:
        """Commands and their help without importing them; options as click completes them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        commands = [(name, text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [shell_completion.CompletionItem(name, help=text) for name, text in commands]

    def get_help(self, ctx: click.Context) -> str:
        return overview().rstrip()


def _imported(name: str) -> ModuleType:
    """Import a module and exclude its objects, which stay, from garbage collection.

    Otherwise a fifth of the time of importing goes into garbage collection, and each collection during an analysis
    visits all of them.
    """
    if name in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.set_threshold(_MOST_YOUNG)
        gc.enable()


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def group() -> None:
    """Where PyTorch's GPU time goes, what to change, and what the change is worth."""


def run(arguments: list[str]) -> None:
    """Run the group of commands; unlike `group.main`, it does not turn a closed pipe into exit code 1.

    Raises:
        UsageError: What click found wrong.
        KeyboardInterrupt: The user gave up.
    """
    try:
        with contextlib.suppress(click.exceptions.Exit), group.make_context(PROGRAM, arguments) as context:
            group.invoke(context)
    except click.ClickException as error:
        context_of_error = getattr(error, "ctx", None)
        command = context_of_error.command_path if context_of_error else PROGRAM
        raise UsageError(f"{error.format_message()} (see {command} --help)") from None
    except click.Abort:
        raise KeyboardInterrupt from None


def complete(instruction: str) -> None:
    """Answer a shell: with its script (`bash_source`), or with completions (`bash_complete`).

    Raises:
        UsageError: The instruction is for no shell that is known, or comes from none.
    """
    try:
        is_unknown = shell_completion.shell_complete(group, {}, PROGRAM, COMPLETION, instruction)
    except (KeyError, ValueError):  # the shell sets variables with the position of the cursor
        raise UsageError(
            f"{COMPLETION}={instruction}: is for completion scripts; {COMPLETION}=bash_source prints one"
        ) from None
    if is_unknown:
        known = ", ".join(f"{shell}_source" for shell in SHELLS)
        raise UsageError(f"{COMPLETION}={instruction}: no such shell; use one of {known}")
