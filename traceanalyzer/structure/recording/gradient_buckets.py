"""Do all-reduces have the sizes of gradient buckets, as DistributedDataParallel makes them?

It puts gradients one after another into flat buckets and reduces each bucket when it is full. The first is full at 1
MiB, so that communication starts early; the others at 25 MiB, except for the last one, which has the rest. Each step
reduces the same buckets in the same order. Programs that set `bucket_cap_mb` or reduce by hand have other sizes and are
not recognized.

This helps with traces without the marks of DistributedDataParallel, because threads or events were left out.
"""

from __future__ import annotations

import json
import re
from functools import cache

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace

_ALL_REDUCE = re.compile(r"[a-z]{2,8}:all_?reduce", re.ASCII)
_MIB = 1 << 20
_FIRST_CAP = 1 * _MIB
_CAP = 25 * _MIB
_STEPS = 3
"""Fewer repetitions may be chance."""
_BYTES = {"float": 4, "c10::Half": 2, "c10::BFloat16": 2}


class Buckets(msgspec.Struct, frozen=True):
    """All-reduces that have the sizes of gradient buckets."""

    name: str
    events: int


def gradient_buckets(context: Context) -> Buckets | None:
    """The all-reduces, if their sizes are those of gradient buckets in three steps or more."""
    trace = context.trace
    is_reduction = trace.names.where(_is_all_reduce)[trace.host.name]
    rows = np.flatnonzero(is_reduction)
    sizes = [flat_bytes(trace, int(row)) for row in rows]
    known = [size for size in sizes if size]
    buckets = len(set(known))
    if len(known) < len(sizes) or buckets < 2 or len(known) < _STEPS * buckets or len(known) % buckets:
        return None
    if known != known[:buckets] * (len(known) // buckets) or not _are_full(known[:buckets]):
        return None
    return Buckets(trace.names[int(trace.host.name[rows[0]])], len(rows))


def _is_all_reduce(name: str) -> bool:
    return _ALL_REDUCE.fullmatch(name) is not None


def _are_full(sizes: list[int]) -> bool:
    """Whether each bucket except the last one is full."""
    return sizes[0] >= _FIRST_CAP and all(size >= _CAP for size in sizes[1:-1])


def flat_bytes(trace: Trace, row: int) -> int | None:
    """Size of the one flat tensor of numbers that a collective is called with; None for anything else."""
    shapes, types = trace.shapes[int(trace.host.shapes[row])], trace.types[int(trace.host.types[row])]
    return _size(shapes, types)


@cache
def _size(shapes: str, types: str) -> int | None:
    try:
        tensors, kinds = json.loads(shapes), json.loads(types)
    except ValueError:
        return None
    if not (isinstance(tensors, list) and isinstance(kinds, list) and len(tensors) == len(kinds) == 1):
        return None
    shape = tensors[0]
    is_flat = isinstance(shape, list) and len(shape) == 1 and isinstance(shape[0], int)
    width = _BYTES.get(kinds[0]) if isinstance(kinds[0], str) else None
    return shape[0] * width if is_flat and width else None
