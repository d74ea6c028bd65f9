"""A recording that Kineto wrote, as torch's other writers would have written it.

`python_exporter` is `export_chrome_trace(path, use_python_export=True)` of torch 2.13, `cupti_monitor` its backend of
that name. `tests/readers/kineto/test_writers_of_torch.py` compares the two with torch's own.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec

_WRITTEN = msgspec.json.Encoder(decimal_format="number")

_OPTIONS = (
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_modules",
    "with_flops",
    "trace_id",
    "cupti_version",
)
_BY_PROFILER = (*_OPTIONS, "cuda_runtime_version", "cuda_driver_version")
"""What only Kineto in C++ says around the events; of the rest, the program adds some itself."""

_COPY = re.compile(r"Memcpy (\w+) \(([\w ]+) -> ([\w ]+)\)")
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


LOST_BY_MONITOR = (
    "grid",
    "block",
    "registers per thread",
    "shared memory",
    "blocks per SM",
    "warps per SM",
    "est. achieved occupancy %",
)
"""Arguments of kernels that the monitor of 2.13 does not write."""

LOST_BY_CUSPY = ("warps per SM", "est. achieved occupancy %")
"""Arguments of kernels that the monitor of 2.14 and 2.15 does not write; it leaves out the blocks per SM, too."""


def cupti_monitor(data: bytes, lost: Sequence[str] = LOST_BY_MONITOR) -> bytes:
    """A trace of Kineto as torch writes it with the backend `cupti_monitor`: device and calls from a second source.

    Args:
        data: The trace.
        lost: Arguments of kernels that the version does not write.
    """
    trace = parsed(data)
    gone = (*lost, "blocks per SM")
    return encoded(trace | {"traceEvents": list(_monitored(trace["traceEvents"], gone))})


def without(data: bytes, lost: Sequence[str]) -> bytes:
    """A trace of Kineto without what another writer cannot say of kernels."""
    trace = parsed(data)
    events = [event for event in trace["traceEvents"] if event.get("cat") not in _UNRECORDED]
    for event in events:
        if event.get("cat") == "kernel":
            event["args"] = {key: value for key, value in event["args"].items() if key not in lost}
            # it has six digits, and what follows from the grid and the number of multiprocessors has more
            if event["args"].pop("blocks per SM", None) is not None and "deviceProperties" in trace:
                sms = trace["deviceProperties"][event["args"]["device"]]["numSms"]
                event["args"]["blocks per SM"] = math.prod(event["args"]["grid"]) / sms
    return encoded(trace | {"traceEvents": events})


def _monitored(events: Iterable[dict[str, Any]], lost: Sequence[str]) -> Iterator[dict[str, Any]]:
    for event in events:
        category, args = event.get("cat"), event.get("args", {})
        if category in ("cuda_runtime", "cuda_driver"):
            yield event | {"args": _some(args, "cbid", "correlation")}
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            own = {key: value for key, value in args.items() if key not in lost and key not in _OF_KINETO}
            if "graph node id" in own:
                own["graph node id"] &= _NODE
            yield event | {"name": _NAMES.get(category, event["name"]), "args": own | _moved(event)}
        elif category not in _UNRECORDED:
            yield event


_UNRECORDED = ("cuda_sync",)
"""Categories that the monitor of 2.13 does not record."""

NOT_WRITTEN = {
    "Python exporter of 2.13 and 2.14": _BY_PROFILER,
    "Python exporter of 2.15": _OPTIONS,
    "CUPTI monitor of 2.13": (
        "blocks per SM",
        *_UNRECORDED,
        *(key for key in LOST_BY_MONITOR if key != "blocks per SM"),
    ),
    "CUPTI monitor of 2.14 and 2.15": ("blocks per SM", *_UNRECORDED, *LOST_BY_CUSPY),
}
"""By dialect: options, arguments and categories that are lost, as docs/formats.md lists them."""

_OF_KINETO = ("External id", "queued", "memory bandwidth (GB/s)")
_NAMES = {"gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}


def _moved(event: dict[str, Any]) -> dict[str, Any]:
    """What a copy or fill says of itself."""
    args = event.get("args", {})
    if event["cat"] == "gpu_memset":
        return {"bytes": args["bytes"], "value": 0, "memory kind": 3, "flags": 0}
    if event["cat"] != "gpu_memcpy":
        return {}
    found = _COPY.fullmatch(event["name"])
    assert found, event["name"]
    kind, source, target = found.groups()
    kinds = {"copy kind": kind, "src kind": _kind(source), "dst kind": _kind(target)}
    return {"bytes": args["bytes"], **kinds, "flags": 0}


def _kind(memory: str) -> str:
    return memory.lower().replace(" ", "_")


def labelled(data: bytes, labels: Mapping[int, Mapping[str, str]], lanes: Literal["all", "none"] = "none") -> bytes:
    """A trace of Kineto as the exporter in Python of 2.15 writes it, with what the program said of kernels of graphs.

    Args:
        data: The trace.
        labels: By the lower 32 bits of a node's id, what `mark_kernels` and `mark_stream` recorded.
        lanes: Whether events of graphs are moved to the streams that the labels name.
    """
    trace = parsed(data)
    events = [_labelled(event, labels, lanes) for event in trace.pop("traceEvents")]
    return encoded(trace | {"cudaGraphInlineAnnotated": True, "traceEvents": events})


def _labelled(event: dict[str, Any], labels: Mapping[int, Mapping[str, str]], lanes: str) -> dict[str, Any]:
    args = event.get("args", {})
    if "graph node id" not in args:
        return event
    said = dict(labels.get(args["graph node id"] & _NODE, {}))
    lane = said.pop("stream", None)
    shown = int(lane or _DEFAULT_STREAM) if lanes == "all" else args["stream"]
    if shown != args["stream"]:
        moved = {"stream": shown} | said | {"original_stream": args["stream"]}
        return event | {"tid": shown, "args": args | moved}
    return event | {"args": args | said | ({"annotated_stream": int(lane)} if lane else {})}


_DEFAULT_STREAM = 7
"""The stream on which events of graphs are shown that no label puts on another one."""


def _some(args: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: args[key] for key in keys if key in args}
