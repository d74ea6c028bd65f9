"""What lives at the peak of a memory snapshot, by kind, line and size; and lines that keep block after block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory.block_kinds import KIND_NAMES, BlockKind
from traceanalyzer.analyzers.memory.snapshot_history import Levels
from traceanalyzer.knowledge import allocation_places
from traceanalyzer.knowledge.allocation_places import AllocationPlace, Frames
from traceanalyzer.structure.block_lifetimes import BEFORE, Lifetimes
from traceanalyzer.trace.table import I32, I64, U8

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


class GrowingLine(msgspec.Struct, frozen=True):
    """A line whose blocks take more from step to step."""

    line: str | None
    """Innermost line of the program; null where the stack has none."""
    growth_bytes_per_step: float
    """Median change of what its blocks hold from the end of one update of an optimizer to the next, without the first
    one."""
    held_bytes: int
    """Bytes that it holds at the end of the last one."""


class SnapshotPeak(NamedTuple):
    """What lives at the peak."""

    older_bytes: int
    unused_graph_bytes: int | None
    kinds: tuple[HeldKind, ...]
    lines: tuple[HeldLine, ...]
    sizes: tuple[HeldSize, ...]


class StackNames:
    """What stacks say, by their number, found once."""

    def __init__(self, stacks: Sequence[Frames]) -> None:
        self.stacks = stacks
        self._lines = [allocation_places.line_of(stack) for stack in stacks]

    @property
    def has_lines(self) -> bool:
        """Whether any stack has a line of the program or a module, so that its layers can be told."""
        return any(self._lines) or any(not file and name for stack in self.stacks for file, _, name in stack)

    def line(self, stack: int) -> str | None:
        """The innermost line of the program; None if there is none."""
        return self._lines[stack] if stack >= 0 else None

    def place(self, stack: int) -> AllocationPlace:
        """The part of the program that allocates."""
        return allocation_places.place_of(self.stacks[stack] if stack >= 0 else ())


class _Block(NamedTuple):
    stack: int
    kind: str
    size: int
    is_older: bool


def contents(level: Levels, kinds: U8, names: StackNames) -> SnapshotPeak:
    """What lives at the peak of a device, whose blocks are of these kinds."""
    blocks = _held(level.lifetimes, level.alive_at_peak(), kinds, level.peak)
    older = level.peak - sum(block.size for block in blocks if not block.is_older)
    return SnapshotPeak(older, _unused_graph(level, names), _by_kind(blocks), _by_line(blocks, names), _by_size(blocks))


def held_kinds(blocks: Lifetimes, rows: I64, kinds: U8, level: int) -> tuple[HeldKind, ...]:
    """What some blocks hold by kind, of all that is held."""
    return _by_kind(_held(blocks, rows, kinds, level))


def _held(lifetimes: Lifetimes, rows: I64, kinds: U8, level: int) -> list[_Block]:
    """What lives, with what none of the blocks explains: of a history with gaps, or from before a trace."""
    blocks = _blocks(lifetimes, rows, kinds, lifetimes.frames)
    unnamed = level - sum(block.size for block in blocks)
    return [*blocks, _Block(-1, "unknown", unnamed, is_older=True)] if unnamed > 0 else blocks


def lines_of(
    blocks: Lifetimes, rows: I64, kinds: U8, names: StackNames, *, frees: bool = False
) -> tuple[HeldLine, ...]:
    """What some blocks hold by line of the program that allocates them, or that frees them, the largest first."""
    return _by_line(_blocks(blocks, rows, kinds, blocks.freed_frames if frees else blocks.frames), names)


def _blocks(lifetimes: Lifetimes, rows: I64, kinds: U8, stacks: I32) -> list[_Block]:
    columns = (stacks[rows], kinds[rows], lifetimes.requested[rows], lifetimes.born[rows] == BEFORE)
    return [
        _Block(stack, KIND_NAMES[BlockKind(kind)], size, is_older)
        for stack, kind, size, is_older in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _unused_graph(level: Levels, names: StackNames) -> int | None:
    """Bytes at the peak that are freed with a graph of autograd, if there is no backward pass."""
    rows = graph_rows(level.lifetimes, names.stacks)
    if rows is None:
        return None
    at_peak = rows[np.isin(rows, level.alive_at_peak())]
    return int(level.lifetimes.requested[at_peak].sum())


def graph_rows(blocks: Lifetimes, stacks: Sequence[Frames]) -> I64 | None:
    """Blocks that are freed with a graph of autograd; None if the history has a backward pass."""
    seen = {*blocks.frames.tolist(), *blocks.freed_frames.tolist()} - {-1}
    if any(allocation_places.is_within_backward(stacks[stack]) for stack in seen):
        return None
    saved = {stack for stack in seen if allocation_places.frees_saved(stacks[stack])}
    return np.flatnonzero(np.isin(blocks.freed_frames, sorted(saved)))


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
    for line, places in unfreed(lifetimes, names).items():
        entry, size = lifetimes.born[places], lifetimes.requested[places]
        between = np.diff(freed_until[entry])
        rounds = 1 + int((between >= size[1:]).sum())
        if rounds < _LEAST_KEPT or entry[-1] - entry[0] < _SPREAD * entries:
            continue
        is_forward = names.place(int(lifetimes.frames[places[0]])) is AllocationPlace.FORWARD
        found.append(KeptLine(line, len(places), int(size.sum()), is_forward))
    return tuple(sorted(found, key=lambda row: (-row.kept_bytes, row.line)))


def _freed_until(level: Levels) -> I64:
    """Bytes that were freed up to each entry of the history."""
    lifetimes, entries = level.lifetimes, len(level.after)
    freed = np.zeros(entries + 1, dtype=np.int64)
    is_freed = (lifetimes.died < entries) & (lifetimes.born > BEFORE)
    np.add.at(freed, lifetimes.died[is_freed], lifetimes.requested[is_freed])
    return np.cumsum(freed)


def unfreed(blocks: Lifetimes, names: StackNames) -> dict[str, list[int]]:
    """Rows of the history that are not freed, by the line of the forward pass or of other code that allocates them."""
    by_line: defaultdict[str, list[int]] = defaultdict(list)
    for row in np.flatnonzero((blocks.born > BEFORE) & (blocks.died == blocks.entries)).tolist():
        stack = int(blocks.frames[row])
        line = names.line(stack)
        if line is not None and names.place(stack) in (AllocationPlace.FORWARD, AllocationPlace.OTHER):
            by_line[line].append(row)
    return by_line


def growing(level: Levels, names: StackNames, ends: I64) -> tuple[GrowingLine, ...]:
    """Lines that hold more and more at some places of the history, the one that grows most first.

    Args:
        level: Of the device.
        names: The stacks of the snapshot.
        ends: Numbers of entries before each place, ascending; the first one does not count.
    """
    blocks = level.lifetimes
    lines = [names.line(stack) for stack in blocks.frames.tolist()]
    number = {line: place for place, line in enumerate(dict.fromkeys(lines))}
    rows = np.array([number[line] for line in lines], dtype=np.int64)
    changes = np.zeros((len(number), len(ends) + 1), dtype=np.int64)
    np.add.at(changes, (rows, np.searchsorted(ends, blocks.born, side="right")), blocks.requested)
    np.add.at(changes, (rows, np.searchsorted(ends, blocks.died, side="right")), -blocks.requested)
    held = np.cumsum(changes, axis=1)[:, : len(ends)]
    growth = np.median(np.diff(held[:, 1:], axis=1), axis=1)
    found = [
        GrowingLine(line, float(growth[row]), int(held[row, -1])) for line, row in number.items() if growth[row] > 0
    ]
    return tuple(sorted(found, key=lambda row: (-row.growth_bytes_per_step, row.line or ""))[:_MOST_LINES])
