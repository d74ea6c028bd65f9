"""Single values are read from tensors so often that the GPU runs out of work, or the host is busy reading.

What it detects:
    Waits inside `aten::item`, `aten::_local_scalar_dense`, `aten::is_nonzero` or `aten::equal`: `.item()`, `float(t)`,
    `if t:`, `print(t)`. Twice per step or more, or with a gap after them of more than one percent of the step. Programs
    without a device do not wait: there runs of at least three such readings count, with the cheap operators and the
    Python code between them, if they take more than three percent of the step.

Why it matters:
    The host waits until everything before has run; then nothing is queued, and the GPU waits for the next launch.

What to do:
    Keep values on the GPU: sum losses there and read them every hundred steps, and replace `if` by `torch.where`. Read
    several values in one copy at the end of the step.

How the saving is estimated:
    For each wait, the smaller of the wait and the GPU's idle time after it that has no other cause; waiting while the
    GPU works costs nothing. At least half of that, because the next wait may become longer instead. In a table, at most
    the time in these operators and at least nothing, because it has no timeline. On a CPU at most the time of the runs,
    and half of the Python code directly before and after each, of which 0.2 ms count at most; if a capture timed steps
    without the profiler and they are shorter, up to 20 % more, because the runs are then a larger part of the step. At
    least 90 % of the runs without the cost of recording their operators, because one operator for all and one reading
    remain.

When it is wrong:
    Reading one value every few steps for a log is fine. The check of AMP's gradient scaler and conditions that the
    program needs are true dependencies; one read per check of the scaler is not counted. A loop in Python may need each
    value before the next one, as in decoding or in an environment of reinforcement learning.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.operators import Operators
from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.analyzers.waits.value_reads import ValueReads
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _environment, _host_work, _program, _waits
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_READING = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"})
_OWN_BESIDE = 0.5
"""Part of the Python code directly before and after readings that belongs to them at most: iterating over what is read,
and storing the values (measured in the lab)."""
_SCALER = "aten::_amp_foreach_non_finite_check_and_unscale_"
"""What AMP's gradient scaler calls before it reads whether the gradients are finite."""

_KEPT_ON_CPU = 0.9
"""Own choice: one operator on all values and one reading remain of a run."""

_CALLS = Text("sync-item-frequent-calls", "values read from the GPU per step")
_RUNS = Text("sync-item-frequent-runs", "reading values of tensors one by one, share of the step")
_BASIS_RUNS = Text(
    "sync-item-frequent-basis-runs-beside",
    "at least {least:share} of the time from the first to the last of these readings, without what recording the "
    "operators in it cost; at most all of it and half of the Python code directly before and after, and up to a fifth "
    "more where a capture shows that the profiler made the rest of the step longer",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if facts.resources.gpu_ns is None and facts.find("value_reads", ValueReads) is not None:
        yield from _on_cpu(facts, limits)
        return
    waits = facts.need("synchronizations", Synchronizations)
    if waits.avoidable_ns is None:
        raise Missing(_waits.NO_DEVICE())
    rows = [row for row in waits.rows if _READING & set(row.operators)]
    calls = sum(row.calls_per_step or 0.0 for row in rows)
    if not calls:
        return
    part = max(0.0, calls - _scaler_calls(facts)) / calls
    gain = part * _waits.avoidable_per_step(facts, sum(row.avoidable_ns or 0 for row in rows))
    share = gain / facts.step_ns
    evidence = []
    if share > limits["gain_share"]:
        evidence.append(Evidence(_waits.SUBJECT(), share, limits["gain_share"], "share", _places(rows)))
    if part * calls >= limits["calls_per_step"]:
        evidence.append(Evidence(_CALLS(), part * calls, limits["calls_per_step"], "number", _places(rows)))
    if evidence:
        claims = {"operator:aten::item": gain, "idle:synchronization": gain}
        change = _waits.change(gain, claims)
        params = {"calls": part * calls, "gain": gain, "step": facts.step_ns}
        advice = None if _program.may_train(facts) else _ADVICE_INFERENCE
        if _environment.is_stepped(facts):
            change = TimeSaved("host", (0.0, gain), _BASIS_ENVIRONMENT(), (0.0, gain), claims)
            advice = _environment.ADVICE
        yield Draft(tuple(evidence), change, params, ceiling="high", advice=advice)


def _on_cpu(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Runs of readings on a program that waits for no device."""
    _host_work.need_cpu_steps(facts)
    found = facts.need("value_reads", ValueReads)
    time = found.time_ns / found.steps
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    least = _KEPT_ON_CPU * _host_work.without_recording(facts, time, found.operators / found.steps)
    interval = (least, _host_work.most(facts, time + _OWN_BESIDE * found.beside_ns / found.steps))
    where = tuple(
        CodePlace(
            "python" if row.is_line else "operator", row.name, None, row.time_ns / found.steps, "ns", row.start_ns
        )
        for row in found.lines
    )
    change, advice = TimeSaved("host", interval, _BASIS_RUNS(least=_KEPT_ON_CPU), interval), _ADVICE_CPU
    if _environment.is_stepped(facts):
        interval = (0.0, interval[1])
        change, advice = TimeSaved("host", interval, _BASIS_ENVIRONMENT(), interval), _environment.ADVICE
    params = {"calls": found.readings / found.steps, "time": time, "step": facts.step_ns}
    yield Draft(
        (Evidence(_RUNS(), share, limits["host_share"], "share", where),),
        change,
        params,
        ceiling="high",
        confidence="B",
        summary=_SUMMARY_CPU,
        advice=advice,
        code=_CODE_CPU if advice is _ADVICE_CPU else "",
    )


def _scaler_calls(facts: Facts) -> float:
    """Checks of AMP's gradient scaler per step."""
    operators = facts.find("operators", Operators)
    return sum(row.calls for row in operators.rows if row.name == _SCALER) / facts.steps if operators else 0.0


def _places(rows: list[Synchronization]) -> tuple[CodePlace, ...]:
    return tuple(map(_waits.place, rows))


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if not facts.resources.gpu_ns:
        raise Missing(_waits.NO_DEVICE())
    if facts.table is None or facts.table.steps_from is None:
        raise Missing(_waits.NO_STEPS())
    for name in ("aten::item", "aten::_local_scalar_dense"):  # the second lies within the first
        rows = [row for row in facts.operators if row.name == name]
        calls = sum(row.calls for row in rows) / facts.steps
        if rows:
            break
    if not rows or calls < limits["calls_per_step"]:
        return
    time = facts.host_per_step(sum(row.host_total_ns for row in rows))
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    evidence = Evidence(_CALLS(), calls, limits["calls_per_step"], "number", where)
    change = _waits.printed_change(facts, time, {"operator:aten::item": time})
    yield Draft(
        (evidence,), change, {"calls": calls, "time": time}, ceiling="medium", confidence="C", summary=_SUMMARY_TABLE
    )


_BASIS_ENVIRONMENT = Text(
    "sync-item-frequent-basis-environment",
    "at most all of the time of these readings; at least nothing, because the environment needs the actions as numbers",
)
_ADVICE_INFERENCE = Text(
    "sync-item-frequent-advice-inference",
    "Leave the values on the GPU: use torch.where instead of if, and read what must be read in one copy at the end.",
    note="torch.where is code",
)
_SUMMARY_CPU = Text(
    "sync-item-frequent-summary-cpu",
    "{calls:number} values per step are read from tensors one by one in Python. With the operators between them that "
    "takes {time:ns} of a step of {step:ns}.",
)
_ADVICE_CPU = Text(
    "sync-item-frequent-advice-cpu",
    "Compute on whole tensors (argmax, comparisons, one norm over all gradients) instead of value by value, read the "
    "results in one call of tolist(), and only every hundred steps if they are for a log.",
    note="argmax and tolist() are code",
)
_CODE_CPU = "hits = (logits.argmax(1) == targets).sum()  # and hits.item() every hundred steps"
_SUMMARY_TABLE = Text(
    "sync-item-frequent-summary-table",
    "{calls:count} values per step are read from tensors, which takes {time:ns} of host time, waiting included.",
    one="{calls:count} value per step is read from a tensor, which takes {time:ns} of host time, waiting included.",
)

RULE = Rule(
    id="sync-item-frequent",
    title=Text("sync-item-frequent-title-values", "Single values are read from tensors in the middle of the step"),
    summary=Text(
        "sync-item-frequent-summary",
        "{calls:count} times per step the program waits for a single value from the GPU. After these waits the GPU "
        "has nothing to do for {gain:ns} of a step of {step:ns}.",
        one="Once per step the program waits for a single value from the GPU. After this wait the GPU has nothing "
        "to do for {gain:ns} of a step of {step:ns}.",
    ),
    advice=Text(
        "sync-item-frequent-advice",
        "Leave the values on the GPU: add up losses there and read the sum every hundred steps, use torch.where "
        "instead of if, and read what must be read in one copy at the end of the step.",
    ),
    not_when=Text(
        "sync-item-frequent-not-when-values",
        "The program must decide based on each value, or something else bounds the step: waiting for a device that "
        "works is free.",
    ),
    severity="info to high",
    confidence="A",
    tags=("host",),
    since="0.1",
    thresholds=(
        Threshold(
            "calls_per_step",
            2,
            "number",
            "such waits per step",
            "own choice, because one per step, for the loss, is common and can be moved to where it costs nothing",
        ),
        Threshold(
            "gain_share",
            0.01,
            "share",
            "what would go away, over the step",
            "own choice, because less is within noise",
        ),
        Threshold(
            "host_share",
            0.03,
            "share",
            "runs of readings over the step, where no device works",
            "own choice, because a step on a CPU varies by some percent from run to run",
        ),
    ),
    code="running_loss += loss.detach()  # and running_loss.item() every hundred steps",
    links=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    ),
    trace=_trace,
    table=_table,
)
