"""Finds the input files in folders of any depth, files, patterns and URLs; which names may be inputs."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import PurePosixPath

import msgspec

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs.storage import local_path
from traceanalyzer.readers.source import meant_instead
from traceanalyzer.urls import is_url, path_of, shown

TRACE_SUFFIXES = (".json", ".json.tmp", ".tmp")
TEXT_SUFFIXES = (".txt", ".md", ".log", ".out")
SNAPSHOT_SUFFIXES = (".pickle", ".pkl")
"""Suffixes of memory snapshots; those of other pickles are left out by their content."""
CAPTURED_TABLES = ".key_averages.txt"
"""Suffix of the tables that a capture writes beside each trace."""
_COMPRESSED = ".gz"

_DUMP_NAME = re.compile(r"(?:_trace_rank_?|_dump_)\d{1,7}(?:\.(?:pickle|pkl|bin))?\Z")
"""Names of dumps of the flight recorder; those as JSON end in .json."""
_TRACE_NAME = re.compile(r"(?<![a-z])trace(?![a-z])|(?<![a-z])rank[-_]?\d|kineto|\.json\.tmp$")
_LONGEST_PART = 150
"""Most bytes of one part of a path; with a hash and two suffixes it stays below 255, the limit of file systems."""

_DIGEST = 12
_RESERVED = frozenset('<>:"\\|?*')
"""Names and characters that Windows does not allow, but object stores do."""


def plain_name(name: str) -> str:
    """The name in lower case without a compression suffix."""
    return name.lower().removesuffix(_COMPRESSED)


def may_be_input(name: str) -> bool:
    """Whether a file of this name in a folder may be a trace, a document, a dump or a snapshot."""
    plain = plain_name(name)
    is_known = (
        plain.endswith(TRACE_SUFFIXES + TEXT_SUFFIXES + SNAPSHOT_SUFFIXES) or _DUMP_NAME.search(plain) is not None
    )
    return is_known and not name.startswith(".")


def is_pickle(name: str) -> bool:
    """Whether a file is a pickle by its name, as memory snapshots are."""
    return plain_name(name).endswith(SNAPSHOT_SUFFIXES)


def looks_like_trace(name: str) -> bool:
    """Whether the name is that of a trace, so that a file without trace content counts as damaged."""
    return _TRACE_NAME.search(plain_name(name)) is not None


def safe(path: str) -> str:
    """Turn a path into a relative one, with "/" between its parts, that is valid on all file systems and in HTML.

    Plain names are kept. In other names unsafe characters are replaced, and a hash is added to keep names distinct.
    """
    return "/".join(_safe_part(part) for part in path.split("/"))


def _safe_part(part: str) -> str:
    is_plain = part.isprintable() and not _RESERVED & set(part) and not part.startswith(".") and part == part.strip(" ")
    data = os.fsencode(part)
    if is_plain and len(data) <= _LONGEST_PART:
        return part
    import hashlib  # noqa: PLC0415 - only for names that are not plain

    kept = "".join(c if c.isprintable() and c not in _RESERVED else "_" for c in part).strip(". ")
    short = kept.encode()[: _LONGEST_PART - _DIGEST - 1].decode("utf-8", "ignore")
    return f"{short}-{hashlib.sha256(data).hexdigest()[:_DIGEST]}"


def report_name(name: str, suffix: str) -> str:
    """Path of the report of a file, relative to the folder of the reports.

    It depends only on the file's own name, so that adding files changes no name.
    """
    return f"{name}.report{suffix}"


_MAGIC = frozenset("*?[")


class FoundFile(msgspec.Struct, frozen=True):
    """A file that may be an input, or a file or folder that cannot be read."""

    location: str
    """Path or URL that works from any working directory."""
    name: str
    """Path relative to the folder that all arguments share, safe for all file systems and HTML."""
    size: int
    version: str
    """A value that changes with the content: the time of the last change in ns, or the tag of an object store."""
    is_named: bool
    """Whether an argument names this file directly, so that it counts regardless of its content."""
    identity: str
    """A value that is equal for two paths to one file."""
    failure: str | None = None
    """Why it cannot be read; None if it can."""


def find(arguments: Iterable[str], exclude: str | None = None) -> Iterator[FoundFile]:
    """Find every file that the arguments name. A file is returned twice if arguments overlap.

    Args:
        arguments: Files, folders, patterns (`**` for any depth), URLs.
        exclude: A folder that is not searched, such as that of the reports.

    Raises:
        UnusableInputError: An argument matches no file.
        MissingDependencyError: The library for a URL is not installed.
    """
    local, remote = [], []
    for argument in arguments:
        if is_url(argument):
            remote.append(argument)
        else:
            local.append(os.path.abspath(local_path(argument)))  # noqa: PTH100
    base = _base(local)
    visited = {os.path.realpath(exclude)} if exclude is not None and not is_url(exclude) else set()
    visited -= {os.path.realpath(path) for path in local}  # the user may choose a folder of traces for the reports
    for path in local:
        yield from _find_local(path, base, visited)
    yield from _find_urls(list(dict.fromkeys(remote)), exclude, is_mixed=bool(local))


def _find_urls(urls: list[str], exclude: str | None, *, is_mixed: bool) -> Iterator[FoundFile]:
    """The files of URLs, by protocol, which is part of their names if there are files of another one or local ones."""
    by_protocol: defaultdict[str, list[str]] = defaultdict(list)
    for url in urls:
        by_protocol[url.split("://", 1)[0]].append(url)
    is_mixed = is_mixed or len(by_protocol) > 1
    taken: Counter[str] = Counter()
    for protocol, alike in sorted(by_protocol.items()):
        base, prefix = _url_base(alike), f"{protocol}/" if is_mixed else ""
        for url in alike:
            for file in _find_remote(url, base, prefix, exclude):
                yield _numbered(file, taken) if file.is_named else file


def _base(paths: list[str]) -> str:
    """The folder that names are relative to: the given one, or the common parent of several."""
    folders = [path if os.path.isdir(path) else os.path.dirname(_fixed(path)) for path in paths]  # noqa: PTH112, PTH120
    if len(folders) < 2:
        return "".join(folders)
    try:
        return os.path.commonpath(folders)
    except ValueError:  # different drives
        return ""


def _fixed(path: str) -> str:
    """The part of a pattern before its first wildcard, up to a separator; a path without one is kept."""
    if os.path.lexists(path) or not _MAGIC & set(path):
        return path
    first = min(i for i, c in enumerate(path) if c in _MAGIC)
    return path[: path.rfind(os.sep, 0, first) + 1]


def _find_local(path: str, base: str, visited: set[str]) -> Iterator[FoundFile]:
    if os.path.isdir(path):  # noqa: PTH112 - text paths: names may be no UTF-8
        yield from _walk(path, base, visited)
    elif os.path.lexists(path):
        yield _local(path, base, is_named=True)
    elif _MAGIC & set(path):
        matches = sorted(glob.glob(path, recursive=True), key=os.fsencode)  # noqa: PTH207
        if not matches:
            raise UnusableInputError(f"{path}: no file matches")
        for match in matches:
            if os.path.isdir(match):  # noqa: PTH112
                yield from _walk(match, base, visited)
            elif may_be_input(os.path.basename(match)):  # noqa: PTH119
                yield _local(match, base, is_named=False)
    else:
        raise UnusableInputError(f"{path}: no such file or folder{meant_instead(path)}")


def _walk(folder: str, base: str, visited: set[str]) -> Iterator[FoundFile]:
    """Walk depth first, in the order of names, and visit each folder once, because links may be circular."""
    real = os.path.realpath(folder)
    if real in visited:
        return
    visited.add(real)
    try:
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        reason = f"cannot be listed: {error.strerror or error}"
        yield FoundFile(folder, _relative(folder, base), 0, "", False, real, reason)
        return
    for entry in children:
        if entry.name.startswith("."):
            continue
        if _is_folder(entry):
            yield from _walk(entry.path, base, visited)
        elif may_be_input(entry.name) and _may_end(entry):
            yield _local(entry.path, base, is_named=False)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _may_end(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is no pipe or device, whose reading might never end; broken links are kept to be reported."""
    try:
        return stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return True


def _local(path: str, base: str, *, is_named: bool) -> FoundFile:
    name, identity = _relative(path, base), os.path.realpath(path)
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        return FoundFile(path, name, 0, "", is_named, identity, f"cannot be read: {error.strerror or error}")
    return FoundFile(path, name, status.st_size, str(status.st_mtime_ns), is_named, identity)


def _relative(path: str, base: str) -> str:
    relative = os.path.relpath(path, base) if base else path.lstrip(os.sep)
    return safe(relative.replace(os.sep, "/"))


def _numbered(file: FoundFile, taken: Counter[str]) -> FoundFile:
    """Tell files apart whose URLs differ only in what no name shows, such as a query: the second one gets a 2."""
    taken[file.name] += 1
    if taken[file.name] == 1:
        return file
    folder, slash, name = file.name.rpartition("/")
    stem, dot, suffixes = name.partition(".")
    return msgspec.structs.replace(file, name=f"{folder}{slash}{stem}-{taken[file.name]}{dot}{suffixes}")


def _url_base(urls: list[str]) -> str:
    """The folder that URLs of one protocol have in common, without its protocol."""
    paths = [PurePosixPath(path_of(url)) for url in urls]
    folders = [path.parent if _is_pattern(path) or path.suffix else path for path in paths]
    while any(map(_is_pattern, folders)):
        folders = [folder.parent if _is_pattern(folder) else folder for folder in folders]
    return os.path.commonpath(folders)


def _is_pattern(path: PurePosixPath) -> bool:
    """Whether a path below a server or a bucket has wildcards; addresses of IPv6 have brackets."""
    return bool(_MAGIC.intersection("".join(path.parts[1:])))


def _find_remote(url: str, base: str, prefix: str, exclude: str | None) -> Iterator[FoundFile]:
    remote = import_module("traceanalyzer.inputs.remote")
    is_any = False
    try:
        for file in remote.find(url):
            is_any = True
            path = path_of(file.url)
            inside = PurePosixPath(path).relative_to(base) if path.startswith(f"{base}/") else PurePosixPath(path)
            is_hidden = any(part.startswith(".") for part in inside.parts)
            is_report = exclude is not None and file.url.startswith(exclude.rstrip("/") + "/")
            is_named = file.url == url
            if is_named or (may_be_input(inside.name) and not is_hidden and not is_report):
                yield FoundFile(file.url, safe(prefix + str(inside)), file.size, file.version, is_named, file.url)
    except FileNotFoundError:
        raise UnusableInputError(f"{shown(url)}: no such file or folder") from None
    except OSError as error:
        raise UnusableInputError(f"{shown(url)}: cannot be opened: {error.strerror or error}") from None
    if not is_any:
        raise UnusableInputError(f"{shown(url)}: no such file or folder")
