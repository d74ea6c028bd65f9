"""What a sample of a dataset costs, and which function prepares it: in this process, or in forked workers.

Workers are copies of the process that starts them, with its hooks. They write what they measured into memory that they
share with it, each worker into places of its own.
"""

from __future__ import annotations

import functools
import mmap
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from .facts import place
from .threads import scheduled_ns

_WORKERS = 64
"""Number of workers that have a place; what others do is not measured."""
_PLACE = struct.Struct("<4q")
_TORCH = "torch.utils.data"


class SampleClock:
    """Measures how long it takes to fetch samples and to collate them, without waiting for a core, by dataset.

    Args:
        project: Folder of the project; paths in it are kept, relative to it.
    """

    def __init__(self, project: str) -> None:
        self._project = project
        self._named: dict[int, tuple[int, dict[str, str | None]]] = {}
        self._own: dict[int, list[int]] = {}
        self._shared: dict[int, mmap.mmap] = {}

    def begins(self, loader: Any) -> None:
        """Record that a loader begins an epoch, before it starts workers."""
        dataset = getattr(loader, "dataset", None)
        names = {"function": self._function(dataset), "collate": self._name(getattr(loader, "collate_fn", None))}
        self._named[id(loader)] = id(dataset), names
        if getattr(loader, "num_workers", 0) and id(dataset) not in self._shared:
            self._shared[id(dataset)] = mmap.mmap(-1, _WORKERS * _PLACE.size)

    def timed(self, original: Callable[..., Any], *, is_wanted: Callable[[], bool]) -> Callable[..., Any]:
        """Wrap `fetch` of torch's fetchers, which takes the samples of a batch and collates them.

        Args:
            original: The method.
            is_wanted: Whether batches that this process prepares itself are measured now.
        """

        @functools.wraps(original)
        def fetch(fetcher: Any, index: Any) -> Any:
            worker = _worker()
            if worker is None and not is_wanted():
                return original(fetcher, index)
            collate, collating = fetcher.collate_fn, [0]

            def measured(samples: Any) -> Any:
                since = _clock()
                batch = collate(samples)
                collating[0] = _clock() - since
                return batch

            fetcher.collate_fn = measured
            start = _clock()
            try:
                batch = original(fetcher, index)
            finally:
                fetcher.collate_fn = collate
            samples = len(index) if getattr(fetcher, "auto_collation", False) else 1
            self._add(fetcher.dataset, worker, (1, samples, _clock() - start, collating[0]))
            return batch

        return fetch

    def _add(self, dataset: Any, worker: int | None, measured: tuple[int, int, int, int]) -> None:
        if worker is None:
            sums = self._own.setdefault(id(dataset), [0, 0, 0, 0])
            sums[:] = [old + new for old, new in zip(sums, measured, strict=True)]
            return
        shared = self._shared.get(id(dataset))
        if shared is not None and worker < _WORKERS:
            _PLACE.pack_into(shared, worker * _PLACE.size, *map(sum, zip(_of(shared, worker), measured, strict=True)))

    def facts(self, loader: int) -> dict[str, Any] | None:
        """What was measured of a loader's dataset, in the form that the trace contains; None if nothing was.

        Args:
            loader: `id` of the loader.
        """
        dataset, names = self._named.get(loader, (0, {}))
        shared = self._shared.get(dataset)
        parts = [self._own.get(dataset, [0, 0, 0, 0])]
        parts += [] if shared is None else [list(_of(shared, worker)) for worker in range(_WORKERS)]
        batches, samples, ns, collating = map(sum, zip(*parts, strict=True))
        if not samples:
            return None
        return {"batches": batches, "samples": samples, "ns": ns, "collate_ns": collating, **names}

    def _function(self, dataset: Any) -> str | None:
        """The function that makes a sample: of the dataset itself, not of torch's wrappers around it."""
        while type(dataset).__module__.startswith(_TORCH) and hasattr(dataset, "dataset"):
            dataset = dataset.dataset
        for name in ("__getitems__", "__getitem__", "__iter__"):
            method = getattr(type(dataset), name, None)
            if method is not None and hasattr(method, "__code__"):
                return self._name(method)
        return None

    def _name(self, function: Any) -> str | None:
        """A function as the profiler writes frames, with its class; None for what has no code, or is torch's own."""
        function = getattr(function, "__func__", function)
        if isinstance(function, functools.partial):
            function = function.func
        if not hasattr(function, "__code__") and hasattr(type(function), "__call__"):  # noqa: B004 - its code is needed
            function = type(function).__call__
        code = getattr(function, "__code__", None)
        is_torchs = str(getattr(function, "__module__", "")).startswith(_TORCH)
        return None if code is None or is_torchs else place(code, self._project, function.__qualname__)


def _clock() -> int:
    """Time in ns, without that in which this thread waited for a core."""
    scheduled = scheduled_ns()
    return time.perf_counter_ns() - (0 if scheduled is None else scheduled[1])


def _of(shared: mmap.mmap, worker: int) -> tuple[int, ...]:
    return _PLACE.unpack_from(shared, worker * _PLACE.size)


def _worker() -> int | None:
    """Number of the worker process that this is; None in any other."""
    module = sys.modules.get("torch.utils.data._utils.worker")
    info = getattr(module, "_worker_info", None)
    return None if info is None else int(info.id)
