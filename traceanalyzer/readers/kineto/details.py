"""Brings events of devices into the one form that analyses know, whichever of torch's writers they come from.

The monitor of CUPTI calls every copy `Memcpy` and says in arguments what Kineto has in the name, leaves out the blocks
per multiprocessor, and cuts the ids of nodes to 32 bits. Writers that move kernels of a graph to other streams, so that
these look tidy, keep the stream on which they ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.model import Device, DeviceDetail
from traceanalyzer.trace.table import F64, I32, I64, UNKNOWN, Bool
from traceanalyzer.trace.tables import Category, DeviceEvents

COPY, FILL = "Memcpy", "Memset"
"""Names of copies and fills that say nothing of their direction and memory."""

_FILLED = ("Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")
"""Kinds of memory, by CUPTI's number."""

_NODE_BITS = 32
"""Bits of a node's id within its graph; above them is the id of the graph."""

_NVIDIA = "NVIDIA"


def settled(
    events: DeviceEvents,
    details: Sequence[DeviceDetail],
    encode: Callable[[str], int],
    dims: Sequence[bytes],
    devices: Iterable[Device],
) -> DeviceEvents:
    """The events as Kineto would have written them.

    Args:
        events: Events of devices.
        details: By code, what only some writers say of an event.
        encode: Gives texts their codes among the names.
        dims: By code, grids and blocks as JSON.
        devices: The devices that the file describes.
    """
    if events.detail.any():
        streams = np.array([UNKNOWN if detail.stream is None else detail.stream for detail in details], np.int64)
        ran = streams[events.detail]
        name = _named(events, details, encode)
        events = events.changed(name=name, stream=np.where(ran == UNKNOWN, events.stream, ran))
    return events.changed(graph_node=_whole_node(events), blocks_per_sm=_blocks(events, dims, devices))


def are_of_monitor(details: Iterable[DeviceDetail]) -> bool:
    """Whether the monitor of CUPTI wrote the events."""
    return any(detail.copy or detail.memory for detail in details)


def _named(events: DeviceEvents, details: Sequence[DeviceDetail], encode: Callable[[str], int]) -> I32:
    """Names of events, where those of copies and fills tell direction and memory."""
    names = events.name
    for category, bare, full in ((Category.MEMCPY, COPY, _copy), (Category.MEMSET, FILL, _fill)):
        own = (events.category == category) & (names == encode(bare)) & (events.detail > 0)
        for code in distinct(events.detail[own]).tolist():
            names = np.where(own & (events.detail == code), np.int32(encode(full(details[code]))), names)
    return names


def _copy(detail: DeviceDetail) -> str:
    direction = detail.copy if detail.copy.isalpha() else "Unknown"
    return f"{COPY} {direction} ({_memory(detail.source)} -> {_memory(detail.target)})" if detail.copy else COPY


def _memory(kind: str) -> str:
    return kind.replace("_", " ").title() or "Unknown"


def _fill(detail: DeviceDetail) -> str:
    number = int(detail.memory) if detail.memory.isdecimal() else 0
    return f"{FILL} ({_FILLED[number] if number < len(_FILLED) else _FILLED[0]})" if detail.memory else FILL


def _whole_node(events: DeviceEvents) -> I64:
    """Ids of nodes with the id of their graph above them, as most writers have them."""
    node, graph = events.graph_node, events.graph
    cut: Bool = (node >= 0) & (node < 1 << _NODE_BITS) & (graph > 0) & (graph < 1 << (_NODE_BITS - 1))
    return np.where(cut, (graph << _NODE_BITS) | node, node) if cut.any() else node


def _blocks(events: DeviceEvents, dims: Sequence[bytes], devices: Iterable[Device]) -> F64:
    """Blocks per multiprocessor, from the grid where the writer left them out for all kernels on devices of NVIDIA.

    A single kernel without them is one of which they are unknown. Kernels that name their registers are CUDA's; for
    others no writer says how they fill multiprocessors.
    """
    blocks = events.blocks_per_sm
    lacking = (events.grid > 0) & (events.registers != UNKNOWN)
    if not lacking.any() or not np.isnan(blocks).all():
        return blocks
    for device in devices:
        if device.vendor != _NVIDIA or not device.sm_count:
            continue
        wanted = lacking & (events.device == device.id)
        if wanted.any():
            sizes = np.array([_size(text) for text in dims])
            blocks = np.where(wanted, sizes[events.grid] / device.sm_count, blocks)
    return blocks


def _size(text: bytes) -> float:
    """How many blocks a grid has; NaN for what is none."""
    try:
        return float(np.prod(msgspec.json.decode(text, type=list[int]), dtype=float))
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError):
        return float("nan")
