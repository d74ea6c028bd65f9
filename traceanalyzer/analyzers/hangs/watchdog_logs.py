"""Puts the logs of a job together, so that what its watchdogs said is judged as dumps are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from traceanalyzer.trace.flight_recorder import UNNAMED, FlightDump, LoggedHang, RecordedGroup

_EVERY = frozenset(("0", "default_pg", "gloo"))
"""Names of the group of all ranks, and of what gloo says, which names no group."""


def dumps_of(logs: Sequence[LoggedHang]) -> dict[int, FlightDump]:
    """What all logs of a job say of each rank; of a rank in several, the one that says in which operation it waits.

    The group of all ranks gets its members: as many as a log says, else those between the first and the last that has
    a line. A rank among them without a line may be the one that never came.

    Args:
        logs: The logs, at least one.
    """
    dumps: dict[int, FlightDump] = {}
    for log in logs:
        for rank, dump in log.dumps.items():
            if rank not in dumps or len(dump.operations) > len(dumps[rank].operations):
                dumps[rank] = dump
    stated = max((log.world_size or 0 for log in logs), default=0)
    members = tuple(range(stated) if stated > max(dumps) else range(min(dumps), max(dumps) + 1))
    described = {group.name: group.description for dump in dumps.values() for group in dump.groups if group.description}
    is_one = len({group.name for dump in dumps.values() for group in dump.groups}) == 1
    return {rank: _named(dumps[rank], described, members, is_one=is_one) for rank in sorted(dumps)}


def _named(dump: FlightDump, described: Mapping[str, str], members: tuple[int, ...], *, is_one: bool) -> FlightDump:
    """A dump whose groups are those of all logs."""

    def of(group: RecordedGroup) -> RecordedGroup:
        description = described.get(group.name, "")
        is_every = not _EVERY.isdisjoint((group.name, description)) or (is_one and group.name == UNNAMED)
        return RecordedGroup(group.name, description, members if is_every and len(members) > 1 else ())

    return replace(dump, groups=tuple(map(of, dump.groups)))


def clock(time_ns: int) -> str:
    """A time of a log, which names no year: `11-07 03:04:21`."""
    return (datetime(2000, 1, 1) + timedelta(seconds=time_ns // 1_000_000_000)).strftime("%m-%d %H:%M:%S")  # noqa: DTZ001
