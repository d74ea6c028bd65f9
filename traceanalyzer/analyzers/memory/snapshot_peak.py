"""What lives at the peak of a memory snapshot, by kind, line and size; and lines that keep block after block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory import snapshot_stacks
from traceanalyzer.analyzers.memory.snapshot_history import I64, Bool, Levels, Lifetimes
from traceanalyzer.analyzers.memory.snapshot_stacks import Origin
from traceanalyzer.trace.memory_snapshot import DeviceMemory, Frame

_MOST_LINES, _MOST_SIZES = 200, 50
"""Lines and sizes that a result keeps, the largest first."""
_LEAST_KEPT = 4
"""Blocks of a line that must be kept, one after the other (own choice: fewer may be a cache that fills)."""
_SPREAD = 0.5
"""Share of the history over which they are spread at least (own choice: a model is built at once, and so is state)."""


class HeldKind(msgspec.Struct, frozen=True):
    """What lives at the peak, of one kind."""

    kind: str
    """`parameters`, `gradients`, `optimizer`, `activations`, `temporary`, or `unknown`."""
    blocks: int
    """Number of blocks."""
    held_bytes: int
    """Bytes that the program asked for."""
    older_bytes: int
    """Bytes of these that were allocated before the history."""


class HeldLine(msgspec.Struct, frozen=True):
    """What lives at the peak, of one line of the program."""

    line: str | None
    """Innermost line of the program; null where the stack has none."""
    kind: str
    """The kind that most of its bytes are of, as of `HeldKind`."""
    blocks: int
    """Number of blocks."""
    held_bytes: int
    """Bytes that the program asked for."""
    older_bytes: int
    """Bytes of these that were allocated before the history."""
    largest_bytes: int
    """The largest of its blocks."""


class HeldSize(msgspec.Struct, frozen=True):
    """Blocks of one size that live at the peak."""

    size_bytes: int
    """Bytes of each, as the program asked for them."""
    blocks: int
    """Number of blocks."""
    held_bytes: int
    """Bytes of all."""


class KeptLine(msgspec.Struct, frozen=True):
    """A line whose blocks were kept again and again, while the program freed others between them."""

    line: str
    """Innermost line of the program."""
    blocks: int
    """Blocks that were kept until the end of the history."""
    kept_bytes: int
    """Bytes of these."""
    is_for_backward: bool
    """Whether the stack shows a forward pass, so that a graph of autograd may hold them."""


class SnapshotPeak(NamedTuple):
    """What lives at the peak."""

    older_bytes: int
    unused_graph_bytes: int | None
    kinds: tuple[HeldKind, ...]
    lines: tuple[HeldLine, ...]
    sizes: tuple[HeldSize, ...]


class StackNames:
    """Lines and origins of stacks by number, found once."""

    def __init__(self, stacks: Sequence[Sequence[Frame]]) -> None:
        self._lines = [snapshot_stacks.line_of(stack) for stack in stacks]
        self._origins = [snapshot_stacks.origin_of(stack) for stack in stacks]
        self._frees_saved = [snapshot_stacks.frees_saved(stack) for stack in stacks]

    def line(self, stack: int) -> str | None:
        """The innermost line of the program; None if there is none."""
        return self._lines[stack] if stack >= 0 else None

    def origin(self, stack: int) -> Origin:
        """Which part of a training made a block."""
        return self._origins[stack] if stack >= 0 else Origin.OTHER

    def frees_saved(self, stack: int) -> bool:
        """Whether a free shows that the block was saved for the backward pass."""
        return stack >= 0 and self._frees_saved[stack]


class _Block(NamedTuple):
    stack: int
    kind: str
    size: int
    is_older: bool


def contents(device: DeviceMemory, level: Levels, names: StackNames) -> SnapshotPeak:
    """What lives at the peak of a device."""
    blocks = list(_living(device, level, names))
    seen = sum(block.size for block in blocks if not block.is_older)
    older = level.peak - seen
    unnamed = older - sum(block.size for block in blocks if block.is_older)
    if unnamed > 0:  # freed before the dump, and nothing says who made it
        blocks.append(_Block(-1, "unknown", unnamed, is_older=True))
    return SnapshotPeak(older, _unused_graph(level, names), _by_kind(blocks), _by_line(blocks, names), _by_size(blocks))


def _unused_graph(level: Levels, names: StackNames) -> int | None:
    """Bytes at the peak that are freed with a graph of autograd, if there is no backward pass."""
    lifetimes = level.lifetimes
    stacks = {*lifetimes.frames.tolist(), *lifetimes.freed_by.tolist()}
    if any(names.origin(stack) is Origin.BACKWARD for stack in stacks):
        return None
    saved = np.array([names.frees_saved(stack) for stack in lifetimes.freed_by.tolist()], dtype=np.bool_)
    return int(lifetimes.size[saved & lifetimes.living(level.peak_entry)].sum())


def _living(device: DeviceMemory, level: Levels, names: StackNames) -> Iterator[_Block]:
    lifetimes = level.lifetimes
    kinds = _kinds(lifetimes, names, len(device.history))
    for place in np.flatnonzero(lifetimes.living(level.peak_entry)).tolist():
        yield _Block(int(lifetimes.frames[place]), kinds[place], int(lifetimes.size[place]), is_older=False)
    if level.stopped_before_dump:
        return
    for place in level.older.tolist():
        stack = int(device.blocks.frames[place])
        yield _Block(stack, _KEPT_KINDS[names.origin(stack)], int(device.blocks.requested[place]), is_older=True)


_KEPT_KINDS = {
    Origin.BACKWARD: "gradients",
    Origin.OPTIMIZER: "optimizer",
    Origin.MODEL: "parameters",
    Origin.FORWARD: "activations",
    Origin.OTHER: "unknown",
}
"""Kinds of blocks that are not freed in the history."""


def _kinds(lifetimes: Lifetimes, names: StackNames, entries: int) -> list[str]:
    """The kind of each allocation, by its stack and by what happens while it lives."""
    origins = [names.origin(stack) for stack in lifetimes.frames.tolist()]
    backward = lifetimes.entry[np.array([origin is Origin.BACKWARD for origin in origins], dtype=np.bool_)]
    optimizer = lifetimes.entry[np.array([origin is Origin.OPTIMIZER for origin in origins], dtype=np.bool_)]
    sees_backward = _sees(lifetimes, backward)
    sees_optimizer = _sees(lifetimes, optimizer)
    kinds = []
    for place, origin in enumerate(origins):
        is_kept = lifetimes.end[place] >= entries
        is_saved = names.frees_saved(int(lifetimes.freed_by[place]))
        if is_saved or (origin is Origin.FORWARD and (sees_backward[place] or not len(backward))):
            kinds.append("activations")
        elif is_kept or (origin is Origin.BACKWARD and sees_optimizer[place]):
            kinds.append(_KEPT_KINDS[origin])
        else:
            kinds.append("unknown" if origin is Origin.OTHER else "temporary")
    return kinds


def _sees(lifetimes: Lifetimes, marks: np.ndarray) -> Bool:
    """Whether an allocation lives over one of these entries."""
    first, last = np.searchsorted(marks, lifetimes.entry, side="right"), np.searchsorted(marks, lifetimes.end)
    return np.asarray(last > first)


def _by_kind(blocks: Sequence[_Block]) -> tuple[HeldKind, ...]:
    groups: defaultdict[str, list[_Block]] = defaultdict(list)
    for block in blocks:
        groups[block.kind].append(block)
    found = [HeldKind(kind, len(own), *_bytes(own)) for kind, own in groups.items()]
    return tuple(sorted(found, key=lambda row: (-row.held_bytes, row.kind)))


def _by_line(blocks: Sequence[_Block], names: StackNames) -> tuple[HeldLine, ...]:
    groups: defaultdict[str | None, list[_Block]] = defaultdict(list)
    for block in blocks:
        groups[names.line(block.stack)].append(block)
    found = [
        HeldLine(line, _by_kind(own)[0].kind, len(own), *_bytes(own), max(block.size for block in own))
        for line, own in groups.items()
    ]
    return tuple(sorted(found, key=lambda row: (-row.held_bytes, row.line or ""))[:_MOST_LINES])


def _bytes(blocks: Sequence[_Block]) -> tuple[int, int]:
    """Bytes of blocks, and those of them from before the history."""
    return sum(block.size for block in blocks), sum(block.size for block in blocks if block.is_older)


def _by_size(blocks: Sequence[_Block]) -> tuple[HeldSize, ...]:
    counts: defaultdict[int, int] = defaultdict(int)
    for block in blocks:
        if not block.is_older:
            counts[block.size] += 1
    found = [HeldSize(size, count, size * count) for size, count in counts.items()]
    return tuple(sorted(found, key=lambda row: (-row.held_bytes, -row.size_bytes))[:_MOST_SIZES])


def kept(level: Levels, names: StackNames) -> tuple[KeptLine, ...]:
    """Lines that keep block after block, each with more freed since the one before than it holds."""
    lifetimes, entries = level.lifetimes, len(level.after)
    freed_until = _freed_until(level)
    found = []
    for line, places in _unfreed(level, names).items():
        entry, size = lifetimes.entry[places], lifetimes.size[places]
        between = np.diff(freed_until[entry])
        rounds = 1 + int((between >= size[1:]).sum())
        if rounds < _LEAST_KEPT or entry[-1] - entry[0] < _SPREAD * entries:
            continue
        is_forward = names.origin(int(lifetimes.frames[places[0]])) is Origin.FORWARD
        found.append(KeptLine(line, len(places), int(size.sum()), is_forward))
    return tuple(sorted(found, key=lambda row: (-row.kept_bytes, row.line)))


def _freed_until(level: Levels) -> I64:
    """Bytes that were freed up to each entry of the history."""
    lifetimes, entries = level.lifetimes, len(level.after)
    freed = np.zeros(entries + 1, dtype=np.int64)
    is_freed = lifetimes.end < entries
    np.add.at(freed, lifetimes.end[is_freed], lifetimes.size[is_freed])
    return np.cumsum(freed)


def _unfreed(level: Levels, names: StackNames) -> dict[str, list[int]]:
    """Lifetimes without an end, by the line of the forward pass or of other code that allocates them."""
    by_line: defaultdict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(level.lifetimes.end >= len(level.after)).tolist():
        stack = int(level.lifetimes.frames[place])
        line = names.line(stack)
        if line is not None and names.origin(stack) in (Origin.FORWARD, Origin.OTHER):
            by_line[line].append(place)
    return by_line
