"""Detects copies that need not be, or that hold the program up: to devices, and within one memory."""

from __future__ import annotations

from traceanalyzer.rules.copies import to_device, within_memory

RULES = (*to_device.RULES, *within_memory.RULES)
