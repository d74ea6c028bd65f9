"""Operation, message size and traffic of a collective, from its name and arguments.

Sizes and factors follow nccl-tests (doc/PERFORMANCE.md), so that figures are comparable with its output.
"""

from __future__ import annotations

import re
from functools import cache

from traceanalyzer.trace.model import Collective

_OPERATIONS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "barrier",
    "send_recv",
    "gather",
    "scatter",
    "reduce",
    "send",
    "recv",
)
"""Operations by a substring of the name; `all_gather` must come before `gather`."""

_OWN = (
    (re.compile("cross_device_reduce|quick_?reduce|lamport_style|userbuffers_fp16_sum", re.IGNORECASE), "all_reduce"),
    (re.compile(r"deep_ep::\w+::(dispatch|combine)\b|Ep(Dispatch|Combine)|moe_a2a_"), "all_to_all"),
    (re.compile(r"deep_ep::\w+::(barrier|notify|cached_notify|clean)"), "barrier"),
)
"""Operations of kernels from other libraries, which have different names."""

_SIZES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int", "ComplexHalf"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
"""Bytes per element by the type name that c10d writes."""


@cache
def operation(name: str) -> str | None:
    """The operation of a collective, by its name in c10d, an annotation or a kernel; None if the name does not show it.

    `_allgather_base`, `nccl:all_gather`, `c10d::allgather_`, `ncclDevKernel_AllGather_RING_LL` are `all_gather`.
    """
    if (meaning_of_library := next((meaning for pattern, meaning in _OWN if pattern.search(name)), None)) is not None:
        return meaning_of_library
    letters = re.sub("[^a-z]", "", name.lower())
    return next((known for known in _OPERATIONS if known.replace("_", "") in letters), None)


def bus_factor(name: str | None, ranks: int | None) -> float | None:
    """Ratio of bus to algorithm bandwidth as nccl-tests define it; None if it needs the unknown number of ranks."""
    if name in ("broadcast", "reduce", "send", "recv", "send_recv"):
        return 1.0
    if name in (None, "barrier") or not ranks:
        return None
    return (2 if name == "all_reduce" else 1) * (ranks - 1) / ranks


def message_bytes(name: str | None, described: Collective) -> int | None:
    """Size of a message in bytes, as nccl-tests count it; None if elements or type are unknown."""
    arriving, given = described.out_elements, described.in_elements
    first, second = (arriving, given) if name in ("all_gather", "recv") else (given, arriving)
    elements = second if first is None else first
    width = 1 if described.dtype.startswith("Float8") else _SIZES.get(described.dtype)
    return None if elements is None or width is None or name == "barrier" else elements * width
