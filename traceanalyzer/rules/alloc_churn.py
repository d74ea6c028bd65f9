"""Large amounts of memory are allocated and freed again and again.

What it detects:
    Operators that only allocate (`aten::empty` and the like) take a notable share of the host's time; or a step
    allocates many times as many bytes as are in use at its peak.

Why it matters:
    The caching allocator is fast but not free, and every temporary is written to memory and read again. Allocating
    costs little while the host is ahead of the device.

What to do:
    Compute in place or into `out=` where autograd allows, fuse chains of small operations with `torch.compile`, and
    reuse buffers that every step creates again.

How the saving is estimated:
    At most the host time of these operators. At least nothing: most temporaries are needed, and only some can be
    avoided.

When it is wrong:
    Thousands of allocations per step are normal in eager mode. The sum of allocations is traffic; it says nothing about
    leaks, which are memory that is never freed.

References:
    https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_ALLOCATING = frozenset(
    {
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::empty_permuted",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::resize_",
        "aten::resize_as_",
    }
)
_HOST = Text("alloc-churn-host", "host time of allocating operators, share of the step")
_TURNOVER = Text("alloc-churn-turnover", "bytes allocated per step, divided by the peak in use")
_BASIS = Text(
    "alloc-churn-basis", "at most the host time of the allocating operators; at least nothing, because most are needed"
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.operators if row.name in _ALLOCATING and row.calls]
    host = facts.host_per_step(sum(row.host_self_ns for row in rows))
    share = host / facts.step_ns if facts.step_ns else 0.0
    evidence = []
    # Recording memory makes every allocation slower than it is.
    if share > limits["host_share"] and facts.find("memory", MemoryUse) is None:
        evidence.append(Evidence(_HOST(), share, limits["host_share"], "share", _places(rows)))
    evidence += _turnover(facts, limits["turnover"])
    if evidence and rows:
        calls = facts.host_per_step(sum(row.calls for row in rows))
        change = TimeSaved("host", (0.0, host), _BASIS(), claims={f"operator:{row.name}": host for row in rows[:1]})
        yield Draft(tuple(evidence), change, {"calls": round(calls), "host": host, "share": share}, ceiling="low")


def _turnover(facts: Facts, limit: float) -> Iterator[Evidence]:
    memory = facts.find("memory", MemoryUse)
    for device in memory.devices if memory else ():
        peak = device.peak_allocated_bytes
        if device.device == "CPU" or not peak or not device.steps:
            continue
        taken = sum(step.allocated_bytes for step in device.steps) / len(device.steps)
        if taken / peak > limit:
            where = (CodePlace("memory", device.device, value=round(taken), unit="bytes"),)
            yield Evidence(_TURNOVER(), taken / peak, limit, "number", where)


def _places(rows: list[OperatorFact]) -> tuple[CodePlace, ...]:
    ranked = sorted(rows, key=lambda row: (-row.host_self_ns, row.name))
    return tuple(CodePlace("operator", row.name, value=row.host_self_ns, unit="ns") for row in ranked[:5])


RULE = Rule(
    id="alloc-churn",
    title=Text("alloc-churn-title", "Memory is allocated again and again"),
    summary=Text(
        "alloc-churn-summary",
        "{calls:count} allocating operators per step take {host:ns} of host time ({share:share} of the step).",
        one="{calls:count} allocating operator per step takes {host:ns} of host time ({share:share} of the step).",
    ),
    advice=Text(
        "alloc-churn-advice",
        "No action is needed while the GPU is busy. If the host is the bottleneck, let torch.compile fuse chains of "
        "small operations, compute in place or into out= where autograd allows it, and reuse buffers that every step "
        "allocates.",
    ),
    not_when=Text(
        "alloc-churn-not-when",
        "The GPU is the bottleneck. This is not a leak either: the memory summed up here is released again.",
    ),
    severity="info to low",
    confidence="B",
    tags=("memory", "host"),
    since="0.1",
    thresholds=(
        Threshold(
            "host_share",
            0.1,
            "share",
            "host time of allocating operators over the step",
            "own choice: ordinary trainings in eager mode have 1 to 5 %",
        ),
        Threshold(
            "turnover",
            50,
            "number",
            "bytes taken per step over the peak in use",
            "own choice: a training step takes and returns its activations and gradients a few times, not fifty",
        ),
    ),
    code="torch.compile(model)",
    links=(
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_find,
    table=_find,
)
