"""Report: what we say about a trace. Plain data; its JSON is a contract (docs/report.schema.json)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.report.message import Message

SCHEMA_VERSION = 1

R = TypeVar("R")


class Generator(msgspec.Struct, frozen=True):
    """Who wrote the report."""

    name: str
    version: str


class ReportSource(msgspec.Struct, frozen=True):
    """What was read."""

    name: str
    """File name without its folder."""
    format: str
    """`kineto` or `key_averages`."""
    size_bytes: int | None
    """As stored, compressed or not; null for a stream."""


class ReportDevice(msgspec.Struct, frozen=True):
    """An accelerator, as far as the file describes it."""

    id: int
    name: str | None
    vendor: str | None
    memory_bytes: int | None
    compute_capability: str | None
    sm_count: int | None


class RecordingOptions(msgspec.Struct, frozen=True):
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
    devices: tuple[ReportDevice, ...]
    rank: int | None
    world_size: int | None
    options: RecordingOptions
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


class CodePlace(msgspec.Struct, frozen=True):
    """Where something was seen."""

    kind: str
    """`step`, `operator`, `kernel`, `copy`, `call` (of the runtime), `module`, `python`, `time`, `memory`, `row`."""
    name: str
    """As in the trace: a step's number, an operator, a kernel, `file.py(12): function`."""
    shapes: str | None = None
    """Input shapes as recorded, where they matter."""
    value: float | None = None
    unit: str = ""
    """Of the value, as in `report.units`."""
    start_ns: int | None = None
    """Since the first event of the trace."""


class Evidence(msgspec.Struct, frozen=True):
    """A value that crossed a threshold, and where."""

    subject: Message
    """What was measured."""
    observed: float
    threshold: float
    unit: str
    """Of both, as in `report.units`."""
    where: tuple[CodePlace, ...]
    """At most five, the most important first."""


class Operand(msgspec.Struct, frozen=True):
    """A named time of a calculation."""

    name: Message
    ns: int
    """Per step."""


class Arithmetic(msgspec.Struct, frozen=True):
    """`minuend - max(subtrahends) = result`, each as shown: what is shown adds up."""

    minuend: Operand
    subtrahends: tuple[Operand, ...]
    result_ns: int


class Saving(msgspec.Struct, frozen=True):
    """What a change is worth, as intervals: at least, at most."""

    direct_ns_per_step: tuple[float, float]
    """What it takes off its own resource."""
    wall_ns_per_step: tuple[float, float]
    """What a step gets shorter by: never more than the other resources allow."""
    wall_share: tuple[float, float]
    """The same over the step (in a table: over the profiled time)."""
    basis: Message
    """How it was estimated, and why the lower end is 0 where it is."""
    arithmetic: Arithmetic | None
    """The bound by the other resources, where it has been applied."""
    resource: str
    """What the change relieves: `loader`, `host`, `gpu` or `communication`."""


class Finding(msgspec.Struct, frozen=True):
    """One piece of advice with its evidence."""

    rule: str
    run: str | None
    """The run of a table document; null for a trace."""
    severity: str
    """`critical`, `high`, `medium`, `low` or `info`."""
    confidence: str
    """`A`: exact evidence, `B`: inferred from names and shapes, `C`: a heuristic."""
    latent: bool
    """It saves nothing before something else has been fixed: see `blocked_by`."""
    blocked_by: str | None
    """The resource that bounds the step now; null unless latent."""
    title: Message
    summary: Message
    advice: Message
    not_when: Message
    """When the advice does not apply."""
    code: str | None
    """A line to start from."""
    links: tuple[str, ...]
    """Official documentation."""
    evidence: tuple[Evidence, ...]
    saving: Saving | None
    """Null for a risk, or where nothing can be said."""


class Relief(msgspec.Struct, frozen=True):
    """One fix of the combined bound."""

    rule: str
    finding: int
    """Position in the report's findings."""
    wall_ns_per_step: tuple[float, float]
    """What it adds to the fixes before it; what it is worth alone is the finding's own saving. 0 where it only makes
    room for those after it."""


class Combined(msgspec.Struct, frozen=True):
    """All fixes together, in the order that is worth most first; the critical resource is looked up after each."""

    fixes: tuple[Relief, ...]
    wall_ns_per_step: tuple[float, float]
    wall_share: tuple[float, float]
    next_bottleneck: str
    """The resource that bounds the step after all of them."""


class Resources(msgspec.Struct, frozen=True):
    """What one step takes of each resource, in ns; they overlap, so they do not sum to the step."""

    step_ns: float
    """In a table: max(host, device) of the profiled time."""
    gpu_ns: float | None
    """Time in which the busiest device works, communication included; null: unknown."""
    host_ns: float | None
    """Time in which the host neither waits for a device nor for the loader."""
    loader_ns: float | None
    """Time in which the host waits for the loader."""
    communication_ns: float | None


class Headline(msgspec.Struct, frozen=True):
    """What bounds a run, in one sentence."""

    run: str | None
    bound: str
    """`input`, `host`, `gpu-compute`, `gpu-memory`, `gpu` (kernels of no known kind), `communication` or `none`."""
    message: Message
    share: float | None
    """Of the step, that the bound takes."""
    resources: Resources
    combined: Combined | None
    """Null where no finding saves anything."""


class Report(msgspec.Struct, frozen=True, dict=True):
    """Everything that renderers need; the JSON round trip is the identity."""

    schema_version: int
    generator: Generator
    source: ReportSource
    trace: TraceSummary | None
    warnings: tuple[ReportWarning, ...]
    analyses: dict[str, Any]
    """Per analysis its result: typed where it was computed, plain data where the report was read back from JSON.
    `result` gives the typed view of both."""
    headlines: tuple[Headline, ...]
    """One of a trace, one per run of a table document; empty where nothing could be measured."""
    findings: tuple[Finding, ...]
    """By severity, then by what each saves by itself; latent and informational ones last."""
    skipped: tuple[Skipped, ...]

    def result(self, key: str, kind: type[R]) -> R | None:
        """The result of an analyzer as its own type, or None if it was skipped.

        Raises:
            UnusableInputError: It is not as this program writes it.
        """
        if key not in self._typed:
            self._typed[key] = self._converted(key, kind)
        found: R | None = self._typed[key]
        return found

    @cached_property
    def _typed(self) -> dict[str, Any]:
        """Results that were asked for before."""
        return {}

    def _converted(self, key: str, kind: type[R]) -> R | None:
        value = self.analyses.get(key)
        if value is None or isinstance(value, msgspec.Struct | tuple):
            return cast("R | None", value)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise UnusableInputError(
                f"the report of {self.source.name} was changed after it was written: analyses.{key}: {error}; make it "
                "anew from the trace"
            ) from None
