"""The program waits for the whole GPU in the middle of its steps.

What it detects:
    `cudaDeviceSynchronize` and the like (`torch.cuda.synchronize()`) between the launches of a step, in at least every
    other step, with a gap after them of more than one percent of the step. In a table: calls in every step.

Why it matters:
    The host waits for all streams; then nothing is queued, and the GPU waits for the next launch.

What to do:
    Remove it. To measure time, use events (`torch.cuda.Event(enable_timing=True)`); to use a result in another
    stream, let that stream wait (`stream.wait_stream`).

How the saving is estimated:
    For each wait, the smaller of the wait and the GPU's idle time after it that has no other cause; at least half of
    that, because the next wait may become longer instead. In a table, at most the waits and at least nothing.

When it is wrong:
    Benchmarks wait at the beginning and end of what they measure, and the profiler waits at the end of a recording.
    Waits that do not have a launch both before and after them in the same step therefore do not count.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.cuda.synchronize.html
    https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.waits.device_wide import DeviceSync, DeviceSyncs, is_device_wide
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _waits
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_CALLS = Text("sync-device-wide-calls", "waits for the whole device per step")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = facts.need("device_syncs", DeviceSyncs).rows
    if any(row.avoidable_ns is None for row in rows):
        raise Missing(_waits.NO_DEVICE())
    calls = sum(row.calls for row in rows) / facts.steps
    gain = _waits.avoidable_per_step(facts, sum(row.avoidable_ns or 0 for row in rows))
    share = gain / facts.step_ns if facts.step_ns else 0.0
    if share <= limits["gain_share"] or calls < limits["calls_per_step"]:
        return
    evidence = Evidence(_waits.SUBJECT(), share, limits["gain_share"], "share", tuple(map(_place, rows)))
    change = _waits.change(gain, {"idle:synchronization": gain})
    yield Draft((evidence,), change, {"calls": calls, "gain": gain, "step": facts.step_ns}, ceiling="high")


def _place(row: DeviceSync) -> CodePlace:
    if row.owner is not None:
        return _waits.owned(row.owner, row.call, row.avoidable_ns, row.longest_start_ns)
    kind, name = ("call", row.call) if row.python_line is None else ("python", row.python_line)
    return CodePlace(kind, name, value=row.avoidable_ns, unit="ns", start_ns=row.longest_start_ns)


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.RUNTIME) if is_device_wide(row.name)]
    if not rows:
        return
    if facts.table is None or facts.table.steps_from is None:
        raise Missing(_waits.NO_STEPS())
    calls = (sum(row.calls or 0 for row in rows) - 1) / facts.steps  # one is the profiler's own
    time = facts.host_per_step(sum(row.self_cpu_ns or 0 for row in rows))
    if calls < limits["calls_per_step"] or time <= limits["gain_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    evidence = Evidence(_CALLS(), calls, limits["calls_per_step"], "number", where)
    change = _waits.printed_change(facts, time, {"idle:synchronization": time})
    yield Draft(
        (evidence,), change, {"calls": calls, "time": time}, ceiling="medium", confidence="C", summary=_SUMMARY_TABLE
    )


_SUMMARY_TABLE = Text(
    "sync-device-wide-summary-table",
    "{calls:count} times per step the program waits for the whole GPU, which takes {time:ns}.",
    one="Once per step the program waits for the whole GPU, which takes {time:ns}.",
)

RULE = Rule(
    id="sync-device-wide",
    title=Text("sync-device-wide-title", "The program waits for the whole GPU in the middle of a step"),
    summary=Text(
        "sync-device-wide-summary",
        "{calls:count} times per step the program waits until the GPU has finished everything. After these waits it "
        "has nothing to do for {gain:ns} of a step of {step:ns}.",
        one="Once per step the program waits until the GPU has finished everything. After this wait it has nothing "
        "to do for {gain:ns} of a step of {step:ns}.",
    ),
    advice=Text(
        "sync-device-wide-advice",
        "Remove torch.cuda.synchronize() from the loop. Measure with CUDA events, and let streams wait for each other "
        "instead of the host.",
    ),
    not_when=Text(
        "sync-device-wide-not-when",
        "The program is a benchmark, or searches for an asynchronous error: then the wait is the purpose.",
    ),
    severity="low to high",
    confidence="A",
    tags=("host",),
    since="0.1",
    thresholds=(
        Threshold(
            "calls_per_step",
            0.5,
            "number",
            "such waits per step, between launches; in a table all but one",
            "own choice, because what comes in less than every other step is no part of the step",
        ),
        Threshold(
            "gain_share",
            0.01,
            "share",
            "what would go away over the step; in a table the waits",
            "own choice, because less is within noise",
        ),
    ),
    code="start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.synchronize.html",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
    ),
    trace=_trace,
    table=_table,
)
