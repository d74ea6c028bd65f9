# ruff: noqa: E501 - lists of names read best in long lines
"""What stays of the metadata around the events: numbers of known keys, and known words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from traceanalyzer.rewrite import public_names as known
from traceanalyzer.rewrite.names import Names
from traceanalyzer.rewrite.public_names import public
from traceanalyzer.trace import capture_facts

_HEADER = frozenset(
    [
        "schemaVersion", "record_shapes", "with_stack", "profile_memory", "with_modules", "with_flops",
        "baseTimeNanoseconds", "cupti_version", "cuda_runtime_version", "cuda_driver_version",
        "hip_runtime_version", "hip_driver_version", "roctracer_version", "rocprofiler_version",
    ]
)  # fmt: skip
_UNITS = ("ms", "ns", "us")
_DEVICE = frozenset(
    [
        "id", "totalGlobalMem", "computeMajor", "computeMinor", "maxThreadsPerBlock",
        "maxThreadsPerMultiprocessor", "regsPerBlock", "warpSize", "sharedMemPerBlock", "numSms",
        "regsPerMultiprocessor", "sharedMemPerBlockOptin", "sharedMemPerMultiprocessor", "maxGridWidth",
        "maxGridHeight", "runtimeMajorVersion", "runtimeMinorVersion", "maxSharedMemoryPerMultiProcessor", "maxComputeUnits", "maxWorkGroupSize", "maxClockFrequency", "maxMemAllocSize", "localMemSize",
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
        kept = {key: value for key, value in entry.items() if key in _DEVICE and _is_number(value)}
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
