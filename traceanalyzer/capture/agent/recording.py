"""One recording with torch.profiler: some steps, or everything between start and stop."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from .tools import Tools

_KINETO = "KINETO_LOG_LEVEL"
_SILENT = "99"
"""A log level above all those of kineto."""
_ERROR = 2
"""The lowest c10 log level that torch still writes; `LOG(WARNING)` is 1."""


MOST_BYTES = 64 << 20
"""By how much the heap may grow while steps are recorded: 100,000 to 160,000 events with shapes, of 400 to 500 bytes
each while the profiler runs, and 3,500 to 5,000 when it has stopped (measured with torch 2.13)."""
MOST_BYTES_WITHOUT_STEPS = 32 << 20
"""The same of a recording of everything: about 80,000 events, and 300 MB when it has stopped."""


_RARELY = 100
"""Times as long as asking for the heap takes, it is not asked again (own choice: 1 % of the time)."""
_MEMORY = "/proc/self/statm"
"""Sizes of the process in pages, the second one what is resident (proc(5) of Linux)."""


class _Heap(ctypes.Structure):
    """What `mallinfo2` of glibc returns; large tensors are mapped, and not in `uordblks`."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "top",
        )
    ]


def heap_bytes() -> int:
    """Memory in use in small pieces, which is where the profiler keeps events; 0 if the system does not tell."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):  # before glibc 2.33, and other C libraries
        return 0
    ask.restype = _Heap
    return int(ask().uordblks)


def resident_bytes() -> int | None:
    """Memory of this process that is not swapped out; None if the system does not tell."""
    try:
        opened = os.open(_MEMORY, os.O_RDONLY)
        try:
            return int(os.read(opened, 100).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        finally:
            os.close(opened)
    except (OSError, ValueError, IndexError):
        return None


class Growth:
    """How much memory the profiler's events may take, asked so rarely that asking costs a step next to nothing.

    The heap is asked only when the whole process has grown as much, because glibc goes through all free pieces to
    answer: a millisecond and more after some thousand events, and all of it within the step that is recorded.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._resident, self._heap = resident_bytes(), heap_bytes()
        self._next = 0.0

    @property
    def is_large(self) -> bool:
        """Whether events take about as much as can be written in some seconds."""
        now, resident = time.perf_counter(), resident_bytes()
        has_grown = resident is None or self._resident is None or resident - self._resident > self._most_bytes
        if not has_grown or now < self._next:
            return False
        is_large = heap_bytes() - self._heap > self._most_bytes
        after = time.perf_counter()
        self._next = after + _RARELY * (after - now)
        return is_large


@contextlib.contextmanager
def kineto() -> Iterator[None]:
    """Make kineto log nothing while the block runs, unless the user has chosen a level.

    Kineto reads the level when a recording is prepared; after the block the program's environment is restored.
    """
    if _KINETO in os.environ:
        yield
        return
    os.environ[_KINETO] = _SILENT
    try:
        yield
    finally:
        os.environ.pop(_KINETO, None)


class AllocatorWarnings:
    """Silences the CPU allocator's warnings about older memory, which come with `profile_memory`."""

    def __init__(self, torch: Any) -> None:
        self._level = _level(torch)
        self._before: int | None = None

    def silence(self) -> None:
        """Let torch's C++ code log only errors, until `restore`."""
        if self._level is not None and self._before is None and self._level.value < _ERROR:
            self._before, self._level.value = self._level.value, _ERROR

    def restore(self) -> None:
        """Restore the previous log level of torch's C++ code."""
        if self._level is not None and self._before is not None:
            self._level.value, self._before = self._before, None


def _level(torch: Any) -> ctypes.c_int | None:
    """The variable that `TORCH_CPP_LOG_LEVEL` sets, or None if this build of torch does not export it."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        return ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        return None


class ProfilerRun:
    """A `torch.profiler.profile` that is driven step by step.

    Args:
        tools: Objects that all recordings in this process share.
        warmup: Steps in which the profiler is on and discards what it records.
        active: Number of steps to record; None records until `stop` without marking steps.
        activities: Activities to record; None for all that the machine supports.
        all_threads: Whether to record all threads, where torch can: then any thread can stop it. Otherwise it records
            the thread that starts it, which must stop it, and the threads of its backward passes.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        warmup: int = 0,
        active: int | None = None,
        activities: list[Any] | None = None,
        all_threads: bool = False,
    ) -> None:
        self.is_on = False
        self.steps = 0
        """Number of complete steps that are recorded."""
        self.marks_ns: list[int] = []
        """Where only devices are recorded, so that the profiler marks no steps: when they begin and the last one ends,
        in ns of Unix time."""
        self._growth: Growth | None = None
        self._tools = tools
        self._warmup, self._active = warmup, active
        settings = tools.settings
        self._allocator = AllocatorWarnings(tools.torch) if settings.profile_memory else None
        self._done_steps = 0
        options = _of_all_threads(tools.torch) if all_threads else {}
        modules = {"with_modules": True} if settings.with_modules and not _deprecates_modules(tools.torch) else {}
        self.stops_anywhere = bool(options)
        """Whether any thread can stop it."""
        with tools.rivals.ours():
            self.profile = tools.torch.profiler.profile(
                activities=activities,
                schedule=None if active is None else self._action,
                record_shapes=settings.record_shapes and not settings.light,
                with_stack=settings.with_stack,
                profile_memory=settings.profile_memory,
                with_flops=settings.with_flops,
                **options,
                **modules,
            )

    def _action(self, step: int) -> Any:
        actions = self._tools.torch.profiler.ProfilerAction
        return actions.WARMUP if step < self._warmup else actions.RECORD

    @property
    def is_recording(self) -> bool:
        """Whether the recording contains anything that is not yet saved."""
        return self.is_on and self._done_steps >= self._warmup

    def start(self) -> None:
        """Begin to warm up, or to record if there is no warm-up."""
        with self._tools.rivals.ours(), kineto():
            if self._allocator is not None:
                self._allocator.silence()
            self.profile.start()
        self.is_on = True
        self._mark()
        self._growth = Growth(MOST_BYTES if self._active else MOST_BYTES_WITHOUT_STEPS)

    @property
    def is_large(self) -> bool:
        """Whether it holds about as much as can be written in some seconds."""
        return self._growth is not None and self._growth.is_large

    def step(self) -> bool:
        """End a step. Returns True after the last one, when the profiler is off."""
        self._done_steps += 1
        self.steps = max(0, self._done_steps - self._warmup)
        self._mark()
        if self.steps == self._active:
            self.stop()
            return True
        with self._tools.rivals.ours(), kineto():
            self.profile.step()
        return False

    def _mark(self) -> None:
        if self._tools.settings.light and self._active and self.is_recording:
            self.marks_ns.append(time.time_ns())

    def stop(self) -> None:
        """Stop, in the thread that started it. Anything recorded so far can be saved."""
        self.is_on = False
        try:
            self._tools.ranges.close(self._tools.torch)
            with self._tools.rivals.ours(), kineto():
                self.profile.stop()
        finally:
            if self._allocator is not None:
                self._allocator.restore()

    def export(self, path: Path) -> None:
        """Write the profiler's JSON; this can be done only once."""
        self.profile.export_chrome_trace(str(path))

    def tables(self) -> str:
        """Tables of `key_averages()`: sorted by CPU time, sorted by device time, and grouped by input shape."""
        averages = self.profile.key_averages()
        device = _device_order(averages)
        parts = {"By time on the CPU": averages.table("self_cpu_time_total")}
        if device is not None:
            parts["By time on the device"] = averages.table(device)
        if self.profile.record_shapes:
            by_shape = self.profile.key_averages(group_by_input_shape=True)
            parts["By shape of the inputs"] = by_shape.table(device or "self_cpu_time_total")
        return "\n".join(f"# {title}\n\n{table}" for title, table in parts.items())


def _of_all_threads(torch: Any) -> dict[str, Any]:
    """The option of `torch.profiler.profile` that records all threads; empty before torch 2.8."""
    try:
        return {"experimental_config": torch._C._profiler._ExperimentalConfig(profile_all_threads=True)}
    except (AttributeError, TypeError):
        return {}


def _deprecates_modules(torch: Any) -> bool:
    """Whether torch warns of `with_modules`, as it does from 2.14 on; stacks have the modules in any version."""
    numbers = str(torch.__version__).split(".")[:2]
    return all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) >= (2, 14)


def _device_order(averages: Any) -> str | None:
    """Name of the column of device time to sort by (it changed in torch 2.5); None without device time."""
    for name in ("self_device_time_total", "self_cuda_time_total"):
        if any(getattr(row, name, 0) > 0 for row in averages):
            return name
    return None
