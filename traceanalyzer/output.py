"""Writes files: completely or not at all, and never over a file that this program did not write."""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from traceanalyzer.errors import OutputError
from traceanalyzer.urls import was_url, without_secrets

REWRITTEN = "traceanalyzer_rewritten"
"""The first key of a trace that this program made of another one."""

_OURS = re.compile(
    rb"\A(?:<!-- traceanalyzer [a-z]+ "
    rb'|\s*<!doctype html>\s*<html[^>]*>\s*<head>\s*<meta charset="utf-8">'
    rb'\s*<meta name="generator" content="traceanalyzer'
    rb'|\{\s*"schema_version":\s*\d+,\s*"generator":\s*\{\s*"name":\s*"traceanalyzer"'
    rb'|\{\s*"traceanalyzer_rewritten":'
    rb"|# traceanalyzer reproduce\n"
    rb'|\{\s*"exporter":\s*"traceanalyzer@'
    rb"|\x89PNG\r\n\x1a\n(?s:.{25}.{4})tEXtSoftware\x00traceanalyzer )"
)
"""How a file that this program wrote begins."""

_HEAD = 4096
_GZIP = 31
"""The wbits of zlib for gzip."""


def require_local(path: str | Path, option: str = "-o") -> None:
    """Refuse a URL where files are written by their paths.

    Raises:
        OutputError: It is one, also one that has gone through a path and lost a slash.
    """
    given = str(path)
    if was_url(given):
        raise OutputError(
            f"{option} {without_secrets(given)}: is a URL, and only batch -o writes to one; name a path on this machine"
        )


def write(path: Path, text: str, *, force: bool = False) -> None:
    """Write a file through a temporary one beside it; a symbolic link keeps pointing to its target.

    Raises:
        OutputError: The folder is missing, the disk is full, or another program wrote the file.
    """
    data = text.encode("utf-8", "replace")
    with writing(path, force=force) as file:
        file.write(data)


@contextmanager
def writing(path: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file that takes its name when the block ends, and vanishes if the block raises.

    Raises:
        OutputError: As of `write`; for a foreign file before anything is written.
    """
    require_local(path)
    try:
        target = Path(os.path.realpath(path, strict=path.exists()))
        if path.is_symlink() and target.is_symlink():
            raise OutputError(f"{path}: cannot be written: the link leads back to itself")
        if target.is_dir():
            raise OutputError(f"{path}: is a directory; name a file in it")
        if target.exists() and not target.is_file():  # a pipe or a device: nothing to keep whole, never replaced
            with target.open("wb") as file:
                yield file
            return
        if not force and target.exists() and not _is_ours(target):
            raise OutputError(
                f"{path}: exists, and nothing in it says that traceanalyzer wrote it; use --force to overwrite it"
            )
        with _replacing(target) as file:
            yield file
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not path.parent.exists():
            raise OutputError(f"{path}: cannot be written: there is no folder {path.parent}; create it") from None
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    temporary = target.parent / f".traceanalyzer-{os.urandom(8).hex()}"
    # Not by tempfile: a new file must have the mode of the user's mask.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        os.replace(temporary, target)  # noqa: PTH105 - the same name on every system
    except BaseException:  # remove the temporary file after an interrupt, too
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def is_ours(head: bytes) -> bool:
    """Whether a file that begins like this was written by this program."""
    return _OURS.match(head) is not None


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head.startswith(b"\x1f\x8b"):
            head = zlib.decompressobj(_GZIP).decompress(head, _HEAD)
    except (OSError, zlib.error):
        return False
    return not head or is_ours(head)
