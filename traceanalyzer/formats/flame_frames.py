"""Names of the frames of flame graphs in all formats."""

from __future__ import annotations

from traceanalyzer.formats.names import clean
from traceanalyzer.structure.owners import Owner

_BACKWARD = "backward"


def name(owner: Owner) -> str:
    """The name of a frame, followed by the purpose of its work in brackets: `poll [sleep]`."""
    text = clean(owner.name) or owner.kind
    if owner.kind == _BACKWARD:
        text = f"{text} (backward)"
    return f"{text} [{owner.role}]" if owner.role else text


def name_with_place(owner: Owner) -> str:
    """The name and, if known, the file and line of a frame: `preprocess (data.py:12)`."""
    if owner.file is None:
        return name(owner)
    place = clean(owner.file) if owner.line is None else f"{clean(owner.file)}:{owner.line}"
    return f"{name(owner)} ({place})"
