"""CUDA, HIP and MUSA calls that capture and launch graphs, and the device work that each call launches."""

from __future__ import annotations

import re

from traceanalyzer.trace.tables import Category

_API = "(?:cuda|cu|hip|musa|mu)"
_GRAPH_LAUNCH = re.compile(rf"{_API}GraphLaunch")
_BEGIN = re.compile(rf"{_API}StreamBeginCapture")
_END = re.compile(rf"{_API}StreamEndCapture")
_KERNEL = re.compile(rf"{_API}\w{{0,20}}Launch\w{{0,20}}Kernel|hipLaunchByPtr")
_COPY = re.compile(rf"{_API}Memcpy")
_FILL = re.compile(rf"{_API}Memset")
_COPY_KERNEL = "__amd_rocclr_copyBuffer"
_FILL_KERNEL = "__amd_rocclr_fillBuffer"
"""Kernels that ROCm's runtime uses for copies and fills (clr, rocclr/device/blitcl.cpp)."""


def is_graph_launch(name: str) -> bool:
    """Whether a call launches a graph."""
    return _GRAPH_LAUNCH.match(name) is not None


def begins_capture(name: str) -> bool:
    """Whether a call begins the capture of a stream."""
    return _BEGIN.match(name) is not None


def ends_capture(name: str) -> bool:
    """Whether a call ends the capture of a stream."""
    return _END.match(name) is not None


def launched(name: str) -> Category | None:
    """The device work that a call launches: a kernel, a copy or a fill; None for other calls."""
    if _KERNEL.match(name):
        return Category.KERNEL
    if _COPY.match(name):
        return Category.MEMCPY
    return Category.MEMSET if _FILL.match(name) else None


def meant(kernel: str) -> Category:
    """The category of a kernel: ROCm implements copies and fills as kernels."""
    if kernel.startswith(_COPY_KERNEL):
        return Category.MEMCPY
    return Category.MEMSET if kernel.startswith(_FILL_KERNEL) else Category.KERNEL
