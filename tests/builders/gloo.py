"""Training on the CPU over gloo: the program computes on one thread, and threads of gloo communicate."""

from __future__ import annotations

from collections.abc import Sequence

from .hardware import Device
from .timeline import Host, finish
from .trace import TraceBuilder
from .values import micros

EVALUATION = "autograd::engine::evaluate_function: "
GLOO = 7000
"""Number of gloo's first thread."""


class GlooTraining:
    """Steps of a rank without a GPU, unless one is named; times in us."""

    def __init__(self, rank: int = 0, *, devices: Sequence[Device] = ()) -> None:
        self.trace = TraceBuilder(devices=devices, distributed={"backend": "gloo", "rank": rank, "world_size": 2})
        self.host = Host(self.trace, at=10)
        self._sequence = 0

    def forward(self, dur: int = 1000, *, broadcast: int = 0) -> None:
        """A forward pass, which may first send buffers to the other ranks for so long."""
        with self.host.annotation("DistributedDataParallel.forward"):
            if broadcast:
                self.host.leaf("aten::flatten_dense_tensors", 50)
                with self.host.op("c10d::broadcast_", 5, 5):
                    pass
                self.collective("gloo:broadcast", broadcast, 100)
                self.host.leaf("aten::copy_", 50)
            self.host.leaf("aten::linear", dur, sequence=self._sequence)
            self.host.leaf("aten::relu", 10, sequence=self._sequence + 1)

    def backward(self, reduces: Sequence[int], *, dur: int = 1000, elements: int = 1000) -> None:
        """A backward pass that waits for so many all-reduces one after the other, each of so long."""
        self.host.leaf(EVALUATION + "AddmmBackward0", dur, sequence=self._sequence, fwd_thread=1)
        self._sequence += 1
        for length in reduces:
            self.host.leaf("c10d::allreduce_", 5)
            self.collective("gloo:all_reduce", length, elements)

    def collective(self, name: str, dur: int, elements: int) -> None:
        """One that a thread of gloo carries out while the program waits."""
        args = {"Input Dims": [[elements]], "Input type": ["float"]}
        self.trace.annotation(name, micros(self.host.now), dur, tid=GLOO, args=args)
        self.host.work(dur)

    def update(self) -> None:
        """The optimizer."""
        with self.host.annotation("Optimizer.step#SGD.step"):
            self.host.leaf("aten::add_", 20)

    def finish(self) -> TraceBuilder:
        """The trace."""
        return finish(self.trace)
