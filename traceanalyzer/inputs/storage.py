"""Reads and writes files: local paths and, through `remote`, fsspec URLs."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Protocol, cast
from urllib.parse import unquote, urlsplit

from traceanalyzer import output
from traceanalyzer.errors import OutputError
from traceanalyzer.urls import is_url

STATE = ".traceanalyzer"
"""Folder of the records beside the reports; it is hidden so that no batch reads it as input."""

_LEFTOVER = ".traceanalyzer-????????????????"


class Folder(Protocol):
    """A folder of reports. File names are relative, with "/" between their parts."""

    location: str
    """Path or URL, for messages and for workers that open the folder."""

    def write(self, name: str, text: str) -> None:
        """Write a file atomically.

        Raises:
            OutputError: The file cannot be written, or another program wrote it.
        """

    def creating(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a page of this program for writing; it appears complete when the block ends.

        Raises:
            OutputError: The page cannot be written.
        """

    def read(self, name: str) -> bytes | None:
        """Content of a file in bytes, or None if it does not exist."""

    def size(self, name: str) -> int | None:
        """Size of a file in bytes, or None if it does not exist."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep other batches from writing here while the block runs, if the file system supports locks.

        Raises:
            OutputError: Another batch is writing here.
        """


def local_path(location: str) -> str:
    """Convert a path or a `file://` URL to a path."""
    return unquote(urlsplit(location).path) if location.lower().startswith("file://") else location


def open_folder(location: str, *, force: bool = False) -> Folder:
    """Open the folder of the reports; nothing is created yet.

    Raises:
        MissingDependencyError: The library for the URL is not installed.
    """
    if is_url(location):
        return cast("Folder", import_module("traceanalyzer.inputs.remote").RemoteFolder(location, force=force))
    return LocalFolder(local_path(location), force=force)


@contextmanager
def open_input(location: str, block_bytes: int) -> Iterator[IO[bytes]]:
    """Open a file for reading.

    Args:
        location: A path or a URL.
        block_bytes: For a URL, number of bytes per request.

    Raises:
        OSError: The file cannot be read.
        MissingDependencyError: The library for the URL is not installed.
    """
    if is_url(location):
        remote = import_module("traceanalyzer.inputs.remote")
        with remote.open_file(location, block_bytes) as file:
            yield file
    else:
        with Path(local_path(location)).open("rb", buffering=0) as raw:
            yield raw


class LocalFolder:
    """A local folder, with the interface of `Folder`."""

    def __init__(self, path: str, *, force: bool = False) -> None:
        self._root = Path(path).absolute()
        self._force = force
        self.location = str(self._root)

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        output.write(self._prepared(name), text, force=self._force)

    @contextmanager
    def creating(self, name: str) -> Iterator[IO[bytes]]:
        """Open a page of this program for writing; it appears complete when the block ends."""
        with output.writing(self._prepared(name), force=True) as file:
            yield file

    def read(self, name: str) -> bytes | None:
        """Content of a file in bytes, or None if it does not exist."""
        try:
            return (self._root / name).read_bytes()
        except OSError:
            return None

    def size(self, name: str) -> int | None:
        """Size of a file in bytes, or None if it does not exist."""
        try:
            return (self._root / name).stat().st_size
        except OSError:
            return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder while the block runs, after removing incomplete files of an interrupted batch."""
        with _locked(self._prepared(f"{STATE}/lock")):
            self._sweep()
            try:
                yield
            finally:
                self._sweep()

    def _prepared(self, name: str) -> Path:
        path = self._root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path.parent}: cannot be created: {error.strerror or error}") from None
        return path

    def _sweep(self) -> None:
        for leftover in self._root.rglob(_LEFTOVER):
            with contextlib.suppress(OSError):
                leftover.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system releases when this process ends."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
    with io.FileIO(handle, "r+") as file:
        if not _lock(file):
            folder = path.parent.parent
            raise OutputError(f"{folder}: another batch is writing here; wait for it, or choose another -o")
        yield


def _lock(file: io.FileIO) -> bool:
    """Whether the lock was obtained; True on file systems without locks."""
    with contextlib.suppress(ImportError, OSError):
        fcntl = import_module("fcntl")
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
