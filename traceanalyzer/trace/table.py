"""Columnar tables: named numpy columns of equal length, each with a unit and a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

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


class TraceColumn(msgspec.Struct, frozen=True):
    """What `column` declares of one column of a table."""

    name: str
    dtype: np.dtype[Any]
    unit: str
    meaning: str
    key: str
    pool: str
    missing: int


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
    return TraceColumn("", np.dtype(dtype), unit, meaning, key, pool, missing)


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


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(column,))
class Table:
    """Base of all tables of a trace: every field is a column, and all have the same length.

    Type checkers see a frozen dataclass. It takes a millisecond to define one, and a trace has dozens of tables.
    """

    _columns: ClassVar[tuple[TraceColumn, ...]] = ()

    if TYPE_CHECKING:

        @property
        def start_ns(self) -> I64:
            """Every table has a time; each declares it as its first column."""

    def __init_subclass__(cls) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, TraceColumn)}
        for name in declared:
            delattr(cls, name)  # it is an attribute of tables only
        cls._columns = (*cls._columns, *(replace(value, name=name) for name, value in declared.items()))

    def __init__(self, *values: Array, **columns: Array) -> None:
        names = [column.name for column in self._columns]
        given = dict(zip(names, values, strict=False)) | columns
        if len(values) + len(columns) != len(names) or given.keys() != {*names}:
            raise TypeError(f"{type(self).__name__} has the columns {', '.join(names)}")
        vars(self).update(given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; `changed` returns another one")

    @classmethod
    def columns(cls) -> tuple[TraceColumn, ...]:
        """What is declared of the columns, in order."""
        return cls._columns

    @classmethod
    def empty(cls) -> Self:
        """A table without rows."""
        return cls(**{c.name: np.empty(0, c.dtype) for c in cls._columns})

    def __len__(self) -> int:
        return len(getattr(self, self._columns[0].name))

    def __iter__(self) -> Iterator[Array]:
        """The columns in order."""
        return (getattr(self, c.name) for c in self._columns)

    def take(self, rows: Array) -> Self:
        """The given rows (indices or a mask), in the given order."""
        where = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return type(self)(*(column.take(where) for column in self))

    def changed(self, **columns: Array) -> Self:
        """The table with other columns in place of some."""
        return type(self)(**{c.name: getattr(self, c.name) for c in self._columns} | columns)

    def to_pandas(self) -> pd.DataFrame:
        """All columns as a DataFrame; codes stay codes.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        frame: pd.DataFrame = import_pandas().DataFrame({c.name: getattr(self, c.name) for c in self._columns})
        return frame


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
