"""Report: what we say about a trace. Plain data; its JSON is a contract (docs/report.schema.json)."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from traceanalyzer.report.message import Message

SCHEMA_VERSION = 1

R = TypeVar("R")


class Generator(msgspec.Struct, frozen=True):
    """Who wrote the report."""

    name: str
    version: str


class Source(msgspec.Struct, frozen=True):
    """What was read."""

    name: str
    """File name without its folder."""
    format: str
    """`kineto` or `key_averages`."""
    size_bytes: int | None
    """As stored, compressed or not; null for a stream."""


class Device(msgspec.Struct, frozen=True):
    """An accelerator, as far as the file describes it."""

    id: int
    name: str | None
    vendor: str | None
    memory_bytes: int | None
    compute_capability: str | None
    sm_count: int | None


class Options(msgspec.Struct, frozen=True):
    """What the profiler recorded; null is unknown."""

    record_shapes: bool | None
    with_stack: bool | None
    profile_memory: bool | None
    with_modules: bool | None
    with_flops: bool | None


class TraceSummary(msgspec.Struct, frozen=True):
    """The trace in a few facts."""

    events: int
    """Events in the tables: slices and memory records."""
    span_ns: int
    """From the start of the first to the end of the last event."""
    base_ns: int | None
    """Absolute time of the first event in ns since 1970, where the file gives an origin."""
    devices: tuple[Device, ...]
    rank: int | None
    world_size: int | None
    options: Options
    steps_from: str | None
    """How steps were found: `ProfilerStep`, `whole-trace`, `device-events`, `host-annotations`; null: none."""


class ReportWarning(msgspec.Struct, frozen=True):
    """Something that was lost or is doubtful, how often, and what it means."""

    id: str
    count: int
    message: Message


class Skipped(msgspec.Struct, frozen=True):
    """An analysis or rule that could not run, and why."""

    id: str
    reason: Message


class Evidence(msgspec.Struct, frozen=True):
    """What triggered a finding."""

    observed: float
    threshold: float
    unit: str
    where: tuple[str, ...]


class Saving(msgspec.Struct, frozen=True):
    """What a change is worth, as intervals."""

    direct_ns_per_step: tuple[float, float]
    wall_ns_per_step: tuple[float, float]
    wall_share: tuple[float, float]
    basis: Message


class Finding(msgspec.Struct, frozen=True):
    """One piece of advice with its evidence."""

    rule: str
    run: str | None
    severity: str
    confidence: str
    latent: bool
    title: Message
    summary: Message
    advice: Message
    evidence: tuple[Evidence, ...]
    saving: Saving | None


class Report(msgspec.Struct, frozen=True):
    """Everything that renderers need; the JSON round trip is the identity."""

    schema_version: int
    generator: Generator
    source: Source
    trace: TraceSummary | None
    warnings: tuple[ReportWarning, ...]
    analyses: dict[str, Any]
    """Per analyzer its result, as plain data; `result` gives the typed view."""
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]

    def result(self, key: str, kind: type[R]) -> R | None:
        """The result of an analyzer as its own type, or None if it was skipped."""
        plain = self.analyses.get(key)
        return None if plain is None else msgspec.convert(plain, kind)
