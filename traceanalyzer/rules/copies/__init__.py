"""Copies."""

from __future__ import annotations

from traceanalyzer.rules.copies import to_device, within_memory

RULES = (*to_device.RULES, *within_memory.RULES)
