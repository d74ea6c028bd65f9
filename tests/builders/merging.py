"""Ranks merged into one file, as the scripts do it that people use to see them together in a viewer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Content = dict[str, Any]
"""A trace as JSON reads it."""


def offset(event: Content, rank: int) -> None:
    """Each rank's processes are further by 100,000; ids stay as they are, so that ranks have the same."""
    if isinstance(event["pid"], int):
        event["pid"] += 100_000 * rank


def numbered(event: Content, rank: int) -> None:
    """Arguments have the rank, and all ids are unique."""
    arguments = event.setdefault("args", {})
    arguments["rank"] = rank
    for key in ("correlation", "External id"):
        if key in arguments:
            arguments[key] += 10_000_000 * rank
    if "id" in event:
        event["id"] += 10_000_000 * rank
    if isinstance(event["pid"], int):
        event["pid"] += 10_000_000 * rank


def labelled(event: Content, rank: int) -> None:
    """Processes have a label in front."""
    event["pid"] = f"[TP{rank:02d}] {event['pid']}"


def named(event: Content, rank: int) -> None:
    """Processes are called by their rank."""
    event["pid"] = f"rank {rank} {event['pid']}"


def alone(event: Content, rank: int) -> None:
    """All of a rank is one process, whose number is the rank."""
    event["pid"] = rank


WAYS: Mapping[str, Callable[[Content, int], None]] = {
    way.__name__: way for way in (offset, numbered, labelled, named, alone)
}


def merged(
    traces: Sequence[Content], change: Callable[[Content, int], None] | None = None, *, by_time: bool = False
) -> bytes:
    """The events of several ranks in one file, with what stands beside the events of the first but the rank.

    Args:
        traces: Of the ranks 0, 1, ...
        change: Makes the event of a rank tell whose it is; None: events stay as they are.
        by_time: Events are in the order of time, not rank after rank.
    """
    events = []
    for rank, trace in enumerate(traces):
        for event in json.loads(json.dumps(trace["traceEvents"])):
            if change is not None:
                change(event, rank)
            events.append(event)
    if by_time:
        events.sort(key=lambda event: float(event.get("ts", 0)))
    header = {key: value for key, value in traces[0].items() if key not in ("traceEvents", "distributedInfo")}
    return json.dumps(header | {"traceEvents": events}).encode()
