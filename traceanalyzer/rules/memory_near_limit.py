"""The device's memory is nearly full.

What it detects:
    A peak of allocated or reserved memory above nine tenths of the device's memory, or an allocation that failed.

Why it matters:
    A longer sequence, a larger last batch or a little fragmentation can end the run with an out-of-memory error. Before
    that, the allocator empties its cache and allocates from the driver again, which stalls the device.

What to do:
    Checkpoint activations, compute in bf16, accumulate gradients over smaller batches, shard optimizer state. If
    reserved memory is far above allocated memory, it is fragmented: use expandable segments.

How the saving is estimated:
    Not at all: this is a risk, not time.

When it is wrong:
    Reserved memory is a cache: full is not the same as needed. Other processes on the device are not in the trace,
    so the real level may be higher.

References:
    https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
    https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import DeviceMemory, MemoryUse
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.facts import Facts
from traceanalyzer.rules.rule import Draft, Rule, Threshold

_ALLOCATED = Text("memory-near-limit-allocated", "peak of allocated memory, share of the device's")
_RESERVED = Text("memory-near-limit-reserved", "peak of reserved memory, share of the device's")
_NO_TABLE = Text("memory-near-limit-no-table", "a printed table sums up allocations; it does not show the peak")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    for device in facts.need("memory", MemoryUse).devices:
        if device.capacity_bytes and not device.is_relative:
            yield from _judge(device, device.capacity_bytes, limits["used_share"])


def _judge(device: DeviceMemory, capacity: int, limit: float) -> Iterator[Draft]:
    peaks = ((_ALLOCATED, device.peak_allocated_bytes), (_RESERVED, device.peak_reserved_bytes))
    evidence = tuple(
        Evidence(
            text(), peak / capacity, limit, "share", (CodePlace("memory", device.device, value=peak, unit="bytes"),)
        )
        for text, peak in peaks
        if peak is not None and peak / capacity > limit
    )
    if evidence:
        used = max(peak for _, peak in peaks if peak is not None)
        params = {"device": device.device, "used": used, "capacity": capacity, "share": used / capacity}
        yield Draft(evidence, params=params, severity="high")


RULE = Rule(
    id="memory-near-limit",
    title=Text("memory-near-limit-title", "The GPU's memory is nearly full"),
    summary=Text(
        "memory-near-limit-summary",
        "{device} used up to {used:bytes} of {capacity:bytes} ({share:share}): the next larger batch may not fit.",
        note="device is GPU0 and the like",
    ),
    advice=Text(
        "memory-near-limit-advice",
        "Make room before it fails: checkpoint activations, use bf16, accumulate gradients over smaller batches, or "
        "shard the optimizer's state. If much more is reserved than allocated, memory is fragmented: set "
        "expandable_segments.",
    ),
    not_when=Text(
        "memory-near-limit-not-when",
        "The largest batch has already been seen, and what is reserved is only the allocator's cache.",
    ),
    severity="high",
    confidence="A",
    tags=("memory",),
    since="0.1",
    thresholds=(
        Threshold(
            "used_share",
            0.9,
            "share",
            "peak of allocated or reserved memory over the device's memory",
            "as the TensorBoard plugin; a tenth is about what fragmentation and workspaces take",
        ),
    ),
    code="torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
    links=(
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
        "https://docs.pytorch.org/docs/stable/checkpoint.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
