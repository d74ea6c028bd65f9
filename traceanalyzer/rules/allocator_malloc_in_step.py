"""Device memory is allocated and freed with the driver in every step.

What it detects:
    `cudaMalloc`, `cudaFree`, `cudaHostAlloc` and the like in at least half of the typical steps after the first
    recorded one, and in two of these or more. A step with many more calls than the others, such as one in which the
    allocator empties its cache, counts like the others.

Why it matters:
    PyTorch keeps freed memory for reuse, so steps normally never call the driver. A driver call takes up to a
    millisecond, and freeing waits until the whole GPU is done.

What to do:
    Remove `torch.cuda.empty_cache()` from the loop. If shapes change from step to step, pad them to a few sizes or set
    `expandable_segments`. If memory is nearly full, the allocator has to empty its cache: free some memory.

How the saving is estimated:
    At most the time in which the GPU is idle because of these calls in the same steps, including the idle time after a
    call that waited for the GPU. The lower end is never more than the calls themselves take. What the first recorded
    step allocates is not counted: it does not recur.

When it is wrong:
    The first steps, and the first batch of a new shape, allocate memory that later ones reuse. Expandable segments and
    stream-ordered allocations are designed for use in the loop and do not count.

References:
    https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
    https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls, SetUp
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _idle
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text(
    "allocator-malloc-in-step-subject", "calls that allocate or free, after the first step: share of the step"
)
_BASIS = Text(
    "allocator-malloc-in-step-basis",
    "at most the GPU's idle time that these calls explain; the lower end is never more than the calls themselves",
)
_ONE_STEP = Text(
    "allocator-malloc-in-step-one-step",
    "only one step was recorded, which may have been the one that allocates for all",
)
_NO_TABLE = Text("allocator-malloc-in-step-no-table", "a printed table does not show which calls recur in every step")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("runtime_calls", RuntimeCalls)
    rows = [row for row in found.rows if row.kind == "allocation"]
    usual = found.usual_steps
    if rows and not usual:
        raise Missing(_ONE_STEP())
    rows = [row for row in rows if _recurs(row, usual) and row.usual_steps >= limits["steps_share"] * usual]
    time = sum(_per_step(row.recurring_ns, row, usual) for row in rows)
    share = time / facts.step_ns if facts.step_ns else 0.0
    if share <= limits["time_share"]:
        return
    where = tuple(_place(row, _per_step(row.recurring_ns, row, usual)) for row in rows)
    evidence = Evidence(_SUBJECT(), share, limits["time_share"], "share", where)
    idle = _idle_ns(facts, time, found)
    exposed = None if idle is None else (min(time, idle), idle)
    direct = (time, time) if exposed is None else (exposed[0], max(time, idle or 0.0))
    change = TimeSaved("host", direct, _BASIS(), exposed, {"idle:allocation": direct[1]})
    calls = sum(_per_step(row.recurring_calls, row, usual) for row in rows)
    yield Draft((evidence,), change, {"calls": calls, "time": time, "call": rows[0].name}, ceiling="high")


def _recurs(row: SetUp, usual: int) -> bool:
    """Whether calls come in two usual steps, or in the only one and in the first recorded step."""
    return row.usual_steps > 1 or (usual == row.usual_steps == 1 and row.calls > row.later_calls)


def _per_step(recurring: float, row: SetUp, usual: int) -> float:
    """What a step has on average of what comes back in the steps that have any."""
    return recurring * row.usual_steps / usual


def _idle_ns(facts: Facts, time: float, found: RuntimeCalls) -> float | None:
    """The GPU's idle time per step that the calls that come back explain, in proportion; None if unknown."""
    idle = _idle.per_later_step(facts, "allocation")
    every = sum(row.usual_ns for row in found.rows if row.kind == "allocation") / found.usual_steps
    return idle if idle is None or not every else idle * min(1.0, time / every)


def _place(row: SetUp, time: float) -> CodePlace:
    kind, name = ("call", row.name) if row.python_line is None else ("python", row.python_line)
    return CodePlace(kind, name, value=time, unit="ns", start_ns=row.longest_start_ns)


RULE = Rule(
    id="allocator-malloc-in-step",
    title=Text("allocator-malloc-in-step-title", "Every step asks the driver for memory"),
    summary=Text(
        "allocator-malloc-in-step-summary",
        "{calls:count} times per step the program allocates or frees memory with the driver ({call}), which takes "
        "{time:ns}.",
        note="call is a name such as cudaMalloc",
        one="Once per step the program allocates or frees memory with the driver ({call}), which takes {time:ns}.",
    ),
    advice=Text(
        "allocator-malloc-in-step-advice",
        "Remove torch.cuda.empty_cache() from the loop; if batches differ in size, pad them to a few sizes or set "
        "expandable_segments; if memory is nearly full, free some.",
    ),
    not_when=Text(
        "allocator-malloc-in-step-not-when",
        "Another process needs the memory between steps, or only warm-up steps were recorded.",
    ),
    severity="low to high",
    confidence="A",
    tags=("memory", "host"),
    since="0.1",
    thresholds=(
        Threshold(
            "time_share",
            0.01,
            "share",
            "time in these calls over the step",
            "own choice, because less is within noise",
        ),
        Threshold(
            "steps_share",
            0.5,
            "share",
            "of the typical steps after the first, in how many a call must come",
            "own choice, because what comes in fewer is a new shape now and then",
        ),
    ),
    code="os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'",
    links=(
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
