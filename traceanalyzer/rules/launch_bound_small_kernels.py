"""Kernels are so short that the host cannot launch them fast enough.

What it detects:
    Gaps between kernels that exist because the next launch came too late, each no longer than ten launches at the
    program's usual pace (at least 50 us); together more than one twentieth of the step.

Why it matters:
    The GPU waits for the host between its kernels. Faster kernels, or a faster GPU, change nothing.

What to do:
    Launch fewer kernels: `torch.compile`, CUDA graphs (`mode="reduce-overhead"`), fused optimizers, larger batches.

How the saving is estimated:
    At most all of these gaps, which a CUDA graph removes; at least half, as with fewer and larger kernels. Recording
    Python stacks makes the host two to five times slower: then at most half and at least a fifth. If a capture timed
    steps without the profiler, these times decide how much of the gaps remains.

When it is wrong:
    Recording stacks or shapes makes the host slower than in normal runs. Kernels in CUDA graphs are not launched one by
    one. Longer gaps have other reasons: see host-python-gap. If the host waits for the GPU again and again, gaps caused
    by these waits do not count: see sync-between-launches.

References:
    https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
    https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps, StepCause
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _idle, _owners, _program, _settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_BY_HOST = ("launch_bound", "host_code")
_IN_GRAPHS = 0.5
"""Own choice: a program whose kernels mostly come from graphs already follows the advice."""

_SUBJECT = Text(
    "launch-bound-small-kernels-subject", "gaps in which the GPU waits for the next launch, share of the step"
)
_SUBJECT_LISTED = Text(
    "launch-bound-small-kernels-subject-listed",
    "gaps in which the GPU waits for the next launch, share of the step; {shown:ns} of {time:ns} are listed, by "
    "what the host does in them",
)
_BASIS_ALL = Text(
    "launch-bound-small-kernels-basis-all",
    "at most all of these gaps, as with a CUDA graph; at least {least:share}, as with fewer and larger kernels",
)
_BASIS = Text(
    "launch-bound-small-kernels-basis",
    "at most {most:share} of these gaps, as with a CUDA graph; at least {least:share}, as with fewer and larger "
    "kernels",
)
_BASIS_MEASURED = Text(
    "launch-bound-small-kernels-basis-measured",
    "at most {most:share} of these gaps, by how much shorter steps are without the profiler; at least {least:share}, "
    "as with fewer and larger kernels",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _idle.enough(facts, limits["events"])
    device = _idle.busiest(facts, found)
    launches = facts.need("launches", LaunchFigures)
    if device is None or not device.time_ns or (launches.graphs.kernel_share or 0.0) >= _IN_GRAPHS:
        return
    stacks = facts.is_host_inflated
    measured = _settings.gaps_without_profiler(facts, device)
    least, most = measured or ((1 / _idle.STACKS, 0.5) if stacks else (0.5, 1.0))
    waits = _idle.waits_again_and_again(found, device)
    gaps = {row.cause: _launching_ns(row, waits) / found.steps for row in device.causes if row.cause in _BY_HOST}
    total = sum(gaps.values())
    share = most * total / (device.time_ns / found.steps)
    if share <= limits["gap_share"]:
        return
    listed = () if waits else _owners.of_gaps(_owners.named_first(device.launching_owners), found.steps)
    subject = _SUBJECT_LISTED(shown=_owners.total(listed), time=total) if listed else _SUBJECT()
    evidence = Evidence(subject, share, limits["gap_share"], "share", listed or _kernels(launches))
    if measured and facts.is_replayed:
        least, most = 0.5, 1.0  # a replay takes what recording cost off all of the host's time
    interval = (least * total, most * total)
    claims = {"idle:launch_bound": most * gaps["launch_bound"]}
    if found.has_stacks:  # then host-python-gap may also report the other part
        claims["idle:host_code"] = most * gaps["host_code"]
    change = TimeSaved("host", interval, _basis(least, most, is_measured=measured is not None), interval, claims)
    guessed = "C" if stacks and not measured else None
    params = _params(device, launches, found.steps, total, waits)
    values = _idle.waits_often(found, device)
    advice = _ADVICE_VALUES if values else _advice(facts, launches)
    yield Draft((evidence,), change, params, confidence=guessed, advice=advice, code="" if values else None)


def _basis(least: float, most: float, *, is_measured: bool) -> Message:
    """How much of the gaps goes away, and why."""
    if most == 1:
        return _BASIS_ALL(least=least)
    return (_BASIS_MEASURED if is_measured else _BASIS)(least=least, most=most)


def _launching_ns(row: StepCause, waits: bool) -> int:
    """Time in gaps between launches; without those of sync-between-launches where the host waits often."""
    return row.launching_ns - (row.launching_after_waits_ns if waits else 0)


def _advice(facts: Facts, launches: LaunchFigures) -> Text | None:
    """The advice that applies to this program; None: all of the rule's advice."""
    if _program.serves(facts):
        return _ADVICE_SERVING
    if (launches.graphs.kernel_share or 0.0) >= _SOME_GRAPHS:
        return _ADVICE_GRAPHS
    if _program.is_compiled(facts):
        return _ADVICE_COMPILED
    return None if _program.may_train(facts) else _ADVICE_INFERENCE


def _params(
    device: DeviceInSteps, launches: LaunchFigures, steps: int, total: float, waits: bool
) -> dict[str, float | None]:
    return {
        "gaps": (device.launching_gaps - (device.launching_gaps_after_waits if waits else 0)) / steps,
        "time": total,
        "launches": device.events / steps,
        "short": launches.short_kernels.calls_share,
    }


def _kernels(launches: LaunchFigures) -> tuple[CodePlace, ...]:
    """Kernels that run for less time than their launch takes, the most frequent first."""
    rows = sorted(launches.by_kernel, key=lambda row: (-row.shorter_than_launch, row.name))
    return tuple(CodePlace("kernel", row.name, value=row.shorter_than_launch, unit="count") for row in rows[:5])


_SOME_GRAPHS = 0.05
"""Own choice: share of kernel time from which on a program uses graphs."""
_ADVICE_VALUES = Text(
    "launch-bound-small-kernels-advice-values",
    "Between these launches the host often waits for a value or a size from the GPU (nonzero, masks as indices, "
    ".item()), so graphs and compiled code would end there. Keep such work on the GPU in tensors of fixed size, or do "
    "it once for many items; then compile what is left.",
    note="nonzero and .item() are code; graphs are CUDA graphs or HIP graphs",
)
_ADVICE_SERVING = Text(
    "launch-bound-small-kernels-advice-serving",
    "Let the server capture its decode steps in graphs, for the batch sizes that occur: it does so by default unless "
    "eager execution is asked for, or a batch is larger than the captured ones.",
    note="graphs are CUDA graphs or HIP graphs",
)
_ADVICE_GRAPHS = Text(
    "launch-bound-small-kernels-advice-graphs",
    "Graphs are in use already: capture what still runs beside them, or launch it less often.",
    note="graphs are CUDA graphs or HIP graphs",
)
_ADVICE_COMPILED = Text(
    "launch-bound-small-kernels-advice-compiled",
    "Part of the program is compiled already. Compile what still runs operator by operator, remove what breaks the "
    'graphs, and let compiled code replay CUDA graphs (mode="reduce-overhead").',
    note='mode="reduce-overhead" is code',
)
_ADVICE_INFERENCE = Text(
    "launch-bound-small-kernels-advice-inference",
    "Launch fewer and larger kernels: compile the model, best with CUDA graphs, and make the batch larger if memory "
    "and response time allow it.",
)

RULE = Rule(
    id="launch-bound-small-kernels",
    title=Text("launch-bound-small-kernels-title", "The GPU waits for the host to launch small kernels"),
    summary=Text(
        "launch-bound-small-kernels-summary",
        "In {gaps:count} gaps per step, {time:ns} in all, the GPU waits for the next launch. A step starts "
        "{launches:count} kernels and copies; {short:share} of the kernels are shorter than the call that launches "
        "them.",
        one="In {gaps:count} gap per step, {time:ns}, the GPU waits for the next launch. A step starts "
        "{launches:count} kernels and copies; {short:share} of the kernels are shorter than the call that launches "
        "them.",
    ),
    advice=Text(
        "launch-bound-small-kernels-advice",
        "Launch fewer and larger kernels: compile the model, best with CUDA graphs, use a fused optimizer, and make "
        "the batch larger if memory allows it.",
    ),
    not_when=Text(
        "launch-bound-small-kernels-not-when",
        "Shapes or control flow change from step to step: then graphs must be captured again and again.",
    ),
    severity="medium to critical",
    confidence="B",
    tags=("host", "gpu"),
    since="0.1",
    thresholds=(
        _idle.EVENTS,
        Threshold(
            "gap_share",
            0.05,
            "share",
            "these gaps over the steps; half of them where stacks were recorded",
            "own choice, because the profiler itself takes a few percent for its records of the launches",
        ),
    ),
    code='model = torch.compile(model, mode="reduce-overhead")',
    links=(
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
        "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
    ),
    trace=_trace,
    is_rest=True,
)
