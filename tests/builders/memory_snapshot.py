"""Builds memory snapshots: a program that allocates and frees, and a caching allocator that serves it.

memory = MemoryRecorder(limit=1 << 30)
block = memory.alloc(6 << 20, TRAIN)          # the innermost frame first
memory.free(block)
memory.write(tmp_path / "snapshot.pickle")

The allocator rounds to 512 bytes, takes segments of 2 MiB for small requests, of 20 MiB for those below 10 MiB, and
whole MiB for larger ones; it gives the smallest block that fits, splits it, and joins free neighbours.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traceanalyzer.readers import memory_snapshot
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.memory_snapshot import Frame, MemorySnapshot

MIB = 1 << 20
_SMALL, _MIDDLE = MIB, 10 * MIB
_SMALL_SEGMENT, _MIDDLE_SEGMENT, _GRAIN = 2 * MIB, 20 * MIB, 2 * MIB
_START_US = 1_750_000_000_000_000
_FIRST_ADDRESS = 0x7F0000000000

TRAIN: tuple[Frame, ...] = (("/home/me/train.py", 12, "step"), ("/home/me/train.py", 40, "<module>"))
_MODULE = "/usr/lib/python3/site-packages/torch/nn/modules/module.py"
FORWARD: tuple[Frame, ...] = (
    ("/home/me/model.py", 30, "forward"), (_MODULE, 1750, "_call_impl"), ("/home/me/train.py", 14, "step")
)  # fmt: skip
BACKWARD: tuple[Frame, ...] = (
    ("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"),
)
OPTIMIZER: tuple[Frame, ...] = (
    ("/usr/lib/python3/site-packages/torch/optim/adamw.py", 130, "_init_group"), ("/home/me/train.py", 20, "step")
)  # fmt: skip
SAVED: tuple[Frame, ...] = (("??", 0, "torch::autograd::generated::MulBackward0::release_variables()"), *BACKWARD)
DROPPED: tuple[Frame, ...] = (("??", 0, "torch::autograd::SavedVariable::~SavedVariable()"), *FORWARD)


@dataclass
class Block:
    """A piece of a segment."""

    address: int
    size: int
    requested: int = 0
    state: str = "inactive"
    stack: tuple[Frame, ...] = ()


@dataclass
class _Segment:
    address: int
    size: int
    is_small: bool
    pool: tuple[int, int]
    blocks: list[Block] = field(default_factory=list)


class OutOfMemoryError(Exception):
    """The simulated device has no memory left."""


class MemoryRecorder:
    """A program on one device whose allocations are recorded."""

    def __init__(self, *, limit: int = 80 << 30, ring: int | None = None, device: int = 0) -> None:
        """Begin a program.

        Args:
            limit: Memory of the device.
            ring: Entries that the history keeps; None keeps all, 0 none.
            device: Number of the device.
        """
        self.limit, self.ring, self.device = limit, ring, device
        self.segments: list[_Segment] = []
        self.entries: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.now_us, self.next_address = _START_US, _FIRST_ADDRESS
        self.pool = (0, 0)
        self.is_recording = True
        self._frames: dict[Frame, dict[str, Any]] = {}

    def alloc(self, size: int, stack: Sequence[Frame] = TRAIN) -> Block:
        """Give a block.

        Raises:
            OutOfMemoryError: The device has no memory left; the history says so, too.
        """
        rounded = max(512, -(-size // 512) * 512)
        is_small = rounded <= _SMALL
        free = [
            (block.size, segment, block)
            for segment in self.segments
            if segment.is_small == is_small and segment.pool == self.pool
            for block in segment.blocks
            if block.state == "inactive" and block.size >= rounded
        ]
        found = min(free, key=lambda one: one[0], default=None)
        segment, block = found[1:] if found else self._new_segment(rounded, size, stack, is_small=is_small)
        rest = block.size - rounded
        if rest >= 512 if is_small else rest > _SMALL:
            place = segment.blocks.index(block)
            segment.blocks.insert(place + 1, Block(block.address + rounded, rest))
            block.size = rounded
        block.requested, block.state, block.stack = size, "active_allocated", tuple(stack)
        self._record("alloc", block.address, size, stack)
        return block

    def free(self, block: Block, stack: Sequence[Frame] = TRAIN) -> None:
        """Take a block back."""
        for action in ("free_requested", "free_completed"):
            self._record(action, block.address, block.requested, stack)
        block.state, block.stack = "inactive", ()
        (segment,) = (one for one in self.segments if block in one.blocks)
        joined: list[Block] = []
        for one in segment.blocks:
            if joined and one.state == joined[-1].state == "inactive":
                joined[-1].size += one.size
            else:
                joined.append(one)
        segment.blocks = joined

    def empty_cache(self) -> None:
        """Give segments that nobody uses back to the driver."""
        for segment in [one for one in self.segments if all(block.state == "inactive" for block in one.blocks)]:
            self.segments.remove(segment)
            self._record("segment_free", segment.address, segment.size, ())

    def _new_segment(
        self, rounded: int, size: int, stack: Sequence[Frame], *, is_small: bool
    ) -> tuple[_Segment, Block]:
        large = _MIDDLE_SEGMENT if rounded < _MIDDLE else -(-rounded // _GRAIN) * _GRAIN
        taken = _SMALL_SEGMENT if is_small else large
        if self.reserved + taken > self.limit:
            self.empty_cache()
        if self.reserved + taken > self.limit:
            self._record("oom", self.limit - self.reserved, size, stack, key="device_free")
            raise OutOfMemoryError
        segment = _Segment(self.next_address, taken, is_small, self.pool, [Block(self.next_address, taken)])
        self.next_address += taken + _GRAIN
        self.segments.append(segment)
        self._record("segment_alloc", segment.address, taken, stack)
        return segment, segment.blocks[0]

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def _record(self, action: str, address: int, size: int, stack: Sequence[Frame], key: str = "addr") -> None:
        self.now_us += 10
        if self.is_recording:
            entry = {"action": action, key: address, "size": size, "stream": 0, "time_us": self.now_us}
            self.entries.append(entry | {"frames": self._named(stack)})

    def _named(self, stack: Sequence[Frame]) -> list[dict[str, Any]]:
        return [
            self._frames.setdefault(frame, {"name": frame[2], "filename": frame[0], "line": frame[1]})
            for frame in stack
        ]

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of the program that it annotates."""
        for stage in ("START", "END"):
            self.now_us += 1
            self.marks.append({"stage": stage, "name": name, "device": self.device, "time_us": self.now_us})
            if stage == "START":
                yield

    @contextmanager
    def private_pool(self, number: int) -> Iterator[None]:
        """Allocations of a graph, which have segments of their own."""
        self.pool = (0, number)
        yield
        self.pool = (0, 0)

    def content(self) -> dict[str, Any]:
        """The snapshot as torch has it."""
        kept = self.entries if self.ring is None else self.entries[len(self.entries) - self.ring :]
        return {
            "segments": [self._segment(segment) for segment in self.segments],
            "device_traces": [[] for _ in range(self.device)] + [kept],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
            "external_annotations": self.marks,
        }

    def _segment(self, segment: _Segment) -> dict[str, Any]:
        return {
            "device": self.device,
            "address": segment.address,
            "total_size": segment.size,
            "stream": 0,
            "segment_type": "small" if segment.is_small else "large",
            "segment_pool_id": segment.pool,
            "is_expandable": False,
            "frames": [],
            "blocks": [
                {
                    "address": block.address,
                    "size": block.size,
                    "requested_size": block.requested if block.state != "inactive" else 0,
                    "state": block.state,
                    "frames": self._named(block.stack),
                }
                for block in segment.blocks
            ],
        }

    def write(self, file: Path, form: str = "pickle") -> Path:
        """Write the snapshot, pickled as torch does or as JSON."""
        content = self.content()
        file.write_bytes(pickle.dumps(content) if form == "pickle" else json.dumps(content).encode())
        return file

    def read(self) -> MemorySnapshot:
        """The snapshot as it is read."""
        return read(pickle.dumps(self.content()))


def read(data: bytes) -> MemorySnapshot:
    """The snapshot that a file holds."""
    return memory_snapshot.read(Source(io.BytesIO(data), "snapshot.pickle", len(data), lambda _: None))
