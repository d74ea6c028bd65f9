"""Events are decoded into types of their categories, and what is read is the same as if they were not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.builders.situations import SITUATIONS
from tests.reading import content, losses, read
from traceanalyzer.readers.kineto import events as event_types
from traceanalyzer.readers.kineto import windows
from traceanalyzer.readers.kineto.events import Event, EventDecoder


def event(category: str | None = "kernel", **fields: Any) -> dict[str, Any]:
    given = {"ph": "X", "name": "n", "pid": 1, "tid": 2, "ts": 5, "dur": 3} | fields
    return given if category is None else given | {"cat": category}


def decoded(decoder: EventDecoder, *events: dict[str, Any]) -> list[Any]:
    return decoder.decode(memoryview(json.dumps(events).encode()))


def are_general(events: list[Any]) -> bool:
    return all(type(found) is Event for found in events)


def test_events_have_the_type_of_their_category_from_the_first_one_on() -> None:
    decoder = EventDecoder()
    (kernel,) = decoded(decoder, event("kernel", args={"stream": 7, "Python id": 3, "bytes": "12"}))
    assert (kernel.cat, kernel.name, kernel.dur, bytes(kernel.ts)) == ("kernel", "n", 3, b"5")
    assert (kernel.args.stream, kernel.args.bytes, kernel.args.device) == (7, "12", -1)
    assert (kernel.pid, kernel.tid) == (1, 2)
    assert not hasattr(kernel, "id")
    assert not hasattr(kernel.args, "Python_id")
    found = decoded(decoder, event("cpu_op"), event("kernel"), event("Kernel"))
    assert [event.cat for event in found] == ["cpu_op", "kernel", "Kernel"]
    assert not any(type(event) is Event for event in found)


def test_what_a_list_decodes_to_does_not_depend_on_what_was_decoded_before() -> None:
    """The type of an ignored category does not look at a name that is no text; `Event` would refuse it."""
    text = memoryview(b'[{"ph": "f", "cat": "ac2g", "name": "\xff"}, {"ph": "X", "cat": "kernel", "name": "n"}]')
    fresh, used = EventDecoder(), EventDecoder()
    decoded(used, event("kernel"), event("ac2g"), event("cpu_op"))
    assert [event.cat for event in fresh.decode(text)] == [event.cat for event in used.decode(text)]


@pytest.mark.parametrize("odd", [event(None), event("kernel", ph="B")])
def test_what_has_no_type_makes_its_window_general(odd: dict[str, Any]) -> None:
    decoder = EventDecoder()
    decoded(decoder, event("kernel"))
    found = decoded(decoder, event("kernel"), odd)
    assert are_general(found)
    assert (found[1].cat, found[1].ph) == (odd.get("cat", ""), odd["ph"])
    assert not are_general(decoded(decoder, event("kernel")))


def test_text_that_is_no_json_raises_as_ever() -> None:
    decoder = EventDecoder()
    decoded(decoder, event("kernel"))
    with pytest.raises(msgspec.DecodeError):
        decoder.decode(memoryview(b'[{"ph": "X", "cat": "kernel", "name": "n", "ts": 1,}]'))


def test_too_many_categories_get_no_types() -> None:
    decoder = EventDecoder()
    crowd = [event(f"category {number}") for number in range(event_types._MOST_TYPES)]
    assert are_general(decoded(decoder, *crowd))
    assert are_general(decoded(decoder, *crowd))
    assert not are_general(decoded(decoder, event("kernel")))


def test_types_are_given_up_where_they_do_not_help() -> None:
    decoder = EventDecoder()
    for _ in range(event_types._MOST_FAILURES):
        assert are_general(decoded(decoder, event("kernel"), event(None)))
    assert are_general(decoded(decoder, event("kernel")))


def test_a_trace_reads_the_same_with_and_without_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", 2000)
    for situation in SITUATIONS:
        data = situation.build().to_bytes(situation.layout)
        if len(data) > 100_000:
            continue
        typed = read(data)
        with monkeypatch.context() as patch:
            patch.setattr(event_types, "_MOST_TYPES", 0)
            general = read(data)
        assert content(typed) == content(general), situation.name
        assert (typed.losses, typed.info) == (general.losses, general.info), situation.name


def test_slices_of_another_phase_are_counted_whenever_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", 600)
    events = [event("kernel", ts=number, ph="B" if number % 10 == 9 else "X") for number in range(100)]
    found = read(json.dumps({"traceEvents": events}).encode())
    assert losses(found)["read-phase"] == 10
    assert len(found.device) == 90


def test_an_event_that_its_category_takes_is_taken_after_types_of_categories_were_given_up() -> None:
    decoder = EventDecoder()
    for _ in range(100):
        decoder.decode(memoryview(b'[{"ph": "M"}]'))
    text = memoryview(b'[{"ph": "s", "cat": "fwdbwd", "name": 5, "id": 7}]')  # the names of flows are not used
    assert [event.id for event in decoder.decode(text)] == [event.id for event in EventDecoder().decode(text)] == [7]
