"""What stays of the arguments of events and of the metadata around them: numbers and known words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from traceanalyzer.readers.kineto.events import ARGS_FIELDS
from traceanalyzer.rewrite import public_names as known
from traceanalyzer.rewrite.names import Names
from traceanalyzer.rewrite.public_names import public
from traceanalyzer.trace import capture_facts

_MORE_NUMBERS = (
    "queued", "context", "cbid", "cid", "kind", "ptr", "warps per SM", "Record function id", "Ev Idx", "Op count",
    "memory bandwidth (GB/s)", "sort_index", "In split size", "Out split size", "Global rank start", "num_warps",
    "Global rank stride", "num_stages", "Device", "external ts", "wait_on_stream", "wait_on_cuda_event_id",
    "Stream Id", "Physic Stream Id", "Task Id", "Batch Id", "Subtask Id", "Model Id", "connection_id",
    "wait_on_cuda_event_record_corr_id", "Trace iteration", "Rank", "Iteration",
)  # fmt: skip
"""Arguments with numbers that viewers show, and no analysis reads."""

_VALUE = rb"-?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,5})?|true|false|null|0x[0-9a-fA-F]{1,16}"
_NUMBER = re.compile(rb'"?(?:' + _VALUE + rb')?"?')
# Words with something between any two of them. What a word or a gap took it keeps: nothing is tried twice.
_NUMBERS = re.compile(rb'["\[\],\s]*+(?>(?>' + _VALUE + rb')(?:["\[\],\s]++|\Z))*+')
_TYPE_WORD = re.compile(r"c10::complex<[\w:]{1,20}>|[\w:]+", re.ASCII)
_NUMBER_TEXT = re.compile(
    r"[\[\](), ]*+(?>(?>[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?(?:e[-+]?[0-9]{1,5})?|inf|nan)|True|False|None)"
    r"(?:[\[\](), ]++|\Z))*+",
    re.ASCII,
)
_DEVICE = re.compile(r"(?:cpu|cuda|hip|xpu|mps|mtia|meta)(?::[0-9]{1,4})?", re.ASCII)
_EINSUM = "aten::einsum"
_COPIED = frozenset(
    {f"{source}to{target}" for source in "HDA" for target in "HDA"}
    | {"PtoP", "unknown", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static"}
)
"""Directions of copies and kinds of memory, as the monitor of CUPTI writes them."""
_EQUATION = re.compile(r"(?:\.{3})?[A-Za-z]{0,12}(?:, ?(?:\.{3})?[A-Za-z]{0,12}){0,7} ?-> ?((?:\.{3})?[A-Za-z]{0,12})")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Arguments:
    """Replaces the arguments of the events of a file."""

    def __init__(self, names: Names) -> None:
        """Set the functions that replace names in arguments."""
        self._rules: dict[str, Callable[[Raw], Raw | None]] = {
            **dict.fromkeys((*ARGS_FIELDS, *_MORE_NUMBERS), _numbers),
            "Input type": lambda raw: _texts(raw, _type),
            "Concrete Inputs": lambda raw: _texts(raw, _value),
            "Collective name": lambda raw: _word(raw, public("collectives")),
            "dtype": lambda raw: _word(raw, known.TYPES),
            "Task Type": lambda raw: _named(raw, names.task_type),
            "HW event name": lambda raw: _named(raw, names.task_type),
            "Process Group Name": lambda raw: _named(raw, names.group),
            "Process Group Description": lambda raw: _named(raw, names.group),
            **dict.fromkeys(("copy kind", "src kind", "dst kind"), lambda raw: _word(raw, _COPIED)),
            "name": lambda raw: _named(raw, names.thread),
            "labels": lambda raw: _named(raw, names.process),
        }
        self._process = self._rules["labels"]
        self._cache: dict[tuple[Callable[[Raw], Raw | None], bytes], Raw | None] = {}

    def of(self, args: dict[str, Raw], event: str) -> dict[str, Raw]:
        """The arguments that stay; `event` is the name of the event."""
        kept = {}
        for key, raw in args.items():
            rule = self._process if key == "name" and event == "process_name" else self._rules.get(key)
            if key == "Concrete Inputs" and event == _EINSUM:
                rule = _of_einsum
            if rule is _numbers:
                value = _numbers(raw)
            elif rule is not None:
                text = rule, bytes(raw)  # most texts repeat
                if text not in self._cache:
                    self._cache[text] = rule(Raw(text[1]))
                value = self._cache[text]
            else:
                continue
            if value is not None:
                kept[key] = value
        return kept


def _numbers(raw: Raw) -> Raw | None:
    """Keep numbers, lists of numbers, and their texts."""
    data = bytes(raw)
    if data.isdigit() or _NUMBER.fullmatch(data.strip()) or _NUMBERS.fullmatch(data):
        return raw
    return None


def _decoded(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _word(raw: Raw, words: frozenset[str]) -> Raw | None:
    value = _decoded(raw)
    return raw if isinstance(value, str) and value in words else None


def _texts(raw: Raw, known_part: Callable[[str], str]) -> Raw | None:
    """A list of texts in which the unknown ones are empty."""
    value = _decoded(raw)
    if not isinstance(value, list):
        return None
    kept = _filtered(value, known_part)
    return raw if kept == value else Raw(msgspec.json.encode(kept))


def _filtered(value: Any, known_part: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_filtered(item, known_part) for item in value]
    if isinstance(value, str):
        return known_part(value)
    return "" if isinstance(value, dict) else value


def _type(text: str) -> str:
    """Keep a type if torch has each word of it."""
    rest = _TYPE_WORD.sub("", text)
    words = _TYPE_WORD.findall(text)
    return text if not rest.strip(" []") and all(word in known.TYPES for word in words) else ""


def _of_einsum(raw: Raw) -> Raw | None:
    return _texts(raw, _value_of_einsum)


def _value(text: str) -> str:
    """Keep numbers and known words."""
    return text if text in known.CONSTANTS or _DEVICE.fullmatch(text) or _NUMBER_TEXT.fullmatch(text) else ""


def _value_of_einsum(text: str) -> str:
    """The same, and equations with letters in the order of the alphabet: theirs may spell something.

    Longer texts would be cryptograms that can be solved. In the result of an einsum a letter occurs once, and before.
    """
    found = _EQUATION.fullmatch(text)
    result = found[1].lstrip(".") if found else ""
    if found is None or len(set(result)) < len(result) or not set(result) <= set(text.partition("->")[0]):
        return _value(text)
    letters = dict.fromkeys(letter for letter in text if letter.isalpha())
    return text.translate(str.maketrans("".join(letters), _LETTERS[: len(letters)]))


def _named(raw: Raw, hide: Callable[[str], str]) -> Raw:
    value = _decoded(raw)
    return Raw(msgspec.json.encode(hide(value if isinstance(value, str) else str(value))))


# What stays of the metadata around the events: numbers of known keys, and known words.

_HEADER = frozenset(
    [
        "schemaVersion", "record_shapes", "with_stack", "profile_memory", "with_modules", "with_flops",
        "baseTimeNanoseconds", "cupti_version", "cuda_runtime_version", "cuda_driver_version",
        "hip_runtime_version", "hip_driver_version", "roctracer_version", "rocprofiler_version",
    ]
)  # fmt: skip
_UNITS = ("ms", "ns", "us")
_DEVICE_TYPE = frozenset(
    [
        "id", "totalGlobalMem", "computeMajor", "computeMinor", "maxThreadsPerBlock",
        "maxThreadsPerMultiprocessor", "regsPerBlock", "warpSize", "sharedMemPerBlock", "numSms",
        "regsPerMultiprocessor", "sharedMemPerBlockOptin", "sharedMemPerMultiprocessor", "maxGridWidth",
        "maxGridHeight", "runtimeMajorVersion", "runtimeMinorVersion", "maxSharedMemoryPerMultiProcessor",
        "maxComputeUnits", "maxWorkGroupSize", "maxClockFrequency", "maxMemAllocSize", "localMemSize",
        "clockRate", "memoryClockRate", "memoryBusWidth", "l2CacheSize", "multiProcessorCount", "totalConstMem",
        "maxBlocksPerMultiProcessor", "regsPerMultiProcessor",
    ]
)  # fmt: skip
_VENDORS = ("NVIDIA", "AMD", "Intel", "Intel(R) Corporation", "Advanced Micro Devices, Inc.", "NVIDIA Corporation")
_DISTRIBUTED = frozenset(["rank", "world_size", "pg_count"])
_GROUP_NUMBERS = frozenset(["pg_size", "ranks"])
_GROUP_NAMES = ("pg_name", "pg_desc")
_VERSION = re.compile(
    r"[0-9]{1,9}(\.[0-9]{1,9}){0,4}((a|b|rc)[0-9]{1,3})?(\+(cpu|cu[0-9]{2,4}|rocm[0-9.]{1,9}|xpu))?", re.ASCII
)
_MODEL = re.compile(r"[0-9]{1,6}(gb|g)?(-[0-9]{1,4})?|[-0-9.]{1,8}|\[?\]?\{?", re.ASCII)


class Metadata:
    """Metadata of one file."""

    def __init__(self, names: Names) -> None:
        """Set the function that replaces names."""
        self._names = names

    def of(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """The part of the metadata that is known to be harmless."""
        kept = {key: value for key, value in meta.items() if key in _HEADER and _is_number(value)}
        if meta.get("displayTimeUnit") in _UNITS:
            kept["displayTimeUnit"] = meta["displayTimeUnit"]
        if isinstance(devices := meta.get("deviceProperties"), list):
            kept["deviceProperties"] = [self._device(entry) for entry in devices if isinstance(entry, dict)]
        if isinstance(distributed := meta.get("distributedInfo"), dict):
            kept["distributedInfo"] = self._distributed(distributed)
        if (facts := capture_facts.parse(meta.get(capture_facts.KEY))) is not None:
            kept[capture_facts.KEY] = self._captured(msgspec.to_builtins(facts))
        return kept

    def _device(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """What kind of device it is."""
        kept = {key: value for key, value in entry.items() if key in _DEVICE_TYPE and _is_number(value)}
        if isinstance(name := entry.get("name"), str):
            kept["name"] = self.gpu(name)
        if (vendor := entry.get("vendor")) in _VENDORS:
            kept["vendor"] = vendor
        return kept

    def gpu(self, name: str) -> str:
        """The model, in the words of its maker; other words are hidden."""
        return " ".join(part if _is_model(part) else self._names.word(part) for part in name.split(" "))

    def _distributed(self, info: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in info.items() if key in _DISTRIBUTED and _is_number(value)}
        if isinstance(backend := info.get("backend"), str):
            kept["backend"] = self._backend(backend)
        if isinstance(version := info.get("nccl_version"), str) and _VERSION.fullmatch(version):
            kept["nccl_version"] = version
        if isinstance(groups := info.get("pg_config"), list):
            kept["pg_config"] = [self._group(group) for group in groups if isinstance(group, dict)]
        return kept

    def _group(self, group: Mapping[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {key: self._names.group(str(group[key])) for key in _GROUP_NAMES if key in group}
        if isinstance(backend := group.get("backend_config"), str):
            kept["backend_config"] = self._backend(backend)
        return kept | {key: value for key, value in group.items() if key in _GROUP_NUMBERS and _are_numbers(value)}

    def _backend(self, text: str) -> str:
        """Clean a backend such as `nccl` or `cpu:gloo,cuda:nccl`, word by word."""
        return re.sub(r"[^:,]+", lambda part: part[0] if part[0] in known.BACKENDS else self._names.word(part[0]), text)

    def _captured(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._captured(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._captured(item) for item in value]
        return self._captured_word(value) if isinstance(value, str) else value

    def _captured_word(self, word: str) -> str:
        if word in public("optimizers") or _VERSION.fullmatch(word):
            return word
        hidden = self._names.word(word)
        return hidden if hidden == word else self.gpu(word)


def _is_model(word: str) -> bool:
    """A word of the name of a GPU."""
    parts = word.lower().split("-")
    return word.isascii() and all(part in known.GPU_WORDS or _MODEL.fullmatch(part) for part in parts)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _are_numbers(value: object) -> bool:
    return _is_number(value) or (isinstance(value, list) and all(map(_is_number, value)))
