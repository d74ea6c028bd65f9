"""A trace through torch's own classes: the events of the JSON as FunctionEvents, averaged and printed by torch.

Stands in for a profile on a GPU, which cannot be recorded everywhere: what torch's C++ code hands to Python is
rebuilt from the JSON, event by event, and everything after that is torch's.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"}
CALLS = {"cuda_runtime", "cuda_driver"}
CPU = {"cpu_op", "user_annotation", "python_function", "overhead"} | CALLS
MEMORY_ON_DEVICE = {1, 6, 12, 20}


def torch_events(path: Path) -> Any:
    """The EventList of a trace whose calls and kernels name their operators."""
    util = import_module("torch.autograd.profiler_util")
    trace = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
    raws = [raw for raw in trace["traceEvents"] if raw.get("ph") == "X" and raw.get("cat") in DEVICE | CPU]
    began = next(ns(raw["ts"]) for raw in trace["traceEvents"] if raw.get("cat") == "Trace")
    records = [(Record(raw), [False]) for raw in trace["traceEvents"] if raw.get("name") == "[memory]"]
    events, frontend, linked = [], [], defaultdict(list)
    for raw in sorted(raws, key=lambda raw: ns(raw["ts"])):
        if not util._filter_name(raw["name"]):
            operator = (
                raw["args"].get("External id", 0) if raw["cat"] in CALLS | DEVICE - {"gpu_user_annotation"} else 0
            )
            event = function_event(util, raw, began, operator, records, main_thread(raws))
            events.append(event)
            (linked[operator] if operator else frontend).append(event)
    hand_out(frontend, linked)
    events += [top_level(util, record, began) for record, (covered,) in records if not covered]
    events.sort(key=lambda event: [event.time_range.start, -event.time_range.end])
    found = util.EventList(events, use_device="cuda", profile_memory=bool(trace.get("profile_memory")))
    found._build_tree()
    return found


def function_event(
    util: Any, raw: dict[str, Any], began: int, operator: int, records: list[tuple[Record, list[bool]]], main: Any
) -> Any:
    """One event as `_parse_kineto_results` makes it."""
    types = import_module("torch.autograd").DeviceType
    start, end, args = ns(raw["ts"]), ns(raw["ts"]) + ns(raw["dur"]), raw.get("args", {})
    held = [0, 0]
    for record, covered in records if raw["cat"] in CPU else ():
        if start <= record.start <= end:
            held[record.on_device] += record.size
            covered[0] = True
    return util.FunctionEvent(
        id=args.get("External id", 0) if raw["cat"] in CPU - CALLS else args.get("correlation", 0),
        name=util._rewrite_name(raw["name"], with_wildcard=True),
        is_python_function=raw["cat"] == "python_function",
        overload_name="",
        thread=main if raw["cat"] in CALLS | {"overhead"} and not operator else raw["tid"],
        start_us=(start - began) / 1000,
        end_us=(end - began) / 1000,
        input_shapes=[plain(shape) for shape in args.get("Input Dims", [])],
        stack=[],
        use_device="cuda",
        cpu_memory_usage=held[0],
        device_memory_usage=held[1],
        device_type=types.CUDA if raw["cat"] in DEVICE else types.CPU,
        flops=0,
        is_user_annotation="user_annotation" in raw["cat"],
    )


def hand_out(frontend: Iterable[Any], linked: dict[int, list[Any]]) -> None:
    """Operators get their kernels, and calls the threads of their operators."""
    types = import_module("torch.autograd").DeviceType
    for event in frontend:
        for other in linked.get(event.id, ()) if event.device_type == types.CPU else ():
            if other.device_type == types.CPU:
                other.thread = event.thread
            else:
                event.append_kernel(other.name, 0, other.time_range.elapsed_us())


def top_level(util: Any, record: Record, began: int) -> Any:
    """Memory that no event covers."""
    at = (record.start - began) / 1000
    sizes = {"device_memory_usage" if record.on_device else "cpu_memory_usage": record.size}
    where = {"overload_name": "", "input_shapes": [], "stack": [], "use_device": "cuda", "flops": 0}
    return util.FunctionEvent(0, "[memory]", record.tid, at, at, **where, **sizes)


class Record:
    """One allocation or free."""

    def __init__(self, event: dict[str, Any]) -> None:
        self.start = ns(event["ts"])
        self.tid = event["tid"]
        self.size = int(event["args"]["Bytes"])
        self.on_device = int(event["args"]["Device Type"]) in MEMORY_ON_DEVICE


def main_thread(raws: Iterable[dict[str, Any]]) -> Any:
    """The thread that marks the steps ends the profile, too."""
    return next((raw["tid"] for raw in raws if raw["name"].startswith("ProfilerStep#") and raw["cat"] in CPU), None)


def ns(us: Any) -> int:
    """Nanoseconds; the traces here begin near 0, so that a float is exact enough."""
    return round(float(us) * 1000)


def plain(shape: Any) -> Any:
    """The shape of a tensor, and nothing of a list of tensors."""
    return [] if any(isinstance(size, list) for size in shape) else shape
