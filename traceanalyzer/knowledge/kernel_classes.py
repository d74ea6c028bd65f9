"""Classifies kernels by name: matrix product, convolution, copy, ..."""

from __future__ import annotations

from functools import lru_cache

from traceanalyzer.knowledge.first_match import FirstMatch
from traceanalyzer.knowledge.generated_kernels import class_of_generated, generated
from traceanalyzer.knowledge.kernel_names import NAMES_KEPT, READ, is_communication
from traceanalyzer.knowledge.kernel_patterns import PATTERNS, KernelClass

_TABLE = FirstMatch(PATTERNS)


@lru_cache(NAMES_KEPT)
def kernel_class(name: str) -> KernelClass:
    """The class of a kernel by its name; `OTHER` if no line of the table matches."""
    if is_communication(name):
        return KernelClass.COMMUNICATION
    if (made := generated(name)) is not None:
        return class_of_generated(made)
    return _TABLE.find(name[:READ]) or KernelClass.OTHER
