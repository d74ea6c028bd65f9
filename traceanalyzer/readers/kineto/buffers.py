"""Growing columns that collect windows until the whole trace is read."""

from __future__ import annotations

from array import array
from typing import Any, Generic, TypeVar

import numpy as np

from traceanalyzer.trace.table import Array, Table

T = TypeVar("T", bound=Table)

_TYPE_CODES = {"i8": "q", "i4": "i", "u1": "B", "f8": "d"}


class Buffer(Generic[T]):
    """The columns of one table. Arrays of the standard library grow in place, mostly without a copy."""

    def __init__(self, table: type[T]) -> None:
        self.table = table
        self._dtypes = {c.name: c.dtype for c in table.columns()}
        self._columns = {name: array(_TYPE_CODES[d.str[1:]]) for name, d in self._dtypes.items()}

    def extend(self, **columns: Array) -> None:
        """Append rows; every column of the table is given."""
        for name, values in self._columns.items():
            values.frombytes(np.ascontiguousarray(columns[name], self._dtypes[name]).data.cast("B"))

    def columns(self) -> dict[str, Array]:
        """What the columns hold; nothing can be appended while somebody looks at them."""
        return {name: _as_numpy(values, self._dtypes[name]) for name, values in self._columns.items()}

    def __len__(self) -> int:
        return len(self._columns["start_ns"])

    def finish(self) -> T:
        """The table, rows in the order of their start; those of equal start in the order of the file.

        Takes one column at a time out of the buffer, so that the peak is one column more than the table.
        """
        columns = self._columns
        self._columns = {}
        start = _as_numpy(columns["start_ns"], self._dtypes["start_ns"])
        order = None if (start[1:] >= start[:-1]).all() else np.argsort(start, kind="stable")
        del start
        done: dict[str, Array] = {}
        for name in list(columns):
            values = _as_numpy(columns.pop(name), self._dtypes[name])
            done[name] = values if order is None else values[order]
        return self.table(**done)


def _as_numpy(values: array[int] | array[float], dtype: np.dtype[Any]) -> Array:
    return np.frombuffer(values, dtype) if len(values) else np.empty(0, dtype)
