"""Detects communication that makes steps longer: by collectives themselves, and by how trainings are made parallel."""

from __future__ import annotations

from traceanalyzer.rules.communication import collectives, parallel

RULES = (*collectives.RULES, *parallel.RULES)
