"""What the pictures of a peak show: what is held by kind over time, and the stacks that hold the peak."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory.block_kinds import KIND_NAMES, BlockKind, running_parts
from traceanalyzer.knowledge.allocation_places import AllocationPlace, Frames, is_own, is_python
from traceanalyzer.structure.block_lifetimes import Lifetimes
from traceanalyzer.structure.stack_rows import NO_FRAME, StackTree, stack_rows
from traceanalyzer.trace.memory_snapshot import MemoryAnnotation
from traceanalyzer.trace.table import I64, U8

_FRAMES = 600
"""Most frames with rows of their own (own choice: more than a screen can show side by side)."""
_DEEPEST = 60
"""Most frames of a stack that are shown, the outermost ones (own choice)."""
_MOST_SPANS = 200
"""Spans that a result keeps, the longest ones (own choice: more than a screen can show side by side)."""
_RUNNING = {
    AllocationPlace.SETUP: "setup",
    AllocationPlace.FORWARD: "forward",
    AllocationPlace.BACKWARD: "backward",
    AllocationPlace.OPTIMIZER: "optimizer",
}
"""Parts of a program as results name them."""


class KindLevels(msgspec.Struct, frozen=True):
    """What blocks of one kind hold over time."""

    kind: str
    """`parameters`, `gradients`, `optimizer`, `activations`, `temporary`, or `unknown`."""
    level_bytes: tuple[int, ...]
    """Bytes from each point in time on."""


class HeldOverTime(msgspec.Struct, frozen=True):
    """What is held by kind over time; together it is the level."""

    time_ns: tuple[int, ...]
    """Points in time, ascending, as of the level."""
    kinds: tuple[KindLevels, ...]
    """Kinds that hold anything at any of them, what stays longest first: parameters, optimizer, gradients, activations,
    temporary, unknown."""


class MemorySpan(msgspec.Struct, frozen=True):
    """A time in which a part of the program ran."""

    name: str
    """As the program named it; of what stacks show `setup`, `forward`, `backward`, or `optimizer`."""
    start_ns: int
    """Its begin in ns since the first entry of the history; 0 if it began before."""
    end_ns: int
    """Its end; that of the history if it had not ended."""


class HeldFrame(msgspec.Struct, frozen=True):
    """A frame of the stacks that hold the peak, or a kind around them."""

    name: str
    """Name of the function, or of the kind."""
    place: str
    """`kind`, `own` (a line of the program), `library`, or `native` (below Python)."""
    file: str | None = None
    """File of the function; null where unknown."""
    line: int | None = None
    """Line in it; null where unknown."""


class HeldStacks(msgspec.Struct, frozen=True):
    """What lives at the peak, by kind and then by the stack that allocated it: a row for each frame, depth first."""

    frames: tuple[HeldFrame, ...]
    """The frames of all rows."""
    frame: tuple[int, ...]
    """Position in `frames`; -1 for the row of all frames that are left out here."""
    depth: tuple[int, ...]
    """Number of frames around it; 0 is a kind."""
    held_bytes: tuple[int, ...]
    """Bytes of the blocks that were allocated by the frame, or inside it."""
    count: tuple[int, ...]
    """Number of frames in the row: 1, or those that are left out."""


_ORDER = (
    BlockKind.PARAMETERS,
    BlockKind.OPTIMIZER_STATE,
    BlockKind.GRADIENTS,
    BlockKind.ACTIVATIONS,
    BlockKind.TEMPORARY,
    BlockKind.UNKNOWN,
)


def held_over_time(blocks: Lifetimes, kinds: U8, rows: I64, entries: I64, time_ns: I64, level: I64) -> HeldOverTime:
    """What is held by kind after some entries.

    Args:
        blocks: All blocks.
        kinds: The kind of each.
        rows: Blocks that are sure to have lived when they seem to.
        entries: The entries, ascending.
        time_ns: When each is.
        level: All bytes that are held after each; what no block explains is of an unknown kind.
    """
    held = {kind: _level(blocks, rows[kinds[rows] == kind], entries) for kind in _ORDER}
    rest = level - sum(held.values(), np.zeros(len(entries), np.int64))
    held[BlockKind.UNKNOWN] = held[BlockKind.UNKNOWN] + np.maximum(rest, 0)
    shown = tuple(KindLevels(KIND_NAMES[kind], tuple(own.tolist())) for kind, own in held.items() if own.any())
    return HeldOverTime(tuple(time_ns.tolist()), shown)


def _level(blocks: Lifetimes, rows: I64, entries: I64) -> I64:
    """Bytes of some blocks that live after each entry."""

    def until(at: I64) -> I64:
        order = np.argsort(at, kind="stable")
        summed = np.append(0, np.cumsum(blocks.requested[rows][order]))
        found: I64 = summed[np.searchsorted(at[order], entries, side="right")]
        return found

    return until(blocks.born[rows]) - until(blocks.died[rows])


def running_spans(blocks: Lifetimes, stacks: Sequence[Frames], time_ns: I64) -> tuple[MemorySpan, ...]:
    """When setup, forward and backward passes and updates ran, by the stacks of allocations, in the order of time.

    Args:
        blocks: All blocks.
        stacks: The stacks that `blocks.frames` is about.
        time_ns: When each entry is.
    """
    entries, places = running_parts(blocks, stacks)
    ends = np.append(entries[1:], len(time_ns) - 1)[: len(entries)]
    return _longest(
        MemorySpan(_RUNNING[AllocationPlace(place)], start, end)
        for place, start, end in zip(places.tolist(), time_ns[entries].tolist(), time_ns[ends].tolist(), strict=True)
    )


def annotated_spans(
    device: int, annotations: Iterable[MemoryAnnotation], time_us: I64, span_ns: int
) -> tuple[MemorySpan, ...]:
    """When the parts ran that the program annotated, in the order of time.

    An end belongs to the last begin of its name. A part without an end ran until the end.

    Args:
        device: Number of the device.
        annotations: Those of the snapshot.
        time_us: When each entry of the history is, since 1970.
        span_ns: From the first entry to the last one.
    """
    begun: defaultdict[str, list[int]] = defaultdict(list)
    found: list[tuple[str, int, int]] = []
    for mark in annotations:
        if mark.device == device and mark.stage == "START":
            begun[mark.name].append(mark.time_us)
        elif mark.device == device and mark.stage == "END" and begun[mark.name]:
            found.append((mark.name, begun[mark.name].pop(), mark.time_us))
    if not len(time_us) or not time_us[0]:
        return ()
    first, last = int(time_us[0]), int(time_us[0]) + span_ns // 1000
    found += [(name, start, last) for name, starts in begun.items() for start in starts]
    return _longest(
        MemorySpan(name, 1000 * max(0, start - first), min(span_ns, 1000 * (end - first)))
        for name, start, end in found
        if start <= last and end >= first
    )


def _longest(spans: Iterable[MemorySpan]) -> tuple[MemorySpan, ...]:
    """The spans that last longest, in the order of time, those around others first."""
    kept = sorted(spans, key=lambda span: span.start_ns - span.end_ns)[:_MOST_SPANS]
    return tuple(sorted(kept, key=lambda span: (span.start_ns, -span.end_ns, span.name)))


def held_stacks(blocks: Lifetimes, kinds: U8, rows: I64, stacks: Sequence[Frames], level: int) -> HeldStacks:
    """What some blocks hold by kind and stack.

    Args:
        blocks: All blocks.
        kinds: The kind of each.
        rows: Those that live at the peak.
        stacks: The stacks that `blocks.frames` is about.
        level: All bytes at the peak; what no block explains is of an unknown kind.
    """
    held: defaultdict[tuple[int, int], int] = defaultdict(int)
    for row in rows.tolist():
        held[int(kinds[row]), int(blocks.frames[row])] += int(blocks.requested[row])
    if (rest := level - sum(held.values())) > 0:
        held[int(BlockKind.UNKNOWN), -1] += rest
    tree = StackTree[HeldFrame]()
    drawn = []
    for kind in _ORDER:
        top = tree.node(NO_FRAME, HeldFrame(KIND_NAMES[kind], "kind"))
        for _, stack in sorted(key for key in held if key[0] == kind and held[key]):
            drawn.append((tree.below(top, _frames(stacks[stack] if stack >= 0 else ())), held[kind, stack]))
    frames: dict[HeldFrame, int] = {}
    found = stack_rows(tree, drawn, frames, _FRAMES)
    return HeldStacks(tuple(frames), *(zip(*found, strict=True) if found else ((), (), (), ())))


def _frames(stack: Frames) -> list[HeldFrame]:
    """Lines of the program, outermost first, and the libraries that the innermost one calls.

    Where there are none, all frames of Python, or those below it.
    """
    python = [frame for frame in stack if is_python(frame[0])]
    first = next((number for number, frame in enumerate(python) if is_own(frame[0])), len(python))
    own = [frame for frame in python[first:] if is_own(frame[0])]
    shown = [*python[:first], *own] if own else python or stack
    return [_frame(*frame) for frame in list(reversed(shown))[:_DEEPEST]]


def _frame(file: str, line: int, function: str) -> HeldFrame:
    place = "own" if is_own(file) else "library" if is_python(file) else "native"
    is_known = file not in ("", "??")
    return HeldFrame(function, place, file if is_known else None, line if is_known and line else None)
