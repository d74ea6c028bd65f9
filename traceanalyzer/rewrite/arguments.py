"""Arguments of events: what the analyses read and what viewers show of it, numbers and known words; nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from traceanalyzer.readers.kineto.events import ARGS_FIELDS
from traceanalyzer.rewrite.names import Names

_MORE_NUMBERS = (
    "queued", "context", "cbid", "cid", "kind", "ptr", "warps per SM", "Record function id", "Ev Idx", "Op count",
    "memory bandwidth (GB/s)", "sort_index", "In split size", "Out split size", "Global rank start", "num_warps",
    "Global rank stride", "num_stages", "Device", "external ts", "wait_on_stream", "wait_on_cuda_event_id",
    "wait_on_cuda_event_record_corr_id", "Trace iteration", "Rank", "Iteration",
)  # fmt: skip
"""That viewers show, and no analysis reads."""

_NUMBER = re.compile(rb'\s*(?:"\s*)?(-?[\d.]+(?:[eE][-+]?\d+)?|true|false|null|0x[0-9a-fA-F]+)?(?:\s*")?\s*')
_NUMBERS = re.compile(rb'[-+\d.eE,\s\[\]"]*')
_TYPE = re.compile(r"(?!.*__torch__)[\w:<>,\s\[\]()*]{0,120}")
_CONCRETE = re.compile(
    r"(?:True|False|None|nan|inf|[-+0-9.eE,\s\[\]()])*|[A-Za-z,.\s]*->[A-Za-z.\s]*"
    r"|none|mean|sum|tanh|constant|reflect|replicate|circular|floor|trunc|add|max|min"
)


class Arguments:
    """What stands for the arguments of the events of a file."""

    def __init__(self, names: Names) -> None:
        """Set what stands for names in them."""
        self._rules: dict[str, Callable[[Raw], Raw | None]] = {
            **dict.fromkeys((*ARGS_FIELDS, *_MORE_NUMBERS), _numbers),
            "Input type": lambda raw: _texts(raw, _TYPE),
            "Concrete Inputs": lambda raw: _texts(raw, _CONCRETE),
            "Collective name": lambda raw: _text(raw, _TYPE),
            "dtype": lambda raw: _text(raw, _TYPE),
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
    """Numbers, lists of them, and their texts."""
    data = bytes(raw)
    return raw if data.isdigit() or _NUMBER.fullmatch(data) or _NUMBERS.fullmatch(data) else None


def _decoded(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _text(raw: Raw, pattern: re.Pattern[str]) -> Raw | None:
    value = _decoded(raw)
    return raw if isinstance(value, str) and pattern.fullmatch(value) else None


def _texts(raw: Raw, pattern: re.Pattern[str]) -> Raw | None:
    """A list of texts in which the unknown ones are empty."""
    value = _decoded(raw)
    if not isinstance(value, list):
        return None
    return raw if _all_match(value, pattern) else Raw(msgspec.json.encode(_filtered(value, pattern)))


def _all_match(value: Any, pattern: re.Pattern[str]) -> bool:
    if isinstance(value, list):
        return all(_all_match(item, pattern) for item in value)
    return not isinstance(value, str | dict) or (isinstance(value, str) and pattern.fullmatch(value) is not None)


def _filtered(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, list):
        return [_filtered(item, pattern) for item in value]
    return value if _all_match(value, pattern) else ""


def _named(raw: Raw, hide: Callable[[str], str]) -> Raw:
    value = _decoded(raw)
    return Raw(msgspec.json.encode(hide(value if isinstance(value, str) else str(value))))
