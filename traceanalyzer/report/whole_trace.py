"""Texts about a trace without steps: what others say of a step, they say of the trace.

Hundreds of texts give figures per step. Where a trace has no steps, all of it counts as one, and the same texts are
told with other words: of the trace, in the trace. Their translations are found by the ids of the texts as ever; the
words to change are a text themselves, so that each language has its own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report

WHOLE = "whole-trace"
"""What marks the only step of a recording without steps, as in `structure.recording.Recording`."""
WORDS = Text(
    "whole-trace-words",
    "per step > in the trace | Per step > In the trace | of each step > of the trace | of every step > of the trace | "
    "of the step > of the trace | of a step > of the trace | of one step > of the trace | "
    "in each step > in the trace | in every step > in the trace | in the step > in the trace | "
    "in a step > in the trace | within a step > within the trace | during the step > during the trace | "
    "A step > The trace | a step takes > the trace takes | The whole step > The whole trace | "
    "Whole step > The whole trace | Where the step goes > Where the time goes | about the step > about the time | "
    "The step then takes > The trace then takes | what the step waits for > what the program waits for | "
    "The typical step. > The trace. | Typical step: > The trace: | "
    "while the step > while the program | The step waits > The program waits | the step waits > the program waits | "
    "/step > ",
    note="not read by people: pairs of words with which texts about a step are told of a trace that has no steps; "
    "their order is that in which they replace each other",
)
"""Pairs of words: those of a step, and those of a trace without steps."""
_SUFFIX = "~trace"
"""End of the id of a message whose words are those of a trace without steps."""
_AS_EVER = ("-advice", "-action", "-snippet", "define-")
"""Parts of ids of definitions, and of texts on what to change: a program has steps, marked or not."""


def known(id: str) -> str:  # noqa: A002 - the contract's word
    """The id of the text that a message has, by which catalogs know it."""
    return id.removesuffix(_SUFFIX)


def template(text: str, found: Message, words: str) -> str:
    """The template of a message, with the words of a trace without steps if it is about one.

    Args:
        text: The template in some language.
        found: The message.
        words: `WORDS` in that language.
    """
    return _told(text, words) if found.id.endswith(_SUFFIX) else text


def is_of(report: Report) -> bool:
    """Whether a report is of a trace without steps."""
    recording = report.analyses.get("recording")
    found = recording.get("steps_from") if isinstance(recording, dict) else getattr(recording, "steps_from", None)
    return found == WHOLE


def everywhere(value: Any) -> Any:
    """A value of a report whose messages are all about a trace without steps."""
    if isinstance(value, Message):
        return message(value)
    if isinstance(value, tuple):
        return tuple(everywhere(each) for each in value)
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    changed = {name: told for name, each in fields.items() if (told := everywhere(each)) != each}
    return replace(value, **changed) if changed else value


def message(found: Message) -> Message:
    """A message with the words of a trace without steps; what is to be done has those of a program."""
    if any(part in found.id for part in _AS_EVER) or found.id.endswith(_SUFFIX):
        return found
    params = {name: _of_param(each) for name, each in found.params.items()}
    text = _told(found.text, WORDS.english)
    return found if text == found.text else Message(found.id + _SUFFIX, params, text)


def _of_param(value: Any) -> Any:
    """A quantity of a message; a message in it is plain data."""
    if isinstance(value, list):
        return [_of_param(each) for each in value]
    if isinstance(value, dict) and value.keys() == {"id", "params", "text"}:
        return msgspec.to_builtins(message(msgspec.convert(value, Message)))
    return value


@lru_cache(4096)
def _told(text: str, words: str) -> str:
    """A text with other words; none of them is a part of a longer word."""
    for pair in words.split("|"):
        before, _, after = pair.strip().partition(" >")
        text = re.sub(re.escape(before) + "(?![a-zа-яё])", after.strip(), text)
    return text
