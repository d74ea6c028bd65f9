"""Difference: what changed between two measurements. Plain data, like the report; its JSON is a contract, too."""

from __future__ import annotations

import msgspec

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Generator

SCHEMA_VERSION = 1

PART_LABELS = {
    "kernel": Text("diff-part-kernel", "Kernel"),
    "memcpy": Text("diff-part-memcpy", "Memcpy"),
    "memset": Text("diff-part-memset", "Memset"),
    "communication": Text("diff-part-communication", "Communication"),
    "runtime": Text("diff-part-runtime", "Runtime"),
    "dataloader": Text("diff-part-dataloader", "DataLoader"),
    "cpu_exec": Text("diff-part-cpu-exec", "CPU Exec"),
    "other": Text("diff-part-other", "Other"),
    "host": Text("diff-part-host", "Host (self CPU)"),
    "device": Text("diff-part-device", "Device"),
    "synchronization": Text("diff-part-synchronization", "Host waits for device"),
}
"""Parts of the step, and of the profiled time of a printed table."""

Interval = tuple[float, float]
"""At least, at most."""


class Side(msgspec.Struct, frozen=True):
    """One of the two measurements."""

    name: str
    """Of the file, folder or run, without its path."""
    format: str
    """`kineto` or `key_averages`."""
    run: str | None
    """The run of a table document; null for traces."""
    title: str | None
    """Heading of that run in its document."""
    traces: int
    ranks: tuple[int, ...]
    """The ranks that the figures are of; empty where the files name none."""
    ranks_left_out: tuple[int, ...]
    """Ranks that the other side does not have."""
    steps: int
    """Steps that the figures per step are of."""
    steps_from: str | None
    devices: tuple[str, ...]
    """Names of the accelerators."""
    ignored: tuple[str, ...]
    """Files of the folder that are neither traces nor reports."""


class Check(msgspec.Struct, frozen=True):
    """One condition under which two measurements can be compared."""

    id: str
    """`work` (only where nothing is in common), `gpu`, `world-size`, `ranks`, `steps-from`, `step-count`, `shapes`,
    `sizes`, `calls` or `options`."""
    similarity: float | None
    """1 is equal, 0 has nothing in common; null: unknown, at least on one side."""
    required: bool
    """Times cannot be compared at all where this is 0."""
    message: Message


class Comparability(msgspec.Struct, frozen=True):
    """Whether the two measurements are of the same work on the same machine, seen in the same way."""

    score: float | None
    """Mean of the known similarities, weighted; 0 where no work is in common, null where nothing is known."""
    checks: tuple[Check, ...]

    @property
    def obstacle(self) -> Check | None:
        """The first required condition that is not met."""
        return next((check for check in self.checks if check.required and check.similarity == 0), None)

    @property
    def is_unrelated(self) -> bool:
        """The sides have no work in common."""
        return any(check.id == "work" and check.similarity == 0 for check in self.checks)


class Sample(msgspec.Struct, frozen=True):
    """Step times of one side."""

    count: int
    """Steps, or captures where there are enough of them."""
    mean_ns: float
    median_ns: float
    min_ns: float
    max_ns: float


class Shift(msgspec.Struct, frozen=True):
    """The change of one statistic, head minus base."""

    change_ns: float
    change_share: float | None
    """Of the base."""
    interval_ns: Interval | None
    """With 95 % confidence; null where there are too few steps for one."""
    p: float | None
    """Probability of a difference as large or larger if nothing changed; null with a single step."""
    method: str
    """`welch` of the mean, `rank-sum` of the typical step."""


class StepTime(msgspec.Struct, frozen=True):
    """How long a step takes on both sides."""

    unit: str
    """What was compared: `step`, or `capture` (means of whole traces)."""
    base: Sample
    head: Sample
    mean: Shift
    median: Shift
    inflation: float
    """By which intervals were widened because neighbouring steps are alike; 1: they are not."""


class Verdict(msgspec.Struct, frozen=True):
    """The answer."""

    outcome: str
    """`no-change`, `faster`, `slower` or `inconclusive`."""
    statistic: str | None
    """What it rests on: `median`, `mean`, or `total` (a printed table); null where nothing could be compared."""
    change_ns: float | None
    """Of that statistic, head minus base, per step."""
    change_share: float | None
    reason: Message


class ChangedPart(msgspec.Struct, frozen=True):
    """One part of the step, as a mean over the steps; the parts sum to the step."""

    id: str
    """As in the step breakdown: `kernel`, `dataloader`, ...; in a table `host`, `device`, ..., which overlap."""
    base_ns: float | None
    head_ns: float | None
    change_ns: float | None
    change_share: float | None
    """Of the change of the step; null in a table."""
    clear: bool | None
    """The change is beyond the noise of the steps; null where that cannot be told."""


class Cost(msgspec.Struct, frozen=True):
    """What something takes per step."""

    calls: float | None
    device_ns: float | None
    host_ns: float | None


class Change(msgspec.Struct, frozen=True):
    """An operator, kernel or module that is not what it was."""

    name: str
    detail: str | None
    """Input shapes."""
    owner: str | None
    """The operator that launches a kernel."""
    status: str
    """`appeared`, `vanished`, `slower`, `faster`, `calls` (only their number changed), or `not-printed`; where host and
    device changed in opposite directions what changed more: `host-faster`, `host-slower`, `device-faster` or
    `device-slower`."""
    base: Cost | None
    head: Cost | None
    device_change_ns: float | None
    host_change_ns: float | None


class Ranking(msgspec.Struct, frozen=True):
    """Everything of one kind that changed, the largest change first."""

    key: str
    """`operators`, `operators_by_shape`, `kernels`, `kernels_by_operator` or `modules`."""
    rows: tuple[Change, ...]
    same: int
    """How many did not change."""
    ambiguous: int
    """Rows of a printed table whose names are cut, so that they cannot be matched."""


class MemoryPeak(msgspec.Struct, frozen=True):
    """Peak memory of one device; null is unknown."""

    device: str
    base_allocated_bytes: int | None
    head_allocated_bytes: int | None
    base_reserved_bytes: int | None
    head_reserved_bytes: int | None


class GpuUse(msgspec.Struct, frozen=True):
    """How busy one device is; null is unknown."""

    device: int
    base_utilization: float | None
    head_utilization: float | None
    base_busy_share: float | None
    head_busy_share: float | None
    base_est_sm_efficiency: float | None
    head_est_sm_efficiency: float | None
    base_tensor_core_share: float | None
    head_tensor_core_share: float | None


class FindingChange(msgspec.Struct, frozen=True):
    """A finding that is gone, new, or still there."""

    status: str
    """`fixed`, `new` or `kept`; where the sides cannot be compared `base-only`, `head-only` or `both`."""
    rule: str
    severity: str
    title: Message
    resource: str | None
    """What it relieves: `loader`, `host`, `gpu` or `communication`."""
    predicted_wall_ns: Interval | None
    """What a step was to get shorter by."""
    predicted_direct_ns: Interval | None
    """What its resource was to get shorter by."""
    measured_direct_ns: float | None
    """What its resource got shorter by; null unless fixed, or where unknown."""


class Prediction(msgspec.Struct, frozen=True):
    """What the fixed findings promised together, and what the step got shorter by."""

    predicted_ns: Interval
    measured_ns: float
    measured_interval_ns: Interval | None
    agreement: str
    """`as-predicted`: the measured saving lies in the predicted interval; `less` or `more`: it lies outside, and so
    does all of its own interval; `cannot-tell`: it lies outside, but may lie inside within the noise."""
    message: Message


class Gate(msgspec.Struct, frozen=True):
    """The answer to --fail-on-regression."""

    limit_share: float
    outcome: str
    """`passed`, `regression` or `inconclusive`."""
    reason: Message


class Difference(msgspec.Struct, frozen=True):
    """Everything that renderers need; times are ns per step, changes are head minus base."""

    schema_version: int
    generator: Generator
    base: Side
    head: Side
    comparability: Comparability
    verdict: Verdict
    gate: Gate | None
    step_time: StepTime | None
    """Null for printed tables, which hold no single steps."""
    parts: tuple[ChangedPart, ...]
    attribution: Message | None
    """Which part makes the difference; null where the noise is larger than it, or the sides have nothing in common."""
    notes: tuple[Message, ...]
    """What a reader must know to trust the figures."""
    findings: tuple[FindingChange, ...]
    """Empty where the sides have no work in common."""
    prediction: Prediction | None
    """Null where nothing was promised, or the verdict is inconclusive."""
    gpus: tuple[GpuUse, ...]
    memory: tuple[MemoryPeak, ...]
    rankings: tuple[Ranking, ...]
