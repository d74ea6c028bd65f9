"""Keeps the profiler's own log lines out of the program's output."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_KINETO = "KINETO_LOG_LEVEL"
_SILENT = "99"
"""A log level above all those of kineto."""
_ERROR = 2
"""The lowest c10 log level that torch still writes; `LOG(WARNING)` is 1."""


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
