"""Whether another process takes turns with the program on its GPU, as rules and headlines ask."""

from __future__ import annotations

from traceanalyzer.analyzers.kernels.stretched_kernels import StretchedKernels
from traceanalyzer.rules.engine.facts import Facts

_NAMES, _PARTS = 5, 5
"""Least number of different kernels, and of ten parts of the recording, with stretched runs (own choice): one may
work on other data, and a warm-up is at the beginning."""
RUNS, SHARE = 10, 0.03
"""The rule's thresholds, for headlines."""


def is_shared(facts: Facts, found: StretchedKernels, runs: float, share: float) -> bool:
    """Whether so many runs of so many kernels are stretched, for so much of a step, that another process is why."""
    if found.stretched < runs or found.names < _NAMES or found.parts < _PARTS:
        return False
    return facts.step_share(facts.per_step(found.beyond_ns)) > share
