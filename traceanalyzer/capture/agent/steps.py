"""Finds where steps end from what any program shows: optimizer steps and requests for batches."""

from __future__ import annotations

from collections import Counter

MARKED = "prof.step"
OPTIMIZER = "optimizer"
DATALOADER = "dataloader"

_TAKEOVER = 10
"""Steps of another optimizer, or batches of another loader, after which it replaces a leader that is silent."""
_PATIENCE = 100
"""Batches without an optimizer step after which a program that has an optimizer does not seem to use it."""
_PATIENCE_BACKWARD = 1000
"""Such batches where gradients are computed, which may be accumulated over many batches."""


class _Leader:
    """The one of several optimizers or loaders that decides: the first, until it falls silent and another goes on."""

    def __init__(self) -> None:
        self._leader: int | None = None
        self._others: Counter[int] = Counter()

    def leads(self, who: int) -> bool:
        if self._leader is None:
            self._leader = who
        if who == self._leader:
            self._others.clear()
            return True
        self._others[who] += 1
        if self._others[who] < _TAKEOVER:
            return False
        self._leader = who
        self._others.clear()
        return True


class StepFinder:
    """Decides which of the calls that it is told of ends a step.

    With several optimizers (a generator and its discriminator) the first one that stepped decides. Batches count only
    where optimizers do not: in inference, and where optimizers step inside the backward pass.
    """

    def __init__(self) -> None:
        self.source: str | None = None
        """What marks the steps so far: `MARKED` before `OPTIMIZER` before `DATALOADER`."""
        self._optimizers = _Leader()
        self._loaders = _Leader()
        self._has_optimizer = False
        self._has_backward = False
        self._batches = 0

    def marked(self) -> None:
        """Note that the program says itself where its steps end."""
        self.source = MARKED

    def optimizer_made(self) -> None:
        """Note that the program has an optimizer, so that it will probably step."""
        self._has_optimizer = True

    def backward_done(self) -> None:
        """Note that gradients were computed."""
        self._has_backward = True

    def optimizer_stepped(self, optimizer: int, *, in_backward: bool) -> bool:
        """Note that an optimizer has stepped. Returns whether a step of the program ends with it.

        Args:
            optimizer: Its identity.
            in_backward: It stepped while gradients are computed, where the profiler can neither start nor stop.
        """
        if in_backward or self.source == MARKED or not self._optimizers.leads(optimizer):
            return False
        self.source = OPTIMIZER
        return True

    def batch_wanted(self, loader: int) -> bool:
        """Note that a batch is asked for. Returns whether a step of the program ends before it.

        Args:
            loader: The identity of what the batches come from.
        """
        if self.source in {MARKED, OPTIMIZER} or not self._loaders.leads(loader):
            return False
        self._batches += 1
        if self._batches <= self._patience():
            return False
        self.source = DATALOADER
        return True

    def _patience(self) -> int:
        if self._has_backward:
            return _PATIENCE_BACKWARD
        return _PATIENCE if self._has_optimizer else 0
