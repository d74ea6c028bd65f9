"""Trainings whose memory is recorded, with what the rules look for planted in them."""

from __future__ import annotations

from tests.builders.memory_snapshot import (
    BACKWARD,
    FORWARD,
    MIB,
    OPTIMIZER,
    SAVED,
    TRAIN,
    Block,
    MemoryRecorder,
)
from traceanalyzer.trace.memory_snapshot import Frame

Stack = tuple[Frame, ...]
SETUP: Stack = (("/home/me/model.py", 5, "__init__"), *TRAIN)
ATTENTION: Stack = (("/home/me/model.py", 31, "attend"), *FORWARD)
MLP: Stack = (("/home/me/model.py", 44, "mlp"), *FORWARD)
AGAIN: Stack = (*ATTENTION, ("/usr/lib/python3/site-packages/torch/utils/checkpoint.py", 9, "backward"), *BACKWARD)
HEAD: Stack = (("/home/me/model.py", 60, "head"), *FORWARD)
LOSS: Stack = (
    ("/usr/lib/python3/site-packages/torch/nn/functional.py", 3029, "cross_entropy"),
    ("/home/me/train.py", 15, "loss"), *TRAIN,
)  # fmt: skip
FUSED: Stack = (("/usr/lib/liger_kernel/ops/fused_linear_cross_entropy.py", 9, "forward"), *LOSS[1:])
ZERO: Stack = (
    ("/usr/lib/python3/site-packages/torch/optim/optimizer.py", 900, "zero_grad"), ("/home/me/train.py", 13, "step"),
)  # fmt: skip
CLONE: Stack = (("/home/me/train.py", 22, "accumulate"), *TRAIN)
BUCKETS: Stack = (
    ("/usr/lib/python3/site-packages/torch/nn/parallel/distributed.py", 1200, "_ddp_init_helper"), *TRAIN
)  # fmt: skip
WEIGHTS = 4
"""MiB of the weights, and so of all gradients."""


class Training:
    """Steps of a model of 4 MiB with layers of 8 and 4 MiB of activations; sizes are in MiB."""

    def __init__(
        self, *, layers: int = 4, kept: tuple[float, ...] = (8, 4), state: float = 8, limit: int = 80_000
    ) -> None:
        self.memory = MemoryRecorder(limit=limit * MIB)
        self.layers, self.kept, self.state_mib = layers, kept, state
        self.logits = 0
        """Size of the logits, which the loss copies."""
        self.loss = LOSS
        self.is_checkpointed = False
        self.frees_late = False
        self.fills_zeros = False
        """Whether gradients are filled with zeros instead of being freed, and added to."""
        self.has_copies = False
        self.make(WEIGHTS, SETUP)
        self.gradients: list[Block] = []
        self.copies: list[Block] = []
        self.state: Block | None = None

    def make(self, mib: float, stack: Stack) -> Block:
        """Allocate."""
        return self.memory.alloc(int(mib * MIB), stack)

    def run(self, steps: int = 3) -> MemoryRecorder:
        """Steps of the training."""
        for _ in range(steps):
            self._step()
        return self.memory

    def _step(self) -> None:
        layers = [
            [self.make(mib, (ATTENTION, MLP)[number % 2]) for number, mib in enumerate(self.kept)]
            for _ in range(self.layers)
        ]
        self._zero()
        if self.logits:
            self._logits()
        if self.is_checkpointed:
            self.memory.free(self.make(12, AGAIN), SAVED)
        for layer in reversed(layers):
            made = self.make(WEIGHTS / self.layers, BACKWARD)
            if self.fills_zeros and len(self.gradients) == self.layers:
                self.memory.free(made, BACKWARD)
            else:
                self.gradients.append(made)
            for block in reversed(layer):
                self.memory.free(block, SAVED)
        if self.has_copies and not self.copies:
            self.copies = [self.make(WEIGHTS / self.layers, CLONE) for _ in self.gradients]
        if self.state is None and self.state_mib:
            self.state = self.make(self.state_mib, OPTIMIZER)
        self.memory.free(self.make(0.5, OPTIMIZER), OPTIMIZER)
        if not self.frees_late:
            self._zero()

    def _zero(self) -> None:
        while self.gradients and not self.fills_zeros:
            self.memory.free(self.gradients.pop(), ZERO)

    def _logits(self) -> None:
        """Logits, what the loss makes of them, and their gradient."""
        made = [self.make(self.logits, stack) for stack in (HEAD, self.loss, BACKWARD)]
        for block in reversed(made):
            self.memory.free(block, SAVED)
