"""Suggests the command that was probably meant, in a form that can be copied."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from traceanalyzer.cli.commands import COMMANDS, EXAMPLE, one_line

_LONGEST = 200
"""Greatest number of characters of a suggestion; a longer one is less clear."""

_INPUTS = (".json", ".gz", ".tmp", ".txt", ".md", ".log", ".ipynb")
"""Suffixes of files that `report` reads; used to distinguish a missing file from a mistyped command."""


def typed(command: str, *arguments: str) -> str:
    """A call as one would type it; of many arguments the first."""
    words = ["traceanalyzer", command, *arguments]
    whole = one_line(shlex.join(words))
    while len(whole) > _LONGEST and len(words) > 3:
        words.pop()
        whole = one_line(shlex.join(words)) + " ..."
    return f"`{whole}`"


def with_more(*words: str) -> str:
    """The call as it was typed, with more words: all of its options hold for the next call, too."""
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    return one_line(shlex.join(["traceanalyzer", *given[:end], *words, *given[end:]]))


def instead_of(name: str, arguments: Sequence[str]) -> str:
    """The error about a first word that is not a command.

    Args:
        name: The word.
        arguments: What follows it.
    """
    import difflib  # noqa: PLC0415 - only for what was mistyped

    near = difflib.get_close_matches(name.lower(), COMMANDS, 1)
    if near and not os.path.exists(name):  # noqa: PTH110 - any text, even one that no path can be
        return f"{name}: no such command. Did you mean {typed(near[0], *arguments)}?"
    if not _is_input(name):
        return f"{name}: no such command; use one of {', '.join(COMMANDS)}, such as traceanalyzer {EXAMPLE}"
    inputs = [name, *(word for word in arguments if _is_input(word))]
    if len(inputs) == 1:
        return f"{name}: a command must come first. Did you mean {typed('report', name, *arguments)}?"
    return f"{name}: a command must come first. {for_several(inputs)}"


def for_several(inputs: Sequence[str]) -> str:
    """The commands that take several inputs."""
    two = f"{typed('diff', *inputs)} compares two, " if len(inputs) == 2 else "diff compares two, "
    return (
        f"Of several, {two}{typed('batch', *inputs, '-o', 'reports/')} reports on each, and "
        f"{typed('ranks', *inputs)} compares the ranks of one run"
    )


def _is_input(word: str) -> bool:
    """Whether a word is a file, a folder, standard input, or could be the name of a trace."""
    if word.startswith("-"):
        return word == "-"
    return os.path.exists(word) or word.lower().endswith(_INPUTS) or os.sep in word  # noqa: PTH110
