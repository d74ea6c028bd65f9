"""Builds dumps of the flight recorder: a run of ranks that calls collectives, and what goes wrong in it.

run = FlightRun(4)
run.collective("all_reduce", shape=[16])            # all ranks call it, and it finishes
run.collective("all_reduce", absent=(2,))           # rank 2 never comes, so it finishes nowhere
run.write(tmp_path)
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traceanalyzer.readers.flight_recorder import values
from traceanalyzer.trace.flight_recorder import FlightDump

EVERY = "0"
START_NS = 1_750_000_000_000_000_000
STEP_NS = 10_000_000


@dataclass
class _Rank:
    entries: list[dict[str, Any]] = field(default_factory=list)
    sequences: dict[str, int] = field(default_factory=dict)
    p2p: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)


class FlightRun:
    """The ranks of a run, which all belong to the group "0"."""

    def __init__(self, ranks: int, *, first: int = 0) -> None:
        """Begin a run.

        Args:
            ranks: Number of ranks.
            first: Number of collectives that were called before, which no ring has any more.
        """
        self.first = first
        self.ranks = [_Rank() for _ in range(ranks)]
        self.groups: dict[str, tuple[str, tuple[int, ...]]] = {EVERY: ("default_pg", tuple(range(ranks)))}
        self.now_ns = START_NS
        self.without: set[int] = set()

    def killed(self, rank: int) -> FlightRun:
        """The run without the dump of a rank."""
        self.without.add(rank)
        return self

    def dumps(self) -> dict[int, FlightDump]:
        """The dumps as they are read."""
        ranks = (rank for rank in range(len(self.ranks)) if rank not in self.without)
        read = {rank: values.dump_of(self.dump(rank), f"nccl_trace_rank_{rank}", rank, 1) for rank in ranks}
        return {rank: dump for rank, dump in read.items() if dump is not None}

    def group(self, name: str, description: str, members: Sequence[int]) -> str:
        """Add a group; names are numbers, as torch counts them."""
        self.groups[name] = (description, tuple(members))
        return name

    def collective(
        self,
        name: str = "all_reduce",
        group: str = EVERY,
        *,
        absent: Collection[int] = (),
        stuck: Collection[int] | None = None,
        shape: Sequence[int] = (1024,),
        dtype: str = "Float",
        other: dict[int, dict[str, Any]] | None = None,
        late_ns: dict[int, int] | None = None,
    ) -> None:
        """All members of a group call a collective.

        Args:
            name: As torch names it, without `nccl:`.
            group: Its name.
            absent: Members that do not call it; then it finishes nowhere.
            stuck: Members on whose device it does not finish; by default all if someone is absent, else none.
            shape: Size of the input.
            dtype: Its type.
            other: Fields of the entries of some ranks that differ.
            late_ns: How much later than the others some ranks call it.
        """
        members = self.groups[group][1]
        held = set(members if absent else ()) if stuck is None else set(stuck)
        end_ns = self.now_ns + max((late_ns or {}).values(), default=0) + STEP_NS // 4
        for rank in members:
            if rank not in absent:
                entry = self._entry(rank, name, group, shape, dtype, self.now_ns + (late_ns or {}).get(rank, 0))
                self._finish(rank, group, entry, None if rank in held else end_ns)
                entry.update((other or {}).get(rank, {}))
        self.now_ns = end_ns + STEP_NS

    def send(self, source: int, target: int, group: str = EVERY, *, only: str = "", stuck: bool = False) -> None:
        """A tensor goes from one rank to another; with `only` ("send" or "recv") the other side never comes."""
        members = self.groups[group][1]
        one, other = members.index(source), members.index(target)
        for rank, name in ((source, f"send {one}->{other}"), (target, f"recv {other}<-{one}")):
            if only in ("", name[:4]):
                entry = self._entry(rank, name, group, (64,), "Float", self.now_ns, is_p2p=True)
                self._finish(rank, group, entry, None if stuck or only else self.now_ns + 1000)
        self.now_ns += STEP_NS

    def _entry(
        self, rank: int, name: str, group: str, shape: Sequence[int], dtype: str, at_ns: int, *, is_p2p: bool = False
    ) -> dict[str, Any]:
        own = self.ranks[rank]
        counted = own.p2p if is_p2p else own.sequences
        counted[group] = counted.get(group, 0 if is_p2p else self.first) + 1
        entry = {
            "record_id": len(own.entries),
            "pg_id": list(self.groups).index(group),
            "process_group": (group, self.groups[group][0]),
            "collective_seq_id": own.sequences.get(group, self.first),
            "p2p_seq_id": own.p2p.get(group, 0),
            "op_id": len(own.entries),
            "profiling_name": f"nccl:{name}",
            "time_created_ns": at_ns,
            "input_sizes": [list(shape)],
            "input_dtypes": [dtype],
            "output_sizes": [list(shape)],
            "output_dtypes": [dtype],
            "state": "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None,
            "retired": False,
            "timeout_ms": 600000,
            "is_p2p": is_p2p,
        }
        own.entries.append(entry)
        return entry

    def _finish(self, rank: int, group: str, entry: dict[str, Any], end_ns: int | None) -> None:
        if end_ns is not None:
            entry.update(state="completed", retired=True, time_discovered_completed_ns=end_ns)
            self.ranks[rank].done[group] = entry["collective_seq_id"]

    def dump(self, rank: int, *, ring: int = 2000) -> dict[str, Any]:
        """The dump of a rank, with the last entries of its ring."""
        own = self.ranks[rank]
        mine = {name: made for name, made in self.groups.items() if rank in made[1]}
        status = {
            str(list(self.groups).index(name)): {
                "last_enqueued_collective": own.sequences.get(name, self.first) or -1,
                "last_started_collective": -1,
                "last_completed_collective": own.done.get(name, self.first) or -1,
            }
            for name in mine
        }
        config = {
            name: {"name": name, "desc": described, "ranks": str(list(members))}
            for name, (described, members) in mine.items()
        }
        return {
            "version": "2.9",
            "pg_config": config,
            "nccl_version": "2.27.3",
            "pg_status": status,
            "entries": own.entries[-ring:],
        }

    def write(
        self,
        folder: Path,
        *,
        missing: Collection[int] = (),
        rings: dict[int, int] | None = None,
        form: str = "torch",
        prefix: str = "nccl_trace_rank_",
    ) -> Path:
        """Write the dumps of all ranks but some; `rings` shortens those of others, `form` is a key of `_FORMS`."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(len(self.ranks)):
            if rank not in missing and rank not in self.without:
                content = self.dump(rank, ring=(rings or {}).get(rank, 2000))
                data = _FORMS[form](content)
                (folder / f"{prefix}{rank}").write_bytes(data)
        return folder


def begun(ranks: int = 4) -> FlightRun:
    """A run that has called twelve collectives, and a hundred before that are in no ring any more."""
    run = FlightRun(ranks, first=100)
    for _ in range(12):
        run.collective()
    return run


def as_torch(content: Any) -> bytes:
    """A pickle as torch writes it (`torch/csrc/jit/serialization/pickler.cpp`), which remembers texts alone."""
    memo: dict[str, int] = {}
    return b"\x80\x02" + b"".join(_opcodes(content, memo)) + b"."


def _opcodes(value: Any, memo: dict[str, int]) -> Iterator[bytes]:
    if isinstance(value, dict):
        yield b"}("
        for key, entry in value.items():
            yield from (*_opcodes(key, memo), *_opcodes(entry, memo))
        yield b"u"
    elif isinstance(value, list):
        yield b"]("
        for entry in value:
            yield from _opcodes(entry, memo)
        yield b"e"
    elif isinstance(value, tuple):
        for entry in value:
            yield from _opcodes(entry, memo)
        yield b"\x86"
    elif isinstance(value, str):
        yield _text(value, memo)
    elif value is None or isinstance(value, bool):
        yield {None: b"N", True: b"\x88", False: b"\x89"}[value]
    else:
        yield _number(value)


def _text(value: str, memo: dict[str, int]) -> bytes:
    if value in memo:
        known = memo[value]
        return b"h" + bytes((known,)) if known < 256 else b"j" + struct.pack("<I", known)
    memo[value] = known = len(memo)
    data = value.encode()
    put = b"q" + bytes((known,)) if known < 256 else b"r" + struct.pack("<I", known)
    return b"X" + struct.pack("<I", len(data)) + data + put


def _number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes((value,))
    if 0 <= value < 65536:
        return b"M" + struct.pack("<H", value)
    return b"J" + struct.pack("<i", value) if abs(value) < 1 << 31 else b"\x8a\x08" + struct.pack("<q", value)


_FORMS: dict[str, Callable[[Any], bytes]] = {
    "torch": as_torch,
    "pickle": lambda content: pickle.dumps(content, protocol=2),
    "json": lambda content: json.dumps(content).encode(),
}
"""How dumps are written: by torch, by Python, as JSON."""
