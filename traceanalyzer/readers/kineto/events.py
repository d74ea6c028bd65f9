"""The raw form of an event of a Kineto trace, as `libkineto/src/output_json.cpp` writes it.

Points in time stay text (`Raw`), because float64 cannot hold epoch microseconds with three decimals; shapes and
dimensions stay text, because most of them repeat and are decoded once per distinct text. Fields of `args`
are untyped: real traces hold numbers as strings, and one odd value must not cost the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

import msgspec
from msgspec import Raw

from traceanalyzer.trace.table import Bool

NO_TEXT = Raw(b"")

SLICE = "X"
"""Phase of events that have a duration."""

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that msgspec raises for text that is not a JSON, no UTF-8, or nested too deep."""


class Args(msgspec.Struct, gc=False, frozen=True):
    """The arguments that some analysis uses; all others are skipped while decoding."""

    external_id: Any = msgspec.field(name="External id", default=-1)
    old_external_id: Any = msgspec.field(name="external id", default=-1)
    correlation: Any = -1
    kernel: Any = ""
    shapes: Raw = msgspec.field(name="Input Dims", default=NO_TEXT)
    old_shapes: Raw = msgspec.field(name="Input dims", default=NO_TEXT)
    types: Raw = msgspec.field(name="Input type", default=NO_TEXT)
    strides: Raw = msgspec.field(name="Input Strides", default=NO_TEXT)
    concrete: Raw = msgspec.field(name="Concrete Inputs", default=NO_TEXT)
    sequence: Any = msgspec.field(name="Sequence number", default=-1)
    forward_thread: Any = msgspec.field(name="Fwd thread id", default=-1)
    device: Any = -1
    stream: Any = -1
    grid: Raw = NO_TEXT
    block: Raw = NO_TEXT
    registers: Any = msgspec.field(name="registers per thread", default=-1)
    shared_memory: Any = msgspec.field(name="shared memory", default=-1)
    blocks_per_sm: Any = msgspec.field(name="blocks per SM", default=None)
    occupancy: Any = msgspec.field(name="est. achieved occupancy %", default=None)
    bytes: Any = -1
    collective: Any = msgspec.field(name="Collective name", default="")
    dtype: Any = ""
    in_elements: Any = msgspec.field(name="In msg nelems", default=None)
    out_elements: Any = msgspec.field(name="Out msg nelems", default=None)
    group_size: Any = msgspec.field(name="Group size", default=None)
    group: Any = msgspec.field(name="Process Group Name", default="")
    ranks: Any = msgspec.field(name="Process Group Ranks", default="")
    group_sequence: Any = msgspec.field(name="Seq", default=None)
    kernel_backend: Any = ""
    kernel_file: Any = ""
    kernel_hash: Any = ""
    graph: Any = msgspec.field(name="graph id", default=-1)
    graph_node: Any = msgspec.field(name="graph node id", default=-1)
    device_type: Any = msgspec.field(name="Device Type", default=-1)
    device_id: Any = msgspec.field(name="Device Id", default=-1)
    memory_bytes: Any = msgspec.field(name="Bytes", default=0)
    address: Any = msgspec.field(name="Addr", default=0)
    allocated: Any = msgspec.field(name="Total Allocated", default=-1)
    reserved: Any = msgspec.field(name="Total Reserved", default=-1)
    python_id: Any = msgspec.field(name="Python id", default=-1)
    python_parent_id: Any = msgspec.field(name="Python parent id", default=-1)
    module_id: Any = msgspec.field(name="Python module id", default=-1)
    task_type: Any = msgspec.field(name="Task Type", default="")
    engine: Any = msgspec.field(name="HW event name", default="")


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """One element of `traceEvents`."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Any = ""
    tid: Any = ""
    ts: Raw = NO_TEXT
    dur: Any = None
    id: Any = -1
    args: Args = NO_ARGS


ARGS_FIELDS = {f.encode_name: f for f in msgspec.structs.fields(Args)}
EVENT_FIELDS = {f.encode_name: f for f in msgspec.structs.fields(Event)}


def is_general(events: Sequence[Event]) -> bool:
    """Whether the events are `Event`s, and not each of the type of its category."""
    return bool(events) and type(events[0]) is Event


def where(mask: Bool, events: Sequence[Event]) -> Sequence[Event]:
    """The events that a mask selects, one flag for each event."""
    return events if mask.all() else list(compress(events, mask.tobytes()))


def args_of(events: Iterable[Event]) -> list[Args]:
    """The arguments of events."""
    return [event.args for event in events]
