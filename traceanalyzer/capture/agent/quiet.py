"""The profiler's own log lines do not belong into the program's output."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_KINETO = "KINETO_LOG_LEVEL"
_SILENT = "99"
"""Above every level that kineto knows."""
_ERROR = 2
"""c10's level from which on torch still writes: `LOG(WARNING)` is 1."""


@contextlib.contextmanager
def kineto() -> Iterator[None]:
    """While the block runs, kineto reads a level at which it logs nothing, unless the user has chosen one.

    It reads the level when a recording is prepared; outside the block the program's environment is its own.
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
    """Warnings of the CPU allocator about memory from before the recording, which come with `profile_memory`."""

    def __init__(self, torch: Any) -> None:
        self._level = _level(torch)
        self._before: int | None = None

    def silence(self) -> None:
        """Until `restore`, torch's C++ writes errors only."""
        if self._level is not None and self._before is None and self._level.value < _ERROR:
            self._before, self._level.value = self._level.value, _ERROR

    def restore(self) -> None:
        """As before."""
        if self._level is not None and self._before is not None:
            self._level.value, self._before = self._before, None


def _level(torch: Any) -> ctypes.c_int | None:
    """The level that `TORCH_CPP_LOG_LEVEL` sets, where this build of torch lets it be found."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        return ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        return None
