"""Reads memory snapshots of torch (`torch.cuda.memory._dump_snapshot`), pickled or as JSON, straight into columns.

The format is that of `torch/csrc/cuda/memory_snapshot.cpp` and `torch/cuda/memory.py`; files of 2.1 to 2.9 were
seen, and the oldest form, whose blocks have a `history`, is known. Entries of the history and frames, which are nearly
all of a file, become rows and numbers while the file is read, so that a file of a gigabyte takes a few gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Any

import numpy as np

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers import plain_data
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.memory_snapshot import (
    ACTIONS,
    STATES,
    DeviceMemory,
    Frame,
    MemoryAnnotation,
    MemoryBlocks,
    MemoryHistory,
    MemorySegments,
    MemorySnapshot,
)
from traceanalyzer.trace.model import Loss

__all__ = ["begins", "read", "snapshot_of"]

_LARGEST = 4 << 30
"""Bytes of the largest snapshot that is read (own choice: rings of torchtitan hold 100,000 entries, a hundredth)."""
_FIRST_KEY = re.compile(
    rb"\A\x80[\x02-\x05](?:\x95.{8})?\}(?:\x94|q.)?\(?(?:\x8c.|U.|X.{4})"
    rb"(?:segments|device_traces|allocator_settings|external_annotations|host_segments|host_traces)(?:\x94|q)",
    re.DOTALL,
)
_LIST = re.compile(rb"\A\x80[\x02-\x05](?:\x95.{8})?\](?:\x94|q.)?\(?\}", re.DOTALL)
_JSON_KEY = re.compile(rb'\A\s*\{\s*"(?:segments|device_traces|allocator_settings)"\s*:\s*[\[{]')
_JSON_FIELD = re.compile(rb'"(?:total_size|device_traces|segment_type|addr)"\s*:')
_EVENTS = re.compile(rb'"traceEvents"\s*:')

_ACTION = {name: code for code, name in enumerate(ACTIONS)}
_OTHER, _OOM = _ACTION["other"], _ACTION["oom"]
_STATE = {name: code for code, name in enumerate(STATES)}
_STATE["active_awaiting_free"] = _STATE["active_pending_free"]
_ROW = Struct("<BQqqqiq")
_ROWS = np.dtype(
    [("action", "u1"), ("address", "<u8"), ("size", "<i8"), ("stream", "<i8"), ("time_us", "<i8"), ("frames", "<i4"),
     ("device_free", "<i8")]
)  # fmt: skip
_USUAL = ("action", "addr", "size", "stream", "time_us", "frames")
"""What most entries have."""
_LONGEST = 1000
"""Letters of a name that are kept."""
_MOST_DEVICES = 1024
_MOST_LINES = 1 << 31
_MOST_BYTES = 1 << 50
"""Most bytes of a block or a segment (own choice: thousands of times what a device has)."""
_MOST_TOGETHER = 1 << 62
"""Most bytes that all entries of a history, or all blocks, name together, so that sums fit into 64 bits."""
_LAST_US = 1 << 53
"""Microseconds since 1970 beyond which a time is unknown; the year 2255."""
_NO_SIZE = f"has sizes that no device has, below 0 or beyond {_MOST_BYTES >> 40:,} TiB"
_NO_ADDRESS = "has addresses below 0 or beyond 64 bits, which no device has"
_NO_PLACE = "has blocks that overlap, which no allocator makes"


def begins(head: bytes) -> bool:
    """Whether a file begins like a memory snapshot."""
    if head.startswith(plain_data.PROTOCOLS):
        return _FIRST_KEY.match(head) is not None or (_LIST.match(head) is not None and b"total_size" in head)
    text = head.removeprefix(b"\xef\xbb\xbf")
    return _JSON_KEY.match(text) is not None and _JSON_FIELD.search(text) is not None and not _EVENTS.search(text)


def read(source: Source) -> MemorySnapshot:
    """Read a snapshot.

    Raises:
        UnusableInputError: It is damaged, holds more than plain data, or is none.
    """
    data = source.peek(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UnusableInputError(
            f"{source.name}: is larger than {_LARGEST >> 30} GiB; record with a smaller max_entries"
        )
    rows = _Rows()
    try:
        if data.startswith(plain_data.PROTOCOLS):
            content = plain_data.loads(data, rows.shrunk, rows.row_of)
        else:
            content = rows.of_json(plain_data.loads_json(data))
        return snapshot_of(content, rows, source)
    except plain_data.NotPlainError as error:
        raise UnusableInputError(f"{source.name}: is not a memory snapshot that can be read: it {error}") from None


class _Rows:
    """What is taken out of dicts while a file is read: frames, stacks and entries of histories by number."""

    def __init__(self) -> None:
        self.frames: dict[Frame, int] = {}
        self.stacks: dict[tuple[int, ...], int] = {}
        self.entries = bytearray()
        self.count = 0
        self.damaged = 0

    def shrunk(self, finished: dict[str, Any]) -> int | None:
        """The number of a frame or of an entry; None for all else, which stays."""
        if "filename" in finished:
            return self._frame(finished)
        return self._entry(finished) if "action" in finished else None

    def of_json(self, value: Any, depth: int = 0) -> Any:
        """The data with frames and entries as numbers, as they are where a pickle is read.

        Raises:
            NotPlainError: It is nested deeper than torch does.
        """
        if depth > plain_data.DEEPEST:
            raise plain_data.NotPlainError(f"nests data more than {plain_data.DEEPEST} deep, which torch does not")
        if isinstance(value, list):
            return [self.of_json(part, depth + 1) for part in value]
        if not isinstance(value, dict):
            return value
        made = {key: self.of_json(part, depth + 1) for key, part in value.items()}
        number = self.shrunk(made)
        return made if number is None else number

    def _frame(self, frame: Mapping[str, Any]) -> int:
        line = frame.get("line")
        known = (
            _text(frame["filename"]),
            line if type(line) is int and 0 <= line < _MOST_LINES else 0,
            _text(frame.get("name")),
        )
        return self.frames.setdefault(known, len(self.frames))

    def stack(self, frames: Any) -> int:
        """The number of a list of frames; -1 if there is none."""
        if not frames or type(frames) is not list:
            return -1
        try:
            key = tuple(frames)
            return self.stacks.setdefault(key, len(self.stacks))
        except TypeError:  # not numbers of frames
            return -1

    def _entry(self, entry: Mapping[str, Any]) -> int:
        get = entry.get
        try:
            action = _ACTION.get(entry["action"], _OTHER)
            self.entries += _ROW.pack(
                action,
                get("addr", 0),
                get("size", 0),
                get("stream", 0),
                get("time_us", 0),
                self.stack(get("frames")),
                get("device_free", -1),
            )
        except (StructError, TypeError):  # not the numbers that torch writes
            _require_possible(entry.get("addr"), 0 if action == _OOM else entry.get("size"))
            self.damaged += 1
            return -1
        self.count += 1
        return self.count - 1

    def row_of(self, names: tuple[str, ...]) -> Callable[[list[Any]], int] | None:
        """What takes the values of entries with these keys; None if they are no entries, or lack what most have."""
        if not set(_USUAL) <= set(names) or {"filename", "device_free"} & set(names):
            return None
        chosen = itemgetter(*map(names.index, _USUAL))
        pack, action_of, stack, entries = _ROW.pack, _ACTION.get, self.stack, self.entries

        def add(values: list[Any]) -> int:
            action, address, size, stream, time_us, frames = chosen(values)
            try:
                entries.extend(pack(action_of(action, _OTHER), address, size, stream, time_us, stack(frames), -1))
            except (StructError, TypeError):
                _require_possible(address, 0 if action == "oom" else size)
                self.damaged += 1
                return -1
            self.count += 1
            return self.count - 1

        return add

    def table(self) -> np.ndarray:
        """All entries, in the order of the file."""
        return np.frombuffer(self.entries, dtype=_ROWS)

    def named_stacks(self) -> tuple[tuple[Frame, ...], ...]:
        """The stacks by number, with the files, lines and functions of their frames."""
        frames = list(self.frames)
        return tuple(
            tuple(frames[number] for number in stack if type(number) is int and 0 <= number < len(frames))
            for stack in self.stacks
        )


def snapshot_of(content: Any, rows: _Rows, source: Source) -> MemorySnapshot:
    """The snapshot of plain data whose entries are in `rows`.

    Raises:
        UnusableInputError: It has neither segments nor a history.
        NotPlainError: It has sizes, addresses or blocks that cannot be.
    """
    given = {"segments": content} if isinstance(content, list) else content
    if not isinstance(given, dict) or not {"segments", "device_traces"} & given.keys():
        raise UnusableInputError(
            f"{source.name}: has neither segments nor a history of allocations; give a file that "
            "torch.cuda.memory._dump_snapshot(file) wrote"
        )
    devices = _devices(_listed(given.get("segments")), _listed(given.get("device_traces")), rows)
    host = _host(given, rows)
    if not devices and host is not None and len(host.history):  # of pinned host memory alone (record_cuda=False)
        devices = _devices([{"device": 0}], [], rows)
    if not devices:
        raise UnusableInputError(
            f"{source.name}: has no memory of any device; call torch.cuda.memory._dump_snapshot(file) while it is used"
        )
    has_host, pinned = "host_segments" in given, _dicts(given.get("host_segments"))
    losses = (Loss("read-memory-damaged", rows.damaged, {"name": source.name}),) if rows.damaged else ()
    return MemorySnapshot(
        devices=devices,
        settings=_settings(given.get("allocator_settings")),
        annotations=tuple(_annotations(_dicts(given.get("external_annotations")))),
        stacks=rows.named_stacks(),
        name=source.name,
        size_bytes=source.size_bytes,
        losses=(*losses, *source.losses),
        host_reserved=_sum(pinned, "total_size") if has_host else None,
        host_active=_sum(pinned, "active_size", "allocated_size") if has_host else None,
        host=host,
    )


def _host(given: Mapping[str, Any], rows: _Rows) -> DeviceMemory | None:
    """Pinned host memory (torch 2.14, `record_pinned_host_memory=True`); its history is one list, or several."""
    listed = _listed(given.get("host_traces"))
    numbers = [number for part in listed for number in (part if isinstance(part, list) else [part])]
    segments = _dicts(given.get("host_segments"))
    if not segments and not numbers:
        return None
    return DeviceMemory(-1, _segments(-1, segments), _blocks(segments, rows), _history(numbers, rows.table()))


def _devices(segments: Sequence[Any], histories: Sequence[Any], rows: _Rows) -> tuple[DeviceMemory, ...]:
    """The devices that have segments or a history, by number; at most so many as any machine has."""
    segments_of: dict[int, list[Mapping[str, Any]]] = {}
    for segment in segments:
        number = _whole(segment.get("device"), 0) if isinstance(segment, dict) else -1
        if 0 <= number < _MOST_DEVICES:
            segments_of.setdefault(number, []).append(segment)
        else:
            rows.damaged += 1
    history_of = {number: _listed(history) for number, history in enumerate(histories[:_MOST_DEVICES]) if history}
    table = rows.table()
    found = []
    for number in sorted(segments_of.keys() | history_of.keys()):
        own = segments_of.get(number, [])
        history = _history(history_of.get(number, []), table)
        found.append(DeviceMemory(number, _segments(number, own), _blocks(own, rows), history))
    return tuple(found)


def _history(numbers: Sequence[Any], table: np.ndarray) -> MemoryHistory:
    """The history whose entries have these numbers."""
    kept = [number for number in numbers if type(number) is int and 0 <= number < len(table)]
    mine = table[np.array(kept, dtype=np.int64)]
    _require_sizes(mine["size"][mine["action"] != _OOM])  # a program may ask for any size
    mine["time_us"][(mine["time_us"] < 0) | (mine["time_us"] > _LAST_US)] = 0
    columns = {name: np.ascontiguousarray(mine[name]) for name in _ROWS.names or ()}
    return MemoryHistory(**columns)


def _segments(number: int, segments: Sequence[Mapping[str, Any]]) -> MemorySegments:
    address = _addresses(segment.get("address") for segment in segments)
    size = _sizes(segment.get("total_size") for segment in segments)
    _require_apart(address[address > 0], size[address > 0])
    return MemorySegments(
        device=np.full(len(segments), number, dtype=np.int32),
        address=address,
        total_size=size,
        stream=np.array([_whole(segment.get("stream"), 0) for segment in segments], dtype=np.int64),
        is_large=np.array([segment.get("segment_type") != "small" for segment in segments], dtype=np.bool_),
        is_expandable=np.array([segment.get("is_expandable") is True for segment in segments], dtype=np.bool_),
        pool=_pools(segments),
    )


def _pools(segments: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Numbers of private pools, in the order of the file; torch names them by pairs, and the default pool (0, 0)."""
    known: dict[tuple[Any, ...], int] = {}
    found = []
    for segment in segments:
        pair = segment.get("segment_pool_id")
        name = tuple(map(_number, pair)) if isinstance(pair, list | tuple) else (0, 0)
        found.append(known.setdefault(name, len(known)) if any(name) else -1)
    return np.array(found, dtype=np.int32)


def _blocks(segments: Sequence[Mapping[str, Any]], rows: _Rows) -> MemoryBlocks:
    segment_of, address, size, requested, state, frames = [], [], [], [], [], []
    for place, segment in enumerate(segments):
        at = _whole(segment.get("address"), 0)
        for block in _dicts(segment.get("blocks")):
            rounded = _size(block.get("size"), 0)
            past = _dicts(block.get("history"))
            told = block.get("requested_size", (past[0].get("real_size") if past else None) or rounded)
            stack = block.get("frames", past[0].get("frames") if past else None)
            segment_of.append(place)
            address.append(block.get("address", at))
            size.append(rounded)
            requested.append(_size(told, rounded))
            state.append(_STATE.get(_text(block.get("state")), len(STATES) - 1))
            frames.append(rows.stack(stack))
            at += rounded
    sizes, asked, places = np.array(size, dtype=np.int64), np.array(requested, dtype=np.int64), _addresses(address)
    _require_sizes(sizes)
    _require_sizes(asked)
    _require_apart(places[places > 0], sizes[places > 0])
    return MemoryBlocks(
        segment=np.array(segment_of, dtype=np.int32),
        address=places,
        size=sizes,
        requested=asked,
        state=np.array(state, dtype=np.uint8),
        frames=np.array(frames, dtype=np.int32),
    )


def _settings(value: Any) -> dict[str, Any]:
    """The settings whose values are plain, by the name that torch gives them."""
    given = value if isinstance(value, dict) else {}
    return {key[:_LONGEST]: one for key, one in given.items() if type(one) in (bool, int, float, str)}


def _annotations(entries: Iterable[Mapping[str, Any]]) -> Iterable[MemoryAnnotation]:
    for entry in entries:
        if _text(entry.get("name")):
            name, stage = _text(entry["name"]), _text(entry.get("stage"))
            time_us = _whole(entry.get("time_us"), 0)
            time_us = time_us if 0 <= time_us <= _LAST_US else 0
            yield MemoryAnnotation(name, stage, _whole(entry.get("device"), 0), time_us)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in _listed(value) if isinstance(entry, dict)]


def _text(value: Any) -> str:
    return value[:_LONGEST] if type(value) is str else ""


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _whole(value: Any, otherwise: int) -> int:
    """A number that fits a column; something else if there is none."""
    return value if type(value) is int and -(1 << 62) < value < 1 << 62 else otherwise


def _size(value: Any, otherwise: int) -> int:
    """A number of bytes; something else if there is none.

    Raises:
        NotPlainError: No device has it.
    """
    if type(value) not in (int, float):
        return otherwise
    if not 0 <= value <= _MOST_BYTES:
        raise plain_data.NotPlainError(_NO_SIZE)
    return int(value)


def _addresses(values: Iterable[Any]) -> np.ndarray:
    """Addresses; 0 where there is none.

    Raises:
        NotPlainError: One has more than 64 bits, or is negative.
    """
    known = [value if type(value) in (int, float) else 0 for value in values]
    if not all(0 <= value < 1 << 64 for value in known):
        raise plain_data.NotPlainError(_NO_ADDRESS)
    return np.array([int(value) for value in known], dtype=np.uint64)


def _sizes(values: Iterable[Any]) -> np.ndarray:
    sizes = np.array([_size(value, 0) for value in values], dtype=np.int64)
    _require_sizes(sizes)
    return sizes


def _sum(entries: Iterable[Mapping[str, Any]], *keys: str) -> int:
    """The sum of the first of these fields that an entry has."""
    return sum(_size(next((entry[key] for key in keys if key in entry), 0), 0) for entry in entries)


def _require_possible(address: Any, size: Any) -> None:
    """Raise NotPlainError if these are numbers that no device has, and not merely no numbers."""
    _addresses((address,))
    _size(size, 0)


def _require_sizes(sizes: np.ndarray) -> None:
    """Raise NotPlainError if a size, or all together, are more than any device has, or negative."""
    if len(sizes) and (
        sizes.min() < 0 or sizes.max() > _MOST_BYTES or sizes.sum(dtype=np.float64) > float(_MOST_TOGETHER)
    ):
        raise plain_data.NotPlainError(_NO_SIZE)


def _require_apart(address: np.ndarray, size: np.ndarray) -> None:
    """Raise NotPlainError if parts of memory overlap, or end beyond the last address."""
    order = np.argsort(address, kind="stable")
    start, length = address[order], size[order].astype(np.uint64)
    if (length > ~start).any():
        raise plain_data.NotPlainError(_NO_ADDRESS)
    if (length[:-1] > start[1:] - start[:-1]).any():
        raise plain_data.NotPlainError(_NO_PLACE)
