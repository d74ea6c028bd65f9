"""What a comment names: the commit of a program, and the address of its page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import click

from traceanalyzer.cli import one_line
from traceanalyzer.errors import UsageError

_Command = TypeVar("_Command", bound=Callable[..., None])
_COMMIT = re.compile(r"[\w][\w./+-]{0,199}")
ADDRESS = re.compile(r"https?://[!$&'*-;=?-Z_a-z~%]+")
"""Web addresses that a link in Markdown may have as they are."""


def page_url_option(command: _Command) -> _Command:
    """The option of commands whose Markdown links to their page."""
    return click.option(
        "--page-url",
        metavar="URL",
        callback=_address,
        help="In Markdown: address at which the page (-o report.html) will be found; the comment links to it.",
    )(command)


def _address(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    """A web address that a link in Markdown may have.

    Raises:
        UsageError: It is none.
    """
    if url is not None and (ADDRESS.fullmatch(url) is None or ")" in url):
        raise UsageError(f"--page-url {one_line(url)}: is no web address; it begins with https://")
    return url


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
