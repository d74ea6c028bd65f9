"""The command line. It parses, calls and prints. Asking what it can do imports nothing; a command imports click.

Each command is a module with its name: `report`, `finding`, `render`, `export`, `ranks`, `batch`, `diff`, `verify`,
`whatif`, `query`, `reproduce`, `capture`, `trim`, `anonymize`, `mcp`, `rules`. They share:

    commands      their names, and what `--help` says, without any library
    program       the group, whose commands are imported when they are used
    parameters    options that several commands take
    suggestions   corrections of mistyped commands
    delivery      to the screen, to files, into the browser
    commits       what comments name: commits and addresses of pages
    progress      progress on standard error
    one_input     the trace that a folder leads to
    card          the option --card
    folder_tools  the tools of the server `mcp`

No other package talks to a terminal or sets exit codes.
"""

from __future__ import annotations

import os
import sys

from traceanalyzer._version import __version__
from traceanalyzer.cli.commands import COMMANDS, COMPLETION, EXAMPLE, one_line, overview
from traceanalyzer.errors import TraceAnalyzerError

__all__ = ["COMMANDS", "COMPLETION", "EXAMPLE", "main", "one_line", "overview"]

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")
"""Keeps numpy's linear algebra, which is hardly used here, from starting a thread for each core: each of them waits for
work in a loop and so takes some 0.05 s of CPU before it sleeps."""

_MALLOC_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
"""Environment variables by which the user decides how glibc keeps memory, see mallopt(3)."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of the parameters, from malloc.h."""
_KEPT_BYTES = 64 << 20
"""Most bytes at the end of the heap that stay (own choice: some columns of a trace of a gigabyte)."""
_OWN_MAPPING_BYTES = 32 << 20
"""Bytes from which on an array is mapped alone and given back when it is freed: the most that glibc allows."""

_STACK_SLOTS = 1 << 15
"""Size of the frame in which everything runs (own choice: its calls get a chunk of memory with room for a thousand)."""

_NAMESAKE = "traceanalyzer.py"
"""Modules that the other project installs, whose distribution is called `traceanalyzer`."""

LONGEST_MESSAGE = 500
"""Characters of an error; own choice: some lines of a terminal."""

UNUSABLE = 2
INTERRUPTED = 130


def main() -> None:
    """Run the program; errors become one line and an exit code."""
    if sys.stderr is None:  # closed: what would be said there is for nobody
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - pathlib would have to be imported; stays open
    for stream in (sys.stdout, sys.stderr):
        # Names of kernels may contain characters that the console cannot show.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        _run(sys.argv[1:], os.environ.get(COMPLETION))
        if sys.stdout is not None:
            sys.stdout.flush()
    except TraceAnalyzerError as error:
        _fail(str(error))
    except MemoryError:
        _fail("there is not enough memory; close other programs, cut the trace (traceanalyzer trim), or use --jobs 1")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        forget_output()
    except OSError as error:
        forget_output()
        told = error.strerror or str(error)
        if isinstance(error.filename, str):
            _fail(f"{error.filename}: {told}")
        if isinstance(error, ConnectionError | TimeoutError):
            _fail(f"a connection failed: {told}; check the addresses that were given")
        _fail(f"standard output: cannot be written: {told}")


def _run(arguments: list[str], completion: str | None) -> None:
    """The questions that need no library are answered here, four times as fast."""
    if completion:
        from traceanalyzer.cli.program import complete  # noqa: PLC0415 - imports click

        complete(completion)
    elif arguments in ([], ["-h"], ["--help"]):
        print(overview(), end="")  # noqa: T201 - this is the place that prints
    else:
        _warn_of_namesake()
        if arguments == ["--version"]:
            print(f"traceanalyzer {__version__}")  # noqa: T201
            return
        if arguments[0] != "capture":  # the program that it runs keeps its environment
            os.environ.setdefault(*ONE_THREAD)
            _keep_freed_memory()
        from traceanalyzer.cli.program import run  # noqa: PLC0415 - imports click

        run(arguments)


# CPython has the frames of calls in chunks of 16 KB, and gives a chunk back once no frame is in it. A loop of calls at
# the border of two chunks maps and unmaps one for each call: up to 0.1 s in a report. The chunk of a large frame is so
# large that there is no border.
_run.__code__ = _run.__code__.replace(co_stacksize=_STACK_SLOTS)


def _keep_freed_memory() -> None:
    """Keep freed memory of arrays for the next arrays, in this process and those that it forks, where glibc runs.

    Analyses make many columns as long as a table, one after another. glibc returns freed memory to the system at once,
    and the system clears each page that is requested again, which took more than a tenth of the time of a report. The
    kept memory is less than the memory that was in use before.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _MALLOC_SETTINGS):
        return
    import ctypes  # noqa: PLC0415 - --help does not need it

    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    except (AttributeError, OSError):
        pass  # another C library


def _warn_of_namesake() -> None:
    """Warn about another project with a module of the same name: in this environment, this package is imported."""
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - pathlib would have to be imported
    file = os.path.join(os.path.dirname(package), _NAMESAKE)  # noqa: PTH118, PTH120
    if os.path.exists(file):  # noqa: PTH110
        message = (
            f"warning: {file} belongs to another project that is called traceanalyzer (for ns-2 network traces), "
            "which cannot be imported beside this one: pip uninstall traceanalyzer"
        )
        print(f"traceanalyzer: {one_line(message)}", file=sys.stderr)  # noqa: T201


def forget_output() -> None:
    """What Python flushes at exit goes nowhere: the reader of our output is gone, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _shortened(line: str) -> str:
    """A message that quotes a page of a file is not a line; its ends say where, and what to do."""
    return (
        line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE // 2]} ... {line[-LONGEST_MESSAGE // 2 :]}"
    )


def _fail(message: str) -> None:
    try:  # noqa: SIM105 - contextlib would have to be imported
        print(f"traceanalyzer: {_shortened(one_line(message))}", file=sys.stderr)  # noqa: T201
    except OSError:
        pass  # the output is closed; the exit code remains
    sys.exit(UNUSABLE)
