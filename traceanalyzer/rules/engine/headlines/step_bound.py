"""What bounds a step, as it is said: one short sentence, what changes what to do about it, and details."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.recording import Recording

MOST_WORDS = 20
"""Words that a reader takes in at once (own choice)."""

_TYPICAL_STEP = Text("headline-unit-each", "each step", note="in the genitive: 35 of the 152 ms of ...")
_ONE_STEP = Text("headline-unit-step", "the step", note="in the genitive: 35 of the 152 ms of ...")
_RECORDING = Text("headline-unit-trace", "the trace", note="in the genitive: 35 of the 152 ms of ...")
_WORK = Text("headline-unit-work", "recorded work", note="in the genitive: 35 of the 152 ms of ...; a part of a trace")
_FURTHER = Text("detail-tool-further", "Further: {parts}.", note="parts is a list such as ampere_sgemm 300 ms")


class StepBound(msgspec.Struct, frozen=True):
    """What bounds a step."""

    bound: str
    message: Message
    """One sentence of at most 20 words."""
    share: float | None
    """Share of the step that the bound takes; None if nothing bounds it."""
    qualifier: Message | None = None
    """What changes what to do about it; None if nothing does."""
    details: tuple[Message, ...] = ()
    """Sentences that explain it, the most important first."""

    def and_says(self, text: Text, **params: Any) -> StepBound:
        """The same with another detail."""
        return replace(self, details=(*self.details, text(**params)))

    def qualified(self, text: Text, **params: Any) -> StepBound:
        """The same, qualified by a sentence, which is a detail where another one qualifies it more."""
        if self.qualifier is not None:
            return self.and_says(text, **params)
        return replace(self, qualifier=text(**params))


def is_short(message: Message, most: int = MOST_WORDS) -> bool:
    """Whether a sentence has few enough words."""
    return len(message.text.split()) <= most


def first_short(messages: Iterable[Message], most: int = MOST_WORDS) -> Message:
    """The first of some sentences, of which the last has least words, that is short enough; else the last one."""
    *longer, last = messages
    return next((message for message in longer if is_short(message, most)), last)


def of_list(text: Text, parts: Sequence[Message], **said: Any) -> StepBound:
    """A sentence with as many of the parts as it has room for; the others are a detail."""
    shown = {count: text(**said, parts=parts[:count]) for count in range(len(parts), 0, -1)}
    message = first_short(shown.values())
    found = StepBound("none", message, None)
    count = next(count for count, each in shown.items() if each is message)
    return found.and_says(_FURTHER, parts=parts[count:]) if count < len(parts) else found


def unit(recording: Recording | None) -> Message:
    """The unit of the figures: each typical step, the only step, or what was recorded of no marked step."""
    if recording is None:
        return _TYPICAL_STEP()
    if recording.steps_from == "whole-trace":
        return _WORK() if recording.has_more else _RECORDING()
    return _ONE_STEP() if len(recording.steps) == 1 else _TYPICAL_STEP()
