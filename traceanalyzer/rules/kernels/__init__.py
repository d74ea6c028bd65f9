"""Detects kernels that take longer than they need: by their types, shapes, algorithms, or what they leave empty."""

from __future__ import annotations

from traceanalyzer.rules.kernels import convolutions, layers, occupancy, precision, products

RULES = (*precision.RULES, *products.RULES, *convolutions.RULES, *layers.RULES, *occupancy.RULES)
