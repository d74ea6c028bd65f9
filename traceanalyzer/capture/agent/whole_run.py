"""Records the whole run from the start, in case the program makes no steps; stops when steps seem likely."""

from __future__ import annotations

import _thread
import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .recording import ProfilerRun
from .tools import Tools

_DRIVERS = {
    "cuda": ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg"),
    "xpu": ("/dev/dri/renderD128",),
}
"""Kinds of devices, and files that exist if the machine may have one: querying the driver would initialize it."""

_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class WholeRun:
    """A recording that starts at once, or when the device is initialized, and stops on request or at a time limit."""

    def __init__(self, tools: Tools) -> None:
        self.held: ProfilerRun | None = None
        """The recording, once it has stopped."""
        self.was_cut = False
        """Whether the time limit ended the recording."""
        self._tools = tools
        self._running: ProfilerRun | None = None
        self._is_over = tools.settings.limit_s <= 0
        self._callbacks: list[Any] = []
        self._ended = _thread.allocate_lock()
        self._ended.acquire()

    def begin(self) -> None:
        """Start now; on a machine that may have a device, start when the program initializes it."""
        kinds = [kind for kind in _DRIVERS if self._may_have(kind)]
        chosen = [
            getattr(self._tools.torch.profiler.ProfilerActivity, name) for name in ("CPU", *map(str.upper, kinds))
        ]
        if kinds:
            getattr(self._tools.torch, kinds[0])._lazy_call(lambda: self.start(chosen))
        else:
            self.start(chosen)

    def _may_have(self, kind: str) -> bool:
        module = getattr(self._tools.torch, kind, None)
        is_compiled = getattr(module, "_is_compiled", None)
        if is_compiled is None or not is_compiled() or not hasattr(module, "_lazy_call"):
            return False
        return any(Path(path).exists() for path in _DRIVERS[kind])

    def start(self, activities: list[Any] | None) -> None:
        """Start now, with these activities or all that the machine supports."""
        if self._is_over or self._tools.rivals.is_on or threading.current_thread() is not threading.main_thread():
            return
        try:
            self._running = ProfilerRun(self._tools, activities=activities)
            self._running.start()
        except Exception:  # then there is none
            self._running, self._is_over = None, True
            return
        # Not a threading.Thread, because the program could count those.
        _thread.start_new_thread(self._watch_the_time, ())

    def _watch_the_time(self) -> None:
        """Ask the main thread to stop at the limit, because the profiler must stop in the thread that started it."""
        if not self._ended.acquire(timeout=self._tools.settings.limit_s):
            self._ask_main_thread(self._cut)

    def _ask_main_thread(self, call: Callable[[], None]) -> None:
        """Let the main thread call a function when it next runs Python."""

        def called(_: Any) -> int:
            call()
            return 0

        self._callbacks.append(_CALL(called))  # kept alive until it is called
        ctypes.pythonapi.Py_AddPendingCall(self._callbacks[-1], None)

    def _cut(self) -> None:
        self.was_cut = self._running is not None
        self.end()

    def end(self) -> None:
        """Stop, and keep the recording."""
        self._is_over = True
        if self._running is None:
            return
        if threading.current_thread() is not threading.main_thread():
            self._ask_main_thread(self.end)
            return
        running, self._running = self._running, None
        self._ended.release()
        try:
            running.stop()
        except Exception:  # then there is nothing to keep
            return
        self.held = running

    @property
    def is_on(self) -> bool:
        """Whether it is recording now."""
        return self._running is not None

    def drop(self) -> None:
        """Discard the recording, because steps were recorded."""
        self.held = None
