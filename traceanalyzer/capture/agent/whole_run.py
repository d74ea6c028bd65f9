"""Records the whole run from the start, in case the program makes no steps; stops when it makes some, or at a limit."""

from __future__ import annotations

import _thread
import ctypes
import threading
import time
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


_LOOK_S = 0.05
"""How often the size of the recording is looked at."""
_UNANSWERED_S = 2.0
"""After this time without an answer the main thread is taken to wait in a call for something else, as for a thread."""

TIME, SIZE = "time", "size"


class WholeRun:
    """A recording that starts at once, or when the device is initialized, and stops on request or at a limit."""

    def __init__(self, tools: Tools) -> None:
        self.held: ProfilerRun | None = None
        """The recording, once it has stopped."""
        self.cut_by: str | None = None
        """Which limit ended the recording, `TIME` or `SIZE`; None if none did."""
        self.length_s = 0.0
        """How long it recorded."""
        self._tools = tools
        self._running: ProfilerRun | None = None
        self._is_over = tools.settings.limit_s <= 0
        self._since = 0.0
        self._callbacks: list[Any] = []
        self._ending = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._ended.acquire()

    def begin(self) -> None:
        """Start now; on a machine that may have a device, start when the program initializes it."""
        kinds = [kind for kind in _DRIVERS if self._may_have(kind)]
        is_light = self._tools.settings.light
        names = [*([] if is_light else ["CPU"]), *map(str.upper, kinds)]
        chosen = [getattr(self._tools.torch.profiler.ProfilerActivity, name) for name in names]
        if kinds:
            getattr(self._tools.torch, kinds[0])._lazy_call(lambda: self.start(chosen))
        elif not is_light:
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
            self._running = ProfilerRun(self._tools, activities=activities, all_threads=True)
            self._running.start()
        except Exception:  # then there is none
            self._running, self._is_over = None, True
            return
        self._since = time.monotonic()
        # Not a threading.Thread, because the program could count those.
        _thread.start_new_thread(self._watch, (self._running,))

    def _watch(self, running: ProfilerRun) -> None:
        """Cut the recording at a limit: in the main thread, or here if that does not answer."""
        left = self._tools.settings.limit_s
        while not self._ended.acquire(timeout=min(max(left, 0.0), _LOOK_S)):
            left = self._tools.settings.limit_s - (time.monotonic() - self._since)
            if left <= 0 or running.is_large:
                self.cut_by = TIME if left <= 0 else SIZE
                break
        else:
            return
        self._ask_main_thread(self.end)
        if running.stops_anywhere and not self._ended.acquire(timeout=_UNANSWERED_S):
            self._stop()

    def _ask_main_thread(self, call: Callable[[], None]) -> None:
        """Let the main thread call a function when it next runs Python."""

        def called(_: Any) -> int:
            call()
            return 0

        self._callbacks.append(_CALL(called))  # kept alive until it is called
        ctypes.pythonapi.Py_AddPendingCall(self._callbacks[-1], None)

    def end(self) -> None:
        """Stop, and keep the recording."""
        self._is_over = True
        if self._running is None:
            return
        if threading.current_thread() is threading.main_thread() or self._running.stops_anywhere:
            self._stop()
        else:
            self._ask_main_thread(self.end)

    def _stop(self) -> None:
        with self._ending:  # one thread stops it, another one that wants to waits for it
            running, self._running = self._running, None
            if running is None:
                return
            self.length_s = time.monotonic() - self._since
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
