"""Texts keep the raw quantities that they show."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.warnings import TEXTS, warning


def test_quantities_are_rendered_by_the_unit_that_the_text_names() -> None:
    text = Text("lost", "{count:count} events ({time:ns}, {share:share}) of {category} were lost")
    message = text(count=12_345, time=148_736_000, share=0.5, category="kernel")
    assert message.text == "12,345 events (149 ms, 50 %) of kernel were lost"
    assert message.params == {"count": 12_345, "time": 148_736_000, "share": 0.5, "category": "kernel"}
    assert message.id == "lost"
    assert str(message) == message.text


def test_unknown_quantities_stay_unknown() -> None:
    message = Text("size", "{size:bytes} were read")(size=None)
    assert (message.text, message.params) == ("unknown were read", {"size": None})


@pytest.mark.parametrize("name", ["{0}", "{x.__class__}", "%s", "{", "}", "{{x}}", "<b>", "\n"])
def test_texts_of_users_are_no_formats(name: str) -> None:
    assert Text("name", "the kernel {name} ran")(name=name).text == f"the kernel {name} ran"


def test_a_text_without_its_quantity_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Text("lost", "{count:count} events were lost")()


@given(st.integers(-(10**15), 10**15), st.floats(0, 1), st.text())
def test_messages_survive_json(count: int, share: float, name: str) -> None:
    message = Text("lost", "{count:count} {share:share} {name}")(count=count, share=share, name=name)
    stored = msgspec.json.encode(message)
    assert msgspec.json.decode(stored, type=Message) == message


def test_warnings_have_one_text_each() -> None:
    assert len({text.id for text in TEXTS}) == len(TEXTS)
    assert all(text.id.startswith(("read-", "compile-log-", "q-")) for text in TEXTS)


def test_a_warning_counts_and_says_what_it_counted() -> None:
    found = warning("read-lost-event", 3, {"offset": 1_234_567})
    assert (found.id, found.count) == ("read-lost-event", 3)
    assert found.message.text == "3 damaged events were lost, the first at byte 1,234,567."
    assert found.message.params == {"count": 3, "offset": 1_234_567}


def test_unheard_of_warnings_are_a_mistake() -> None:
    with pytest.raises(KeyError):
        warning("read-unheard-of", 1, {})
