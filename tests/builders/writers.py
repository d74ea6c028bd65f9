"""A recording that Kineto wrote, as torch's other writers would have written it.

`python_exporter` is `export_chrome_trace(path, use_python_export=True)` of torch 2.13, `cupti_monitor` its backend of
that name. `tests/readers/kineto/test_with_torch.py` compares the two with torch's own.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

_WRITTEN = msgspec.json.Encoder(decimal_format="number")

_BY_PROFILER = (
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_modules",
    "with_flops",
    "trace_id",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
)
"""What only Kineto in C++ says around the events; of the rest, the program adds some itself."""

_COPY = re.compile(r"Memcpy (\w+) \((\w+) -> (\w+)\)")
_NODE = (1 << 32) - 1


def parsed(data: bytes) -> dict[str, Any]:
    """A trace, compressed or not, with exact numbers."""
    plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    trace = json.loads(plain, parse_float=Decimal)
    return trace if isinstance(trace, dict) else {"traceEvents": trace}


def encoded(trace: dict[str, Any]) -> bytes:
    """A trace as text without blanks."""
    return _WRITTEN.encode(trace)


def python_exporter(data: bytes) -> bytes:
    """A trace of Kineto as torch's exporter in Python writes it: one event a line, instants as slices."""
    trace = parsed(data)
    head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [*map(_device, trace.get("deviceProperties", []))]}
    head |= {key: value for key, value in trace.items() if key not in (*_BY_PROFILER, *head, "traceEvents")}
    lines = [encoded({key: value})[1:-1].replace(b":", b": ", 1) for key, value in head.items()]
    events = b",\n".join(map(_WRITTEN.encode, map(_slice, trace["traceEvents"])))
    return b"{\n" + b",\n".join(lines) + b',\n"traceEvents": [\n' + events + b'\n],\n"traceName": "trace.json"\n}\n'


def _device(entry: dict[str, Any]) -> dict[str, Any]:
    """What it says of a device; the number of multiprocessors has the name of another one."""
    kept = ("id", "name", "totalGlobalMem", "computeMajor", "computeMinor", "maxThreadsPerBlock")
    swapped = {"maxThreadsPerMultiprocessor": entry["numSms"]} if "numSms" in entry else {}
    rest = ("regsPerMultiprocessor", "warpSize")
    return {k: entry[k] for k in kept if k in entry} | swapped | {k: entry[k] for k in rest if k in entry}


def _slice(event: dict[str, Any]) -> dict[str, Any]:
    if event["ph"] not in ("i", "I") or not event.get("cat"):
        return event
    kept = {key: event[key] for key in ("cat", "name", "pid", "tid", "ts")}
    return {"ph": "X"} | kept | {"dur": Decimal("0.000"), "args": event["args"]}


def cupti_monitor(data: bytes) -> bytes:
    """A trace of Kineto as torch writes it with the backend `cupti_monitor`: device and calls from a second source."""
    trace = parsed(data)
    return encoded(trace | {"traceEvents": list(_monitored(trace["traceEvents"]))})


def _monitored(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for event in events:
        category, args = event.get("cat"), event.get("args", {})
        if category in ("cuda_runtime", "cuda_driver"):
            yield event | {"args": _some(args, "cbid", "correlation")}
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            kept = _some(args, "device", "context", "stream", "correlation", "graph id", "graph node id")
            if "graph node id" in kept:
                kept["graph node id"] &= _NODE
            yield event | {"name": _NAMES.get(category, event["name"]), "args": kept | _moved(event)}
        elif category != "cuda_sync":
            yield event


_NAMES = {"gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}


def _moved(event: dict[str, Any]) -> dict[str, Any]:
    """What a copy or fill says of itself."""
    args = event.get("args", {})
    if event["cat"] == "gpu_memset":
        return {"bytes": args["bytes"], "value": 0, "memory kind": 3, "flags": 0}
    if event["cat"] != "gpu_memcpy":
        return {}
    found = _COPY.fullmatch(event["name"])
    kind, source, target = found.groups() if found else (0, "unknown", "unknown")
    kinds = {"copy kind": kind, "src kind": source.lower(), "dst kind": target.lower()}
    return {"bytes": args["bytes"], **kinds, "flags": 0}


def _some(args: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: args[key] for key in keys if key in args}
