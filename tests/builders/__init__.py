"""Builders of Kineto traces for tests and fixtures: explicit events, and a small simulator on top of them.

README.md says which builder is for what.
"""

from .allocator import Allocator
from .dialects import DIALECTS, ERA_2022, MODERN, OLD, ROCM, XPU, Calls, Dialect
from .hardware import A100, H100, MAX1550, MI250X, MI300X, MTIA, T4, V100, Device
from .layout import LAYOUTS, Layout
from .timeline import Host, Pace, Stream, Work, finish
from .trace import TraceBuilder, distributed_info
from .values import Event, Raw, Time, micros, ns

__all__ = [
    "A100",
    "DIALECTS",
    "ERA_2022",
    "H100",
    "LAYOUTS",
    "MAX1550",
    "MI250X",
    "MI300X",
    "MODERN",
    "MTIA",
    "OLD",
    "ROCM",
    "T4",
    "V100",
    "XPU",
    "Allocator",
    "Calls",
    "Device",
    "Dialect",
    "Event",
    "Host",
    "Layout",
    "Pace",
    "Raw",
    "Stream",
    "Time",
    "TraceBuilder",
    "Work",
    "distributed_info",
    "finish",
    "micros",
    "ns",
]
