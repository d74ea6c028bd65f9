"""Arguments of events that stay: numbers and known words that analyses read and viewers show."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from traceanalyzer.readers.kineto.events import ARGS_FIELDS
from traceanalyzer.rewrite import public_names as known
from traceanalyzer.rewrite.names import Names
from traceanalyzer.rewrite.public_names import public

_MORE_NUMBERS = (
    "queued", "context", "cbid", "cid", "kind", "ptr", "warps per SM", "Record function id", "Ev Idx", "Op count",
    "memory bandwidth (GB/s)", "sort_index", "In split size", "Out split size", "Global rank start", "num_warps",
    "Global rank stride", "num_stages", "Device", "external ts", "wait_on_stream", "wait_on_cuda_event_id",
    "Stream Id", "Physic Stream Id", "Task Id", "Batch Id", "Subtask Id", "Model Id", "connection_id",
    "wait_on_cuda_event_record_corr_id", "Trace iteration", "Rank", "Iteration",
)  # fmt: skip
"""Arguments with numbers that viewers show, and no analysis reads."""

_VALUE = rb"-?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,5})?|true|false|null|0x[0-9a-fA-F]{1,16}"
_NUMBER = re.compile(rb'"?(?:' + _VALUE + rb')?"?')
# Words with something between any two of them. What a word or a gap took it keeps: nothing is tried twice.
_NUMBERS = re.compile(rb'["\[\],\s]*+(?>(?>' + _VALUE + rb')(?:["\[\],\s]++|\Z))*+')
_TYPE_WORD = re.compile(r"c10::complex<[\w:]{1,20}>|[\w:]+", re.ASCII)
_NUMBER_TEXT = re.compile(
    r"[\[\](), ]*+(?>(?>[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?(?:e[-+]?[0-9]{1,5})?|inf|nan)|True|False|None)"
    r"(?:[\[\](), ]++|\Z))*+",
    re.ASCII,
)
_DEVICE = re.compile(r"(?:cpu|cuda|hip|xpu|mps|mtia|meta)(?::[0-9]{1,4})?", re.ASCII)
_EQUATION = re.compile(r"[A-Za-z,. ]{0,200}->[A-Za-z. ]{0,200}")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Arguments:
    """Replaces the arguments of the events of a file."""

    def __init__(self, names: Names) -> None:
        """Set the functions that replace names in arguments."""
        self._rules: dict[str, Callable[[Raw], Raw | None]] = {
            **dict.fromkeys((*ARGS_FIELDS, *_MORE_NUMBERS), _numbers),
            "Input type": lambda raw: _texts(raw, _type),
            "Concrete Inputs": lambda raw: _texts(raw, _value),
            "Collective name": lambda raw: _word(raw, public("collectives")),
            "dtype": lambda raw: _word(raw, known.TYPES),
            "Task Type": lambda raw: _named(raw, names.task_type),
            "HW event name": lambda raw: _named(raw, names.task_type),
            "Process Group Name": lambda raw: _named(raw, names.group),
            "Process Group Description": lambda raw: _named(raw, names.group),
            "name": lambda raw: _named(raw, names.thread),
            "labels": lambda raw: _named(raw, names.process),
        }
        self._process = self._rules["labels"]
        self._cache: dict[tuple[Callable[[Raw], Raw | None], bytes], Raw | None] = {}

    def of(self, args: dict[str, Raw], event: str) -> dict[str, Raw]:
        """The arguments that stay; `event` is the name of the event."""
        kept = {}
        for key, raw in args.items():
            rule = self._process if key == "name" and event == "process_name" else self._rules.get(key)
            if rule is _numbers:
                value = _numbers(raw)
            elif rule is not None:
                text = rule, bytes(raw)  # most texts repeat
                if text not in self._cache:
                    self._cache[text] = rule(Raw(text[1]))
                value = self._cache[text]
            else:
                continue
            if value is not None:
                kept[key] = value
        return kept


def _numbers(raw: Raw) -> Raw | None:
    """Keep numbers, lists of numbers, and their texts."""
    data = bytes(raw)
    if data.isdigit() or _NUMBER.fullmatch(data.strip()) or _NUMBERS.fullmatch(data):
        return raw
    return None


def _decoded(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _word(raw: Raw, words: frozenset[str]) -> Raw | None:
    value = _decoded(raw)
    return raw if isinstance(value, str) and value in words else None


def _texts(raw: Raw, known_part: Callable[[str], str]) -> Raw | None:
    """A list of texts in which the unknown ones are empty."""
    value = _decoded(raw)
    if not isinstance(value, list):
        return None
    kept = _filtered(value, known_part)
    return raw if kept == value else Raw(msgspec.json.encode(kept))


def _filtered(value: Any, known_part: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_filtered(item, known_part) for item in value]
    if isinstance(value, str):
        return known_part(value)
    return "" if isinstance(value, dict) else value


def _type(text: str) -> str:
    """Keep a type if torch has each word of it."""
    rest = _TYPE_WORD.sub("", text)
    words = _TYPE_WORD.findall(text)
    return text if not rest.strip(" []") and all(word in known.TYPES for word in words) else ""


def _value(text: str) -> str:
    """Numbers, known words, and equations with letters in the order of the alphabet: theirs may spell something."""
    if text in known.CONSTANTS or _DEVICE.fullmatch(text) or _NUMBER_TEXT.fullmatch(text):
        return text
    if not _EQUATION.fullmatch(text):
        return ""
    letters = dict.fromkeys(letter for letter in text if letter.isalpha())
    return text.translate(str.maketrans("".join(letters), _LETTERS[: len(letters)]))


def _named(raw: Raw, hide: Callable[[str], str]) -> Raw:
    value = _decoded(raw)
    return Raw(msgspec.json.encode(hide(value if isinstance(value, str) else str(value))))
