"""Reads and writes files at fsspec URLs (https://filesystem-spec.readthedocs.io): object stores, cluster storage."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from socket import gaierror
from typing import IO, Any, cast
from urllib.parse import urlsplit

from traceanalyzer import output
from traceanalyzer.errors import MissingDependencyError, OutputError, UsageError
from traceanalyzer.urls import has_wildcard, shown, without_secrets_of

_EXTRAS = {
    "s3": "s3", "s3a": "s3",
    "gs": "gs", "gcs": "gs",
    "az": "azure", "abfs": "azure", "abfss": "azure", "adl": "azure",
    "hdfs": "hdfs",
}  # fmt: skip
"""The extra that supports each protocol; every one of them also installs fsspec."""

_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"})
"""Protocols whose writes are atomic; with others a file is written under a temporary name and moved."""

_WEB = frozenset({"http", "https"})
_MISSING = (404, 410)
"""What a server answers if there is no such file (RFC 9110)."""

_REFUSED = (401, 403)

_HEAD = 4096
_SENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file in a remote listing."""

    url: str
    size: int
    version: str
    """A value that changes with the content: the tag of the store, or the time of the last change."""


def open_file(url: str, block_bytes: int) -> IO[bytes]:
    """Open a remote file for reading from start to end, with a small cache."""
    fs, path = _resolve(url)
    with _as_os_error(url):
        try:
            file = fs.open(path, "rb", block_size=block_bytes, cache_type="readahead")
        except FileNotFoundError:
            _behind_cache(fs).info(path)  # raises what the cache does not say
            raise
    return cast("IO[bytes]", _RemoteStream(file, url))


class _RemoteStream(io.RawIOBase):
    """A remote file that raises OSError for all errors of its library."""

    def __init__(self, file: Any, url: str) -> None:
        super().__init__()
        self._file, self._url = file, url
        self.size: int | None = getattr(file, "size", None)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        with _as_os_error(self._url):
            data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        with _as_os_error(self._url):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


def is_file(url: str) -> bool:
    """Whether a URL names an existing file, not a folder.

    Raises:
        MissingDependencyError: The library for the URL is not installed.
    """
    try:
        fs, path = _resolve(url)
        with _as_os_error(url):
            return bool(_behind_cache(fs).isfile(path))
    except OSError:
        return False


def find(url: str) -> Iterator[RemoteFile]:
    """Find a file, all files of a folder of any depth, or those that match a pattern, in the order of their names.

    Raises:
        OSError: The URL does not exist, or it cannot be listed.
    """
    fs, path = _resolve(url)
    with _as_os_error(url):
        listed = _behind_cache(fs)
        entries = listed.glob(path, detail=True) if has_wildcard(url) else _entries(listed, path)
    before, after = _around_path(url.rstrip("/"), path)
    for name in sorted(entries):
        entry = entries[name]
        if entry.get("type") == "file":
            yield RemoteFile(before + name + after, int(entry.get("size") or 0), _version(entry))


def _entries(fs: Any, path: str) -> dict[str, Any]:
    """A file, or all files of a folder, by their paths.

    Raises:
        Exception: As of the library. Where it finds nothing, because it could not look, it says why.
    """
    problem: Exception | None = None
    try:
        entry = fs.info(path)
        if entry.get("type") == "file":
            return {path: entry}
    except Exception as error:  # as of a store that shows a folder, but not what is at its name
        problem = error
    found: dict[str, Any] = fs.find(path, detail=True)
    if not found and problem is not None:
        raise problem
    return found


class RemoteFolder:
    """A folder at a URL, with the interface of `storage.Folder`."""

    def __init__(self, url: str, *, force: bool = False) -> None:
        self.location = url.rstrip("/")
        self._force = force
        if self.location.split("://", 1)[0].lower() in _WEB:
            raise OutputError(f"{shown(url)}: nothing can be written there; name a folder, or a URL of a store")
        try:
            self._fs, self._root = _resolve(self.location)
        except OSError as error:
            raise OutputError(f"{shown(self.location)}: cannot be opened: {error}") from None
        self._is_object_store = self.location.split("://", 1)[0].lower() in _OBJECT_STORES

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        path = self._path(name)
        with self._writing(name):
            if not self._force and not self._is_ours(path):
                raise OutputError(
                    f"{shown(self.location)}/{name}: exists, and nothing in it says that traceanalyzer wrote it; use "
                    "--force to overwrite it"
                )
            self._put(path, lambda target: self._fs.pipe_file(target, text.encode("utf-8", "replace")))

    @contextmanager
    def creating(self, name: str) -> Iterator[IO[bytes]]:
        """Open a page of this program for writing; it appears complete when the block ends."""
        with tempfile.TemporaryFile("w+b") as file:  # without a name, so that nothing is left if the process is killed

            def send(target: str) -> None:
                with self._fs.open(target, "wb") as sent:
                    shutil.copyfileobj(file, sent, _SENT_BYTES)

            yield cast("IO[bytes]", file)
            file.seek(0)
            with self._writing(name):
                self._put(self._path(name), send)

    def read(self, name: str) -> bytes | None:
        """Content of a file in bytes, or None if it does not exist."""
        try:
            with _as_os_error(self.location):
                return cast("bytes", self._fs.cat_file(self._path(name)))
        except OSError:
            return None

    def size(self, name: str) -> int | None:
        """Size of a file in bytes, or None if it does not exist."""
        try:
            with _as_os_error(self.location):
                return int(self._fs.info(self._path(name))["size"])
        except (OSError, KeyError):
            return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Do nothing: object stores have no locks, and two batches write equal bytes to equal names."""
        self._fs.invalidate_cache()
        yield

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _is_ours(self, path: str) -> bool:
        try:
            head = self._fs.cat_file(path, start=0, end=_HEAD)
        except FileNotFoundError:
            return True
        return not head or output.is_ours(head)

    def _put(self, path: str, put: Any) -> None:
        if self._is_object_store:
            put(path)
            return
        folder, _, _ = path.rpartition("/")
        self._fs.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/.traceanalyzer-{secrets.token_hex(8)}"
        try:
            put(temporary)
            self._fs.mv(temporary, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._fs.rm_file(temporary)
            raise

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            with _as_os_error(self.location):
                yield
        except OSError as error:
            raise OutputError(f"{shown(self.location)}/{name}: cannot be written: {error.strerror or error}") from None


def _resolve(url: str) -> tuple[Any, str]:
    """File system of a URL, and the path in it.

    Raises:
        OSError: Its server cannot be reached.
        UsageError: It is no URL that can be opened.
        MissingDependencyError: The library for it is not installed.
    """
    protocol = url.split("://", 1)[0].lower()
    extra = _EXTRAS.get(protocol.rpartition("::")[2])
    try:
        urlsplit(url)
        fsspec = import_module("fsspec")
        if protocol in _WEB:  # not by `url_to_fs`, which takes the "::" of an address of IPv6 for a chain
            return fsspec.filesystem(protocol), url
        return cast("tuple[Any, str]", fsspec.core.url_to_fs(url))
    except ImportError as error:
        if extra is None:
            library = "'fsspec[http]'" if protocol in _WEB else "fsspec"
            told = f"{without_secrets_of(url, str(error))}; {library} may be missing"
            raise UsageError(f"{shown(url)}: {protocol}:// URLs need a library that is not installed: {told}") from None
        raise MissingDependencyError(f"what reads {protocol}:// URLs", extra=extra) from None
    except ValueError as error:
        told = without_secrets_of(url, str(error))
        raise UsageError(f"{shown(url)}: cannot be opened: {told}; check how it is written") from None
    except Exception as error:  # some libraries connect at once
        raise OSError(_reason(url, error)) from None


def _behind_cache(fs: Any) -> Any:
    """The file system that a cache is of, with the same paths: a cache lists files only by their folders."""
    cached = import_module("fsspec.implementations.cached")
    return fs.fs if isinstance(fs, cached.CachingFileSystem) else fs


def _around_path(url: str, path: str) -> tuple[str, str]:
    """What stands before the path in a URL, the protocol and sometimes the server, and after it in a chain."""
    if url.endswith(path):
        return url.removesuffix(path), ""
    first, mark, rest = url.partition("::")
    is_inside = mark and "://" in first  # of an archive, whose own URL follows
    return url.split("://", 1)[0] + "://", f"::{rest}" if is_inside else ""


def _version(entry: dict[str, Any]) -> str:
    for key in ("ETag", "etag", "md5Hash", "content_settings", "mtime", "LastModified", "last_modified", "updated"):
        if entry.get(key):
            return str(entry[key])
    return ""


@contextmanager
def _as_os_error(url: str) -> Iterator[None]:
    """Convert all errors of storage libraries to OSError, which callers handle, without secrets of the URL."""
    try:
        yield
    except OutputError:
        raise
    except FileNotFoundError as error:
        if error.__cause__ is None or getattr(error.__cause__, "status", None) in _MISSING:
            raise FileNotFoundError(_reason(url, error)) from None
        raise OSError(_reason(url, error.__cause__)) from None  # "not found" is what fsspec says of any failure
    except Exception as error:
        raise OSError(_reason(url, error)) from None


def _reason(url: str, error: BaseException) -> str:
    """An error of a storage library in words, without secrets of the URL."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        told = f"the server answers {status} {getattr(error, 'message', '')}".rstrip()
        if status in _REFUSED:
            told += "; check user, password or signature in the URL"
        return without_secrets_of(url, told)
    if not isinstance(error, OSError):
        return without_secrets_of(url, f"{type(error).__name__}: {error}".removesuffix(": "))
    number = error.errno or 0
    told = os.strerror(number) if number in errno.errorcode else error.strerror or str(error) or type(error).__name__
    if isinstance(error, ConnectionError | TimeoutError | gaierror) or hasattr(error, "os_error"):  # as of aiohttp
        told += "; check the address, and whether its server runs"
    return without_secrets_of(url, told)
