"""When does DistributedDataParallel broadcast the buffers of a model?

At the start of each forward pass of a training, unless it was made with `broadcast_buffers=False`: it flattens the
buffers, broadcasts them and copies them back. Without stacks only the first operators of
`DistributedDataParallel.forward` show it.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64

FORWARD = "DistributedDataParallel.forward"
_PART = re.compile(
    r"^(?:aten::(?:(?:un)?flatten_dense_tensors|copy_|cat|empty\w*|view|slice|narrow|detach|detach_|to|reshape|select)"
    r"|detach_?|c10d::\w*broadcast\w*|(?:nccl|gloo|rccl|xccl):_?broadcast\w*|record_param_comms"
    r"|torch::distributed\w*::\w*)$"
)
_TELLING = re.compile(r"broadcast")


def is_part(name: str) -> bool:
    """Whether an operator may be part of a broadcast of buffers."""
    return _PART.match(name) is not None


def is_broadcast(name: str) -> bool:
    """Whether an event is a broadcast, by c10d's operator or by the mark of the collective."""
    return _TELLING.search(name) is not None


class Broadcasts(msgspec.Struct, frozen=True):
    """Broadcasts of buffers in the order of time."""

    mark: I64
    """Row of each mark of a forward pass in the host table."""
    start_ns: I64
    end_ns: I64


def broadcasts(context: Context) -> Broadcasts:
    """Each interval is from the start of a forward pass to the end of the last operator of its broadcast."""
    host, names = context.trace.host, context.trace.names
    marks = np.flatnonzero(host.name == names.code(FORWARD))
    is_part_of = names.where(is_part)
    found = [Broadcasts(*np.empty((3, 0), np.int64))]
    for thread in distinct(host.thread[marks]).tolist():
        own = marks[host.thread[marks] == thread]
        rows = _outermost(context, thread)
        start = host.start_ns[rows]
        first = np.searchsorted(start, host.start_ns[own])
        others = np.append(np.flatnonzero(~is_part_of[host.name[rows]]), len(rows))
        after = np.minimum(others[np.searchsorted(others, first)], np.searchsorted(start, host.end_ns[own]))
        told = np.append(0, np.cumsum(names.where(is_broadcast)[host.name[rows]]))
        begins = (after > first) & (told[after] > told[first])
        last = rows[after[begins] - 1]
        end = np.minimum(host.end_ns[last], host.end_ns[own[begins]])
        found.append(Broadcasts(own[begins], host.start_ns[own[begins]], end))
    return Broadcasts(
        *(np.concatenate([getattr(part, name) for part in found]) for name in Broadcasts.__struct_fields__)
    )


def _outermost(context: Context, thread: int) -> I64:
    """Rows of the outermost operators and collectives of a thread in the order of time."""
    host, names = context.trace.host, context.trace.names
    wanted = host_activity.operator_rows(context) | names.where(is_broadcast)[host.name]
    rows = np.flatnonzero(wanted & (host.thread == thread) & (host.name != names.code(FORWARD)))
    reach = np.maximum.accumulate(np.append(-1, host.end_ns[rows]))[:-1]
    return rows[host.start_ns[rows] >= reach]
