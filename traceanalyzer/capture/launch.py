"""Starts a program with the capture in it, forwards signals, and collects the recordings of its processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer.capture.agent import tracefile
from traceanalyzer.capture.agent.importing import HOOKED, NO_TORCH, SCRATCH, VARIABLE
from traceanalyzer.capture.agent.recorder import LARGE
from traceanalyzer.capture.agent.settings import ASKED, SUFFIX, Settings
from traceanalyzer.capture.agent.tracefile import SUFFIX as TRACE_SUFFIX
from traceanalyzer.capture.agent.whole_run import SIZE, TIME
from traceanalyzer.errors import MissingDependencyError, OutputError, UsageError

BOOTSTRAP = Path(__file__).parent / "agent" / "bootstrap"

_PASSED_ON = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
_LOOK_FOR_TORCH = """
import sys
sys.path = [entry for entry in sys.path if entry]  # not in the current folder, which -c looks into first
import importlib.util
sys.exit(0 if importlib.util.find_spec('torch') else 86)
"""
_FROM_THE_KERNEL = 128
"""`si_code` of a signal that the terminal sent, and that the program has received too."""


class Note(msgspec.Struct, frozen=True):
    """What one process of the program reported; see `agent.settings`."""

    rank: int | None = None
    trace: str | None = None
    facts: dict[str, Any] | None = None
    earlier: list[tuple[str, dict[str, Any]]] = []
    steps: int | None = None
    wanted: int | None = None
    ended: str | None = None
    counted: int = 0
    whole_run: str | None = None
    cut_by: str | None = None
    length_s: float = 0.0
    signs: dict[str, int] = {}
    is_writing: bool = False
    finished: bool = False
    profiles_itself: bool = False
    has_no_device: bool = False
    error: str | None = None


@dataclass(frozen=True)
class ProgramOutcome:
    """How the program ended, and the traces that it wrote."""

    code: int
    """Exit code of the program; 128 plus the signal number if a signal ended it."""
    traces: tuple[Path, ...]
    """Paths of the traces, ordered by rank."""
    warnings: tuple[str, ...]


def run(command: Sequence[str], settings: Settings, say: Callable[[str], None] = lambda _: None) -> ProgramOutcome:
    """Run a program and record its steps.

    Args:
        command: The program and its arguments.
        settings: What to record; `folder` is created if it does not exist.
        say: Told what takes time while the program runs.

    Raises:
        UsageError: The program cannot be started.
        MissingDependencyError: The program is a Python interpreter without torch.
        OutputError: The folder cannot be created.
    """
    _require_torch(command)
    if settings.on_signal and ASK is None:
        raise UsageError("--on-signal: this system has no SIGUSR1; use --wait, --every or --slowest")
    with _scratch(Path(settings.folder)) as scratch:
        chosen = replace(
            settings, folder=str(Path(settings.folder).resolve()), scratch=str(scratch), project=str(Path.cwd())
        )
        code = _run(command, _environment(chosen), _Watch(scratch, say, is_asked=settings.on_signal))
        return _collect(code, scratch, chosen)


ASK = getattr(signal, "SIGUSR1", None)
"""The signal that asks for a recording; None where there is none."""


def _require_torch(command: Sequence[str]) -> None:
    """Refuse a Python interpreter without torch; other programs may start one that has it."""
    if not Path(command[0]).name.startswith("python") or shutil.which(command[0]) is None:
        return
    look = subprocess.run([command[0], "-c", _LOOK_FOR_TORCH], capture_output=True, check=False)  # noqa: S603 - what the user asked for
    if look.returncode == 86:
        raise MissingDependencyError("torch", extra="capture")


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Create a hidden folder for this run; a folder created for the traces is removed if it stays empty."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    scratch = folder.resolve() / f".capture-{secrets.token_hex(8)}"
    try:
        scratch.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):
            for path in made:
                path.rmdir()


class _Watch:
    """Says once that the program waits while a trace is written."""

    def __init__(self, scratch: Path, say: Callable[[str], None], *, is_asked: bool = False) -> None:
        self._scratch, self._say, self._has_said = scratch, say, False
        self.is_asked = is_asked
        """Whether a signal asks for recordings."""
        if is_asked:
            say(f"traceanalyzer: nothing is recorded until you ask for it: kill -USR1 {os.getpid()}")

    def ask(self) -> None:
        """Ask all processes of the program for a recording."""
        with (self._scratch / ASKED).open("ab") as file:
            file.write(b".")

    def look(self) -> None:
        """Look whether a process writes now."""
        if not self._has_said and any(note.is_writing for note in _notes(self._scratch)):
            self._say("traceanalyzer: writing the trace; the program waits meanwhile")
            self._has_said = True


def _environment(settings: Settings) -> Mapping[str, str]:
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(BOOTSTRAP), *([before] if before else [])])
    return os.environ | {"PYTHONPATH": path, SCRATCH: settings.scratch, VARIABLE: settings.encode()}


def _run(command: Sequence[str], environment: Mapping[str, str], watch: _Watch) -> int:
    """Run the program to its end on this terminal, and forward signals to it."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with _signals(watch) as (child_mask, pass_on):
        try:
            process = subprocess.Popen(  # noqa: S603 - what the user asked for
                command,
                env=environment,
                close_fds=False,
                preexec_fn=child_mask,  # noqa: PLW1509 - one system call, and no threads are here
            )
        except OSError as error:
            hint = f"; try python {command[0]}" if command[0].endswith(".py") else ""
            raise UsageError(f"{command[0]}: cannot be started: {error.strerror or error}{hint}") from None
        pass_on(process)
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _signals(
    watch: _Watch,
) -> Iterator[tuple[Callable[[], None] | None, Callable[[subprocess.Popen[bytes]], None]]]:
    """Collect signals to forward; those that the terminal sends reach the program anyway."""
    if not hasattr(signal, "sigtimedwait"):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        if watch.is_asked and ASK is not None:
            signal.signal(ASK, lambda *_: watch.ask())
        try:
            yield None, lambda _: None
        finally:
            signal.signal(signal.SIGINT, before)
        return
    awaited = {*_PASSED_ON, signal.SIGCHLD, *([ASK] if watch.is_asked and ASK is not None else [])}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)

    def pass_on(process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:
            arrived = signal.sigtimedwait(awaited, 1.0)  # wake up every second, in case the end of the child was missed
            watch.look()
            if arrived is not None and watch.is_asked and arrived.si_signo == ASK:
                watch.ask()
                continue
            if arrived is None or arrived.si_signo == signal.SIGCHLD or arrived.si_code == _FROM_THE_KERNEL:
                continue
            process.send_signal(arrived.si_signo)

    try:
        yield lambda: _set_mask(mask), pass_on
    finally:
        while signal.sigtimedwait(awaited, 0) is not None:  # the signal was for the program, which has ended
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _set_mask(mask: set[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _notes(scratch: Path) -> list[Note]:
    return [msgspec.json.decode(path.read_bytes(), type=Note) for path in sorted(scratch.glob(f"*{SUFFIX}"))]


def _collect(code: int, scratch: Path, settings: Settings) -> ProgramOutcome:
    notes = _notes(scratch)
    traces: list[Path] = []
    for note in sorted(notes, key=lambda note: note.rank or 0):
        traces += _written(note)
    warnings = [_cut_short(note) for note in notes if note.trace and (note.steps or 0) < (note.wanted or 0)]
    warnings += [f"the capture failed in one process: {note.error}" for note in notes if note.error]
    if not traces:
        traces, explanation = _whole_runs(notes, scratch, settings)
        warnings.append(explanation or f"nothing was captured: {_why_nothing(code, notes, scratch, settings)}")
    return ProgramOutcome(code, tuple(traces), tuple(dict.fromkeys(warnings)))


def _written(note: Note) -> Iterator[Path]:
    """The traces of one process, with what it knew of the program only at the end."""
    if note.trace is None or not Path(note.trace).exists():
        return
    for written, facts in [*note.earlier, (note.trace, note.facts)]:
        path = Path(written)
        if facts is not None:
            tracefile.replace_facts(path, facts)
        yield path


def _cut_short(note: Note) -> str:
    who = "" if note.rank is None else f"rank {note.rank}: "
    done = f"after {note.steps or 0} of {note.wanted} recorded steps, which the trace contains"
    if note.ended == LARGE:
        return f"{who}the recording was ended {done}: its steps have very many events"
    return f"{who}the program {'started its own profiler' if note.profiles_itself else 'ended'} {done}"


def _whole_runs(notes: list[Note], scratch: Path, settings: Settings) -> tuple[list[Path], str]:
    """Publish whole-run recordings (those of ranks, if any) if no process made enough steps."""
    whole = [note for note in notes if note.whole_run]
    whole = [note for note in whole if note.rank is not None] or whole
    traces = []
    for note in sorted(whole, key=lambda note: note.rank or 0):
        path = Path(note.whole_run or "")
        traces.append(
            tracefile.publish(path, Path(settings.folder), path.name.removesuffix(TRACE_SUFFIX), TRACE_SUFFIX)
        )
    return traces, _why_whole(whole, settings) if traces else ""


def _why_whole(whole: list[Note], settings: Settings) -> str:
    most = max(whole, key=lambda note: note.steps or 0)
    cuts = {
        TIME: f" (its first {most.length_s:.3g} seconds; --limit changes that)",
        SIZE: f" (its first {most.length_s:.3g} seconds, in which there were as many events as are kept)",
    }
    cut = cuts.get(most.cut_by or "", "")
    if most.steps:
        return (
            f"the program ended after {most.steps} steps, before those to record began ({_needed(settings)} are "
            f"needed); the trace contains its start{cut}; ask for fewer with --warmup and --steps"
        )
    return (
        f"found no steps ({_signs(most.signs)}): the trace contains the whole run as one step{cut}; mark steps with "
        "traceanalyzer.capture.profile and prof.step()"
    )


def _needed(settings: Settings) -> int:
    return settings.skipped + settings.steps


def _signs(counts: Mapping[str, int]) -> str:
    """What was seen of that which usually marks steps."""
    names = (
        ("calls", "call of a module", "calls of modules"),
        ("batches", "batch", "batches"),
        ("backwards", "backward pass", "backward passes"),
    )
    signs = [f"{n} {one if n == 1 else more}" for key, one, more in names if (n := counts.get(key, 0))]
    steps = counts.get("optimizer", 0)
    signs.append(f"{steps} of an optimizer within backward passes" if steps else "no step of an optimizer")
    return ", ".join(signs if len(signs) > 1 else [*signs, "no batch of a DataLoader", "no call of a module"])


_LEFT_ALONE: Mapping[str, Callable[[Note], bool]] = {
    "the program uses torch.profiler itself, which was left alone": lambda note: note.profiles_itself,
    "--light records devices alone, and the program used none; leave it out to record the CPU": lambda note: (
        note.has_no_device
    ),
}
"""Why a program that made steps was not recorded, and whether that holds of a process."""


def _why_nothing(code: int, notes: list[Note], scratch: Path, settings: Settings) -> str:
    """What the program did instead of making steps."""
    end = f"ended by {signal.Signals(code - 128).name}" if code - 128 in set(signal.Signals) else f"exit code {code}"
    for reason, holds in _LEFT_ALONE.items():
        if any(holds(note) for note in notes):
            return reason
    if (scratch / NO_TORCH).exists():
        return str(MissingDependencyError("torch", extra="capture"))
    if not (scratch / HOOKED).exists():
        return (
            "no Python of the program loaded the hook; it must start without -I, -E and -S, and keep PYTHONPATH "
            f"({end})"
        )
    if not any(note.finished for note in notes):
        return _why_not_saved(code, end, is_torch=bool(notes))
    counted = max(note.counted for note in notes)
    if counted:
        return f"the program made {counted} steps, and {_why_too_few(scratch, settings)}"
    return f"the program failed before it used torch ({end})" if code else "the program imported torch, but ran nothing"


def _why_too_few(scratch: Path, settings: Settings) -> str:
    if settings.on_signal and not (scratch / ASKED).exists():
        return "nobody asked for a recording with SIGUSR1 meanwhile"
    return f"{_needed(settings)} are needed; --warmup and --steps change that"


def _why_not_saved(code: int, end: str, *, is_torch: bool) -> str:
    """What became of a program in which no process saved anything at its end."""
    if not is_torch:
        return f"the program failed before it had imported torch ({end})" if code else "the program imported no torch"
    return (
        f"the program left without a chance to save anything ({end}): it was killed, crashed, or called os._exit; "
        "ask for fewer steps with --warmup and --steps, so that they are saved before"
    )
