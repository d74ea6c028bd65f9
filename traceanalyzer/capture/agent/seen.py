"""Collects what the hooks observe: data loaders and their batches, optimizers, gradients and precision."""

from __future__ import annotations

import statistics
import sys
import threading
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from .samples import SampleClock
from .threads import scheduled_ns

_NEAR = 12
"""Number of functions around a call of a module, among which there may be `generate`: wrappers and inner loops."""

_KEPT = 10_000
"""Number of steps whose batches are kept (own choice: their median changes no more)."""
_ENOUGH = 3
"""Least number of steps for which the median is used instead of the mean."""


class Fetching:
    """What it took to prepare batches: sums over them."""

    def __init__(self, batches: int = 0, ns: int = 0, cpu_ns: int = 0, queued_ns: int | None = 0) -> None:
        self.batches, self.ns, self.cpu_ns, self.queued_ns = batches, ns, cpu_ns, queued_ns

    def add(self, other: Fetching) -> None:
        """Add the batches of another sum."""
        self.batches += other.batches
        self.ns += other.ns
        self.cpu_ns += other.cpu_ns
        if self.queued_ns is not None:
            self.queued_ns = None if other.queued_ns is None else self.queued_ns + other.queued_ns

    def facts(self) -> dict[str, Any]:
        """The sums in the form that the trace contains."""
        return {"batches": self.batches, "ns": self.ns, "cpu_ns": self.cpu_ns, "queued_ns": self.queued_ns}


class _Nesting(threading.local):
    """Whether this thread is fetching a batch, so that a loader within a loader does not count twice."""

    def __init__(self) -> None:
        self.is_inside = False


class FetchClock:
    """Measures fetches of this process; a fetch that ends with an exception, as the end of an epoch, does not count."""

    def __init__(self) -> None:
        self._nesting = _Nesting()

    def measure(self, fetch: Callable[[Any], Any], iterator: Any, then: Callable[[Any, Fetching], None]) -> Any:
        """Fetch a batch, tell what it took, and return it.

        The CPU time is that of all threads, so work that the loader hands to other threads is no waiting.

        Args:
            fetch: Returns the next batch of an iterator.
            iterator: The iterator.
            then: Told the iterator and the sums of this batch.
        """
        if self._nesting.is_inside:
            return fetch(iterator)
        self._nesting.is_inside = True
        try:
            before, cpu, start = scheduled_ns(), time.process_time_ns(), time.perf_counter_ns()
            batch = fetch(iterator)
            end, cpu_end, after = time.perf_counter_ns(), time.process_time_ns(), scheduled_ns()
        finally:
            self._nesting.is_inside = False
        waited = None if before is None or after is None else after[1] - before[1]
        then(iterator, Fetching(1, end - start, cpu_end - cpu, waited))
        return batch


class Seen:
    """Counts and settings of the program as plain data; keeps none of its objects alive."""

    def __init__(self) -> None:
        self.loaders: dict[int, dict[str, Any]] = {}
        self._iterators: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.autocast: set[tuple[str, str]] = set()
        self.optimizers: dict[int, weakref.ref[Any]] = {}
        self.has_scaler = False
        self.frames: list[str] = []
        """Functions of installed packages that were running when the first step ended, the innermost first."""
        self.backwards = 0
        """Backward passes since the last step ended."""
        self.batches = 0
        """Batches since the last step ended."""
        self._samples: SampleClock | None = None
        self.generates = False
        """Whether a method `generate` calls the outermost module, once for each token."""
        self.start_counting()

    def start_counting(self) -> None:
        """Start to count with the next step."""
        self.backwards = self.batches = 0
        self._backwards = self._called_rows = self._steps = 0
        self._batches: deque[int] = deque(maxlen=_KEPT)
        self._rows: deque[int] = deque(maxlen=_KEPT)
        self._fetching: defaultdict[int, Fetching] = defaultdict(Fetching)
        self._fetched: defaultdict[int, Fetching] = defaultdict(Fetching)
        self._collecting: list[int] = []
        self._collected: list[int] = []

    def step_ended(self, *, counts: bool, is_recorded: bool) -> None:
        """End a step, and add its counts if it is to be counted; what batches cost, if it was recorded."""
        for loader, fetching in self._fetching.items() if is_recorded else ():
            self._fetched[loader].add(fetching)
        self._fetching.clear()
        self._collected += self._collecting if is_recorded else ()
        self._collecting.clear()
        if counts:
            self._steps += 1
            self._backwards += self.backwards
            self._batches.append(self.batches)
            self._rows.append(self._called_rows)
        self._called_rows = 0
        self.backwards = self.batches = 0

    def loader(self, loader: Any, samples: SampleClock) -> None:
        """Record that a loader begins an epoch.

        Args:
            loader: The loader.
            samples: Measures what its samples cost.
        """
        self._samples = samples
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

    def garbage_collected(self, ns: int) -> None:
        """Record that a collection of all garbage took so long."""
        self._collecting.append(ns)

    def optimizer(self, optimizer: Any) -> None:
        """Record that an optimizer has stepped."""
        if id(optimizer) not in self.optimizers:
            self.optimizers[id(optimizer)] = weakref.ref(optimizer)

    def called(self, shape: tuple[int, ...]) -> None:
        """Record that the outermost module is called with a first tensor of a shape."""
        self._called_rows += shape[0] if shape else 0
        self.generates = self.generates or _is_called_by("generate")

    def autocast_entered(self, context: Any) -> None:
        """Record that an autocast region begins."""
        if getattr(context, "_enabled", False):
            dtype = str(getattr(context, "fast_dtype", "")).removeprefix("torch.")
            self.autocast.add((str(getattr(context, "device", "")), dtype))

    def facts(self) -> dict[str, Any]:
        """The counts and settings in the form that the trace contains."""
        fetched = {loader: sums.facts() for loader, sums in self._fetched.items()}
        loaders = [
            facts | {"fetching": fetched.get(loader), "samples": self._samples.facts(loader) if self._samples else None}
            for loader, facts in self.loaders.items()
        ]
        return {
            "loaders": sorted(loaders, key=lambda facts: -facts["epochs"]),
            "autocast": [{"device": device, "dtype": dtype} for device, dtype in sorted(self.autocast)],
            "has_grad_scaler": self.has_scaler,
            "frames": self.frames,
            "backward_per_step": self._backwards / self._steps if self._steps else None,
            "batches_per_step": _usual(self._batches),
            "rows_per_step": _usual(self._rows) or None,
            "generates": self.generates,
            "garbage": {"collections": len(self._collected), "ns": sum(self._collected)},
        }


def _usual(counts: Collection[int]) -> float | None:
    """What a usual step has: the median of three or more, as of the times; an evaluation now and then is in neither."""
    if not counts:
        return None
    return float(statistics.median(counts) if len(counts) >= _ENOUGH else statistics.fmean(counts))


def _is_called_by(function: str) -> bool:
    """Whether one of the innermost functions that are running has this name."""
    frame = sys._getframe(1)
    for _ in range(_NEAR):
        if frame.f_back is None:
            return False
        frame = frame.f_back
        if frame.f_code.co_name == function:
            return True
    return False


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
