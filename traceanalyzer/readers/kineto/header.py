"""Reads what stands around the event array: metadata before and after it, in any order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from traceanalyzer.knowledge import gpus
from traceanalyzer.readers.kineto.events import NOT_JSON
from traceanalyzer.trace import capture_facts
from traceanalyzer.trace.model import KINETO, PYTHON_EXPORTER, Device, ProfilerOptions

EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_KNOWN_NUMBER = re.compile(r'"(baseTimeNanoseconds|record_shapes|with_stack|profile_memory)"\s*:\s*(\d{1,19})(?!\d)')
_KEYS_TRIED = 20
"""Number of examined places where the array could start; each costs decoding everything before it."""

_OPTIONS = ("record_shapes", "with_stack", "profile_memory", "with_modules", "with_flops")
_BEYOND = 2**62

_PYTHON_LAYOUT = b'{\n"schemaVersion": 1,\n"deviceProperties": ['
"""How files of torch's exporter in Python begin; Kineto indents."""

_INLINE = "cudaGraphInlineAnnotated"
"""Key of the exporter in Python, where it wrote what the program said of kernels of graphs beside them."""

_OF_KINETO = ("trace_id", "cupti_version", "roctracer_version", *_OPTIONS)
"""Keys that Kineto in C++ writes, and no other writer; of devices it is the only one to write `regsPerBlock`."""

_FEWEST_THREADS = 1024
"""Threads that a multiprocessor holds at the least, on all GPUs that torch supports."""


def find_events(text: bytes) -> re.Match[bytes] | None:
    """Where the event array of an object starts: the first `traceEvents` key at the top level."""
    first = None
    for match in islice(EVENTS_KEY.finditer(text), _KEYS_TRIED):
        first = first or match
        if _decode(text[: match.start()] + b'"traceEvents":[]}') is not None:
            return match
    return first


def divided(after: bytes) -> tuple[bytes, bytes]:
    """What follows the event array until its object ends, and what follows that: objects of further files.

    Where it is not valid, or nothing follows, all of it counts as the first.
    """
    tail = after.strip()
    if tail.startswith((b"[", b"{")):  # after a bare array
        return b"", tail
    if tail.startswith(b"}"):
        return b"}", tail[1:]
    if not tail.startswith(b",") or _decode(b"{" + tail[1:]) is not None:
        return after, b""
    text = "{" + tail[1:].decode("utf-8", "replace")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return after, b""
    return ("," + text[1:end]).encode(), text[end:].encode()


def metadata(before: bytes, after: bytes) -> tuple[dict[str, Any], bool]:
    """The metadata of an object, from the text before the event array and after it.

    Args:
        before: From the opening brace up to the `traceEvents` key.
        after: What follows the array's closing bracket.

    Returns:
        The metadata, and whether all of it could be read.
    """
    head, tail = before.strip(), after.strip()
    parts = [head.rstrip(b", \t\r\n") + b"}"] if head else []
    if tail.startswith(b","):
        parts.append(b"{" + tail[1:])
    found: dict[str, Any] = {}
    whole = True
    for part in parts:
        value = _decode(part)
        if value is None:
            value, whole = dict(_salvage(part)), False
        found |= value
    return found, whole


def _decode(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text.decode("utf-8", "replace"))
    except NOT_JSON:
        return None
    return value if isinstance(value, dict) else None


def _salvage(text: bytes) -> list[tuple[str, Any]]:
    """Numbers that matter, from metadata that is not a valid JSON (log lines with bare quotes, a cut tail)."""
    return [(m[1], int(m[2])) for m in _KNOWN_NUMBER.finditer(text.decode("utf-8", "replace"))]


def devices(meta: Mapping[str, Any]) -> tuple[Device, ...]:
    """The accelerators of `deviceProperties`."""
    return tuple(_device(e, i, meta) for i, e in enumerate(_described(meta)))


def _described(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    entries = meta.get("deviceProperties")
    return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []


def _device(entry: Mapping[str, Any], position: int, meta: Mapping[str, Any]) -> Device:
    major, minor = integer(entry.get("computeMajor")), integer(entry.get("computeMinor"))
    number, name = integer(entry.get("id")), entry.get("name")
    name = name if isinstance(name, str) else None
    return Device(
        id=position if number is None else number,
        name=name,
        vendor=_vendor(name, entry, meta),
        memory_bytes=count(entry.get("totalGlobalMem")) or None,
        compute_capability=None if major is None or minor is None else f"{major}.{minor}",
        sm_count=_multiprocessors(entry, name),
    )


def writer(before: bytes, meta: Mapping[str, Any]) -> str | None:
    """What wrote the file, by its layout and by what only one writer says; None if nothing shows it.

    Args:
        before: The text before the event array.
        meta: The metadata of the file.
    """
    entries = _described(meta)
    if before.startswith(_PYTHON_LAYOUT) or _INLINE in meta or any(map(_swapped, entries)):
        return PYTHON_EXPORTER
    is_kineto = any(key in meta for key in _OF_KINETO) or any("regsPerBlock" in entry for entry in entries)
    return KINETO if is_kineto else None


def _multiprocessors(entry: Mapping[str, Any], name: str | None) -> int | None:
    """How many a device has: as the file says, and where it does not, as the data sheet of its model says.

    A number that is greater than the data sheet's is something else.
    """
    if written := count(entry.get("numSms")):
        return written
    model = gpus.find(Device(0, name, memory_bytes=count(entry.get("totalGlobalMem"))))
    known = model.sm_count if model else None
    swapped = _swapped(entry)
    return swapped if swapped and (known is None or swapped <= known) else known


def _swapped(entry: Mapping[str, Any]) -> int | None:
    """The number of multiprocessors where torch 2.13's exporter in Python puts it: in place of that of threads."""
    written = count(entry.get("maxThreadsPerMultiprocessor")) or 0
    return written if 0 < written < _FEWEST_THREADS and "numSms" not in entry else None


def _vendor(name: str | None, entry: Mapping[str, Any], meta: Mapping[str, Any]) -> str | None:
    lower = (name or "").lower()
    if any(word in lower for word in ("amd", "radeon", "instinct")) or "hip_runtime_version" in meta:
        return "AMD"
    if any(word in lower for word in ("nvidia", "tesla", "geforce", "quadro", "rtx")):
        return "NVIDIA"
    if "intel" in lower or "maxComputeUnits" in entry:
        return "Intel"
    # A warp of 64 lanes is AMD's; NVIDIA's has 32. Both writers use the same keys otherwise.
    return {32: "NVIDIA", 64: "AMD"}.get(integer(entry.get("warpSize")) or 0)


def options(meta: Mapping[str, Any], seen: Mapping[str, bool]) -> ProfilerOptions:
    """Options of the profiler. Writers add a flag only if the option is on, and older ones add none.

    Args:
        meta: The metadata of the file.
        seen: Per option, whether the events show that it was on.
    """
    written = any(name in meta for name in _OPTIONS)
    values = {name: True if meta.get(name) or seen.get(name) else (False if written else None) for name in _OPTIONS}
    return ProfilerOptions(**values)


def capture(meta: Mapping[str, Any]) -> capture_facts.CaptureFacts | None:
    """What a capture recorded in addition to the events; None for other traces, and where the block is damaged."""
    return capture_facts.parse(meta.get(capture_facts.KEY))


def integer(value: Any) -> int | None:
    """An integer from a number or its text; None for anything else, and beyond 62 bits, where sums leave 64."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < _BEYOND else None


def count(value: Any) -> int | None:
    """Like `integer`, but None for negative numbers, too."""
    number = integer(value)
    return None if number is None or number < 0 else number
