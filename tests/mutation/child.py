"""Runs the tool in a child that is forked from a warm process: as apart as a program, without its start."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import pkgutil
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import traceanalyzer

_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss; getrusage(2) of each system
_CPU_S = 60
_WALL_S = 240
_MEMORY = 6 << 30


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    code: int
    """Exit code, or the negative number of the signal that ended it."""
    out: bytes
    err: str
    cpu_s: float
    memory: int
    """Memory in bytes beyond that of the parent process."""


_COLD = (".capture", ".cluster", ".remote", "__main__")
"""Modules that no case needs, and that take long to import or must not be."""


def warm(trace: Path) -> None:
    """Import everything that some command imports, and load the fonts of charts with it."""
    for module in pkgutil.walk_packages(traceanalyzer.__path__, "traceanalyzer."):
        if not any(name in module.name for name in _COLD):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    report = traceanalyzer.analyze(traceanalyzer.load(trace))
    for form in ("html", "terminal", "markdown"):
        traceanalyzer.render(report, form)
    gc.collect()
    gc.freeze()


def run(arguments: Sequence[str], folder: Path) -> Outcome:
    """Run a command in a folder."""
    out, err = folder / ".out", folder / ".err"
    code, usage = _forked(lambda: _command(arguments, folder, out, err))
    memory = max(0, usage.ru_maxrss * _UNIT - _floor())
    text = err.read_text("utf-8", "replace") if err.exists() else ""
    data = out.read_bytes() if out.exists() else b""
    return Outcome(code, data, text, usage.ru_utime + usage.ru_stime, memory)


def _floor() -> int:
    """Peak memory of a child that does nothing."""
    return _forked(lambda: None)[1].ru_maxrss * _UNIT


def _forked(work: object) -> tuple[int, resource.struct_rusage]:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            work()  # type: ignore[operator]
        finally:
            os._exit(0)
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage


def _command(arguments: Sequence[str], folder: Path, out: Path, err: Path) -> None:
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(_WALL_S)
    for number, file in ((0, Path(os.devnull)), (1, out), (2, err)):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(file, flags), number)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, mode), encoding="utf-8", write_through=True)  # type: ignore[type-var]
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    sys.argv = ["traceanalyzer", *arguments]
    warnings.resetwarnings()
    warnings.simplefilter("always")
    code = 0
    try:
        from traceanalyzer.cli import main  # noqa: PLC0415 - the streams must be in place

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)
