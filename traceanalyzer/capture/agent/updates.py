"""Sees that a program has changed its parameters after gradients were computed, whatever has changed them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable
from typing import Any

_MOST = 16
"""Number of optimizers and modules of which a parameter is looked at (own choice: a program has a few)."""
_MOST_ASKED = 256
"""Number of optimizers and modules that are asked for a parameter."""


class _Probe:
    """A parameter that stands for all of its module or optimizer.

    Its version counts changes in place. `parameter.data -= ...` leaves it as it is; then it counts that its gradient
    was cleared or changed after the backward pass, because that separates one update from the next.
    """

    def __init__(self, parameter: Any) -> None:
        self._parameter = weakref.ref(parameter)
        self._version = parameter._version
        self._gradient: int | None = None
        self._moves = False

    @property
    def is_gone(self) -> bool:
        return self._parameter() is None

    def before_backward(self) -> None:
        parameter = self._parameter()
        if parameter is not None:
            self._version = parameter._version

    def after_backward(self) -> None:
        parameter = self._parameter()
        if parameter is not None:
            self._gradient = None if parameter.grad is None else parameter.grad._version

    def has_changed(self) -> bool:
        parameter = self._parameter()
        if parameter is None:
            return False
        gradient = parameter.grad
        moved = parameter._version != self._version
        cleared = self._gradient is not None and (gradient is None or gradient._version != self._gradient)
        self._version = parameter._version
        self._gradient = None if cleared else self._gradient
        self._moves = self._moves or moved
        return moved or (cleared and not self._moves)


class Updates:
    """Looks at one parameter of each optimizer and module; keeps none alive, and asks behind all modes of torch."""

    def __init__(self, torch: Any) -> None:
        self._without_modes = contextlib.nullcontext if torch is None else torch._C.DisableTorchFunction
        self._probes: dict[int, _Probe] = {}
        self._asked: set[int] = set()
        self._has_gradients = False

    @property
    def knows_parameters(self) -> bool:
        """Whether there are parameters to look at."""
        return bool(self._probes)

    def watch(self, owner: int, parameters: Iterable[Any]) -> bool:
        """Look at the first of these parameters that requires a gradient. Returns whether there is one.

        Args:
            owner: `id` of the optimizer or module that has them.
            parameters: The parameters; read only the first time.
        """
        if owner not in self._asked and len(self._probes) < _MOST and len(self._asked) < _MOST_ASKED:
            self._asked.add(owner)
            try:
                with self._without_modes():
                    found = next((p for p in parameters if p.requires_grad and not p.is_inference()), None)
                    if found is not None:
                        self._probes[owner] = _Probe(found)
            except Exception:  # a parameter may be of any class
                return False
        return owner in self._probes

    def backward_begins(self) -> None:
        """Record that gradients will be computed."""
        if not self._has_gradients:
            self._each(lambda probe: probe.before_backward())

    def backward_ended(self) -> None:
        """Record that gradients were computed."""
        self._has_gradients = True
        self._each(lambda probe: probe.after_backward())

    def changed(self) -> list[int]:
        """The owners whose parameters have changed since gradients were computed; each change is told once."""
        if not self._has_gradients:
            return []
        changed = self._each(lambda probe: probe.has_changed())
        self._has_gradients = not changed
        return changed

    def _each(self, ask: Any) -> list[int]:
        """The owners for which the answer is true; one that fails is asked no more."""
        found = []
        for owner, probe in list(self._probes.items()):
            if probe.is_gone:  # another module may get its id
                self._probes.pop(owner, None)
                self._asked.discard(owner)
                continue
            try:
                with self._without_modes():
                    if ask(probe):
                        found.append(owner)
            except Exception:  # a parameter may be of any class
                self._probes.pop(owner, None)
        return found

    def forget(self) -> None:
        """Look at no parameters any more."""
        self._probes.clear()
