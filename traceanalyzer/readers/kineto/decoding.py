"""Decodes events, each into a type that has only the fields of its category.

An `Event` with its `Args` has some fifty fields, of which a category uses ten. Most of the time of decoding goes into
looking for the others and filling them in, so every category that occurs gets a separate type, which msgspec finds by
the event's `cat`. The fields have the same names and types as in `Event`, so readers need not distinguish the two.
"""

from __future__ import annotations

from functools import cache, lru_cache, reduce
from operator import or_
from typing import Any, Literal

import msgspec

from traceanalyzer.readers.kineto.accelerators import BY_CONTENT
from traceanalyzer.readers.kineto.categories import TableGroup, classify
from traceanalyzer.readers.kineto.events import ARGS_FIELDS, EVENT_FIELDS, NO_ARGS, Event

_MOST_TYPES = 64
"""Greatest number of categories with a separate type; no writer uses half as many."""

_PATIENCE = 8
"""Windows that may fail to decode by category, beyond as many as do not, until it is given up."""

_SLICE = ("ph", "name", "pid", "tid", "ts", "dur")
_DEVICE_SLICE = ("ph", "name", "ts", "dur")
_COLLECTIVE = ("collective", "dtype", "in_elements", "out_elements", "group_size", "group", "ranks", "group_sequence")
_FIELDS: dict[TableGroup, tuple[str, ...]] = {
    TableGroup.HOST: _SLICE,
    TableGroup.LAUNCH: _SLICE,
    TableGroup.DEVICE: _DEVICE_SLICE,
    TableGroup.GPU_ANNOTATION: _SLICE,
    TableGroup.FRAME: _SLICE,
    TableGroup.SYNC: _DEVICE_SLICE,
    TableGroup.OVERHEAD: _SLICE,
    TableGroup.FLOW: ("ph", "id", "pid", "tid", "ts"),
    TableGroup.INSTANT: ("ph", "name", "pid", "tid", "ts"),
    TableGroup.IGNORED: (),
    TableGroup.UNKNOWN: (),
}
"""What is used of an event, by group; the groups that are not here have all fields."""

_ARGS: dict[TableGroup, tuple[str, ...]] = {
    TableGroup.HOST: (
        *("external_id", "sequence", "forward_thread", "concrete", "types", "strides", "shapes"),
        *("old_external_id", "old_shapes", *_COLLECTIVE, "kernel_backend", "kernel_file", "kernel_hash"),
    ),
    TableGroup.LAUNCH: ("external_id", "kernel", "correlation", "old_external_id"),
    TableGroup.DEVICE: (
        *("external_id", "device", "stream", "correlation", "registers", "shared_memory", "blocks_per_sm"),
        *("grid", "block", "occupancy", "bytes", "old_external_id", *_COLLECTIVE, "graph", "graph_node"),
    ),
    TableGroup.FRAME: ("python_parent_id", "python_id", "module_id"),
    TableGroup.SYNC: ("stream", "correlation", "device"),
    TableGroup.INSTANT: ("reserved", "allocated", "memory_bytes", "address", "device_id", "device_type"),
}
"""What is used of the arguments, mostly in the order in which they are written, which is where they are looked for."""


class _Tagged(msgspec.Struct, gc=False):
    """An event of which only the category matters."""

    cat: str = ""


_TAGGED = msgspec.json.Decoder(list[_Tagged])


class EventDecoder:
    """Decodes the texts of lists of events; learns the categories as they occur.

    What a list decodes to depends on its text alone, not on what was decoded before: types of categories do not look
    at fields that are not used, and so take some events that `Event` would refuse.
    """

    def __init__(self) -> None:
        self._general = msgspec.json.Decoder(list[Event])
        # A type that stands alone would take events without a category, too; so there are always these.
        self._types: dict[str, Any] = {category: event_type(category) for category in ("", "cpu_op")}
        self._by_category = _decoder_of(self._types)
        self._patience = _PATIENCE

    def decode(self, text: memoryview) -> list[Any]:
        """The events of a list, each of the type of its category, or all of type `Event` where that fails.

        Raises:
            DecodeError, UnicodeDecodeError, RecursionError: As from msgspec.
        """
        is_patient = self._patience > 0
        if is_patient:
            try:
                events = self._decoded(text)
            except msgspec.ValidationError:  # an event without a category, or of an unusual phase
                self._patience -= 1
            else:
                self._patience += 1
                return events
        try:
            return self._general.decode(text)
        except msgspec.ValidationError:
            if is_patient:
                raise
        return self._decoded(text)  # so that it does not matter what was given up before

    def _decoded(self, text: memoryview) -> list[Any]:
        events: list[Any]
        try:
            events = self._by_category.decode(text)
        except msgspec.ValidationError:
            if not self._learn(text):
                raise
            events = self._by_category.decode(text)
        return events

    def _learn(self, text: memoryview) -> bool:
        """Make types for the categories that are new; False if there are none, or too many."""
        new = {event.cat for event in _TAGGED.decode(text)}.difference(self._types)
        if not new or len(self._types) + len(new) > _MOST_TYPES:
            return False
        self._types |= {category: event_type(category) for category in sorted(new)}
        self._by_category = _decoder_of(self._types)
        return True


def _decoder_of(types: dict[str, Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(list[reduce(or_, types.values())])  # type: ignore[misc]


@lru_cache(4 * _MOST_TYPES)
def event_type(category: str) -> Any:
    """A type that events of a category are decoded to; its attribute `cat` is the category.

    A slice of another phase than `X` does not decode to it, so the phase of slices need not be checked again.
    """
    group = classify(category)[0]
    is_general = category.lower() in BY_CONTENT or group not in _FIELDS
    names = tuple(name for name in _EVENT if name not in ("cat", "args")) if is_general else _FIELDS[group]
    fields: list[Any] = [(name, _EVENT[name].type, _EVENT[name].default) for name in names if name != "ph"]
    if is_general or group in _ARGS:
        none = NO_ARGS if is_general else _args_type(group)()
        fields.append(("args", type(none), none))
    if "dur" in names and not is_general:
        fields.insert(0, ("ph", Literal["X"]))
    elif "ph" in names:
        fields.insert(0, ("ph", str, ""))
    return msgspec.defstruct(
        "CategoryEvent", fields, namespace={"cat": category}, gc=False, tag_field="cat", tag=category
    )


@cache
def _args_type(group: TableGroup) -> Any:
    specs = [_ARGUMENTS[name] for name in _ARGS[group]]
    fields = [(spec.name, spec.type, msgspec.field(name=spec.encode_name, default=spec.default)) for spec in specs]
    return msgspec.defstruct("CategoryArgs", fields, gc=False, frozen=True)


_EVENT = {spec.name: spec for spec in EVENT_FIELDS.values()}
_ARGUMENTS = {spec.name: spec for spec in ARGS_FIELDS.values()}
