"""Extracts one column of values from many events, at C speed where the values are well-formed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, repeat
from operator import ne
from typing import Any

import numpy as np
from msgspec import Raw

from traceanalyzer.readers.kineto.events import NO_TEXT, Args, Event
from traceanalyzer.readers.kineto.times import INVALID
from traceanalyzer.trace.model import Collective, KernelSource
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import F64, I32, I64, UNKNOWN

_MAX_DURATION_US = 1e15
"""Longest duration, thirty years; longer ones are cut to it, and then left out as absurd."""

_INT64 = range(-(2**63), 2**63)


def durations(events: Sequence[Event]) -> I64:
    """Durations in nanoseconds; `INVALID` if there is none or it is not a number.

    Through float64, which is exact here: 2**-53 of a duration below 26 days is less than half a nanosecond.
    (Points in time are not: see `times`.)
    """
    microseconds = _floats([e.dur for e in events])
    if (np.abs(microseconds) <= _MAX_DURATION_US).all():  # nearly always
        return np.rint(microseconds * 1000).astype(np.int64)
    known = np.isfinite(microseconds)
    clipped = np.clip(np.where(known, microseconds, 0), -_MAX_DURATION_US, _MAX_DURATION_US)
    return np.where(known, np.rint(clipped * 1000).astype(np.int64), INVALID)


def integers(values: list[Any], unknown: int = UNKNOWN) -> I64:
    """Integers, from numbers or from their text; `unknown` for everything else."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_integer(value, unknown) for value in values], np.int64)


def floats(values: list[Any]) -> F64:
    """Finite numbers; NaN for everything else."""
    found = _floats(values)
    found[~np.isfinite(found)] = np.nan
    return found


def _floats(values: list[Any]) -> F64:
    try:
        return np.fromiter(values, np.float64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_float(value) for value in values], np.float64)


def texts(raws: list[Raw], pool: StringPool[bytes]) -> I32:
    """Codes of raw JSON texts; code 0 is a missing one."""
    # compares by identity first: half the files record no texts
    if not raws or (raws[0] is NO_TEXT and raws.count(NO_TEXT) == len(raws)):
        return np.zeros(len(raws), np.int32)
    # JSON has no NUL in a text; to cut a copy of all of them at it takes a third of the time of a copy of each
    return pool.codes(b"\0".join(raws).split(b"\0"), len(raws))


def collectives(args: Sequence[Args], pool: StringPool[Collective]) -> I32:
    """Rows of the descriptions of collectives; row 0 for events that have none."""
    codes = np.zeros(len(args), np.int32)
    for row in _told([arg.collective for arg in args]):
        codes[row] = pool.encode(collective_of(args[row]))
    return codes


def sources(args: Sequence[Args], pool: StringPool[KernelSource]) -> I32:
    """Rows of the sources of generated kernels; row 0 for events that have none."""
    codes = np.zeros(len(args), np.int32)
    for row in _told([arg.kernel_backend for arg in args]):
        codes[row] = pool.encode(source_of(args[row]))
    return codes


def _told(names: list[Any]) -> Iterator[int]:
    """Rows of the names that are not empty, which few are."""
    if names.count("") == len(names):
        return iter(())
    return compress(range(len(names)), map(ne, names, repeat("")))


def source_of(args: Args) -> KernelSource:
    """The source of the generated kernel that an operator launches."""
    return KernelSource(str(args.kernel_backend), str(args.kernel_file), str(args.kernel_hash))


def collective_of(args: Args) -> Collective:
    """The collective that an event describes."""
    return Collective(
        name=str(args.collective),
        dtype=str(args.dtype),
        in_elements=_count(args.in_elements),
        out_elements=_count(args.out_elements),
        group_size=_count(args.group_size),
        group=str(args.group),
        ranks=str(args.ranks),
        sequence=_count(args.group_sequence),
    )


def _count(value: Any) -> int | None:
    number = _integer(value, UNKNOWN)
    return None if number < 0 else number


def external_ids(args: Sequence[Args]) -> I64:
    """Ids of operators, whichever of the two ways of writing the key has them."""
    found = integers([arg.external_id for arg in args])
    if (found != UNKNOWN).all():
        return found
    old = [arg.old_external_id for arg in args]
    return found if old.count(UNKNOWN) == len(old) else np.where(found == UNKNOWN, integers(old), found)


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


def small(values: I64) -> I32:
    """Ids that fit 32 bits; others become unknown."""
    return np.where(np.abs(values) < 2**31, values, UNKNOWN).astype(np.int32)
