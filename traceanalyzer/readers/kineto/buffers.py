"""Growing columns that collect windows until the whole trace is read."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np

from traceanalyzer.trace.table import Array, Table

T = TypeVar("T", bound=Table)

_BLOCK = 1 << 16
"""Rows of a block (own choice: a block is small beside a table that needs many of them)."""


class Buffer(Generic[T]):
    """The columns of one table: parts as they come, joined into blocks, so that nothing is copied more than twice."""

    def __init__(self, table: type[T]) -> None:
        self.table = table
        self._dtypes = {c.name: c.dtype for c in table.columns()}
        self._blocks: dict[str, list[Array]] = {name: [] for name in self._dtypes}
        self._parts: dict[str, list[Array]] = {name: [] for name in self._dtypes}
        self._rows = 0
        self._waiting = 0
        """Rows that are in parts, not in blocks."""

    def extend(self, **columns: Array) -> None:
        """Append rows; every column of the table is given. The arrays must not change afterwards."""
        rows = len(columns["start_ns"])
        for name, parts in self._parts.items():
            parts.append(columns[name])
        self._rows += rows
        self._waiting += rows
        if self._waiting >= _BLOCK:
            self._join()

    def columns(self) -> dict[str, Array]:
        """What the columns hold."""
        return {name: _joined([*self._blocks[name], *self._parts[name]], dtype) for name, dtype in self._dtypes.items()}

    def __len__(self) -> int:
        return self._rows

    def _join(self) -> None:
        """Make one block of each column's parts."""
        for name, parts in self._parts.items():
            self._blocks[name].append(_joined(parts, self._dtypes[name]))
            parts.clear()
        self._waiting = 0

    def finish(self) -> T:
        """The table, rows in the order of their start; those of equal start in the order of the file.

        Takes one column at a time out of the buffer, so that the peak is one column more than the table.
        """
        if self._waiting or not self._rows:
            self._join()
        blocks, self._blocks = self._blocks, {}
        done: dict[str, Array] = {}
        order = None
        for name in self._dtypes:  # the start comes first
            values = _joined(blocks.pop(name), self._dtypes[name])
            if name == "start_ns" and not (values[1:] >= values[:-1]).all():
                order = np.argsort(values, kind="stable")
            done[name] = values if order is None else values[order]
        return self.table(**done)


def _joined(parts: list[Array], dtype: np.dtype[Any]) -> Array:
    if len(parts) == 1 and parts[0].dtype == dtype:
        return parts[0]
    return np.concatenate(parts, dtype=dtype, casting="unsafe") if parts else np.empty(0, dtype)
