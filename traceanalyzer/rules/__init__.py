"""The rules, in the order of the documentation. Each is a module of this package; see its docstring."""

from __future__ import annotations

MODULES = (
    "dataloader_bound",
    "memory_near_limit",
    "alloc_churn",
    "memory_growth",
    "memory_headroom",
    "comm_inefficient",
    "comm_exposed",
)
