"""Names for rows: numbered marks, such as `layer_0` to `layer_999`, share one, except for the most expensive."""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec
import numpy as np

from traceanalyzer.structure.mark_forest import Forest
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I64

MANY = 64
"""More names than this that differ in numbers only share a row (own choice: no model has so many layers by name)."""

SINGLE = 8
"""Of names that share a row, the number of those with the most host time that keep their own row (own choice)."""

_NUMBER = re.compile(r"\b(?=[a-z]*\d)[a-z0-9]{32,}\b|\d+")
"""A number, or a key such as torch.compile's of compiled graphs."""


class Labels(msgspec.Struct, frozen=True):
    """The names of the rows."""

    names: tuple[str, ...]
    of_mark: I64
    """For each mark, the position of its row's name."""
    counts: I64
    """How many different names each row stands for."""


def labels(found: Forest, names: Strings) -> Labels:
    """Give every mark the name of its row."""
    codes, of_code = ranked(found.name)
    texts = [names[code] for code in codes.tolist()]
    if len(texts) > MANY:
        texts = _shared(texts, sum_by(of_code, found.dur_ns, len(codes)))
    number = {text: position for position, text in enumerate(dict.fromkeys(texts))}
    of_text = np.array([number[text] for text in texts], np.int64)
    return Labels(tuple(number), of_text[of_code], np.bincount(of_text, minlength=len(number)).astype(np.int64))


def pattern(name: str) -> str:
    """The name with `*` for each number."""
    return _NUMBER.sub("*", name)


def _shared(names: list[str], time: I64) -> list[str]:
    """The names, each replaced with its pattern where too many others have the same."""
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        alike[pattern(name)].append(position)
    shown = list(names)
    for common, members in alike.items():
        if len(members) > MANY:
            for position in sorted(members, key=lambda member: (-int(time[member]), names[member]))[SINGLE:]:
                shown[position] = common
    return shown
