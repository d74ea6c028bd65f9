"""The data that a batch stores for each analyzed file: its reports, and its row of the summary."""

from __future__ import annotations

import msgspec

from traceanalyzer.inputs.storage import STATE
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Generator

RECORD_VERSION = 2

LEAST_WORK_NS = 1_000_000
"""Own choice: with less GPU work in total, a recording does not show how a program uses its GPUs."""


class RowAdvice(msgspec.Struct, frozen=True):
    """One finding of a file in a few words."""

    rule: str
    severity: str
    title: Message
    wall_ns: tuple[float, float] | None
    """Lower and upper bound of its saving over all steps of the trace in ns; null if unknown."""


class Row(msgspec.Struct, frozen=True):
    """One row of the summary, for one file; null is unknown."""

    name: str
    """Path relative to the folder of the inputs."""
    format: str
    """Format of the file: `kineto` or `key_averages`."""
    size_bytes: int | None
    rank: int | None
    world_size: int | None
    base_ns: int | None
    """Absolute time of the first event, in ns since 1970."""
    device_name: str | None
    """Name of the first accelerator in the file."""
    steps: int | None
    mean_step_ns: float | None
    median_step_ns: float | None
    window_ns: int | None
    """Time from the start of the first to the end of the last step, in ns."""
    devices: int | None
    """Number of GPUs that ran a kernel."""
    busy_share: float | None
    """Mean busy share of these GPUs (0 to 1)."""
    idle_ns: int | None
    """Time of the window in which nothing ran on a GPU, summed over the GPUs."""
    exposed_communication_ns: int | None
    """Time of the window in which a GPU ran nothing but collectives, summed over the GPUs."""
    wasted_ns: int | None
    """Idle time plus exposed communication: GPU time that was paid for and did no work, in ns."""
    bound: str | None
    """What bounds the step, as in `report.model.Headline`."""
    headline: Message | None
    advice: tuple[RowAdvice, ...]
    """Findings in a few words, in the order of the report."""
    warnings: int
    kernels: int | None = None
    """Number of kernels on all GPUs."""
    has_typical_step: bool | None = None
    """Whether any part of the recording is a step of the program; null if unknown."""

    @property
    def is_hollow(self) -> bool:
        """Whether GPUs had hardly any work, or the recording contains no step, so that no time counts as wasted."""
        if not self.devices or self.window_ns is None or self.idle_ns is None:
            return False
        if self.has_typical_step is False:
            return True
        work = self.devices * self.window_ns - self.idle_ns
        return work < LEAST_WORK_NS or (self.kernels is not None and self.kernels <= 1)


class Output(msgspec.Struct, frozen=True):
    """One report that has been written."""

    format: str
    name: str
    """Path relative to the folder of the reports."""
    size_bytes: int


class Record(msgspec.Struct, frozen=True):
    """The record of a finished file; it is written after the reports, so its existence shows that they are complete."""

    schema_version: int
    generator: Generator
    fingerprint: str
    """Identifies input, options and version, as `ReportOptions.fingerprint` computes it."""
    outputs: tuple[Output, ...]
    row: Row
    rank: Output | None = None
    """Results for a report of the whole run; null for a file that is not a rank of a larger run."""

    is_saved: bool = False
    """Whether the file is a saved report, which was only rendered again."""

    @property
    def files(self) -> tuple[Output, ...]:
        """Everything that was written for the file."""
        return self.outputs if self.rank is None else (*self.outputs, self.rank)


def name_of(name: str) -> str:
    """Path of a file's record within the folder of the reports."""
    return f"{STATE}/{name}.json"


def encode(done: Record) -> str:
    """Encode a record as the content of its file."""
    return msgspec.json.encode(done, order="deterministic").decode() + "\n"


def decode(data: bytes) -> Record | None:
    """Decode a record; None if it has another version or is cut off."""
    try:
        done = msgspec.json.decode(data, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return done if done.schema_version == RECORD_VERSION else None
