"""One column of values out of many events, at C speed where the values are what they should be."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import Raw

from traceanalyzer.readers.kineto.events import Args
from traceanalyzer.trace.strings import Pool
from traceanalyzer.trace.table import F64, I32, I64, UNKNOWN

_INT64 = range(-(2**63), 2**63)


def integers(args: Sequence[Args], field: str, unknown: int = UNKNOWN) -> I64:
    """Integers, from numbers or from their text; `unknown` for everything else."""
    try:
        return np.fromiter(map(attrgetter(field), args), np.int64, len(args))
    except (TypeError, ValueError, OverflowError):
        return np.array([_integer(getattr(a, field), unknown) for a in args], np.int64)


def floats(args: Sequence[Args], field: str) -> F64:
    """Finite numbers; NaN for everything else."""
    try:
        values = np.fromiter(map(attrgetter(field), args), np.float64, len(args))
    except (TypeError, ValueError, OverflowError):
        values = np.array([_float(getattr(a, field)) for a in args], np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def texts(args: Sequence[Args], field: str, pool: Pool[bytes]) -> I32:
    """Codes of raw JSON texts; the empty text stands for a missing one."""
    raws: map[Raw] = map(attrgetter(field), args)
    return pool.codes(map(bytes, raws), len(args))


def first_known(column: I64, args: Sequence[Args], fallback: str) -> I64:
    """The column, completed from another field where it is unknown."""
    missing = column == UNKNOWN
    return np.where(missing, integers(args, fallback), column) if missing.any() else column


def _integer(value: Any, unknown: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return unknown
    return number if number in _INT64 else unknown


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
