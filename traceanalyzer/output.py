"""The one writer of files: whole or not at all, and never over a file that is not ours."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from traceanalyzer.errors import OutputError

MARKS = (b"<!-- traceanalyzer ", b'"generator": {\n  "name": "traceanalyzer"')
"""How a file shows that this program wrote it."""

_HEAD = 4096


def write(path: Path, text: str, *, force: bool = False) -> None:
    """Write a file through a temporary one beside it.

    Raises:
        OutputError: The folder is missing, the disk is full, or the file is somebody else's.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a directory; name a file in it")
    if not force and path.exists() and not _is_ours(path):
        raise OutputError(f"{path}: exists and was not written by traceanalyzer; use --force to overwrite it")
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        os.chmod(temporary, _mode(path))  # noqa: PTH101 - mkstemp gives a name
        os.replace(temporary, path)  # noqa: PTH105
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    # A printed table is what torch prints, to the letter: it has no room for a mark, and can be made again.
    is_table = head.startswith(b"--") and b"Self CPU %" in head
    return not head or is_table or any(mark in head for mark in MARKS)


def _mode(path: Path) -> int:
    """The mode of the file that is replaced, or what a new file gets."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
