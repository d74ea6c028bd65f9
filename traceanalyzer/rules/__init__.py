"""The rules: each has a page in `pages/<id>.md` and code that detects; `page` makes a rule of the two."""

from __future__ import annotations

SUBJECTS = (
    "loader",
    "copies",
    "waits",
    "idle",
    "launches",
    "host",
    "kernels",
    "operators",
    "serving",
    "optimizer",
    "memory",
    "communication",
    "ranks",
    "compilation",
    "steps",
)
"""Modules that define the rules of a subject, as `RULES`."""
