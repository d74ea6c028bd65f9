"""A trace without names that tell whose it is: what people need to share one.

Names of modules, files, functions, hosts, process groups and annotations become keyed hashes, metadata that nobody
knows is dropped; times, shapes, sizes and the names of PyTorch, of its libraries and of runtime calls stay, so that the
analyses say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from traceanalyzer.readers.kineto.categories import Group, classify
from traceanalyzer.readers.kineto.events import NOT_JSON
from traceanalyzer.rewrite.arguments import Arguments
from traceanalyzer.rewrite.names import Names
from traceanalyzer.rewrite.secret import Secret
from traceanalyzer.rewrite.stream import Copied, copy
from traceanalyzer.trace import capture_facts

_NUMBERS_OF_HEADER = frozenset(
    [
        "schemaVersion",
        "record_shapes",
        "with_stack",
        "profile_memory",
        "with_modules",
        "with_flops",
        "baseTimeNanoseconds",
        "cupti_version",
        "cuda_runtime_version",
        "cuda_driver_version",
        "hip_runtime_version",
        "hip_driver_version",
        "roctracer_version",
        "rocprofiler_version",
    ]
)
_UNITS = ("ms", "ns", "us")
_DEVICE_IDENTITIES = frozenset({"uuid", "pcibusid", "pcideviceid", "pcidomainid", "serial"})
_DISTRIBUTED = frozenset(["backend", "rank", "world_size", "pg_count", "nccl_version"])
_GROUP = frozenset(["backend_config", "pg_size", "ranks"])
_GROUP_NAMES = ("pg_name", "pg_desc")
_FLAGS = frozenset(["e", "g", "p", "t"])
_NUMBER = re.compile(rb'\s*"?-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"?\s*')
_WORD = re.compile(r"[\w.:,;+-]{1,40}")
_METADATA_NAMES = frozenset(
    ["process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"]
)


class _Event(msgspec.Struct, omit_defaults=True):
    """What stays of an event; times as they are written, to the last digit."""

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
        hash_kernels: Hash names of kernels that belong to no library, too; their class stays.
        force: Overwrite files that this program did not write.
        progress: Called with the number of bytes after each read.

    Raises:
        UnusableInputError: The input is no trace.
        OutputError: The target cannot be written, or is somebody else's.
    """
    anonymous = _Anonymous(Names(Secret(key), hash_kernels=hash_kernels))
    return copy(path, target, "anonymize", anonymous.events, anonymous.metadata, force=force, progress=progress)


class _Anonymous:
    """Events and metadata of one file."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._arguments = Arguments(names)

    def events(self, events: list[Raw]) -> Iterator[bytes]:
        """What stands for the events of a window; what is no event stands for nothing."""
        for raw in events:
            event = _decoded(raw)
            if event is not None:
                yield _ENCODER.encode(self._event(event))

    def _event(self, event: _Event) -> _Event:
        group = Group.INSTANT
        if isinstance(event.cat, str):
            group, _ = classify(event.cat)
            if group is Group.UNKNOWN:
                event.cat = self._names.category(event.cat)
        if isinstance(event.args, dict):
            event.args = self._arguments.of(event.args, event.name)
        if not (event.ph == "M" and event.name in _METADATA_NAMES):
            event.name = self._names.of(group, event.name)
        event.pid, event.tid, event.id = self._identity(event.pid), self._identity(event.tid), self._identity(event.id)
        event.bp = event.bp if event.bp in _FLAGS else UNSET
        event.s = event.s if event.s in _FLAGS else UNSET
        event.ts, event.dur = _number(event.ts), _number(event.dur)
        return event

    def _identity(self, value: object) -> object:
        """Numbers tell nothing; a text may be the name of a host."""
        if type(value) is int:
            return value
        if isinstance(value, str):
            return value if value.strip().isdecimal() else self._names.process(value)
        return value if isinstance(value, float) else UNSET

    def metadata(self, meta: dict[str, Any]) -> dict[str, Any]:
        """What is known to be harmless."""
        kept = {key: value for key, value in meta.items() if key in _NUMBERS_OF_HEADER and _is_number(value)}
        if meta.get("displayTimeUnit") in _UNITS:
            kept["displayTimeUnit"] = meta["displayTimeUnit"]
        devices = meta.get("deviceProperties")
        if isinstance(devices, list):
            kept["deviceProperties"] = [_device(entry) for entry in devices if isinstance(entry, dict)]
        if isinstance(distributed := meta.get("distributedInfo"), dict):
            kept["distributedInfo"] = self._distributed(distributed)
        facts = capture_facts.parse(meta.get(capture_facts.KEY))
        if facts is not None:
            optimizers = tuple(msgspec.structs.replace(o, name=self._names.optimizer(o.name)) for o in facts.optimizers)
            kept[capture_facts.KEY] = msgspec.to_builtins(msgspec.structs.replace(facts, optimizers=optimizers))
        return kept

    def _distributed(self, info: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in info.items() if key in _DISTRIBUTED and _is_plain(value)}
        groups = info.get("pg_config")
        if isinstance(groups, list):
            kept["pg_config"] = [self._group(group) for group in groups if isinstance(group, dict)]
        return kept

    def _group(self, group: Mapping[str, Any]) -> dict[str, Any]:
        names = {key: self._names.group(str(group[key])) for key in _GROUP_NAMES if key in group}
        return names | {key: value for key, value in group.items() if key in _GROUP and _is_plain(value)}


def _decoded(raw: Raw) -> _Event | None:
    """An event; fields of another type than usual become texts."""
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
    return raw if isinstance(raw, Raw) and _NUMBER.fullmatch(bytes(raw)) else UNSET


def _device(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What kind of device it is; serial numbers and addresses are not known keys, or no numbers."""
    return {
        key: value
        for key, value in entry.items()
        if (key == "name" and isinstance(value, str)) or (_is_number(value) and key.lower() not in _DEVICE_IDENTITIES)
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _is_plain(value: object) -> bool:
    """A number, a short word such as `nccl` or `cuda:nccl`, or a list of numbers."""
    if isinstance(value, str):
        return _WORD.fullmatch(value) is not None
    return _is_number(value) or (isinstance(value, list) and all(map(_is_number, value)))
