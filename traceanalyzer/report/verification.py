"""What became of the findings of a recording after the change: the answer of `traceanalyzer verify`."""

from __future__ import annotations

import msgspec

from traceanalyzer.report.compared import Interval
from traceanalyzer.report.difference import Side, Verdict
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Generator

SCHEMA_VERSION = 1

OUTCOMES = ("refuted", "worse", "not-done", "cannot-tell", "better", "confirmed")
"""The worst first."""


class VerifiedFinding(msgspec.Struct, frozen=True):
    """What became of one finding of the recording before the change; times are ns per step, null is unknown."""

    id: str
    """Id of its rule; of several findings of a rule, each further one with its number: `host-sync`, `host-sync#2`."""
    rule: str
    """Id of the rule that found it."""
    title: Message
    """The finding in a few words."""
    outcome: str
    """`confirmed`: what it is about takes less time, and the step gained what was predicted. `better` or `worse`: it
    gained more or less. `refuted`: what it is about takes less time, and the step did not get shorter. `not-done`: what
    it is about takes as much time as before. `cannot-tell`: noise, other work, another machine, or nothing to hold."""
    reason: Message
    """What decided, in a sentence."""
    base_ns: float | None
    """Time of what it is about before the change."""
    head_ns: float | None
    """The same after the change."""
    predicted_ns: Interval | None
    """By how much it was to shorten the step, at least and at most."""


class Verification(msgspec.Struct, frozen=True):
    """Findings of one measurement, checked against another one after the change."""

    schema_version: int
    """Version of this schema; it changes where a field changes its meaning."""
    generator: Generator
    """The program that wrote it."""
    base: Side
    """The measurement before the change."""
    head: Side
    """The measurement after the change."""
    outcome: str
    """The worst outcome of a finding, in the order `refuted`, `worse`, `not-done`, `cannot-tell`, `better`,
    `confirmed`; `cannot-tell` where nothing was found."""
    verdict: Verdict
    """Whether the step became faster or slower."""
    fixes: int
    """Number of findings whose fix was made, those that were not asked about included."""
    predicted_ns: Interval | None
    """By how much the fixes that were made were to shorten the step together, at least and at most; null without any
    that promised something."""
    measured_ns: float | None
    """By how much the mean step became shorter; below 0 where it became longer."""
    measured_interval_ns: Interval | None
    """95 % confidence interval of the measured gain; null if there is none."""
    findings: tuple[VerifiedFinding, ...]
    """The findings that were asked about, in the order of their report."""
