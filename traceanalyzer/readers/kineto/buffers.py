"""Growing columns that collect windows until the whole trace is read."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np

from traceanalyzer.trace.table import Array, Table

T = TypeVar("T", bound=Table)

_BLOCK = 1 << 16
"""Most rows of a block (own choice: a block is small beside a table that needs many of them)."""


class Buffer(Generic[T]):
    """The columns of one table, in blocks, so that nothing is copied more than twice."""

    def __init__(self, table: type[T]) -> None:
        self.table = table
        self._dtypes = {c.name: c.dtype for c in table.columns()}
        self._full: dict[str, list[Array]] = {name: [] for name in self._dtypes}
        self._block: dict[str, Array] = {name: np.empty(0, dtype) for name, dtype in self._dtypes.items()}
        """What is being filled."""
        self._size = self._filled = self._rows = 0
        """Rows that the block has room for, its rows, and all rows."""

    def extend(self, **columns: Array) -> None:
        """Append rows; every column of the table is given."""
        rows = len(columns["start_ns"])
        if self._filled + rows > self._size:
            self._next_block(rows)
        end = self._filled + rows
        for name, block in self._block.items():
            block[self._filled : end] = columns[name]
        self._filled = end
        self._rows += rows

    def columns(self) -> dict[str, Array]:
        """What the columns hold."""
        return {name: _joined(self._parts(name), dtype) for name, dtype in self._dtypes.items()}

    def __len__(self) -> int:
        return self._rows

    def _next_block(self, rows: int) -> None:
        """Begin a block with room for at least so many rows, and for as many as there are already."""
        for name, block in self._block.items():
            self._full[name].append(block[: self._filled])
        self._size, self._filled = max(rows, min(self._rows, _BLOCK)), 0
        self._block = {name: np.empty(self._size, dtype) for name, dtype in self._dtypes.items()}

    def _parts(self, name: str) -> list[Array]:
        return [*self._full[name], self._block[name][: self._filled]]

    def finish(self) -> T:
        """The table, rows in the order of their start; those of equal start in the order of the file.

        Takes one column at a time out of the buffer, so that the peak is one column more than the table.
        """
        done: dict[str, Array] = {}
        order = None
        for name, dtype in self._dtypes.items():  # the start comes first
            values = _joined(self._parts(name), dtype)
            del self._full[name], self._block[name]
            if name == "start_ns" and not (values[1:] >= values[:-1]).all():
                order = np.argsort(values, kind="stable")
            done[name] = values if order is None else values[order]
        return self.table(**done)


def _joined(parts: list[Array], dtype: np.dtype[Any]) -> Array:
    parts = [part for part in parts if len(part)]
    if len(parts) == 1 and parts[0].base is None:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)
