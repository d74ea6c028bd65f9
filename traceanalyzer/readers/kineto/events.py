"""The raw form of events of a Kineto trace, as `libkineto/src/output_json.cpp` writes them, and how it is decoded.

Points in time stay text (`Raw`), because float64 cannot hold epoch microseconds with three decimals; shapes and
dimensions stay text, because most of them repeat and are decoded once per distinct text. Other arguments are untyped:
real traces hold numbers as strings, and one odd value must not cost the window.

An `Event` with its `Args` has some fifty fields, of which a category uses ten. Most of the time of decoding goes into
looking for the others and filling them in, so every category that occurs gets a separate type, which msgspec finds by
the event's `cat`. The fields have the same names and types as in `Event`, so readers need not distinguish the two.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import chain, compress, repeat
from operator import or_
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw

from traceanalyzer.readers.kineto.fields import (
    BY_CONTENT,
    DESCRIPTIONS,
    DEVICE_TOLD,
    TABLES,
    WHOLES,
    EventTable,
    Field,
    Kind,
    TableGroup,
    attribute,
    classify,
)
from traceanalyzer.readers.kineto.labels import with_labels
from traceanalyzer.trace.table import Bool

NO_TEXT = Raw(b"")

SLICE = "X"
"""Phase of events that have a duration."""

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that msgspec raises for text that is not a JSON, no UTF-8, or nested too deep."""


def arguments_type(name: str, fields: Iterable[Field], *more: str) -> Any:
    """A type with the arguments that some fields are made of, and more, which are texts; all may be missing."""
    members: dict[str, tuple[str, Any, Any]] = {}
    for key, none in chain(*(_missing(field).items() for field in fields), zip(more, repeat(""))):
        kind = Raw if isinstance(none, Raw) else Any
        members.setdefault(key, (attribute(key), kind, msgspec.field(name=key, default=none)))
    return msgspec.defstruct(name, members.values(), gc=False, frozen=True)


def _missing(field: Field) -> Mapping[str, Any]:
    """The arguments that a field is made of, and the value of each in events that do not have it."""
    if field.kind in WHOLES:
        return DESCRIPTIONS[field.pool].defaults
    none = {Kind.TEXT: NO_TEXT, Kind.NAMED: "", Kind.NUMBER: None}.get(field.kind, field.missing)
    return dict.fromkeys((field.key, field.older or field.key), none)


if TYPE_CHECKING:
    Args = Any
else:
    Args = arguments_type("Args", chain.from_iterable(table.arguments for table in TABLES.values()), *DEVICE_TOLD)
    """The arguments that some analysis uses, by `fields.attribute`; all others are skipped while decoding."""

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


_MOST_TYPES = 64
"""Greatest number of categories with a separate type; no writer uses half as many."""

_MOST_FAILURES = 8
"""Windows that may fail to decode by category, beyond as many as do not, until it is given up."""

_ALL = (TableGroup.ACCELERATOR, TableGroup.SPAN)
"""Groups of which all fields are decoded; their events are few."""


class _Tagged(msgspec.Struct, gc=False):
    """An event of which only the category matters."""

    cat: str = ""


_TAGGED = msgspec.json.Decoder(list[_Tagged])


class _Unread(msgspec.Struct, gc=False):
    """An event whose arguments stay text."""

    args: Raw = NO_TEXT


_UNREAD = msgspec.json.Decoder(list[_Unread])
_IN_GRAPH = b'"graph '
"""How arguments begin that only events of graphs have."""


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
        self._failures_left = _MOST_FAILURES

    def decode(self, text: memoryview) -> list[Any]:
        """The events of a list, each of the type of its category, or all of type `Event` where that fails.

        Raises:
            DecodeError, UnicodeDecodeError, RecursionError: As from msgspec.
        """
        events = self._plain(text)
        return _with_labels(events, text) if _IN_GRAPH in bytes(text) else events

    def _plain(self, text: memoryview) -> list[Any]:
        """The events without what only their other arguments tell."""
        is_by_category = self._failures_left > 0
        if is_by_category:
            try:
                events = self._decoded(text)
            except msgspec.ValidationError:  # an event without a category, or of an unusual phase
                self._failures_left -= 1
            else:
                self._failures_left += 1
                return events
        try:
            return self._general.decode(text)
        except msgspec.ValidationError:
            if is_by_category:
                raise
        return self._decoded(text)  # so that it does not matter what was given up before

    def _decoded(self, text: memoryview) -> list[Any]:
        events: list[Any]
        try:
            events = self._by_category.decode(text)
        except msgspec.ValidationError:
            if not self._add_types(text):
                raise
            events = self._by_category.decode(text)
        return events

    def _add_types(self, text: memoryview) -> bool:
        """Make types for the categories that are new; False if there are none, or too many."""
        new = {event.cat for event in _TAGGED.decode(text)}.difference(self._types)
        if not new or len(self._types) + len(new) > _MOST_TYPES:
            return False
        self._types |= {category: event_type(category) for category in sorted(new)}
        self._by_category = _decoder_of(self._types)
        return True


def _with_labels(events: list[Any], text: memoryview) -> list[Any]:
    """The events, those of graphs with what the program said of them under keys of its own."""
    for event, unread in zip(events, _UNREAD.decode(text), strict=True):
        if unread.args and classify(event.cat)[0] is TableGroup.DEVICE:
            event.args = with_labels(event.args, unread.args)
    return events


def _decoder_of(types: dict[str, Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(list[reduce(or_, types.values())])  # type: ignore[misc]


def _fields(used: Container[str]) -> list[Any]:
    """Name, type and default of the fields of `Event` that are used, but for the category and the arguments."""
    return [
        (field.name, field.type, field.default)
        for key, field in EVENT_FIELDS.items()
        if key in used and key not in ("cat", "args")
    ]


def _used_fields(table: EventTable) -> list[Any]:
    """The fields of which a table is made."""
    used = {field.key for field in table.fields}
    fields = _fields(used)
    if "dur" in used:
        fields[0] = ("ph", Literal["X"])
    if table.arguments:
        none = arguments_type("CategoryArgs", table.arguments)()
        fields.append(("args", type(none), none))
    return fields


@lru_cache(4 * _MOST_TYPES)
def event_type(category: str) -> Any:
    """A type that events of a category are decoded to; its attribute `cat` is the category.

    A slice of another phase than `X` does not decode to it, so the phase of slices need not be checked again.
    """
    group = classify(category)[0]
    is_general = category.lower() in BY_CONTENT or group in _ALL
    table = TABLES.get(group)
    if is_general:
        fields = [*_fields(EVENT_FIELDS), ("args", type(NO_ARGS), NO_ARGS)]
    else:
        fields = _used_fields(table) if table else []
    return msgspec.defstruct(
        "CategoryEvent", fields, namespace={"cat": category}, gc=False, tag_field="cat", tag=category
    )
