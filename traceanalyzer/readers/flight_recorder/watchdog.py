"""Reads what the watchdogs of ranks and gloo write into the log of a job before a hang ends it.

Each rank says in which operation it waits and how far its groups came, so that a log becomes a dump of one operation
for each rank. The lines are those of `ProcessGroupNCCL.cpp` of torch 1.9 to 2.9, whose heads differ from version to
version: `[Rank 3]`, `[PG 0 Rank 3]`, `[PG 0 (default_pg) Rank 3]`, `[PG ID 0 PG GUID 0(default_pg) Rank 3]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from traceanalyzer.trace.flight_recorder import (
    UNNAMED,
    FlightDump,
    GroupCounters,
    LoggedHang,
    Operations,
    RecordedGroup,
)

__all__ = ["MARKS", "read"]

_CAUGHT = b"Watchdog caught collective operation timeout"
_TIMEOUT = b" ".join(rb"\n?".join(map(re.escape, re.findall(b".", word))) for word in _CAUGHT.split())
MARKS = re.compile(
    _TIMEOUT.replace(b" ", rb"\s{1,9}") + rb"|[Ll]ast\s{1,9}enqueued\s{1,9}(?:NCCL\s{1,9})?work:\s{0,9}-?\d"
    rb"|failed\s{1,9}to\s{1,9}pass\s{1,9}monitoredBarrier"
    rb"|Timed\s{1,9}out\s{1,9}waiting\s{1,9}\d+\s?ms\s{1,9}for\s{1,9}(?:recv|send)\s{1,9}operation"
)
"""What a log with a hang contains; some logs break lines at a number of columns."""

_LINE = re.compile(MARKS.pattern.decode())
_REACH = 2000
"""Letters of a line before and after a mark that are read."""
_HEAD = re.compile(
    r"\[(?:PG ?(?:ID ?)?(?P<id>\d{1,9})? ?(?:PG GUID ?(?P<guid>[^\s()\]]{1,80}))? ?(?:\((?P<desc>[^)\]]{0,200})\))? ?)?"
    r"Rank ?(?P<rank>\d{1,7})\]"
)
_GLOBAL = re.compile(r"\[rank(\d{1,7})\]")
_NUMBERED = re.compile(r"\A\s{0,9}(\d{1,7}): ")
"""Number of a task, as `srun -l` writes it before each line."""
_OF_LINE = re.compile(r"\A(?:\s{0,9}\d{1,7}: |\[(?:rank|default)\d{1,7}\]:)")
"""What launchers write before each line of a rank."""
_MOST_PARTS = 8
_WORK = re.compile(
    r"Work[A-Z]{0,8}\((?P<fields>(?:[^\n()]|\(ms\))*+)\)\s{0,9}ran\s+for\s+(?P<ran>\d{1,12})\s+milliseconds"
)
_FIELD = re.compile(r"(\b\w{1,20}(?:\(ms\))?)=(\[[\d, ]{0,300}+\]|[^,()\[\]\s]{1,80})")
_STATUS = re.compile(r"ast enqueued (?:NCCL )?work: ?(-?\d{1,18}), last completed (?:NCCL )?work: ?(-?\d{1,18})")
_AT_WORK = re.compile(r"at (?:NCCL )?work(?: sequence id)?: ?(\d{1,18})")
_BARRIER = re.compile(r"Ranks? ([\d, ]{1,4000}) failed to pass monitoredBarrier in (\d{1,12}) ?ms")
_GLOO = re.compile(r"Timed out waiting (\d{1,12}) ?ms for (recv|send) operation")
_CLOCKS = (
    re.compile(r"[EWIF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?"),
    re.compile(r"\d{4}-(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"),
)
_WORLD = re.compile(r"world[_ ]?size['\"]?\s{0,3}[=:]\s{0,3}(\d{1,6})\b", re.IGNORECASE)
_YEAR = 2000
"""Logs name no year; one that has a 29th of February."""
_OPERATIONS = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce_coalesced",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "_all_gather_base",
    "ALLGATHER_COALESCED": "all_gather_coalesced",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "_reduce_scatter_base",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all",
}
"""Operations as dumps name them; others are written small."""
_OF_PEERS = frozenset(("SEND", "RECV", "RECVANYSOURCE", "COALESCED"))
_MONITORED = "monitored_barrier"


@dataclass
class _Called:
    """An operation in which a rank waits."""

    name: str
    sequence: int
    shape: str
    timeout_ms: int
    created_ns: int
    group: str | None

    @property
    def is_p2p(self) -> bool:
        """Whether it is counted apart; so is what versions before 1.13 do not number."""
        return self.sequence < 0


@dataclass
class _Rank:
    """What a log says of a rank."""

    called: list[_Called] = field(default_factory=list)
    counters: dict[str, GroupCounters] = field(default_factory=dict)
    at: dict[int, str] = field(default_factory=dict)
    """The group of an operation, by its number."""


def read(text: str, name: str, size_bytes: int | None = None) -> LoggedHang | None:
    """What the watchdogs said in a log; None if they said nothing, or in words that are not known.

    Args:
        text: The whole log.
        name: Name of the file.
        size_bytes: Its size.
    """
    ranks: dict[int, _Rank] = {}
    descriptions: dict[str, str] = {}
    for line in _lines(text):
        _take(line, ranks, descriptions)
    if not any(told.called or told.counters for told in ranks.values()):
        return None
    for told in ranks.values():
        _name_groups(told, descriptions)
    stated = max((int(found[1]) for found in _WORLD.finditer(text)), default=0)
    dumps = {rank: _dump(name, rank, told, descriptions) for rank, told in sorted(ranks.items())}
    return LoggedHang(name, dumps, stated if stated > max(ranks) else None, size_bytes)


def _lines(text: str) -> Iterator[str]:
    """The lines with a mark, each once."""
    end = -1
    for mark in _LINE.finditer(text):
        if mark.start() < end:
            continue
        begin = max(text.rfind("\n", 0, mark.start()) + 1, mark.start() - _REACH)
        end = text.find("\n", mark.end(), mark.end() + _REACH)
        end = min(mark.end() + _REACH, len(text)) if end < 0 else end
        line = text[begin:end]
        if not _is_whole(line):
            line, end = _unwrapped(text, begin, end)
        yield _with_head(text, begin, line)


def _is_whole(line: str) -> bool:
    """Whether what a mark announces stands in its line."""
    return any(pattern.search(line) for pattern in (_WORK, _STATUS, _BARRIER, _GLOO))


def _unwrapped(text: str, begin: int, end: int) -> tuple[str, int]:
    """A line with those after it into which a log broke it, and its end; as it is if they do not complete it.

    A line may be broken between words or within one, and each part may have the mark of its rank.
    """
    first = text[begin:end]
    parts, at = first.split("\n"), end
    for part in ("", *text[end + 1 : end + _REACH].split("\n")[:_MOST_PARTS]):
        if _LINE.search(part) or _HEAD.search(part):
            break  # the next message
        if part:
            at += len(part) + 1
            parts.append(_OF_LINE.sub("", part.rstrip("\r")))
        for between in ("", " "):
            joined = between.join(each.strip() if between else each for each in parts)
            if _is_whole(joined):
                return joined, at
    return first, end


def _with_head(text: str, begin: int, line: str) -> str:
    """A line with the one before it, if that ends with the head of the message."""
    if _HEAD.search(line) or _GLOBAL.search(line) or _NUMBERED.match(line):
        return line
    before = text[max(text.rfind("\n", 0, max(begin - 1, 0)) + 1, begin - _REACH) : max(begin - 1, 0)].rstrip()
    return f"{before} {line}" if before.endswith("]") and _HEAD.search(before) else line


def _take(line: str, ranks: dict[int, _Rank], descriptions: dict[str, str]) -> None:
    """Keep what a line says of its rank."""
    heads = list(_HEAD.finditer(line))
    head = next((head for head in heads if head["id"] or head["guid"]), heads[0] if heads else None)
    rank = _rank_of(line, head)
    if rank is None:
        return
    group = None if head is None else head["guid"] or head["id"]
    if group is not None and head is not None:
        described = descriptions.get(group) or head["desc"] or ""
        descriptions[group] = "" if described == "undefined" else described
    told = ranks.setdefault(rank, _Rank())
    _take_nccl(line, group, told)
    for absent in _take_gloo(line, told):
        ranks.setdefault(absent, _Rank()).counters["gloo"] = GroupCounters(0, 0)


def _rank_of(line: str, head: re.Match[str] | None) -> int | None:
    """The rank that writes a line: its number in the whole run, where the line has it, else that in a group."""
    known = _GLOBAL.search(line) or (None if head else _NUMBERED.match(line))
    if known is not None:
        return int(known[1])
    return None if head is None else int(head["rank"])


def _take_nccl(line: str, group: str | None, told: _Rank) -> None:
    """Keep the operation and the counters that a watchdog names."""
    if work := _WORK.search(line):
        _keep(told, _called(work, line, group))
    if status := _STATUS.search(line):
        told.counters[group or UNNAMED] = GroupCounters(int(status[1]), int(status[2]))
        if group is not None and (at := _AT_WORK.search(line)):
            told.at[int(at[1])] = group


def _take_gloo(line: str, told: _Rank) -> list[int]:
    """Keep the operations of gloo that ended; the ranks that never came to a barrier."""
    if waited := _GLOO.search(line):
        _keep(told, _Called(waited[2], -1, "", int(waited[1]), _since(line, int(waited[1])), "gloo"))
    barrier = _BARRIER.search(line)
    if barrier is None:
        return []
    _keep(told, _Called(_MONITORED, 1, "", int(barrier[2]), _since(line, int(barrier[2])), "gloo"))
    return [int(absent) for absent in re.findall(r"\d{1,7}", barrier[1])]


def _keep(told: _Rank, called: _Called) -> None:
    """Keep an operation once, though a log has it in the words of the watchdog, of an exception and of a signal."""
    for known in told.called:
        if (known.name, known.sequence) == (called.name, called.sequence) and None in (known.group, called.group):
            known.group = known.group or called.group
            return
        if (known.name, known.sequence, known.group) == (called.name, called.sequence, called.group):
            return
    told.called.append(called)


def _called(work: re.Match[str], line: str, group: str | None) -> _Called:
    fields = dict(_FIELD.findall(work["fields"]))
    kind = fields.get("OpType", "")
    elements = fields.get("NumelIn")
    shape = f"[{elements}]" if elements else fields.get("TensorShape", "")
    sequence = -1 if kind in _OF_PEERS else _whole(fields.get("SeqNum"))
    timeout, ran = _whole(fields.get("Timeout(ms)")), int(work["ran"])
    name = _OPERATIONS.get(kind, kind.lower())
    return _Called(name, sequence, shape, timeout, _since(line, ran), group)


def _whole(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else -1


def _since(line: str, ran_ms: int) -> int:
    """When an operation began that was given up now, in ns since the beginning of a year; -1 without a time."""
    head = line[: _REACH // 4]
    found = next((clock for pattern in _CLOCKS if (clock := pattern.search(head))), None)
    if found is None:
        return -1
    try:
        at = datetime.fromisoformat(f"{_YEAR}-{found['month']}-{found['day']}T{found['clock']}")
    except ValueError:
        return -1
    passed = at - datetime(_YEAR, 1, 1)  # noqa: DTZ001 - the clock of the log
    part = int((found["part"] or "0").ljust(9, "0"))
    return max(passed // timedelta(seconds=1) * 1_000_000_000 + part - ran_ms * 1_000_000, 0)


def _name_groups(told: _Rank, descriptions: Mapping[str, str]) -> None:
    """Give operations whose line names no group that of a status of the same number, or the only one of the log."""
    only = next(iter(descriptions)) if len(descriptions) == 1 else UNNAMED
    for called in told.called:
        if called.group is None:
            called.group = told.at.get(called.sequence, only)
    if only != UNNAMED and UNNAMED in told.counters:
        told.counters.setdefault(only, told.counters.pop(UNNAMED))


def _dump(name: str, rank: int, told: _Rank, descriptions: Mapping[str, str]) -> FlightDump:
    """What a log says of a rank, as a dump of the operations in which it waits."""
    called = sorted(told.called, key=lambda one: (one.created_ns, one.sequence))
    texts = {text: code for code, text in enumerate(dict.fromkeys(t for one in called for t in (one.name, one.shape)))}
    keys = list(dict.fromkeys((*(one.group or UNNAMED for one in called), *told.counters)))
    operations = _operations(called, keys, texts)
    groups = tuple(RecordedGroup(key, descriptions.get(key, ""), ()) for key in keys)
    return FlightDump(name, rank, "", groups, told.counters, tuple(texts), operations, is_logged=True)


def _operations(called: Sequence[_Called], groups: Sequence[str], texts: Mapping[str, int]) -> Operations:
    """Operations as columns, by the places of their groups and the codes of their texts."""
    nothing = np.full(len(called), -1, dtype=np.int64)
    return Operations(
        group=np.array([groups.index(one.group or UNNAMED) for one in called], dtype=np.int32),
        sequence=np.array([one.sequence for one in called], dtype=np.int64),
        is_p2p=np.array([one.is_p2p for one in called], dtype=bool),
        name=np.array([texts[one.name] for one in called], dtype=np.int32),
        shape=np.array([texts[one.shape] if one.shape else -1 for one in called], dtype=np.int32),
        dtype=nothing,
        line=nothing,
        state=np.zeros(len(called), dtype=np.int8),
        created_ns=np.array([one.created_ns for one in called], dtype=np.int64),
        completed_ns=nothing,
        timeout_ms=np.array([one.timeout_ms for one in called], dtype=np.int64),
        duration_ns=nothing,
    )
