"""Columnar tables: named numpy columns of equal length, each with a unit and a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

UNKNOWN = -1
"""Value of integer columns for unknown entries (except times, sizes and addresses)."""


def column(dtype: str, unit: str, meaning: str, key: str = "", pool: str = "", missing: int = UNKNOWN) -> Any:
    """Declare a column of a table.

    Args:
        dtype: Its numpy type.
        unit: "" for none.
        meaning: What the values say, and which of them stand for "not recorded".
        key: The argument of events that fills it, as the trace format names it; "" if another part of the event does.
        pool: The field of `Trace` that its codes index; "" if its values are not codes.
        missing: The value of events that do not have the argument; floats have NaN.
    """
    details = {"unit": unit, "meaning": meaning, "key": key, "pool": pool, "missing": missing}
    return field(metadata={"dtype": np.dtype(dtype), **details})


def take_or(column: Array, rows: Any, missing: Any) -> Array:
    """The entries of a column at some rows, and `missing` where there is no such row.

    Args:
        column: Shape (n,).
        rows: An index or an array of them, from 0 to n - 1; -1 (`NO_PARENT`, `UNKNOWN`) or n stands for "no row".
        missing: Value for "no row".
    """
    if not len(column):
        return np.full(np.shape(rows), missing)
    default = np.asarray(missing)
    found = np.asarray(column.take(rows, mode="clip")).astype(np.result_type(column, default), copy=False)
    np.putmask(found, np.less(rows, 0) | np.greater_equal(rows, len(column)), default)
    return found


class TraceColumn(msgspec.Struct, frozen=True):
    """What `column` declares of one column of a table."""

    name: str
    dtype: np.dtype[Any]
    unit: str
    meaning: str
    key: str
    pool: str
    missing: int


@dataclass(frozen=True, eq=False)
class Table:
    """Base of all tables of a trace: every field is a column, and all have the same length."""

    if TYPE_CHECKING:

        @property
        def start_ns(self) -> I64:
            """Every table has a time; each declares it as its first column."""

    @classmethod
    def columns(cls) -> tuple[TraceColumn, ...]:
        """What is declared of the columns, in order."""
        return tuple(TraceColumn(f.name, **f.metadata) for f in fields(cls))

    @classmethod
    def empty(cls) -> Self:
        """A table without rows."""
        return cls(**{c.name: np.empty(0, c.dtype) for c in cls.columns()})

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __iter__(self) -> Iterator[Array]:
        """The columns in order."""
        return (getattr(self, f.name) for f in fields(self))

    def take(self, rows: Array) -> Self:
        """The given rows (indices or a mask), in the given order."""
        where = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return self.changed(**{f.name: getattr(self, f.name).take(where) for f in fields(self)})

    def changed(self, **columns: Array) -> Self:
        """The table with other columns in place of some."""
        return replace(self, **columns)

    def to_pandas(self) -> pd.DataFrame:
        """All columns as a DataFrame; codes stay codes.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        frame: pd.DataFrame = import_pandas().DataFrame({f.name: getattr(self, f.name) for f in fields(self)})
        return frame


@dataclass(frozen=True, eq=False)
class SliceTable(Table):
    """Base of the tables whose rows have a duration."""

    if TYPE_CHECKING:

        @property
        def dur_ns(self) -> I64:
            """Each table of slices declares it as its second column."""

    @cached_property
    def end_ns(self) -> I64:
        """Shape (rows,), in ns: when each row ends."""
        return self.start_ns + self.dur_ns


def import_pandas() -> Any:
    """Import pandas, which is only needed for DataFrames."""
    from traceanalyzer.errors import MissingDependencyError  # noqa: PLC0415 - only on this rare path

    try:
        import pandas as pd  # noqa: PLC0415 - costs more than reading 100 MB of trace
    except ImportError as error:
        raise MissingDependencyError("pandas", extra="pandas") from error
    return pd
