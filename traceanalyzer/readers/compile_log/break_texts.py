"""Reads torch's texts about graph breaks and recompilations.

Torch writes them for people, so their layout differs by version: the reason of a break follows "Graph Break Reason:"
(2.7 and later) or "Reason:" (before), its place follows "Graph break in user code at".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from traceanalyzer.trace.compile_log import SourceLine

_PLACE = re.compile(r"Graph break in user code at (.+):(\d+)\s*$")
_REASON = re.compile(r"(?:Graph Break Reason|Reason):\s*(.*)$")
_HINT = re.compile(r"\s*Hint:\s*(.*)$")
_END = re.compile(r"User code traceback:|Traceback \(most recent|\s*Developer debug context")
_GENERAL = re.compile(r"Encountered graph break|Call to")
"""Reasons of this kind only say that there is a break; the next line says why."""


def graph_break(lines: Sequence[str]) -> tuple[SourceLine | None, str, str]:
    """Place, reason and first hint of a graph break; unknown parts are None or empty.

    Args:
        lines: The payload of an entry `dynamo_graph_break_reason`.
    """
    at, reason, hint = None, "", ""
    for number, line in enumerate(lines):
        if _END.match(line):
            break
        if at is None and (place := _PLACE.match(line)):
            at = SourceLine(place[1], int(place[2]))
        elif not reason and (found := _REASON.match(line)):
            reason = _told(found[1].strip(), lines[number + 1 :])
        elif not hint and (found := _HINT.match(line)):
            hint = found[1].strip()
    return at, reason, hint


def _told(reason: str, rest: Sequence[str]) -> str:
    """The reason itself: where the first line only announces one, the next line that is not empty."""
    if reason and not _GENERAL.match(reason):
        return reason
    return next((line.strip() for line in rest if line.strip()), reason)


def recompile_reasons(lines: Sequence[str]) -> tuple[str, ...]:
    """Why earlier compilations did not fit, without the number of the compilation that each is about.

    Args:
        lines: The payload of an entry `recompile_reasons`: a JSON list, or one reason a line.
    """
    try:
        found = msgspec.json.decode("\n".join(lines))
        reasons = found if isinstance(found, list) else [found]
    except msgspec.DecodeError:
        reasons = list(lines)
    return tuple(dict.fromkeys(plain_reason(str(reason)) for reason in reasons if str(reason).strip()))


def plain_reason(reason: str) -> str:
    """A reason in one line, without `0/0: ` before it."""
    return re.sub(r"^-?\s*\d+/\d+:\s*", "", " ".join(reason.split()))
