"""Separates traces of CUDA graph capture from traces of graph replay in one folder.

Inference servers write captures into a folder of their own, or mark them in the file name. Otherwise a capture is a
trace in which graphs are captured and none is launched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import opening
from traceanalyzer.inputs.sniffing import SniffedFile

_FOLDERS = frozenset({"capture_traces", "graph_capture_profile"})
"""Folders of captures: of vLLM and of SGLang."""
_NAME = re.compile(r"(?<![a-z])capture[ds]?(?![a-z])")
_BEGINS = b"StreamBeginCapture"
_LAUNCHES = b"GraphLaunch"
_FEW = 16
"""Own choice: most files whose content is searched for captures, so that folders of hundreds of ranks are not read."""
_PIECE = 1 << 22


def set_apart(files: Sequence[SniffedFile]) -> tuple[list[SniffedFile], list[SniffedFile]]:
    """Separate traces from captures by folder and file name; if all are captures, none is separated.

    Returns:
        The traces, and the captures.
    """
    return _apart(files, [file for file in files if _is_named(file.found.name) and _confirmed(file)])


def set_apart_by_content(files: Sequence[SniffedFile]) -> tuple[list[SniffedFile], list[SniffedFile]]:
    """Separate traces from captures by their content. Reads all files, so it does nothing if there are many.

    Returns:
        The traces, and the captures.
    """
    few = files if len(files) <= _FEW else ()
    return _apart(files, [file for file in few if holds_only_captures(file.found.location)])


def _apart(files: Sequence[SniffedFile], captures: list[SniffedFile]) -> tuple[list[SniffedFile], list[SniffedFile]]:
    rest = [file for file in files if file not in captures]
    return (rest, captures) if rest else ([*files], [])


def _is_named(name: str) -> bool:
    *folders, file = name.lower().split("/")
    return not _FOLDERS.isdisjoint(folders) or _NAME.search(file) is not None


def _confirmed(file: SniffedFile) -> bool:
    """Whether a file named like a capture is one: always in the folder of captures, otherwise by its content."""
    return not _FOLDERS.isdisjoint(file.found.name.lower().split("/")) or holds_only_captures(file.found.location)


def holds_only_captures(location: str) -> bool:
    """Whether a file contains the capture of graphs and no launch, by the event names in its text."""
    begins, kept = False, b""
    try:
        with opening.open_source(location) as source:
            while piece := source.read(_PIECE):
                text = kept + piece
                if _LAUNCHES in text:
                    return False
                begins = begins or _BEGINS in text
                kept = text[-len(_BEGINS) :]
    except UnusableInputError:
        return False
    return begins
