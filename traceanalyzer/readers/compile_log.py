"""Reads structured compile logs of torch, which `TORCH_TRACE=FOLDER` writes: one file per process.

An entry is a line of torch's logger, a level, a date, a thread and a place, followed by a JSON object; lines that begin
with a tab are its payload (format: `torch/_logging/_internal.py`, `TorchLogsFormatter` and `trace_structured`).

Torch writes texts about graph breaks and recompilations for people, so their layout differs by version: the reason of a
break follows "Graph Break Reason:" (2.7 and later) or "Reason:" (before), its place follows "Graph break in user code
at".
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.compile_log import CompileLog, LoggedBreak, LoggedCompilation, LoggedGuard, SourceLine
from traceanalyzer.trace.model import Loss

_HEAD = re.compile(rb"(?:\[rank\d+\]:\s*)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+:\d+\]\s*(?=\{)")
_PAYLOAD = b"\t"
_LONGEST = 64 << 20
"""Bytes of a line: payloads are broken into lines, so only damage makes longer ones."""
_KEPT_PAYLOAD = 1 << 16
"""Bytes of a payload: reasons are short, generated code is long and not used."""


@dataclass
class LogEntry:
    """One entry: its JSON object, and the beginning of its payload as text."""

    data: dict[str, Any]
    payload: list[str] = field(default_factory=list)
    kept: int = 0


@dataclass
class Damage:
    """What could not be read."""

    lines: int = 0
    first: int | None = None
    """Number of the first such line, from 1."""

    def count(self, number: int) -> None:
        """Note a line that is not part of a log."""
        self.lines += 1
        self.first = number if self.first is None else self.first


def read_entries(source: Source, damage: Damage) -> Iterator[LogEntry]:
    """All entries of a log in order.

    Args:
        source: The log.
        damage: Counts lines that are neither entries nor payloads.
    """
    current: LogEntry | None = None
    with io.BufferedReader(source, 1 << 20) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_LONGEST), b""), start=1):
            if line.startswith(_PAYLOAD):
                _add(current, line)
                continue
            if not line.strip():
                continue
            data = _object(line)
            if data is None:
                damage.count(number)
                continue
            if current is not None:
                yield current
            current = LogEntry(data)
    if current is not None:
        yield current


def _add(entry: LogEntry | None, line: bytes) -> None:
    if entry is not None and entry.kept < _KEPT_PAYLOAD:
        text = line[1:].decode("utf-8", "replace").rstrip("\r\n")
        entry.payload.append(text)
        entry.kept += len(text) + 1


def _object(line: bytes) -> dict[str, Any] | None:
    """The JSON object of an entry's line; None where it is none."""
    head = _HEAD.match(line)
    if head is None:
        return None
    try:
        data = msgspec.json.decode(line[head.end() :].strip())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return data if isinstance(data, dict) else None


_PLACE = re.compile(r"Graph break in user code at (.+):(\d+)\s*$")
_REASON = re.compile(r"(?:Graph Break Reason|Reason):\s*(.*)$")
_HINT = re.compile(r"\s*Hint:\s*(.*)$")
_END = re.compile(r"User code traceback:|Traceback \(most recent|\s*Developer debug context")
_GENERAL = re.compile(r"Encountered graph break|Call to")
"""Reasons of this kind only say that there is a break; the next line says why."""


def graph_break(lines: Sequence[str]) -> tuple[SourceLine | None, str, str]:
    """Place, reason and first hint of a graph break; unknown parts are None or empty.

    Args:
        lines: The payload of an entry `dynamo_graph_break_reason`.
    """
    at, reason, hint = None, "", ""
    for number, line in enumerate(lines):
        if _END.match(line):
            break
        if at is None and (place := _PLACE.match(line)):
            at = SourceLine(place[1], int(place[2]))
        elif not reason and (found := _REASON.match(line)):
            reason = _announced(found[1].strip(), lines[number + 1 :])
        elif not hint and (found := _HINT.match(line)):
            hint = found[1].strip()
    return at, reason, hint


def _announced(reason: str, rest: Sequence[str]) -> str:
    """The reason itself: where the first line only announces one, the next line that is not empty."""
    if reason and not _GENERAL.match(reason):
        return reason
    return next((line.strip() for line in rest if line.strip()), reason)


def recompile_reasons(lines: Sequence[str]) -> tuple[str, ...]:
    """Why earlier compilations did not fit, without the number of the compilation that each is about.

    Args:
        lines: The payload of an entry `recompile_reasons`: a JSON list, or one reason a line.
    """
    try:
        found = msgspec.json.decode("\n".join(lines))
        reasons = found if isinstance(found, list) else [found]
    except msgspec.DecodeError:
        reasons = list(lines)
    return tuple(dict.fromkeys(plain_reason(str(reason)) for reason in reasons if str(reason).strip()))


def plain_reason(reason: str) -> str:
    """A reason in one line, without `0/0: ` before it."""
    return re.sub(r"^-?\s*\d+/\d+:\s*", "", " ".join(reason.split()))


_NO_ENTRY = (
    "is not a structured compile log of torch: no line is an entry such as "
    "'V0401 08:54:21.881000 140424060892160 torch/...py:19] {...}'; run with TORCH_TRACE=FOLDER to write one"
)
_NS_PER_US, _NS_PER_S = 1000, 10**9
_FOREIGN = ("/torch/", "/site-packages/", "/dist-packages/", "<")
"""Files of torch, of installed libraries, and code without a file."""


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
    compilations = tuple(sorted(log.compilations.values(), key=_order))
    return CompileLog(source.name, count, compilations, tuple(log.breaks), tuple(log.guards), tuple(losses))


def _order(compilation: LoggedCompilation) -> tuple[object, ...]:
    frame, _, number = compilation.id.partition("/")
    return (-1 if compilation.rank is None else compilation.rank, int(frame), int(number))


Key = tuple[int | None, str, int]
"""Rank and id of a compilation, and how often torch had used this id before: `torch._dynamo.reset` starts anew."""


@dataclass
class _Log:
    """What has been read so far."""

    files: dict[int, str] = field(default_factory=dict)
    compilations: dict[Key, LoggedCompilation] = field(default_factory=dict)
    breaks: list[LoggedBreak] = field(default_factory=list)
    guards: list[LoggedGuard] = field(default_factory=list)
    uses: dict[tuple[int | None, str], int] = field(default_factory=dict)

    def add(self, entry: LogEntry) -> None:
        """Take what an entry says; unknown kinds are entries of no interest."""
        for kind, handler in _HANDLERS.items():
            if kind in entry.data:
                handler(self, entry)
                return

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

    def begin(self, entry: LogEntry) -> None:
        """A compilation starts; if there is one of this id already, its id is used again."""
        key = self.key(entry)
        if key in self.compilations and not entry.data.get("attempt"):
            self.uses[key[0], key[1]] = key[2] + 1

    def place(self, frame: Any) -> SourceLine | None:
        """A frame of a stack, its file looked up among the interned texts."""
        if not isinstance(frame, Mapping):
            return None
        file, line = frame.get("filename"), _whole(frame.get("line"))
        file = self.files.get(file) if isinstance(file, int) else file
        return None if not isinstance(file, str) or line is None else SourceLine(file, line, str(frame.get("name", "")))

    def own(self, stack: Any) -> SourceLine | None:
        """The innermost frame of a stack that is not torch's."""
        places = [self.place(frame) for frame in stack] if isinstance(stack, list) else []
        return next((place for place in reversed(places) if place is not None and _is_own(place.file)), None)


def _is_own(file: str) -> bool:
    return not any(mark in file for mark in _FOREIGN)


def _interned(log: _Log, entry: LogEntry) -> None:
    match entry.data["str"]:
        case [str(text), int(number)]:
            log.files[number] = text


def _started(log: _Log, entry: LogEntry) -> None:
    log.begin(entry)
    start = entry.data["dynamo_start"]
    stack = start.get("stack") if isinstance(start, Mapping) else None
    caller = log.own(stack[:-1]) if isinstance(stack, list) else None  # the last is the function, or a frame of torch
    log.update(entry, **({} if caller is None else {"caller": caller}))


def _measured(log: _Log, entry: LogEntry) -> None:
    found = entry.data["compilation_metrics"]
    if not isinstance(found, Mapping):
        return
    changes: dict[str, Any] = {
        "code": _code(found),
        "duration_ns": _time(found, "duration_us", "entire_frame_compile_time_s"),
        "failure": _failure(found),
        "guards": _whole(found.get("guard_count")),
        "operations": _whole(found.get("graph_op_count")),
    }
    if isinstance(reason := found.get("recompile_reason"), str) and reason:
        known = log.known(entry)
        changes["reasons"] = known.reasons if known and known.reasons else (plain_reason(reason),)
    log.update(entry, **changes)
    _restarts(log, entry, found.get("restart_reasons"))


def _restarts(log: _Log, entry: LogEntry, reasons: Any) -> None:
    """Old versions log breaks only as reasons to start again."""
    key = log.key(entry)
    if key is None or not isinstance(reasons, list) or any((b.rank, b.id) == key[:2] for b in log.breaks):
        return
    for reason in sorted(map(str, reasons)):
        log.breaks.append(LoggedBreak(key[1], key[0], None, " ".join(reason.split())))


def _backward(log: _Log, entry: LogEntry) -> None:
    found = entry.data["bwd_compilation_metrics"]
    if isinstance(found, Mapping):
        log.update(entry, backward_ns=_time(found, "duration_us", "inductor_compile_time_s"))


def _artifact(log: _Log, entry: LogEntry) -> None:
    artifact = entry.data["artifact"]
    name = artifact.get("name") if isinstance(artifact, Mapping) else None
    known = log.known(entry)
    if name == "dynamo_graph_break_reason":
        at, reason, hint = graph_break(entry.payload)
        key = log.key(entry)
        log.breaks.append(LoggedBreak(key[1] if key else "", key[0] if key else None, at, reason, hint))
    elif name == "recompile_reasons":
        log.update(entry, reasons=recompile_reasons(entry.payload))
    elif isinstance(name, str) and name.endswith("_cache_hit"):
        log.update(entry, cache_hits=(known.cache_hits if known else 0) + 1)
    elif isinstance(name, str) and name.endswith("_cache_miss"):
        log.update(entry, cache_misses=(known.cache_misses if known else 0) + 1)


def _guard(log: _Log, entry: LogEntry) -> None:
    found = entry.data.get("guard_added") or entry.data.get("guard_added_fast")
    if isinstance(found, Mapping) and isinstance(expression := found.get("expr"), str):
        at = log.own(found.get("user_stack")) or log.own(found.get("stack"))
        key = log.key(entry)
        log.guards.append(LoggedGuard(key[1] if key else None, expression, at))


_HANDLERS: Mapping[str, Callable[[_Log, LogEntry], None]] = {
    "str": _interned,
    "dynamo_start": _started,
    "compilation_metrics": _measured,
    "bwd_compilation_metrics": _backward,
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
    if (us := found.get(in_us)) and isinstance(us, int | float):
        return round(us * _NS_PER_US)
    seconds = found.get(in_s)
    return round(seconds * _NS_PER_S) if isinstance(seconds, int | float) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
