"""The tables that torch printed beside the captured traces, and ours of the same request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.analyzers.operators import key_averages
from traceanalyzer.formats import torch_table
from traceanalyzer.structure.context import Context

CAPTURED = Path(__file__).parents[3] / "fixtures" / "captured"
NAMES = tuple(sorted(path.name.partition(".")[0] for path in CAPTURED.glob("*.key_averages.txt")))

_HEADING = re.compile(r"^# (.*)\n\n", re.MULTILINE)
_SORT = re.compile(r"sort_by=(\w+)")
_LIMIT = re.compile(r"row_limit=(-?\d+)")


@dataclass(frozen=True)
class Printed:
    """One table of torch, and how it was asked for."""

    title: str
    text: str

    @property
    def by_shape(self) -> bool:
        return "group_by_input_shape" in self.title

    def ours(self, context: Context) -> str:
        """What we print for the same request."""
        sort, limit = _SORT.search(self.title), _LIMIT.search(self.title)
        sort_by = sort[1] if sort else "cpu_time_total"  # the older files say it only where it is another
        uncut = "whole" in self.title
        return torch_table.render(
            key_averages.analyze(context, by_shape=self.by_shape),
            sort_by=None if sort_by == "None" else sort_by,
            row_limit=int(limit[1]) if limit else -1,
            name_width=None if uncut else torch_table.NAME_WIDTH,
            shapes_width=None if uncut else torch_table.SHAPES_WIDTH,
        )


def printed(name: str) -> Iterator[Printed]:
    """The tables of one captured trace, except those by stack, which no trace has the data for."""
    text = (CAPTURED / f"{name}.key_averages.txt").read_text(encoding="utf-8")
    _, *parts = _HEADING.split(text)
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        if "stack" not in title:
            yield Printed(title, body.rstrip("\n") + "\n")
