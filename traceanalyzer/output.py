"""The one writer of files: whole or not at all, and never over a file that is not ours."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from traceanalyzer.errors import OutputError

_OURS = re.compile(
    rb'<!-- traceanalyzer report '
    rb'|\{\s*"schema_version":\s*\d+,\s*"generator":\s*\{\s*"name":\s*"traceanalyzer"'
    # A printed table is what torch prints, to the letter: it has no room for a mark, and can be made again.
    rb"|-{4,}[- ]*\n +Name +Self CPU %"
)
"""How a file that this program wrote begins."""

_HEAD = 4096


def write(path: Path, text: str, *, force: bool = False) -> None:
    """Write a file through a temporary one beside it; a link keeps pointing to the file that it names.

    Raises:
        OutputError: The folder is missing, the disk is full, or the file is somebody else's.
    """
    try:
        target = Path(os.path.realpath(path, strict=path.exists()))
        if path.is_symlink() and target.is_symlink():
            raise OutputError(f"{path}: cannot be written: the link leads back to itself")
        if target.is_dir():
            raise OutputError(f"{path}: is a directory; name a file in it")
        if not force and target.exists() and not _is_ours(target):
            raise OutputError(f"{path}: exists and was not written by traceanalyzer; use --force to overwrite it")
        _replace(target, text.encode("utf-8", "replace"))
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _replace(target: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".traceanalyzer-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, _mode(target))  # noqa: PTH101 - mkstemp gives a name
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException:  # an interrupt must not leave the temporary file behind, either
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return not head or _OURS.match(head) is not None


def _mode(path: Path) -> int:
    """The mode of the file that is replaced, or what a new file gets."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
