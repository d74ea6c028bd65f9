"""Detects faults of trainings: updates of parameters one by one, and passes that nothing uses or that take too long."""

from __future__ import annotations

from traceanalyzer.rules.optimizer import passes, updates

RULES = (*updates.RULES, *passes.RULES)
