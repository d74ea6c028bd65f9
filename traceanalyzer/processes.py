"""Processes that work for this one. They import what this one does, and nothing from the current folder.

Traces come from other people, and a folder of traces is no place for code: Python looks for modules in the current
folder first when it is started with `-c` or `-m`, as `multiprocessing` starts its processes. A `json.py` or a checkout
of this project beside a trace would be run there.

Forked processes end with this one, even after a crash. Work that is shared among them (`shared`) is taken piece by
piece: each process takes the next one that has not begun. They have all that was computed before. A result does not
depend on the process that computes it; what fails in a process for any reason is repeated in this one.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")

_LONGEST_ALARM = 1 << 30
"""Most seconds of an alarm, as systems count them."""

_NUMBER = 2
"""Bytes of the number of a piece of work that is shared."""


def import_path() -> list[str]:
    """Where processes of this one look for modules: where it looks itself, without the current folder.

    Python puts that folder first for `-c`, `-m`, interactive sessions and notebooks. Where the user named it, as an
    entry of PYTHONPATH or of an editable install, it stays.
    """
    first = sys.path[0] if sys.path and not sys.flags.safe_path else None
    entries = sys.path[1:] if first == _current_folder() else sys.path
    return [entry for entry in entries if entry]


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - compared with a text
    except OSError:  # it was removed
        return None


@contextmanager
def own_imports() -> Iterator[None]:
    """Let Python that starts here import what this process does, and nothing from the current folder.

    It holds for what multiprocessing starts: servers, workers and trackers. Where this Python ignores its environment
    (`-E` without `-P`), so do they, and look into the current folder first, as this one did.
    """
    path = import_path()
    package = Path(__file__).parent
    found = PathFinder.find_spec(package.name, path)
    if found is None or found.origin is None or Path(found.origin).parent != package:
        path.insert(0, str(package.parent))  # this package was found in the current folder
    variables = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}
    before = {name: os.environ.get(name) for name in variables}
    path_before = sys.path[:]
    os.environ.update(variables)
    sys.path[:] = path  # multiprocessing tells it to the processes
    try:
        yield
    finally:
        sys.path[:] = path_before
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def can_fork() -> bool:
    """Whether this system can fork safely; what else it starts processes with takes longer than most files."""
    return sys.platform == "linux"


class Child:
    """The parent's end of a forked process, which shares all that the parent has in memory at this moment."""

    def __init__(self, work: Callable[..., None], arguments: Sequence[Any], others: Sequence[Child]) -> None:
        """Fork.

        Args:
            work: Function of the process, called with its end of the connection and the arguments.
            arguments: Used as they are in memory, nothing is copied.
            others: Children that were forked before it.

        Raises:
            OSError: There are no more processes, or no memory for them.
        """
        import multiprocessing  # noqa: PLC0415 - most reports need no other process

        how = multiprocessing.get_context("fork")
        self.connection, theirs = how.Pipe()
        inherited = [self.connection, *(child.connection for child in others)]
        self._process = how.Process(target=_run, args=(work, theirs, inherited, arguments), daemon=True)
        with no_interrupts(), warnings.catch_warnings():
            # Python warns of threads of others, which may hold locks; children need none of these.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        theirs.close()

    def stop(self) -> None:
        """Kill the process; it has no state that must be kept."""
        self.connection.close()
        self._process.kill()
        self._process.join()


@contextmanager
def no_interrupts() -> Iterator[None]:
    """Let processes that start here ignore Ctrl-C from the beginning, because the parent handles it."""
    if threading.current_thread() is not threading.main_thread():  # handlers can only be set in the main thread
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run(
    work: Callable[..., None],
    connection: Connection[Any, Any],
    inherited: Sequence[Connection[Any, Any]],
    arguments: Sequence[Any],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The terminal is the parent's, and a thread that draws there may hold its lock.
    warnings.simplefilter("ignore")
    sys.path[:] = import_path()
    for other in inherited:
        other.close()  # otherwise the end of the parent would go unnoticed
    work(connection, *arguments)


def shared(count: int, compute: Callable[[int], T], jobs: int) -> list[T]:
    """Compute what has the numbers from 0 on, by several processes that share the work.

    Args:
        count: How many there are.
        compute: Called with each number, in any order.
        jobs: How many processes, this one included.

    Raises:
        Exception: As from `compute`, in this process.
    """
    children: list[Child] = []
    taking, giving = os.pipe()
    try:
        os.write(giving, b"".join(number.to_bytes(_NUMBER, "little") for number in range(count)))
        os.close(giving)
        with contextlib.suppress(OSError):
            for _ in range(jobs - 1 if can_fork() else 0):
                children.append(Child(_compute_shared, (taking, compute), children))
        found = {number: compute(number) for number in _numbers(taking)}
        for child in children:
            with contextlib.suppress(EOFError, OSError):
                found |= child.connection.recv()
    finally:
        os.close(taking)
        for child in children:
            child.stop()
    return [found[number] if number in found else compute(number) for number in range(count)]


def _numbers(taking: int) -> Iterator[int]:
    """The numbers that are still free; reading from the pipe removes a number for all processes."""
    while number := os.read(taking, _NUMBER):
        yield int.from_bytes(number, "little")


def _compute_shared(connection: Connection[Any, Any], taking: int, compute: Callable[[int], Any]) -> None:
    """The work of a child process: compute until nothing is left or something fails, and send the results."""
    found: dict[int, Any] = {}
    with contextlib.suppress(Exception):  # the parent finds the same error, and raises it
        for number in _numbers(taking):
            found[number] = compute(number)
    with contextlib.suppress(Exception):  # the parent is gone, or will compute what cannot be sent
        connection.send(found)


def contained(compute: Callable[[], T], seconds: float) -> T:
    """Compute with code that this program does not trust to come to an end, or to leave it alone.

    It runs in a forked process, which is killed after its time. Where processes cannot be forked, or the result cannot
    be sent, it runs in a thread, which goes on after its time, and can still end the whole process.

    Args:
        compute: What to call; it raises nothing, as the exception would be lost.
        seconds: Most seconds that it may take.

    Raises:
        TimeoutError: It took longer.
        ChildProcessError: It ended its process.
    """
    sent = _computed_in_a_fork(compute, seconds) if can_fork() else b""
    if sent:
        with contextlib.suppress(Exception):  # what cannot be read, either
            result: T = pickle.loads(sent)  # noqa: S301 - from a process of this program
            return result
    return _computed_in_a_thread(compute, seconds)


def _computed_in_a_fork(compute: Callable[[], Any], seconds: float) -> bytes:
    """The result as it was sent; nothing if it cannot be sent, or there are no more processes.

    It is no `Child`, because workers of a batch may not have children that multiprocessing knows of.
    """
    taking, giving = os.pipe()
    with no_interrupts(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # as for `Child`
        try:
            child = os.fork()
        except OSError:
            os.close(taking)
            os.close(giving)
            return b""
        if child == 0:
            _give(compute, giving, seconds)
    os.close(giving)
    try:
        sent = _take(taking, seconds)
    finally:
        os.close(taking)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if not sent:
        raise ChildProcessError(_ending(os.waitstatus_to_exitcode(status)))
    return sent[len(_SENT) :]


_SENT = b"s"
"""Comes before a result, so that one that cannot be sent differs from none."""


def _give(compute: Callable[[], Any], giving: int, seconds: float) -> None:
    """What the forked process does; it never returns."""
    code = 1
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(math.ceil(min(seconds, _LONGEST_ALARM)) + 1)  # if the parent is killed
        warnings.simplefilter("ignore")
        sys.path[:] = import_path()
        result = compute()
        try:
            sent = pickle.dumps(result)
        except Exception:
            sent = b""
        with os.fdopen(giving, "wb") as file:
            file.write(_SENT + sent)
        code = 0
    finally:
        os._exit(code)


def _take(taking: int, seconds: float) -> bytes:
    """All that is sent until the other end is closed."""
    end = time.monotonic() + seconds
    sent: list[bytes] = []
    while True:
        ready, _, _ = select.select([taking], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise TimeoutError
        piece = os.read(taking, 1 << 16)
        if not piece:
            return b"".join(sent)
        sent.append(piece)


def _ending(code: int) -> str:
    """How a process ended that sent nothing."""
    with contextlib.suppress(ValueError):
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"it ended its process with exit code {code}"


def _computed_in_a_thread(compute: Callable[[], T], seconds: float) -> T:
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(compute()), daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if not results:
        raise TimeoutError
    return results[0]
