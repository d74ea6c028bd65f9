"""The report on a trace, as plain data. Its JSON is a contract (docs/report.schema.json)."""

from __future__ import annotations

from functools import cached_property
from html import escape
from typing import Any, Self, TypeVar, cast

import msgspec
from msgspec.structs import force_setattr

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.report import rendered
from traceanalyzer.report.message import Message
from traceanalyzer.report.selection import Once, PeakSaving, Selection, Shares


class ReportSource(msgspec.Struct, frozen=True):
    """The file that was read."""

    name: str
    """Name of the file without its folder."""
    format: str
    """Format of the input: `kineto` for a trace, `key_averages` for printed tables, `compile_log` for a compile log,
    `kineto-ranks` for all traces of a run, `flight_recorder` for dumps of the flight recorder, `watchdog` for the log
    of a job that hangs, `memory_snapshot`, `memory_snapshots` for two of them."""
    size_bytes: int | None
    """Size of the file as stored, compressed or not, in bytes; null for a stream."""


class ReportDevice(msgspec.Struct, frozen=True):
    """An accelerator, as far as the file describes it."""

    id: int
    """Number of the device as in the trace."""
    name: str | None
    """Name of the device; null if the file does not contain it."""
    vendor: str | None
    """`NVIDIA`, `AMD` or `Intel`, by the name and properties of the device; null if unknown."""
    memory_bytes: int | None
    """Memory of the device in bytes; null if the file does not contain it."""
    compute_capability: str | None
    """Compute capability as `major.minor`; null if the file does not contain it."""
    sm_count: int | None
    """Number of multiprocessors; null if the file does not contain it."""


class RecordingOptions(msgspec.Struct, frozen=True):
    """Options of the profiler; null is unknown."""

    record_shapes: bool | None
    """Whether input shapes were recorded."""
    with_stack: bool | None
    """Whether Python stacks were recorded."""
    profile_memory: bool | None
    """Whether allocations of memory were recorded."""
    with_modules: bool | None
    """Whether recording the hierarchy of modules was requested."""
    with_flops: bool | None
    """Whether estimates of floating-point operations were recorded."""


class TraceSummary(msgspec.Struct, frozen=True):
    """A trace in a few facts: its size, devices, rank and options."""

    events: int
    """Number of events that were read: slices with a duration, records of memory, and ends of flows."""
    span_ns: int
    """Time from the start of the first to the end of the last event, in ns."""
    base_ns: int | None
    """Absolute time of the first event in ns since 1970; null where the file gives no origin."""
    devices: tuple[ReportDevice, ...]
    """The accelerators that the file describes."""
    rank: int | None
    """Rank of the process among those that train together; null if the file does not contain it."""
    world_size: int | None
    """Number of ranks that train together; null if the file does not contain it."""
    options: RecordingOptions
    """Options of the profiler."""
    steps_from: str | None
    """How steps were found: `ProfilerStep`, `whole-trace`, `device-events`, `host-annotations`; null without steps."""
    torch_version: str | None = None
    """Version of torch as a capture recorded it; `<1.12` if only the categories of events show it; null if unknown."""
    writer: str | None = None
    """What wrote the trace: `kineto` (in C++), `python-exporter`, `cupti-monitor` (torch 2.13); null if unknown."""


SCHEMA_VERSION = 1

R = TypeVar("R")
_FILE = "file"
"""Attribute with the name of the file from which a report was read; it is not part of the report."""


def _whole_to_float(struct: msgspec.Struct, *names: str) -> None:
    """Turn whole numbers in float fields into floats, as reading a saved report gives them."""
    for name in names:
        value = getattr(struct, name)
        if type(value) is int:
            force_setattr(struct, name, float(value))


class Generator(msgspec.Struct, frozen=True):
    """The program that wrote the file."""

    name: str
    """Name of the program."""
    version: str
    """Version of the program."""


class ReportWarning(msgspec.Struct, frozen=True):
    """A loss or a doubt, how often it occurred, and its consequences."""

    id: str
    """Id of the warning; the documentation lists them."""
    count: int
    """How often it was seen, in the unit that the message names."""
    message: Message
    """The loss or the doubt, with its consequences."""


class Skipped(msgspec.Struct, frozen=True):
    """An analysis or rule that could not run, and why."""

    id: str
    """Key of the analysis or id of the rule."""
    reason: Message
    """Why it could not run."""


class CodePlace(msgspec.Struct, frozen=True):
    """A place in the trace or table that a finding points at."""

    kind: str
    """What the place is: `step`, `operator`, `kernel`, `copy`, `call` (of the runtime), `module`, `python`, `time`,
    `memory`, `row` or `rank`."""
    name: str
    """Name as in the trace: a step's number, an operator, a kernel, `file.py(12): function`."""
    shapes: str | None = None
    """Input shapes as recorded, where they matter; else null."""
    value: float | None = None
    """The value measured at this place, in `unit`; null if nothing was measured there. Times of recurring calls are
    those of a typical step, of a table as printed; the time of one occurrence is its own."""
    unit: str = ""
    """Unit of the value, such as `ns` or `bytes`; empty without a value."""
    start_ns: int | None = None
    """Time in ns since the first event of the trace; null if the time does not matter."""
    label: Message | None = None
    """What people call the place where its name is an id of this program, such as a cause of idle time; else null."""

    def __post_init__(self) -> None:
        _whole_to_float(self, "value")


class Evidence(msgspec.Struct, frozen=True):
    """A value that crossed a threshold, and where."""

    subject: Message
    """Name of the measured quantity."""
    observed: float
    """The value that was measured, in `unit`."""
    threshold: float
    """The value that it had to cross for the finding, in `unit`."""
    unit: str
    """Unit of the observed value and of the threshold, such as `ns` or `share`."""
    where: tuple[CodePlace, ...]
    """Places where it was seen, at most five, the most important first."""

    def __post_init__(self) -> None:
        _whole_to_float(self, "observed", "threshold")


class Operand(msgspec.Struct, frozen=True):
    """A named time of a calculation."""

    name: Message
    """Description of the time."""
    ns: int
    """The time in ns per step."""


class Arithmetic(msgspec.Struct, frozen=True):
    """The calculation `minuend - max(subtrahends) = result`, with the figures that readers see."""

    minuend: Operand
    """The time from which is subtracted."""
    subtrahends: tuple[Operand, ...]
    """The times of which the greatest is subtracted."""
    result_ns: int
    """The difference in ns per step, as it is shown."""


class Saving(msgspec.Struct, frozen=True):
    """The saving of a change, as intervals from the least to the most."""

    direct_ns_per_step: tuple[float, float]
    """Time in ns per step that the change removes from its own resource."""
    wall_ns_per_step: tuple[float, float]
    """Time in ns by which a step gets shorter, limited by the other resources."""
    wall_share: tuple[float, float]
    """Share of the step (0 to 1) by which it gets shorter, at least and at most; in a table, of the profiled time."""
    basis: Message
    """How the saving was estimated, and why the lower end is 0 where it is."""
    arithmetic: Arithmetic | None
    """The bound by the other resources, if it was applied; else null."""
    resource: str
    """The resource that the change relieves: `loader`, `host`, `gpu` or `communication`."""
    point_ns_per_step: float | None = None
    """Most likely time in ns by which a step gets shorter, within the interval; null where only bounds are known."""
    estimated_by: str = "budget"
    """How the step's saving was found: `model`, replays of the recorded dependencies with the change, or `budget`,
    bounds by the total times of the other resources."""
    step_ns: float | None = None
    """Duration in ns of the step that gets shorter, if one without the profiler, as a capture measured; else null."""
    decided_by: Message | None = None
    """What shows whether it saves anything, where it may save nothing or more than 5 % of the step; else null."""
    is_of_whole_run: bool = False
    """Whether its step is a whole run: a printed table does not say how many steps there are, or a trace has none."""
    steps_share: float | None = None
    """Share of the recording that the typical steps are, where most of it is other work that recurs; else null."""


class Finding(msgspec.Struct, frozen=True):
    """One piece of advice with its evidence."""

    rule: str
    """Id of the rule that found it."""
    run: str | None
    """Id of the run in a document of printed tables; null for a trace."""
    severity: str
    """How much it matters: `critical`, `high`, `medium`, `low` or `info`."""
    confidence: str
    """How sure it is. `A`: exact evidence, `B`: inferred from names and shapes, `C`: a heuristic."""
    latent: bool
    """Whether it saves hardly anything before something else has been fixed: see `blocked_by`."""
    blocked_by: str | None
    """The resource that bounds the step now; null unless latent, and where the recording does not show it."""
    title: Message
    """The finding in a few words."""
    summary: Message
    """The finding in a few sentences with figures."""
    advice: Message
    """What to do about it."""
    not_when: Message
    """When the advice does not apply."""
    code: str | None
    """A line of code to begin with; null if there is none."""
    links: tuple[str, ...]
    """Addresses of official documentation."""
    evidence: tuple[Evidence, ...]
    """Measured values that crossed a threshold, and where."""
    saving: Saving | None
    """The saving of the fix per step; null for a risk, if it is unknown, and for what is saved `once`."""
    runs: tuple[str, ...] = ()
    """Ids of all runs of a document that have a finding of the same words but for its numbers, this one included; each
    run has its own finding in the list. Empty where no other run has it."""
    stage: str = "stable"
    """Stage of the rule: `preview` (not yet confirmed on a real recording, and `--fail-on` does not count
    it), `stable`, or `deprecated` (another rule says the same better)."""
    where: tuple[Selection, ...] = ()
    """The events that its saving is about, by device and thread; empty where it is about none, and for tables."""
    once: Once | None = None
    """What the fix saves once, in place of `saving`, if it changes only what is outside of typical steps; else null."""
    code_before: str | None = None
    """The line of code that `code` most likely replaces; null if that is unknown."""
    action: Message | None = None
    """What to do in a few words; null where it depends on the finding, and in reports of old versions."""
    after_fixes_ns_per_step: tuple[float, float | None, float] | None = None
    """ns per step (least, likely, most) that a latent finding adds to the fixes before it in `combined`; else null."""
    peak: PeakSaving | None = None
    """What the fix alone saves of a device's memory, by a replay; null where that is unknown or not what it is for."""


class Relief(msgspec.Struct, frozen=True):
    """One fix of the combined bound."""

    rule: str
    """Id of the rule whose finding is fixed."""
    finding: int
    """Position in the report's findings, counted from 0."""
    wall_ns_per_step: tuple[float, float]
    """Time in ns per step that it adds to the fixes before it, at least and at most; what it saves alone is the
    finding's own saving. 0 where it only makes later fixes possible."""
    point_ns_per_step: float | None = None
    """Most likely time in ns per step that it adds; null where only bounds are known."""
    scenarios_ns_per_step: tuple[float, float, float] | None = None
    """Time in ns per step that this fix adds if all changes remove their least, their middle and their most; in each of
    these scenarios the fixes add up to the total. Null if only bounds are known."""


class Combined(msgspec.Struct, frozen=True):
    """All fixes together, the largest saving first; the critical resource is determined again after each fix."""

    fixes: tuple[Relief, ...]
    """The fixes that add something, the one that saves most first."""
    wall_ns_per_step: tuple[float, float]
    """Time in ns by which a step gets shorter with all fixes, at least and at most."""
    wall_share: tuple[float, float]
    """Share of the step (0 to 1) by which it gets shorter with all fixes, at least and at most."""
    next_bottleneck: str
    """The resource that bounds the step after all fixes."""
    point_ns_per_step: float | None = None
    """Most likely time in ns by which a step gets shorter with all fixes; null where only bounds are known."""
    scenarios_ns_per_step: tuple[float, float, float] | None = None
    """Time in ns by which a step gets shorter if all changes remove their least, their middle and their most; null if
    only bounds are known."""
    estimated_by: str = "budget"
    """How it was found: `model`, replays of the recorded dependencies, or `budget`, bounds by total times."""
    step_ns: float | None = None
    """Duration in ns of the step that gets shorter, where that is not the recorded one; as of a saving."""


class Resources(msgspec.Struct, frozen=True):
    """Time per step that each resource is in use, in ns; resources overlap, so they do not sum to the step."""

    step_ns: float
    """Duration of a step in ns; in a table max(host, device) of the profiled time."""
    gpu_ns: float | None
    """Time per step in ns in which the busiest device works, communication included; null if unknown."""
    host_ns: float | None
    """Time per step in ns in which the host waits neither for a device nor for the loader nor, without a device, for
    collectives; null if unknown."""
    loader_ns: float | None
    """Time per step in ns in which the host waits for the loader; null if unknown."""
    communication_ns: float | None
    """Time per step in ns in which the busiest device runs collective kernels, of several ranks without waiting for
    each other; without a device, in which collectives run on the CPU and no operator does; null if unknown, and in a
    table."""


_UNSAID = Message("", {}, "")


class Headline(msgspec.Struct, frozen=True):
    """What bounds a run: one sentence, and what else there is to say about it."""

    run: str | None
    """Id of the run in a document of printed tables; null for a trace."""
    bound: str
    """What bounds the typical step: `input`, `host`, `gpu-compute` (also where the names of kernels do not show it),
    `gpu-memory` (also copies), `communication`, `start-up`, `capture` (of graphs) or `none` (nothing dominates, or the
    recording does not show it); of a compile log `compilation`; of a run that hangs `hang`, or `none`; of a memory
    snapshot `memory`."""
    message: Message = msgspec.field(name="sentence", default=_UNSAID)
    """What bounds the step, in one sentence of at most 20 words; in reports of old versions with all details."""
    share: float | None = None
    """Share of the step (0 to 1) that the bound takes; null if it is unknown."""
    resources: Resources | None = None
    """Time per step of each resource; null for a compile log, which has no steps."""
    combined: Combined | None = None
    """Saving of all fixes together; null if no finding saves anything."""
    shares: Shares | None = None
    """What the device does in a typical step; null without a device, and for printed tables."""
    qualifier: Message | None = None
    """What changes what to do about it, such as ranks that are missing; null if nothing does."""
    details: tuple[Message, ...] = ()
    """Sentences that explain the first one, the most important first."""
    whole: Message = msgspec.field(name="message", default=_UNSAID)
    """The sentence, what qualifies it, and its details, as one English text for programs that look for words."""

    def __post_init__(self) -> None:
        """A report of an old version has all in one text; a new one is put together."""
        if self.message is _UNSAID:
            msgspec.structs.force_setattr(self, "message", self.whole)
        if self.whole is _UNSAID:
            whole = Message(self.message.id, self.message.params, self.text)
            msgspec.structs.force_setattr(self, "whole", whole)

    @property
    def sentences(self) -> tuple[Message, ...]:
        """All that it says, in order."""
        return (self.message, *((self.qualifier,) if self.qualifier else ()), *self.details)

    @property
    def text(self) -> str:
        """All that it says, in English."""
        return " ".join(sentence.text for sentence in self.sentences)


class Report(msgspec.Struct, frozen=True, dict=True):
    """The report on one trace, document or run; reading its JSON back gives an equal report."""

    schema_version: int
    """Version of this schema; it changes where a field changes its meaning."""
    generator: Generator
    """The program that wrote the report."""
    source: ReportSource
    """The file that the report is about."""
    trace: TraceSummary | None
    """The trace in a few facts; null for printed tables and compile logs."""
    warnings: tuple[ReportWarning, ...]
    """Losses and doubts, with their consequences."""
    analyses: dict[str, Any]
    """Results of the analyses by key: typed where they were computed, plain data where the report was read back from
    JSON; `result` gives the typed view of both. Those that could not run are in `skipped`."""
    headlines: tuple[Headline, ...]
    """What bounds the run: one headline for a trace or a compile log, one per run of a table document; empty where
    nothing could be measured."""
    findings: tuple[Finding, ...]
    """Pieces of advice, certain before uncertain, and of these what saves most by itself first: prices, then questions
    that may save nothing and new rules, then risks, latent and informational ones."""
    skipped: tuple[Skipped, ...]
    """Analyses and rules that could not run, with the reason."""

    def __repr__(self) -> str:
        return f"<Report on {self.source.name}: {len(self.findings)} findings; traceanalyzer.render shows it>"

    def _repr_html_(self) -> str | None:
        """Show the page where a cell of a notebook returns the report, in a frame as high as its first screen."""
        page = rendered(self, "html")
        return page and f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: 40em"></iframe>'

    def _repr_markdown_(self) -> str | None:
        """Show the short form where a notebook shows no pages: the Markdown before its first folded part."""
        text = rendered(self, "markdown")
        return text and text.partition("\n<details")[0]

    def saved_as(self, name: str) -> Self:
        """Remember the name of the file that the report was read from, for errors; returns the report."""
        self.__dict__[_FILE] = name
        return self

    def result(self, key: str, kind: type[R]) -> R | None:
        """The result of an analyzer as its own type, or None if it was skipped.

        Raises:
            UnusableInputError: It is not as this program writes it.
        """
        if key not in self._typed:
            self._typed[key] = self._converted(key, kind)
        result: R | None = self._typed[key]
        return result

    @cached_property
    def _typed(self) -> dict[str, Any]:
        """Typed results that were requested before."""
        return {}

    def _converted(self, key: str, kind: type[R]) -> R | None:
        value = self.analyses.get(key)
        if value is None or isinstance(value, msgspec.Struct | tuple):
            return cast("R | None", value)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise UnusableInputError(
                f"{self.__dict__.get(_FILE, self.source.name)}: was changed after it was written: analyses.{key}: "
                f"{error}; create it again from the trace"
            ) from None
