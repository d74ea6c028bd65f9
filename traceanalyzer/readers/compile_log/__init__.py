"""Reads structured compile logs of torch, which `TORCH_TRACE=FOLDER` writes: one file per process.

An entry is a line of torch's logger, a level, a date, a thread and a place, followed by a JSON object; lines that begin
with a tab are its payload (format: `torch/_logging/_internal.py`, `TorchLogsFormatter` and `trace_structured`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.knowledge import compiled_code, python_frames
from traceanalyzer.readers.compile_log.entries import (
    LOOKUP,
    NS_PER_S,
    Damage,
    LogEntry,
    begins,
    cache_lookup,
    graph_break,
    plain_reason,
    read_entries,
    recompile_reasons,
)
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.compile_log import (
    CompileLog,
    LoggedBreak,
    LoggedCompilation,
    LoggedGuard,
    SourceLine,
)
from traceanalyzer.trace.model import Loss

__all__ = ["begins", "read"]

_NO_ENTRY = (
    "is not a structured compile log of torch: no line is an entry such as "
    "'V0401 08:54:21.881000 140424060892160 torch/...py:19] {...}'; run with TORCH_TRACE=FOLDER to write one"
)
_NS_PER_US = 1000
_YEAR_NS = 366 * 86400 * NS_PER_S
_INT64 = 2**63
"""Numbers from here on count as damage, because they do not fit into 64-bit columns."""
_RESUME = "torch_dynamo_resume_in_"
_LINE = re.compile("[0-9]{1,9}")


def read(source: Source) -> CompileLog:
    """Read a structured compile log; damaged lines are counted.

    Args:
        source: The file that `TORCH_TRACE` made torch write.

    Raises:
        UnusableInputError: No line of it is an entry.
    """
    damage, log, count = Damage(), _Log(), 0
    for entry in read_entries(source, damage):
        count += 1
        log.add(entry)
    if not count:
        raise UnusableInputError(f"{source.name}: {_NO_ENTRY}")
    losses = list(source.losses)
    if damage.lines:
        losses.append(Loss("read-compile-log-damaged", damage.lines, {"name": source.name, "line": damage.first}))
    compilations = tuple(_with_caller(known, log.stacks.get(key, ())) for key, known in log.compilations.items())
    unfinished = sum(not known.is_finished for known in compilations)
    if 0 < unfinished < len(compilations):  # a log without any figures is of a version that wrote none
        losses.append(Loss("read-compile-log-unfinished", unfinished, {"name": source.name}))
    breaks, moved = log.placed_breaks()
    if moved:
        losses.append(Loss("read-compile-log-lines", moved, {"name": source.name}))
    return CompileLog(
        source.name,
        count,
        source.size_bytes,
        log.last_ns,
        compilations,
        breaks,
        tuple(log.guards),
        tuple(losses),
        log.has_generated_code,
        frozenset(log.kernels),
    )


def _with_caller(known: LoggedCompilation, stack: Sequence[SourceLine]) -> LoggedCompilation:
    """Add the last line of the user's code; new versions of torch end the stack with the compiled function itself."""
    calls = stack[:-1] if stack and stack[-1] == known.code else stack
    own = next((place for place in reversed(calls) if python_frames.is_own_file(place.file)), None)
    return replace(known, caller=own)


Key = tuple[int | None, str, int]
"""Rank and id of a compilation, and how often torch had used this id before: `torch._dynamo.reset` starts anew."""


class _Log(msgspec.Struct):
    """What has been read so far."""

    files: dict[int, str] = {}
    compilations: dict[Key, LoggedCompilation] = {}
    stacks: dict[Key, tuple[SourceLine, ...]] = {}
    """Stacks at the starts of compilations."""
    breaks: list[tuple[Key | None, LoggedBreak]] = []
    guards: list[LoggedGuard] = []
    uses: dict[tuple[int | None, str], int] = {}
    has_generated_code: bool = False
    kernels: set[str] = msgspec.field(default_factory=set)
    first_ns: int | None = None
    last_ns: int = 0
    """Time of the last entry since the first."""

    def add(self, entry: LogEntry) -> None:
        """Take what an entry says; unknown kinds are entries of no interest."""
        self.first_ns = entry.time_ns if self.first_ns is None else self.first_ns
        entry.time_ns -= self.first_ns
        if entry.time_ns < -_YEAR_NS // 2:  # a new year has begun
            entry.time_ns += _YEAR_NS
        self.last_ns = max(self.last_ns, entry.time_ns)
        for kind, handler in _HANDLERS.items():
            if kind in entry.data:
                handler(self, entry)
                break
        known = self.known(entry)
        if (
            known is not None
            and known.start_ns is not None
            and (kind == "compilation_metrics" or not known.is_finished)
        ):
            self.update(entry, logged_ns=max(0, entry.time_ns - known.start_ns))

    def update(self, entry: LogEntry, **changes: Any) -> None:
        """Note something about the compilation that an entry belongs to."""
        key = self.key(entry)
        if key is not None:
            known = self.compilations.get(key) or LoggedCompilation(key[1], key[0])
            self.compilations[key] = replace(known, **changes)

    def known(self, entry: LogEntry) -> LoggedCompilation | None:
        """What is known of the compilation that an entry belongs to."""
        key = self.key(entry)
        return None if key is None else self.compilations.get(key)

    def key(self, entry: LogEntry) -> Key | None:
        """Rank and id of the compilation that an entry belongs to; None where it belongs to none."""
        frame, number = _whole(entry.data.get("frame_id")), _whole(entry.data.get("frame_compile_id"))
        if frame is None or number is None:
            return None
        rank, name = _whole(entry.data.get("rank")), f"{frame}/{number}"
        return rank, name, self.uses.get((rank, name), 0)

    def begin(self, entry: LogEntry, *, is_start: bool) -> None:
        """A compilation begins; if there is one of this id already, its id is used again.

        Torch writes the reasons of a recompilation before its start, so they begin one only where the last is over.
        """
        key = self.key(entry)
        known = None if key is None else self.compilations.get(key)
        if key is None or known is None or entry.data.get("attempt"):
            return
        if known.is_finished or (is_start and known.start_ns is not None):
            self.uses[key[0], key[1]] = key[2] + 1

    def place(self, frame: Any) -> SourceLine | None:
        """A frame of a stack, its file looked up among the interned texts."""
        if not isinstance(frame, Mapping):
            return None
        file, line = frame.get("filename"), _whole(frame.get("line"))
        file = self.files.get(file) if isinstance(file, int) else file
        return None if not isinstance(file, str) or line is None else SourceLine(file, line, str(frame.get("name", "")))

    def stack(self, frames: Any) -> tuple[SourceLine, ...]:
        """The frames of a stack whose places are known, the innermost last."""
        return tuple(filter(None, map(self.place, frames))) if isinstance(frames, list) else ()

    def own(self, frames: Any) -> SourceLine | None:
        """The innermost frame of a stack in code of the user."""
        return next((place for place in reversed(self.stack(frames)) if python_frames.is_own_file(place.file)), None)

    def placed_breaks(self) -> tuple[tuple[LoggedBreak, ...], int]:
        """All breaks with their functions; and how many stand in another line than torch's text says.

        The function that continues after a break is named after its line. Where the only break of a function is in
        another line of the same file by the text, the name counts: the text is of another version of the program.
        """
        owners, placed, moved = [key for key, _ in self.breaks], [], 0
        for key, entry in self.breaks:
            known = None if key is None else self.compilations.get(key)
            code = known.code if known else None
            resumed = self._resumed_at(key, code) if key and code and owners.count(key) == 1 else None
            at = entry.at
            if resumed and at and _base(at.function) == _base(resumed.function) and at.line != resumed.line:
                at, moved = resumed, moved + 1
            placed.append(replace(entry, at=at or resumed, function=code))
        return tuple(placed), moved

    def _resumed_at(self, key: Key, code: SourceLine) -> SourceLine | None:
        """The line after which a later compilation continues a function; None where none does."""
        keys = list(self.compilations)
        name = f"{_RESUME}{_base(code.function)}_at_"
        later = (self.compilations[other].code for other in keys[keys.index(key) + 1 :] if other[0] == key[0])
        found = next((c for c in later if c and c.file == code.file and c.function.startswith(name)), None)
        line = found.function.removeprefix(name) if found else ""
        return SourceLine(code.file, int(line), code.function) if _LINE.fullmatch(line) else None


def _base(function: str) -> str:
    """The name of a function, of one that continues after a break that of the function that broke."""
    return function.removeprefix(_RESUME).rpartition("_at_")[0] if function.startswith(_RESUME) else function


def _interned(log: _Log, entry: LogEntry) -> None:
    match entry.data["str"]:
        case [str(text), int(number)]:
            log.files[number] = text


def _started(log: _Log, entry: LogEntry) -> None:
    log.begin(entry, is_start=True)
    start = entry.data["dynamo_start"]
    key, known = log.key(entry), log.known(entry)
    if key is not None and (known is None or known.start_ns is None):
        log.stacks[key] = log.stack(start.get("stack")) if isinstance(start, Mapping) else ()
        log.update(entry, start_ns=max(0, entry.time_ns))


def _measured(log: _Log, entry: LogEntry) -> None:
    found = entry.data["compilation_metrics"]
    if not isinstance(found, Mapping):
        return
    changes: dict[str, Any] = {
        "code": _code(found),
        "duration_ns": _time(found, "duration_us", "entire_frame_compile_time_s"),
        "backend_ns": _time(found, "aot_autograd_cumulative_compile_time_us", "backend_compile_time_s"),
        "inductor_ns": _time(found, "inductor_cumulative_compile_time_us", "inductor_compile_time_s"),
        "failure": _failure(found),
        "guards": _whole(found.get("guard_count")),
        "operations": _whole(found.get("graph_op_count")),
        "is_finished": True,
    }
    if isinstance(reason := found.get("recompile_reason"), str) and reason:
        known = log.known(entry)
        changes["reasons"] = known.reasons if known and known.reasons else (plain_reason(reason),)
    log.update(entry, **changes)
    _restarts(log, entry, found.get("restart_reasons"))


def _restarts(log: _Log, entry: LogEntry, reasons: Any) -> None:
    """Old versions log breaks only as reasons to start again."""
    key = log.key(entry)
    if key is None or not isinstance(reasons, list) or any(broken == key for broken, _ in log.breaks):
        return
    for reason in sorted(map(str, reasons)):
        log.breaks.append((key, LoggedBreak(key[1], key[0], None, " ".join(reason.split()))))


def _backward(log: _Log, entry: LogEntry) -> None:
    found = entry.data["bwd_compilation_metrics"]
    if isinstance(found, Mapping):
        log.update(entry, backward_ns=_time(found, "duration_us", "inductor_compile_time_s"))


def _aot(log: _Log, entry: LogEntry) -> None:
    log.update(entry, has_aot=True)


def _generated(log: _Log, entry: LogEntry) -> None:
    log.has_generated_code = True
    log.kernels.update(compiled_code.kernels_in("\n".join(entry.payload)))


def _broke(log: _Log, entry: LogEntry) -> None:
    at, reason, hint, code = graph_break(entry.payload)
    key = log.key(entry)
    log.breaks.append((key, LoggedBreak(key[1] if key else "", key[0] if key else None, at, reason, hint, code)))


def _artifact(log: _Log, entry: LogEntry) -> None:
    artifact = entry.data["artifact"]
    name = artifact.get("name") if isinstance(artifact, Mapping) else None
    if name == "dynamo_graph_break_reason":
        _broke(log, entry)
    elif name == "recompile_reasons":
        log.begin(entry, is_start=False)
        log.update(entry, reasons=recompile_reasons(entry.payload))
    elif isinstance(name, str) and (found := LOOKUP.fullmatch(name)):
        known = log.known(entry)
        log.update(entry, lookups=(*(known.lookups if known else ()), cache_lookup(found[1], found[2], entry.payload)))


def _guard(log: _Log, entry: LogEntry) -> None:
    found = entry.data.get("guard_added") or entry.data.get("guard_added_fast")
    if isinstance(found, Mapping) and isinstance(expression := found.get("expr"), str):
        at = log.own(found.get("user_stack")) or log.own(found.get("stack"))
        key = log.key(entry)
        log.guards.append(LoggedGuard(key[1] if key else None, expression, at))


_HANDLERS: Mapping[str, Callable[[_Log, LogEntry], None]] = {
    "str": _interned,
    "dynamo_start": _started,
    "dynamo_graph_break_reason": _broke,
    "compilation_metrics": _measured,
    "bwd_compilation_metrics": _backward,
    "aot_joint_graph": _aot,
    "aot_forward_graph": _aot,
    "aot_inference_graph": _aot,
    "inductor_output_code": _generated,
    "artifact": _artifact,
    "guard_added": _guard,
    "guard_added_fast": _guard,
}


def _code(found: Mapping[str, Any]) -> SourceLine | None:
    file, line, function = (found.get(key) for key in ("co_filename", "co_firstlineno", "co_name"))
    known = isinstance(file, str) and isinstance(line, int)
    return SourceLine(str(file), _whole(line) or 0, str(function or "")) if known else None


def _failure(found: Mapping[str, Any]) -> str | None:
    reason, kind = found.get("fail_reason"), found.get("fail_type")
    words = " ".join(str(reason or kind).split())
    return words if reason or kind else None


def _time(found: Mapping[str, Any], in_us: str, in_s: str) -> int | None:
    return _ns(found.get(in_us) or None, _NS_PER_US) or _ns(found.get(in_s), NS_PER_S)


def _ns(value: Any, unit: int) -> int | None:
    return round(value * unit) if isinstance(value, int | float) and abs(value) < _INT64 / unit else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _INT64 else None
