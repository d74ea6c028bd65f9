"""Arguments and options that several commands take, and kinds of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traceanalyzer.config import SEVERITIES

if TYPE_CHECKING:
    from click import ParamType as ParamType  # noqa: PLC0414 - exported
    from click.shell_completion import CompletionItem
else:

    class ParamType(click.ParamType):
        """Replaces the parameter type of older versions of click, which is not generic."""

        def __class_getitem__(cls, _: object) -> type:
            return cls


_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[_Command], _Command]

_RANGE = re.compile(r"(\d{0,18}):(\d{0,18})|(\d{1,18})")
_SHARE = re.compile(r"(\d{1,9}(?:\.\d{0,9})?)\s*(%?)")


class StepRange(ParamType[tuple[int | None, int | None]]):
    """`A:B`, `A:`, `:B` or `A`, both ends included."""

    name = "A:B"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int | None]:
        """The first and the last step."""
        match = _RANGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value} is not a range of steps; write A:B, A: or :B", param, ctx)
        first, last, single = (int(part) if part else None for part in match.groups())
        return (first, last) if single is None else (single, single)


class Share(ParamType[float]):
    """`3%`, or the same as a fraction, `0.03`."""

    name = "N%"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a fraction."""
        if isinstance(value, float):
            return value
        match = _SHARE.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value} is not a share; write 3% or 0.03", param, ctx)
        number = float(match[1])
        if match[2]:
            return number / 100
        if number >= 1:
            self.fail(f"{value} may be a percentage or a fraction; write {value}% or a fraction below 1", param, ctx)
        return number


# Completion by shells


def _items(values: Iterable[str], incomplete: str, kind: str = "plain") -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only where a shell asks

    return [CompletionItem(value, type=kind) for value in values if value.startswith(incomplete)]


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Files and folders, which the shell itself completes."""
    return _items([incomplete], incomplete, "file")


def folders(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Folders, which the shell itself completes."""
    return _items([incomplete], incomplete, "dir")


def rules(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the ids of rules."""
    from traceanalyzer.rules.engine import selection  # noqa: PLC0415 - imports every rule

    return _items((rule.id for rule in selection.known()), incomplete)


def _languages(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    from traceanalyzer.formats import language  # noqa: PLC0415 - only where a shell asks

    return _items((*language.CODES, language.AUTO), incomplete)


# Options


def output(what: str, suffixes: Iterable[str]) -> _Decorator[_Command]:
    """`-o`, which may be repeated.

    Args:
        what: Name of the output.
        suffixes: The suffixes that choose a format.
    """
    return click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        shell_complete=files,
        help=f"Write {what} to FILE; its suffix ({', '.join(suffixes)}) is the format. Repeat for several; - is "
        "standard output.",
    )


def form(names: Iterable[str], hidden: Iterable[str] = ()) -> _Decorator[_Command]:
    """`--format`, for outputs whose name does not show the format.

    Args:
        names: The formats of the command.
        hidden: Further formats, which `--help` and completion leave out.
    """
    shown = tuple(names)
    return click.option(
        "--format",
        "form",
        type=click.Choice((*shown, *hidden)),
        metavar="FORMAT",
        shell_complete=lambda _ctx, _param, incomplete: _items(shown, incomplete),
        help=f"Format of all output ({', '.join(shown)}); without it, the suffix of each file decides.",
    )


def noise(command: _Command) -> _Command:
    """Add the option for recordings of unchanged programs."""
    return click.option(
        "--noise",
        metavar="FOLDER",
        shell_complete=files,
        help="Recordings of unchanged programs on this machine, or a difference in JSON that was written with them.",
    )(command)


def top(default: str) -> _Decorator[_Command]:
    """Add the option `--top`."""
    return click.option(
        "--top", type=click.IntRange(min=1), metavar="N", help=f"Rows of each ranking  [default: {default}]."
    )


def steps(of: str = "") -> _Decorator[_Command]:
    """`--steps` and `--skip-warmup`.

    Args:
        of: " of traces", where other inputs have no steps to choose.
    """
    only = click.option("--steps", type=StepRange(), help=f"Only the steps A to B{of}, both included.")
    skip = click.option(
        "--skip-warmup", type=click.IntRange(min=0), default=0, metavar="N", help=f"Leave the first N steps{of} out."
    )
    return lambda command: only(skip(command))


def choice_of_rules(command: _Command) -> _Command:
    """Add the options `--select` and `--ignore`."""
    select = click.option(
        "--select",
        multiple=True,
        metavar="RULE",
        shell_complete=rules,
        help="Apply only this rule. Repeat for several.",
    )
    ignore = click.option(
        "--ignore",
        multiple=True,
        metavar="RULE",
        shell_complete=rules,
        help="Do not apply this rule. Repeat for several.",
    )
    return select(ignore(command))


def _processes(_ctx: click.Context, _param: click.Parameter, jobs: int | None) -> int:
    """The requested number of processes, or as many as cores and memory allow."""
    from traceanalyzer.batching import machine  # noqa: PLC0415 - only where a command runs

    return jobs or machine.processes_of_a_file()


jobs: _Decorator[Any] = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    callback=_processes,
    help="Maximum number of processes for a large trace  [default: one per core, as far as memory allows].",
)
lang: _Decorator[Any] = click.option(
    "--lang",
    metavar="CODE",
    shell_complete=_languages,
    help="Language of the output: en, ru, zh or auto  [default: en].",
)
fail_on: _Decorator[Any] = click.option(
    "--fail-on", type=click.Choice(SEVERITIES[::-1]), help="Exit with 1 if a finding is at least this severe."
)
show: _Decorator[Any] = click.option(
    "--open", "show", is_flag=True, help="Open the HTML report in the browser; without -o, NAME.html is written here."
)
force: _Decorator[Any] = click.option("--force", is_flag=True, help="Overwrite files that traceanalyzer did not write.")
quiet: _Decorator[Any] = click.option("-q", "--quiet", is_flag=True, help="Print no progress and no hints.")
