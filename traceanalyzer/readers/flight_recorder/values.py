"""Turns the plain data of a dump into columns; what is missing or of another type is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from traceanalyzer.knowledge import python_frames
from traceanalyzer.trace.flight_recorder import (
    COMPLETED,
    SCHEDULED,
    STARTED,
    CommunicatorFault,
    FlightDump,
    GroupCounters,
    Operations,
    RecordedGroup,
)
from traceanalyzer.trace.model import Loss

_STATES = {"scheduled": SCHEDULED, "started": STARTED, "completed": COMPLETED}
_KEYS = ("entries", "pg_status", "pg_config")
"""Of these a dump has at least one."""
_SEEN = re.compile(r"2\.\d{1,2}")
_INT64 = 2**63
_MOST_SIZES, _MOST_DIMENSIONS = 64, 8
"""Tensors of an operation and dimensions of a tensor that are kept."""
_MOST_FRAMES = 60
_MOST_RANKS = 1 << 20
_LONGEST = 300
"""Letters of a name that are kept."""
_FAULT = re.compile(r"abort|error|async_?result", re.IGNORECASE)
"""Fields of a communicator that say that it was aborted or has failed."""
_FINE = frozenset(("", "0", "false", "none", "ncclsuccess", "success", "no error"))
_FIELDS = re.compile(r"commHash|commDesc|(?:local)?[rR]anks?|n(?:Ranks|Nodes)|localRanks|node|(?:CT|PT|MT)_\w+")
"""Other fields of a communicator: who belongs to it, and operations that are in entries, too."""
_MOST_FAULTS = 16
_PEERS = re.compile(r":(?:send|recv) \d")
_LONGEST_MS = 1e12
_NUMBER = re.compile(r"\d{1,7}")

Entry = Mapping[str, Any]


def dump_of(content: Any, name: str, rank: int | None, size_bytes: int | None) -> FlightDump | None:
    """The dump of a rank; None if the data is none of the flight recorder.

    Args:
        content: The plain data of the file.
        name: Name of the file.
        rank: The rank that the name says.
        size_bytes: Size of the file.
    """
    written = _written(content)
    if written is None:
        return None
    given = written.get("entries")
    listed: list[Any] = given if isinstance(given, list) else []
    entries = [entry for entry in listed if isinstance(entry, dict)]
    version = _short(written.get("version"))
    faults, unknown = _faults(written.get("nccl_comm_state"))
    losses = _losses(name, version, len(listed) - len(entries), unknown)
    texts, groups = _Codes(), _Codes()
    operations, ids = _operations(entries, texts, groups)
    configured = _configured(written.get("pg_config"))
    counters = _counters(written.get("pg_status"), ids, configured)
    every = _groups((*groups.known, *configured, *counters), configured, ids)
    return FlightDump(
        name, rank, version, every, counters, tuple(texts.known), operations, size_bytes, losses, faults=faults
    )


def _written(content: Any) -> Mapping[str, Any] | None:
    """The data as newer versions write it; None if it is none of the flight recorder."""
    if isinstance(content, list) and any(isinstance(entry, dict) and "profiling_name" in entry for entry in content):
        return {"entries": content}  # as the first versions wrote them
    is_dump = isinstance(content, dict) and not content.keys().isdisjoint(_KEYS)
    return content if is_dump else None


def _losses(name: str, version: str, damaged: int, unknown: int) -> tuple[Loss, ...]:
    """What is lost of a file, or in doubt."""
    losses = []
    if damaged:
        losses.append(Loss("read-flight-damaged", damaged, {"name": name}))
    if unknown:
        losses.append(Loss("read-flight-state", unknown, {"name": name}))
    if not _SEEN.fullmatch(version):
        losses.append(Loss("read-flight-version", 1, {"name": name, "version": version or "?"}))
    return tuple(losses)


def _groups(names: Iterable[str], configured: Mapping[str, RecordedGroup], ids: _GroupIds) -> tuple[RecordedGroup, ...]:
    """A group for each name, in their order, each once."""
    once = dict.fromkeys(names)
    return tuple(configured.get(key) or RecordedGroup(key, ids.descriptions.get(key, ""), ()) for key in once)


class _Codes:
    """Numbers for texts, in the order in which they are first seen."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The number of a text."""
        return self.known.setdefault(text, len(self.known))


class _GroupIds:
    """What entries say of groups: the numbers that a rank gives them, and what the program calls them."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.descriptions: dict[str, str] = {}
        self.with_p2p: set[str] = set()

    def of(self, entry: Entry) -> str:
        """The name of the group of an operation."""
        number, named = entry.get("pg_id"), entry.get("process_group")
        if isinstance(named, list | tuple) and named:
            name = _short(named[0])
            self.descriptions.setdefault(name, _described(named[1]) if len(named) > 1 else "")
        else:
            name = _short(entry.get("pg_name")) or _short(number)
        if number is not None:
            self.names.setdefault(_short(number), name)
        if _is_p2p(entry):
            self.with_p2p.add(name)
        return name


def _described(value: Any) -> str:
    """What the program calls a group; torch writes `undefined` if nothing."""
    return "" if value == "undefined" else _short(value)


def _is_p2p(entry: Entry) -> bool:
    """Whether it is a point-to-point operation; the first versions show that by its name alone."""
    given = entry.get("is_p2p")
    return given is True or (given is None and _PEERS.search(_short(entry.get("profiling_name"))) is not None)


def _short(value: Any) -> str:
    return str(value)[:_LONGEST] if type(value) in (str, int, bool) else ""


def _whole(values: Iterable[Any]) -> np.ndarray:
    """Whole numbers as a column; all else is -1."""
    return np.array([v if type(v) is int and -1 <= v < _INT64 else -1 for v in values], dtype=np.int64)


def _nanoseconds(milliseconds: Any) -> int:
    """A time in ms, a whole number or not, in ns; -1 for all else."""
    is_time = type(milliseconds) in (int, float) and 0 <= milliseconds < _LONGEST_MS
    return round(milliseconds * 1e6) if is_time else -1


def _operations(entries: Sequence[Entry], texts: _Codes, groups: _Codes) -> tuple[Operations, _GroupIds]:
    ids = _GroupIds()
    is_p2p = [_is_p2p(entry) for entry in entries]
    numbers = [
        entry.get("p2p_seq_id" if p2p else "collective_seq_id", entry.get("seq_id"))
        for entry, p2p in zip(entries, is_p2p, strict=True)
    ]
    states = [
        COMPLETED if entry.get("retired") is True else _STATES.get(_short(entry.get("state")), SCHEDULED)
        for entry in entries
    ]

    def column(key: str, of: Callable[[Any], str]) -> np.ndarray:
        known: dict[int, int] = {}  # by the value as an object, because the values of many entries are the same object
        codes = []
        for entry in entries:
            value = entry.get(key)
            code = known.get(id(value))
            if code is None:
                text = of(value)
                code = known[id(value)] = texts.code(text) if text else -1
            codes.append(code)
        return np.array(codes, dtype=np.int32)

    operations = Operations(
        group=np.array([groups.code(ids.of(entry)) for entry in entries], dtype=np.int32),
        sequence=_whole(numbers),
        is_p2p=np.array(is_p2p, dtype=bool),
        name=column("profiling_name", _short),
        shape=column("input_sizes", _sizes),
        dtype=column("input_dtypes", _types),
        line=column("frames", _line),
        state=np.array(states, dtype=np.int8),
        created_ns=_whole([entry.get("time_created_ns") for entry in entries]),
        completed_ns=_whole([entry.get("time_discovered_completed_ns") for entry in entries]),
        timeout_ms=_whole([entry.get("timeout_ms") for entry in entries]),
        duration_ns=_whole([_nanoseconds(entry.get("duration_ms")) for entry in entries]),
    )
    return operations, ids


def _sizes(value: Any) -> str:
    """Sizes of tensors as people write them: `[4096, 1, 5120] [8]`."""
    if not isinstance(value, list):
        return ""
    tensors = [entry for entry in value[:_MOST_SIZES] if isinstance(entry, list)]
    told = " ".join("[" + ", ".join(map(_short, sizes[:_MOST_DIMENSIONS])) + "]" for sizes in tensors)
    return told + (f" ... ({len(value)})" if len(value) > _MOST_SIZES else "")


def _types(value: Any) -> str:
    """Types of tensors, each once."""
    if not isinstance(value, list):
        return ""
    return ", ".join(dict.fromkeys(map(_short, value[:_MOST_SIZES])))


def _line(value: Any) -> str:
    """The innermost line of the user's code, as `train.py(12): step`; empty if there is none."""
    for frame in value[:_MOST_FRAMES] if isinstance(value, list) else ():
        file = frame.get("filename") if isinstance(frame, dict) else None
        if isinstance(file, str) and python_frames.is_own_file(file):
            return f"{_short(file)}({_short(frame.get('line'))}): {_short(frame.get('name'))}"
    return ""


def _configured(value: Any) -> dict[str, RecordedGroup]:
    """The groups of `pg_config` by name."""
    found = {}
    for key, config in value.items() if isinstance(value, dict) else ():
        if isinstance(config, dict):
            name = _short(config.get("name")) or key[:_LONGEST]
            members = _members(_listed(config.get("ranks")))
            found[name] = RecordedGroup(name, _described(config.get("desc")), members)  # gloo writes one without a name
    return found


def _faults(value: Any) -> tuple[tuple[CommunicatorFault, ...], int]:
    """What communicators say of aborts and errors, and how many of their other fields are not known."""
    found, unknown = [], 0
    for communicator, fields in value.items() if isinstance(value, dict) else ():
        for key, said in fields.items() if isinstance(fields, dict) else ():
            if _FAULT.search(str(key)):
                if _short(said).strip().lower() not in _FINE:
                    found.append(CommunicatorFault(_short(communicator), _short(key), _short(said)))
            else:
                unknown += _FIELDS.fullmatch(str(key)) is None
    return tuple(found[:_MOST_FAULTS]), unknown


def _listed(ranks: Any) -> str:
    """The ranks of a group as a text, also if they are a list."""
    return ranks if isinstance(ranks, str) else " ".join(map(_short, ranks)) if isinstance(ranks, list) else ""


@lru_cache(4096)  # the dumps of a run have the same groups
def _members(written: str) -> tuple[int, ...]:
    """The ranks of a group, which torch writes as a text: `[0, 1, 2]`."""
    return tuple(map(int, _NUMBER.findall(written)[:_MOST_RANKS]))


def _counters(value: Any, ids: _GroupIds, configured: Mapping[str, RecordedGroup]) -> dict[str, GroupCounters]:
    """How far the rank came in each group, by its name.

    The keys of `pg_status` are numbers that a rank gives its groups in the order in which it makes them; their names
    stand in entries. Where a group has no entry, its name is known if all names are numbers, which torch counts up in
    the same order, and the entries agree.
    """
    given = {str(key)[:_LONGEST]: status for key, status in value.items()} if isinstance(value, dict) else {}
    names = {**_by_order(list(given), sorted(filter(None, configured)), ids.names), **ids.names}
    found = {}
    for key, status in given.items():
        name = names.get(key)
        if name is None or name in ids.with_p2p or not isinstance(status, dict):
            continue  # point-to-point operations and collectives share a counter
        enqueued, completed = (_count(status.get(f"last_{what}_collective")) for what in ("enqueued", "completed"))
        found[name] = GroupCounters(enqueued, completed)
    return found


def _count(value: Any) -> int | None:
    return value if type(value) is int and -1 <= value < _INT64 else None


def _by_order(numbers: Sequence[str], names: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """Names of groups by the number of a rank, if both are counted up together."""
    every = (*numbers, *names)
    if len(numbers) != len(names) or not all(map(_NUMBER.fullmatch, every)):
        return {}
    paired = dict(zip(sorted(numbers, key=int), sorted(names, key=int), strict=True))
    return paired if all(paired.get(number) == name for number, name in known.items()) else {}
