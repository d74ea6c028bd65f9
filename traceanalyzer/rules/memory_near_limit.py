"""The device's memory is nearly full.

What it detects:
    A peak of allocated memory above nine tenths of the device's memory. Reserved memory alone is the allocator's
    cache, and does not count.

Why it matters:
    A longer sequence, a larger last batch or a little fragmentation can end the run with an out-of-memory error. Before
    that, the allocator empties its cache and allocates from the driver again, which stalls the device.

What to do:
    In training, checkpoint activations, compute in bf16, accumulate gradients over smaller batches, shard optimizer
    state. In inference, drop gradients, use 16-bit weights and smaller batches.

How the saving is estimated:
    Not at all: this is a risk, not time.

When it is wrong:
    Servers take most of the memory in advance for their caches; they are not judged. Other processes on the device are
    not in the trace, so the real level may be higher.

References:
    https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
    https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import DeviceMemory, MemoryUse
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _program
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_ALLOCATED = Text("memory-near-limit-allocated", "peak of allocated memory, share of the device's")
_NO_TABLE = Text("memory-near-limit-no-table", "a printed table sums up allocations; it does not show the peak")
_ON_PURPOSE = Text(
    "memory-near-limit-on-purpose",
    "a server reserves most of the memory in advance for its caches, so full memory is no risk",
)
_ADVICE_INFERENCE = Text(
    "memory-near-limit-advice-inference",
    "Make room before it fails: run under torch.inference_mode(), use 16-bit weights, and make the batch or the "
    "longest input smaller.",
    note="torch.inference_mode() is code",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    devices = facts.need("memory", MemoryUse).devices
    if _program.serves(facts):
        raise Missing(_ON_PURPOSE())
    for device in devices:
        if device.capacity_bytes and not device.is_relative:
            yield from _judge(facts, device, device.capacity_bytes, limits["used_share"])


def _judge(facts: Facts, device: DeviceMemory, capacity: int, limit: float) -> Iterator[Draft]:
    used = device.peak_allocated_bytes
    if used is None or used <= limit * capacity:
        return
    where = (CodePlace("memory", device.device, value=used, unit="bytes"),)
    evidence = Evidence(_ALLOCATED(), used / capacity, limit, "share", where)
    params = {"device": device.device, "used": used, "capacity": capacity, "share": used / capacity}
    advice = None if _program.may_train(facts) else _ADVICE_INFERENCE
    yield Draft((evidence,), params=params, severity="high", advice=advice)


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
        "shard the optimizer's state.",
    ),
    not_when=Text(
        "memory-near-limit-not-when",
        "The largest batch has already been seen, or the memory was reserved in advance on purpose.",
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
            "peak of allocated memory over the device's memory",
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
