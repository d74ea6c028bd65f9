"""Writes a trace without names that show whose it is, so that people can share it.

Names of modules, files, functions, hosts, process groups and annotations become keyed hashes, unknown metadata
is dropped; times, shapes, sizes and the names of PyTorch, of its libraries and of runtime calls stay, so that the
analyses say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, UnsetType

from traceanalyzer.knowledge import gpu_clocks
from traceanalyzer.readers.kineto import accelerators
from traceanalyzer.readers.kineto.events import NOT_JSON
from traceanalyzer.readers.kineto.fields import BY_CONTENT, TableGroup, classify
from traceanalyzer.rewrite import Copied, copy
from traceanalyzer.rewrite.arguments import Arguments, Metadata
from traceanalyzer.rewrite.hashed import Secret
from traceanalyzer.rewrite.names import Names

_FLAGS = frozenset(["e", "g", "p", "t"])
_PHASES = frozenset(
    ["B", "E", "X", "I", "i", "R", "C", "b", "n", "e", "S", "T", "p", "F", "s", "t", "f", "P", "N", "O", "D", "M"]
)
_NUMBER = re.compile(rb'"?-?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,5})?"?')
_KEPT_NAMES = {
    "M": frozenset(["process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"]),
    "C": gpu_clocks.NAMES,
}
"""By phase, names of events that stay."""


class _Event(msgspec.Struct, omit_defaults=True):
    """The parts of an event that stay; times as they are written, to the last digit."""

    ph: str = ""
    cat: str | UnsetType = UNSET
    name: str = ""
    pid: object = UNSET
    tid: object = UNSET
    ts: Raw | UnsetType = UNSET
    dur: Raw | UnsetType = UNSET
    id: object = UNSET
    bp: str | UnsetType = UNSET
    s: str | UnsetType = UNSET
    args: dict[str, Raw] | UnsetType = UNSET


_DECODER = msgspec.json.Decoder(_Event)
_ENCODER = msgspec.json.Encoder()


def anonymize(
    path: str,
    target: Path,
    *,
    key: str | None = None,
    hash_kernels: bool = False,
    force: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Copied:
    """Write a trace without names.

    Args:
        path: The trace, or "-" for standard input.
        target: What to write, `.json` or `.json.gz`.
        key: Files with one key have the same hashes for the same names; a random key that is thrown away if None.
        hash_kernels: Hash kernels that the compiler named after operators, too; their class stays.
        force: Overwrite files that this program did not write.
        progress: Called with the number of bytes after each read.

    Raises:
        UnusableInputError: The input is not a trace.
        OutputError: The target cannot be written, or another program wrote it.
    """
    names = Names(Secret(key), hash_kernels=hash_kernels)
    events, metadata = _Anonymous(names).events, Metadata(names).of
    return copy(path, target, "anonymize", events, metadata, force=force, progress=progress)


class _Anonymous:
    """Anonymizes the events of one file."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._arguments = Arguments(names)

    def events(self, events: list[Raw]) -> Iterator[bytes]:
        """The anonymized events of a window; elements that are not events are dropped."""
        for raw in events:
            event = _decoded(raw)
            if event is not None:
                yield _ENCODER.encode(self._event(event))

    def _event(self, event: _Event) -> _Event:
        group = TableGroup.INSTANT
        if isinstance(event.cat, str):
            group, _ = classify(event.cat)
        if (told := _told_by_content(event)) is not None:
            group = told
        if isinstance(event.cat, str):
            event.cat = self._names.category(event.cat)
        if isinstance(event.args, dict):
            event.args = self._arguments.of(event.args, event.name)
        if event.name not in _KEPT_NAMES.get(event.ph, ()):
            event.name = self._names.of(group, event.name)
        event.pid, event.tid, event.id = self._identity(event.pid), self._identity(event.tid), self._identity(event.id)
        event.ph = event.ph if event.ph in _PHASES or not event.ph else self._names.phase(event.ph)
        event.bp = event.bp if event.bp in _FLAGS else UNSET
        event.s = event.s if event.s in _FLAGS else UNSET
        event.ts, event.dur = _number(event.ts), _number(event.dur)
        return event

    def _identity(self, value: object) -> object:
        """An id that shows nothing: numbers stay, texts (which may name a host) are hashed."""
        if type(value) is int or value in accelerators.LEGACY:
            return value
        if isinstance(value, str) and gpu_clocks.device_of(value) is not None:
            return value
        if isinstance(value, str):
            return value if value.isascii() and value.strip().isdecimal() else self._names.process(value)
        return value if isinstance(value, float) else UNSET


def _told_by_content(event: _Event) -> TableGroup | None:
    """The group of names that more than the category tells; lists of the legacy profiler have operators on devices."""
    category = event.cat.lower() if isinstance(event.cat, str) else ""
    if event.ph != "X" or category not in BY_CONTENT:
        return None
    task, engine = (_argument(event, key) for key in ("Task Type", "HW event name"))
    is_operator = not category and event.pid in accelerators.LEGACY
    return TableGroup.HOST if is_operator else accelerators.group_of(category, event.pid, task, engine)


def _argument(event: _Event, key: str) -> object:
    raw = event.args.get(key) if isinstance(event.args, dict) else None
    try:
        return "" if raw is None else msgspec.json.decode(raw)
    except NOT_JSON:
        return ""


def _decoded(raw: Raw) -> _Event | None:
    """Decode an event; fields of another type than usual become texts."""
    try:
        return _DECODER.decode(raw)
    except (*NOT_JSON, msgspec.ValidationError):
        pass
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Raw])
        values = {key: msgspec.json.decode(fields[key]) for key in ("ph", "cat", "name", "pid", "tid") if key in fields}
    except (*NOT_JSON, msgspec.ValidationError):
        return None
    return _Event(
        ph=str(values.get("ph", "")),
        cat=str(values["cat"]) if "cat" in values else UNSET,
        name=str(values.get("name", "")),
        pid=values.get("pid", UNSET),
        tid=values.get("tid", UNSET),
        ts=fields.get("ts", UNSET),
        dur=fields.get("dur", UNSET),
    )


def _number(raw: Raw | UnsetType) -> Raw | UnsetType:
    """A number, or the text of one."""
    return raw if isinstance(raw, Raw) and _NUMBER.fullmatch(bytes(raw).strip()) else UNSET
