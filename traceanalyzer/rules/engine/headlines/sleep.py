"""Adds to the headline of a program that its host bounds how long it sleeps or waits: that is no slow code."""

from __future__ import annotations

from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.typical import StepBound
from traceanalyzer.simulation.critical_path import CriticalPath

_WORTH = 0.1
"""Least share of a step for which the headline mentions sleep (own choice: half of the share that bounds a step)."""

_ASLEEP = Text(
    "headline-asleep",
    "{headline} For {part:part} of a step the program is asleep, or waits for a lock, a process, a file or the "
    "network.",
    note="headline is a sentence; part reads: 31 of 149 ms (21 %)",
)


def with_sleep(facts: Facts, found: StepBound) -> StepBound:
    """The headline, with the time for which the host sleeps or waits on the critical path, as far as stacks tell."""
    path = facts.find("critical_path", CriticalPath)
    if found.bound != "host" or path is None or not path.step_ns:
        return found
    asleep = sum(part.ns_per_step for part in path.parts if part.resource == "asleep")
    if asleep < _WORTH * path.step_ns:
        return found
    return StepBound(found.bound, _ASLEEP(headline=found.message, part=(asleep, path.step_ns)), found.share)
