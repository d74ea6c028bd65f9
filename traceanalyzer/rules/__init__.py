"""The rules: what is wrong, what to change, and what that is worth.

A subject is a file, or a folder by mechanism, and lists its rules as `RULES`. Each rule has a page in `pages/<id>.md`
(prose, texts, thresholds, links; compiled into `pages.json`, which is not in git) and code that detects; `page` makes a
rule of the two. `engine` runs them. Packages add rules through the entry points `traceanalyzer.rules`.
"""

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
    "hangs",
    "compilation",
    "steps",
)
"""Modules that define the rules of a subject, as `RULES`."""
