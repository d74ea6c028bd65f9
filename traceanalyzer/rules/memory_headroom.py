"""Most of the device's memory is free, and the device is not kept busy.

What it detects:
    A peak of allocated memory below half of the device's memory, while the device works for less than four fifths of
    the step and does not wait for the loader.

Why it matters:
    The work of the host per step does not depend on the batch size, so a larger batch spreads it over more samples.

What to do:
    Raise the batch size step by step, and the learning rate with it. In inference, batch requests.

How the saving is estimated:
    Not as time of a step, which gets longer. Only the idle time that occurs once per step shrinks.

When it is wrong:
    Host work per sample grows with the batch, so the rule is silent if most of the idle time is host code outside of
    operators. Memory records cover this process and the recorded window only. A larger batch may converge worse, or
    answer too late. Servers are left out. A printed table has sums of allocations and never a peak.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import DeviceMemory, MemoryUse
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _program
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.resources import StepResources

_GROWING = 0.5
"""Share of the idle time that host code outside of operators may have (own choice): what prepares samples there takes
longer for more of them."""

_PEAK = Text("memory-headroom-peak", "peak of allocated memory, share of the device's")
_BUSY = Text("memory-headroom-busy", "time in which the GPU works, share of the step")
_NO_PEAK = Text("memory-headroom-no-peak", "the peak or the size of the device's memory is not known")
_NO_GPU = Text("memory-headroom-no-gpu", "the trace has no device events, so it is unknown how busy the device is")
_NO_TABLE = Text("memory-headroom-no-table", "a printed table sums up allocations; it does not show the peak")


_SERVES = Text(
    "memory-headroom-serving", "the batch size of a server depends on its requests, and its memory is reserved for them"
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if _program.serves(facts):
        raise Missing(_SERVES())
    memory, resources = facts.need("memory", MemoryUse), facts.need_step_resources()
    if resources.gpu_ns is None:
        raise Missing(_NO_GPU())
    known = [d for d in memory.devices if d.peak_allocated_bytes and d.capacity_bytes and not d.is_relative]
    if not known:
        raise Missing(_NO_PEAK())
    busy, loader = resources.gpu_ns / resources.step_ns, resources.exposed_loader_ns / resources.step_ns
    if facts.is_startup or busy >= limits["busy_share"] or loader > limits["loader_share"]:
        return
    if facts.idle_per_step("host_code") > _GROWING * (1 - busy) * resources.step_ns:
        return
    for device in known:
        yield from _judge(device, busy, resources, limits)


def _judge(device: DeviceMemory, busy: float, resources: StepResources, limits: Mapping[str, float]) -> Iterator[Draft]:
    peak, capacity = device.peak_allocated_bytes or 0, device.capacity_bytes or 0
    used = peak / capacity
    if used >= limits["used_share"]:
        return
    where = (CodePlace("memory", device.device, value=peak, unit="bytes"),)
    yield Draft(
        (
            Evidence(_PEAK(), used, limits["used_share"], "share", where),
            Evidence(_BUSY(), busy, limits["busy_share"], "share", ()),
        ),
        params={
            "device": device.device,
            "peak": peak,
            "capacity": capacity,
            "used": used,
            "busy": busy,
            "idle": resources.step_ns * (1 - busy),
        },
        severity="info",
    )


RULE = Rule(
    id="memory-headroom",
    title=Text("memory-headroom-title", "A larger batch would fit"),
    summary=Text(
        "memory-headroom-summary",
        "{device} uses {peak:bytes} of {capacity:bytes} at most ({used:share}) and works for {busy:share} of the step.",
        note="device is GPU0 and the like",
    ),
    advice=Text(
        "memory-headroom-advice-shared",
        "Raise the batch size step by step while the time per sample falls; memory does not stand in the way. More "
        "samples share what the host does once per step, such as launching kernels: a good part of the {idle:ns} in "
        "which the GPU does nothing. What it does for each sample, such as decoding or collating, they do not share.",
    ),
    not_when=Text(
        "memory-headroom-not-when",
        "The batch size is limited by convergence, by response time, or by other processes that need the device.",
    ),
    severity="info",
    confidence="B",
    tags=("memory", "gpu"),
    since="0.1",
    thresholds=(
        Threshold(
            "used_share",
            0.5,
            "share",
            "peak of allocated memory over the device's memory",
            "own choice: below half, twice the batch fits if activations are what takes the memory",
        ),
        Threshold(
            "busy_share",
            0.8,
            "share",
            "time in which the GPU works, over the step",
            "own choice: a GPU that works for more gains little from a larger batch",
        ),
        Threshold(
            "loader_share",
            0.1,
            "share",
            "exposed waiting for the loader, over the step",
            "own choice: with more, larger batches would only wait longer for their input",
        ),
    ),
    code="DataLoader(dataset, batch_size=4 * batch_size)",
    links=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    trace=_trace,
    no_table=_NO_TABLE(),
)
