"""Reads recordings that may contain the capture of a trace's graphs, and reports which were used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from traceanalyzer.analyzers.launches import graph_join
from traceanalyzer.analyzers.launches.graph_join import CaptureFile, GraphJoin
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import opening
from traceanalyzer.report.message import Text
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Loss, Trace

_UNREADABLE = Text("graph-join-unreadable", "it cannot be read ({error})", "error names the file and the reason")
_OPAQUE = frozenset({"q-graph-opaque", "q-unattributed"})
"""Doubts of a trace whose graphs are not joined with a capture."""
_NEARLY_ALL = 0.95
"""Joined share of the graphs' time above which these warnings are dropped (own choice)."""


class GraphCaptures(msgspec.Struct, frozen=True):
    """Recordings that may contain the capture of the graphs that a trace launches."""

    named: tuple[str | Path | Trace, ...] = ()
    """Named by the user: one of them must agree, and all must be traces."""
    found: tuple[str, ...] = ()
    """Found beside the trace: one that cannot be used is a warning."""


def join_with(context: Context, captures: GraphCaptures) -> graph_join.Join | None:
    """Join the work of graphs with the candidate captures; None if there are none.

    Raises:
        UnusableInputError: A named capture is no trace or cannot be read, or none of the named ones agrees.
    """
    files = (*captures.named, *captures.found)
    if not files:
        return None
    joined = graph_join.join(
        context, (_capture(file, is_named=at < len(captures.named)) for at, file in enumerate(files))
    )
    named = joined.result.captures[: len(captures.named)]
    if named and not any(capture.accepted for capture in named):
        raise UnusableInputError(
            "; ".join(f"{capture.name}: is not the capture of these graphs: {capture.reason}" for capture in named)
        )
    return joined


def _capture(file: str | Path | Trace, *, is_named: bool) -> CaptureFile:
    """A candidate recording.

    Raises:
        UnusableInputError: It was named, and is no trace or cannot be read.
    """
    if isinstance(file, Trace):
        return CaptureFile(file.info.name, file)
    try:
        content = opening.read(file)
        if not isinstance(content, Trace):
            raise UnusableInputError(f"{file}: is not a trace, so it contains no capture of graphs")
    except UnusableInputError as error:
        if is_named:
            raise
        return CaptureFile(Path(file).name, _UNREADABLE(error=str(error)))
    return CaptureFile(content.info.name, content)


def doubts_with(join: GraphJoin, doubts: Iterable[Loss]) -> Iterator[Loss]:
    """The warnings about a trace after its graphs were joined, and those about refused captures."""
    is_joined = join.joined_share is not None and join.joined_share >= _NEARLY_ALL
    yield from (doubt for doubt in doubts if not (is_joined and doubt.id in _OPAQUE))
    accepted = ", ".join(capture.name for capture in join.captures if capture.accepted)
    if accepted:
        yield Loss("q-graph-joined", join.joined_kernels, {"share": join.joined_share, "names": accepted})
    for capture in join.captures:
        if not capture.accepted:
            yield Loss("q-capture-refused", 1, {"name": capture.name, "reason": capture.reason})
