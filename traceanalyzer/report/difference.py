"""Difference: what changed between two measurements. Plain data like the report, and its JSON is a contract, too."""

from __future__ import annotations

import msgspec

from traceanalyzer.report.compared import ComparedSide, Interval
from traceanalyzer.report.gate import Gate, Noise, UnusualSteps
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Generator


class Side(msgspec.Struct, frozen=True):
    """One of the two measurements."""

    name: str
    """Name of the file, folder or run, without its path."""
    format: str
    """Format of the input: `kineto` for traces, `key_averages` for printed tables."""
    run: str | None
    """Id of the run in a document of printed tables; null for traces."""
    title: str | None
    """Heading of that run in its document; null for traces or without a heading."""
    traces: int
    """Number of traces that the figures are of; 1 for printed tables."""
    ranks: tuple[int, ...]
    """Ranks that the figures are of; empty where the files name none."""
    ranks_left_out: tuple[int, ...]
    """Ranks of this side that the other side does not have; they are left out of the figures."""
    steps: int
    """Number of steps that the figures per step are of, over all traces."""
    steps_from: str | None
    """How the steps were found; null where the traces differ in it, or there are none."""
    devices: tuple[str, ...]
    """Names of the accelerators, in the order of the alphabet."""
    ignored: tuple[str, ...]
    """Files of the folder that are not part of the comparison."""
    torch_version: str | None = None
    """Version of torch; null where the traces do not name one, or several, and in differences of old versions."""
    commit: str | None = None
    """Commit of the program that was measured (`--base-commit`, `--head-commit`); null if unknown."""


class Check(msgspec.Struct, frozen=True):
    """One condition under which two measurements can be compared."""

    id: str
    """Id of the condition: `work` (only where nothing is in common), `gpu`, `clocks`, `world-size`, `ranks`,
    `steps-from`, `step-count`, `shapes`, `sizes`, `calls` or `options`."""
    similarity: float | None
    """How alike both sides are, from 0 (nothing in common) to 1 (equal); null if unknown on a side."""
    required: bool
    """Whether times cannot be compared at all where the similarity is 0."""
    message: Message
    """A condition of the comparison, with the values of both sides."""


class Comparability(msgspec.Struct, frozen=True):
    """Whether the two measurements are of the same work on the same machine, seen in the same way."""

    score: float | None
    """Weighted mean of the known similarities (0 to 1); 0 where no work is in common, null where nothing is known."""
    checks: tuple[Check, ...]
    """The conditions that were checked."""

    @property
    def obstacle(self) -> Check | None:
        """The first required condition that is not met."""
        return next((check for check in self.checks if check.required and check.similarity == 0), None)

    @property
    def is_unrelated(self) -> bool:
        """The sides have no work in common."""
        return any(check.id == "work" and check.similarity == 0 for check in self.checks)


SCHEMA_VERSION = 1

PART_LABELS = {
    "kernel": Text("diff-part-kernel", "Kernels"),
    "memcpy": Text("diff-part-memcpy", "Copies"),
    "memset": Text("diff-part-memset", "Fills"),
    "communication": Text("diff-part-communication", "Communication"),
    "runtime": Text("diff-part-runtime", "Launches and other GPU calls"),
    "dataloader": Text("diff-part-dataloader", "DataLoader"),
    "cpu_exec": Text("diff-part-cpu-exec", "CPU in operators"),
    "other": Text("diff-part-other", "Other"),
    "host_code": Text(
        "diff-part-host-code",
        "CPU in operators and other",
        "parts of a step; time that moved from one to the other is no change",
    ),
    "host": Text("diff-part-host", "CPU (self)"),
    "device": Text("diff-part-device", "Device"),
    "synchronization": Text("diff-part-synchronization", "CPU waits for device"),
}
"""Parts of the step, and of the profiled time of a printed table."""


class Sample(msgspec.Struct, frozen=True):
    """Statistics of the step times of one side."""

    count: int
    """Number of steps, or of captures if there are enough of them."""
    mean_ns: float
    """Mean duration of a step in ns."""
    median_ns: float
    """Median duration of a step in ns."""
    min_ns: float
    """Duration of the shortest step in ns."""
    max_ns: float
    """Duration of the longest step in ns."""


class Shift(msgspec.Struct, frozen=True):
    """The change of one statistic, head minus base."""

    change_ns: float
    """Change in ns per step; below 0 where head is faster."""
    change_share: float | None
    """Change over the statistic of the base; -0.1 is 10 % faster. Null where the base is 0."""
    interval_ns: Interval | None
    """Interval in ns that holds the change with 95 % confidence; null where there are too few steps for one."""
    p: float | None
    """Probability of a difference as large or larger if nothing changed (0 to 1); null with a single step."""
    method: str
    """The test that decided: `welch` for the mean, `rank-sum` for the typical step; `t` where the noise between few
    recordings, or that of `--noise`, counts."""


class StepTime(msgspec.Struct, frozen=True):
    """How long a step takes on both sides."""

    unit: str
    """Unit of the comparison: `step` for single steps, or `capture` for the means of whole traces."""
    base: Sample
    """Step times of the base."""
    head: Sample
    """Step times of the head."""
    mean: Shift
    """Change of the mean, with Welch's test."""
    median: Shift
    """Change of the median, with the rank-sum test."""
    inflation: float
    """Factor by which intervals were widened because neighbouring steps are alike; 1 where they are not."""
    all_base: Sample | None = None
    """All recorded steps of the base, but those that an edge of the recording cuts, start-up, and other phases; null
    where a report does not know them."""
    all_head: Sample | None = None
    """The same of the head."""
    all_mean: Shift | None = None
    """Change of the mean of all these steps."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether the step became faster or slower."""

    outcome: str
    """The verdict: `no-change`, `faster`, `slower` or `inconclusive`."""
    statistic: str | None
    """What the verdict rests on: `median`, `mean`, or `total` (a printed table); null where nothing could be
    compared."""
    change_ns: float | None
    """Change of that statistic in ns per step, head minus base; null where nothing could be compared."""
    change_share: float | None
    """Change over the statistic of the base; -0.1 is 10 % faster. Null where nothing could be compared."""
    reason: Message
    """The reason for the verdict."""


class ChangedPart(msgspec.Struct, frozen=True):
    """One part of the step, as a mean over the steps; the parts sum to the step."""

    id: str
    """Part of the step as in the step breakdown (`kernel`, `dataloader`, ...), or `host`, `device`, ... of a table,
    which overlap."""
    base_ns: float | None
    """Mean time per step of the base in ns; null if unknown."""
    head_ns: float | None
    """Mean time per step of the head in ns; null if unknown."""
    change_ns: float | None
    """Head minus base in ns per step; null if one of both is unknown."""
    change_share: float | None
    """Share of the change of the whole step that this part makes; null in a table, or if the step did not change."""
    clear: bool | None
    """Whether the change is beyond the noise of the steps; null if that is unknown."""


class Cost(msgspec.Struct, frozen=True):
    """Time and calls per step of an operator, kernel or module."""

    calls: float | None
    """Mean number of calls per step; null if unknown."""
    device_ns: float | None
    """Device time per step in ns; null if unknown."""
    host_ns: float | None
    """Host time per step in ns; null if unknown, and for kernels."""


class Change(msgspec.Struct, frozen=True):
    """An operator, kernel or module that changed."""

    name: str
    """Name of the caller, operator or kernel, or the path of the module; empty for the outermost caller."""
    detail: str | None
    """Input shapes where rows are distinguished by them; else null."""
    owner: str | None
    """The operator that launches a kernel; the path of callers around a caller; null in other rankings."""
    status: str
    """What changed: `appeared`, `vanished`, `slower`, `faster`, `calls` (only their number changed), or `not-printed`;
    where host and device changed in opposite directions, the larger change: `host-faster`, `host-slower`,
    `device-faster` or `device-slower`."""
    base: Cost | None
    """Cost on the side of the base; null where it is not there."""
    head: Cost | None
    """Cost on the side of the head; null where it is not there."""
    device_change_ns: float | None
    """Change of the device time in ns per step, head minus base; null if unknown."""
    host_change_ns: float | None
    """Change of the host time in ns per step, head minus base; null if unknown."""


class Ranking(msgspec.Struct, frozen=True):
    """Everything of one kind that changed, the largest change first."""

    key: str
    """Kind of the rows: `callers` (device work below the lowest caller that both sides have), `operators`,
    `operators_by_shape`, `kernels`, `kernels_by_operator` or `modules`."""
    rows: tuple[Change, ...]
    """All changed rows, the largest change first; rows that one side only did not print come last."""
    same: int
    """Number of rows that did not change."""
    ambiguous: int
    """Number of rows of a printed table whose names are cut, so that they cannot be matched."""


class MemoryPeak(msgspec.Struct, frozen=True):
    """Peak memory of one device; null is unknown."""

    device: str
    """`CPU`, or `GPU` and the id of the device."""
    base_allocated_bytes: int | None
    """Peak of the bytes that the allocator had handed out, on the side of the base."""
    head_allocated_bytes: int | None
    """Peak of the bytes that the allocator had handed out, on the side of the head."""
    base_reserved_bytes: int | None
    """Peak of the bytes that the allocator reserved from the driver, in the base."""
    head_reserved_bytes: int | None
    """Peak of the bytes that the allocator reserved from the driver, in the head."""


class GpuUse(msgspec.Struct, frozen=True):
    """How busy one device is on both sides; null is unknown."""

    device: int
    """Number of the device as in the traces."""
    base_utilization: float | None
    """Share of the window (0 to 1) in which a kernel ran, on the side of the base."""
    head_utilization: float | None
    """Share of the window (0 to 1) in which a kernel ran, on the side of the head."""
    base_busy_share: float | None
    """Share of the window (0 to 1) in which a kernel, copy or fill ran, on the side of the base."""
    head_busy_share: float | None
    """Share of the window (0 to 1) in which a kernel, copy or fill ran, on the side of the head."""
    base_est_sm_efficiency: float | None
    """Estimated share of the multiprocessors (0 to 1) that had a block, on the side of the base."""
    head_est_sm_efficiency: float | None
    """Estimated share of the multiprocessors (0 to 1) that had a block, on the side of the head."""
    base_tensor_core_share: float | None
    """Share of kernel time (0 to 1) on matrix units by kernel names, on the side of the base."""
    head_tensor_core_share: float | None
    """Share of kernel time (0 to 1) on matrix units by kernel names, on the side of the head."""


class RunSide(msgspec.Struct, frozen=True):
    """How the ranks of one side work together, in its typical steps; null is unknown."""

    late_ranks: tuple[int, ...]
    """The ranks that make a step longer, ascending."""
    late_ns: float | None
    """Time in ns by which a step would be shorter without their delays."""
    wait_ns: float | None
    """Waiting per step in collectives in ns, mean over the ranks."""
    exposed_wait_ns: float | None
    """Part of it in ns in which no other kernel runs."""
    transfer_ns: float | None
    """Transfer per step in collectives in ns, mean over the ranks."""


class CollectiveChange(msgspec.Struct, frozen=True):
    """Collectives of one kind on both sides, per step of a rank; null on a side that has none."""

    operation: str
    """Operation such as `all_reduce`; empty if unknown."""
    group_size: int | None
    """Number of ranks of their group; null where it is not recorded."""
    message_bytes: int | None
    """Size of one message in bytes; null if unknown."""
    base_count: float | None
    """Number of collectives, on the side of the base."""
    head_count: float | None
    """Number of collectives, on the side of the head."""
    base_wait_ns: float | None
    """Waiting in ns, on the side of the base."""
    head_wait_ns: float | None
    """Waiting in ns, on the side of the head."""
    base_transfer_ns: float | None
    """Transfer in ns, on the side of the base."""
    head_transfer_ns: float | None
    """Transfer in ns, on the side of the head."""


class RunChange(msgspec.Struct, frozen=True):
    """What changed between the ranks of two runs."""

    base: RunSide
    """The ranks of the base."""
    head: RunSide
    """The ranks of the head."""
    collectives: tuple[CollectiveChange, ...]
    """Matched collectives by kind, the largest change of waiting and transfer together first."""


class FindingChange(msgspec.Struct, frozen=True):
    """A finding that is gone, new, or still there."""

    status: str
    """`fixed` (base only, and what it is about takes less time), `new` (head only, and it takes more) or `kept` (both);
    `base-only` or `head-only` where that time did not change so, or is unknown; where the sides cannot be compared,
    `base-only`, `head-only` or `both`."""
    rule: str
    """Id of the rule that found it."""
    severity: str
    """How much it matters: `critical`, `high`, `medium`, `low` or `info`."""
    title: Message
    """The finding in a few words."""
    resource: str | None
    """The resource that its fix relieves: `loader`, `host`, `gpu` or `communication`; null without a saving."""
    predicted_wall_ns: Interval | None
    """Predicted time in ns by which a step gets shorter with the fix, at least and at most; null without a saving."""
    predicted_direct_ns: Interval | None
    """Predicted time in ns per step that the fix removes from its resource, at least and at most; null without a
    saving."""
    measured_direct_ns: float | None
    """Time in ns per step by which its resource became shorter; null unless fixed, or where unknown."""
    base_ns: float | None = None
    """Time per step in ns of what it is about, in the base; an estimate where only the head has the finding. Null if
    unknown, and in differences of old versions."""
    head_ns: float | None = None
    """The same in the head."""
    saved_ns: float | None = None
    """Time in ns per step by which what it is about became shorter; null unless fixed, or where unknown."""
    priced_in: str | None = None
    """The side in which the predicted times were found: `base` or `head`; null in differences of old versions."""
    base_position: int | None = None
    """Its position among the findings of the base, from 0; null where the base has no such finding, and in differences
    of old versions."""
    base_predicted_wall_ns: Interval | None = None
    """What the base predicted for its fix, per step; null where it has no such finding, without a saving, and in
    differences of old versions."""
    summary: Message | None = None
    """The finding in a few sentences, of the head where it has it; null in differences of old versions."""
    advice: Message | None = None
    """What to do about it, where the head has it; else null."""
    action: Message | None = None
    """What to do in a few words, where the head has it; null where that depends, and in differences of old versions."""
    code: str | None = None
    """A line of code to begin with, where the head has it and there is one; else null."""


class Prediction(msgspec.Struct, frozen=True):
    """The joint predicted saving of the fixed findings, and the measured one."""

    predicted_ns: Interval
    """Time in ns by which a step was to get shorter, at least and at most."""
    measured_ns: float
    """Time in ns by which the mean step became shorter; below 0 where it became longer."""
    measured_interval_ns: Interval | None
    """95 % confidence interval of the measured gain in ns; null if there is none."""
    agreement: str
    """Whether measurement and prediction agree. `as-predicted`: the measured saving lies in the predicted interval.
    `less` or `more`: it and its whole confidence interval lie below or above. `cannot-tell`: it lies outside, but its
    confidence interval reaches the predicted one."""
    message: Message
    """The comparison in one sentence."""


class Difference(msgspec.Struct, frozen=True):
    """Everything that renderers need; times are ns per step, changes are head minus base."""

    schema_version: int
    """Version of this schema; it changes where a field changes its meaning."""
    generator: Generator
    """The program that wrote the difference."""
    base: Side
    """The measurement before the change."""
    head: Side
    """The measurement after the change."""
    comparability: Comparability
    """Whether both measurements are of the same work on the same machine."""
    verdict: Verdict
    """Whether the step became faster or slower."""
    gate: Gate | None
    """The answer to `--fail-on-regression`; null without this option."""
    step_time: StepTime | None
    """Step times of both sides; null for printed tables, which have no single steps."""
    parts: tuple[ChangedPart, ...]
    """Parts of the step that occur on a side, with their change."""
    attribution: Message | None
    """Which part makes most of the difference; null where the noise is larger, or the sides have nothing in common."""
    notes: tuple[Message, ...]
    """Notes about how far the figures can be trusted."""
    findings: tuple[FindingChange, ...]
    """Findings that are fixed, then new ones, then those that are still there; empty if the sides have no work in
    common."""
    prediction: Prediction | None
    """Predicted and measured savings of the fixed findings; null without predictions, or if the verdict is
    inconclusive."""
    gpus: tuple[GpuUse, ...]
    """How busy each device is on both sides."""
    memory: tuple[MemoryPeak, ...]
    """Peak memory of each device on both sides."""
    rankings: tuple[Ranking, ...]
    """Operators, kernels and modules that changed."""
    run: RunChange | None = None
    """Late ranks, waiting and collectives; null unless both sides have several ranks."""
    base_view: ComparedSide | None = None
    """Headline, totals and one step of the base; null in differences of old versions."""
    head_view: ComparedSide | None = None
    """The same of the head."""
    unusual: tuple[UnusualSteps, ...] = ()
    """The steps that are unlike the typical ones, by reason; empty where a report does not know them."""
    noise: Noise | None = None
    """How much recordings of unchanged programs differ on this machine (`--noise`); null without this option."""
