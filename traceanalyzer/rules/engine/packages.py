"""Finds what installed packages add to this one.

Python's own way parses the metadata of every installed package, which takes longer than reading 5 MB of a trace. Here
it is asked only if some package names the group at all, which most environments have none of.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_METADATA = (".dist-info", ".egg-info")
_FILE = "entry_points.txt"


def entry_points(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group, as of `importlib.metadata`."""
    if not _may_exist(group):
        return ()
    from importlib import metadata  # noqa: PLC0415 - takes 0.02 s of its own

    return metadata.entry_points(group=group)


def _may_exist(group: str) -> bool:
    """Whether a package declares the group, or may be in a place that only Python's own import machinery can search."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    return any(_may_be_in(path or ".", group.encode()) for path in sys.path)


def _may_be_in(path: str, group: bytes) -> bool:
    """Whether a package in an entry of `sys.path` names the group; archives are not opened."""
    if path.endswith(".egg"):
        return True
    try:
        with os.scandir(path) as entries:
            packages = [entry.path for entry in entries if entry.name.lower().endswith(_METADATA)]
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(group in _content(Path(package, _FILE)) for package in packages)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
