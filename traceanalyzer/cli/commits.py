"""The options that name the commit of a program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import click

from traceanalyzer.cli import one_line
from traceanalyzer.errors import UsageError

_Command = TypeVar("_Command", bound=Callable[..., None])
_COMMIT = re.compile(r"[\w][\w./+-]{0,199}")


def option(name: str, of: str) -> Callable[[_Command], _Command]:
    """The option that names the commit of the program that was measured.

    Args:
        name: Of the option.
        of: What was measured, in the help.
    """
    help_ = f"Commit of the program of {of}, which a comment names."
    return click.option(name, metavar="COMMIT", callback=_commit, help=help_)


def _commit(_context: click.Context, option: click.Parameter, commit: str | None) -> str | None:
    """A hash, a branch or a tag; None for an empty one, as a variable of a job may be.

    Raises:
        UsageError: It is none.
    """
    if commit and _COMMIT.fullmatch(commit) is None:
        raise UsageError(f"{option.opts[0]} {one_line(commit)}: is neither a hash nor the name of a branch or tag")
    return commit or None
