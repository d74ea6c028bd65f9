"""The one writer of files: whole or not at all, and never over a file that is not ours."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from traceanalyzer.errors import OutputError

_OURS = re.compile(
    rb"<!-- traceanalyzer report "
    rb'|\{\s*"schema_version":\s*\d+,\s*"generator":\s*\{\s*"name":\s*"traceanalyzer"'
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
        data = text.encode("utf-8", "replace")
        if target.exists() and not target.is_file():  # a pipe or a device: nothing to keep whole, never replaced
            target.write_bytes(data)
            return
        if not force and target.exists() and not _is_ours(target):
            raise OutputError(f"{path}: exists and was not written by traceanalyzer; use --force to overwrite it")
        _replace(target, data)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _replace(target: Path, data: bytes) -> None:
    temporary = target.parent / f".traceanalyzer-{secrets.token_hex(8)}"
    # Not tempfile's: a new file shall have the mode that the user's mask gives it.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        os.replace(temporary, target)  # noqa: PTH105 - the same name on every system
    except BaseException:  # an interrupt must not leave the temporary file behind, either
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return not head or _OURS.match(head) is not None
