"""Collects what the hooks observe: data loaders, optimizers, gradients and precision."""

from __future__ import annotations

import weakref
from collections import defaultdict
from contextlib import suppress
from typing import Any

from .fetching import Fetching


class Seen:
    """Counts and settings of the program as plain data; keeps none of its objects alive."""

    def __init__(self) -> None:
        self.loaders: dict[int, dict[str, Any]] = {}
        self._iterators: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.autocast: set[tuple[str, str]] = set()
        self.optimizers: dict[int, weakref.ref[Any]] = {}
        self.has_scaler = False
        self.backwards = 0
        """Backward passes since the last step ended."""
        self.batches = 0
        """Batches since the last step ended."""
        self.start_counting()

    def start_counting(self) -> None:
        """Start to count with the next step."""
        self.backwards = self.batches = 0
        self._backwards = self._batches = self._steps = 0
        self._fetching: defaultdict[int, Fetching] = defaultdict(Fetching)
        self._fetched: defaultdict[int, Fetching] = defaultdict(Fetching)

    def step_ended(self, *, counts: bool, is_recorded: bool) -> None:
        """End a step, and add its counts if it is to be counted; what batches cost, if it was recorded."""
        for loader, fetching in self._fetching.items() if is_recorded else ():
            self._fetched[loader].add(fetching)
        self._fetching.clear()
        if counts:
            self._steps += 1
            self._backwards += self.backwards
            self._batches += self.batches
        self.backwards = self.batches = 0

    def loader(self, loader: Any) -> None:
        """Record that a loader begins an epoch."""
        facts = loader_facts(loader)
        facts["epochs"] = self.loaders.get(id(loader), {}).get("epochs", 0) + 1
        self.loaders[id(loader)] = facts

    def iterator(self, iterator: Any, loader: Any) -> None:
        """Record which loader an iterator belongs to."""
        with suppress(TypeError):  # a loader may return something of its own
            self._iterators[iterator] = id(loader)

    def fetched(self, iterator: Any, fetching: Fetching) -> None:
        """Record what the program measured while an iterator prepared a batch."""
        loader = self._iterators.get(iterator)
        if loader is not None:
            self._fetching[loader].add(fetching)

    def optimizer(self, optimizer: Any) -> None:
        """Record that an optimizer has stepped."""
        if id(optimizer) not in self.optimizers:
            self.optimizers[id(optimizer)] = weakref.ref(optimizer)

    def autocast_entered(self, context: Any) -> None:
        """Record that an autocast region begins."""
        if getattr(context, "_enabled", False):
            dtype = str(getattr(context, "fast_dtype", "")).removeprefix("torch.")
            self.autocast.add((str(getattr(context, "device", "")), dtype))

    def facts(self) -> dict[str, Any]:
        """The counts and settings in the form that the trace contains."""
        fetched = {loader: sums.facts() for loader, sums in self._fetched.items()}
        loaders = [facts | {"fetching": fetched.get(loader)} for loader, facts in self.loaders.items()]
        return {
            "loaders": sorted(loaders, key=lambda facts: -facts["epochs"]),
            "autocast": [{"device": device, "dtype": dtype} for device, dtype in sorted(self.autocast)],
            "has_grad_scaler": self.has_scaler,
            "backward_per_step": self._backwards / self._steps if self._steps else None,
            "batches_per_step": self._batches / self._steps if self._steps else None,
        }


def loader_facts(loader: Any) -> dict[str, Any]:
    """The settings of a `DataLoader`; None for those that its class lacks."""
    sampler = getattr(loader, "batch_sampler", None)
    batch_size = getattr(loader, "batch_size", None)
    return {
        "workers": getattr(loader, "num_workers", None),
        "pin_memory": getattr(loader, "pin_memory", None),
        "persistent_workers": getattr(loader, "persistent_workers", None),
        "prefetch_factor": getattr(loader, "prefetch_factor", None),
        "batch_size": batch_size if batch_size is not None else getattr(sampler, "batch_size", None),
        "drop_last": getattr(loader, "drop_last", None),
    }
