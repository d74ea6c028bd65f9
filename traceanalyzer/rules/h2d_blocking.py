"""Copies from pinned memory could run in the background, but the program waits for each of them.

What it detects:
    Copies from pinned host memory to a device that are directly followed by a synchronization within the same operator,
    after which the device has nothing to do. In a table: as many `cudaStreamSynchronize` as copies.

Why it matters:
    The host could launch the step's work while the copy runs. Instead it waits, and afterwards the device waits for the
    host.

What to do:
    Copy with `non_blocking=True`. The batch must stay in pinned memory, and unchanged, until the copy has ended.

How the saving is estimated:
    For each copy, the smaller of the wait and the device's idle time after it; at least half of that, because the next
    wait may become longer instead. In a table, at most all waits and at least nothing, because it has no timeline.

When it is wrong:
    If the device has enough other work, or the loader bounds the step, waiting costs nothing. `non_blocking` does
    nothing for pageable memory: see h2d-pageable.

References:
    https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _copies, _waits
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.trace.document import TableRow

_SYNCHRONIZE = frozenset({"cudaStreamSynchronize", "hipStreamSynchronize"})

_SUBJECT = Text(
    "h2d-blocking-subject", "waits for copies from pinned memory that leave the GPU idle, share of the step"
)
_SUBJECT_TABLE = Text("h2d-blocking-subject-table", "stream synchronizations per copy from pinned memory")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    pinned = [row for row in _copies.to_device(facts.need("copies", Copies)) if row.host_memory == "pinned"]
    rows = [row for row in pinned if row.synchronized_calls]
    avoidable = _waits.avoidable_per_step(facts, sum(row.avoidable_ns or 0 for row in rows))
    share = avoidable / facts.step_ns if facts.step_ns else 0.0
    if not rows or share <= limits["gain_share"]:
        return
    where = _callers(facts) or tuple(CodePlace("copy", row.name, value=row.avoidable_ns, unit="ns") for row in rows)
    evidence = Evidence(_waits.SUBJECT(), share, limits["gain_share"], "share", where)
    claims = {f"copies:{row.name}": facts.host_per_step(row.avoidable_ns or 0) for row in rows}
    wait = facts.host_per_step(sum(row.synchronized_ns or 0 for row in rows))
    calls = sum(row.synchronized_calls or 0 for row in rows) / facts.steps
    params = {"calls": calls, "wait": wait, "gain": avoidable}
    yield Draft((evidence,), _waits.change(avoidable, claims), params, ceiling="medium")


def _callers(facts: Facts) -> tuple[CodePlace, ...]:
    """The parts of the program that wait for streams in copying operators, those first that could save most."""
    waits = facts.find("synchronizations", Synchronizations)
    rows = [row for row in waits.rows if row.owner and row.call in _SYNCHRONIZE and row.avoidable_ns] if waits else []
    rows = [row for row in rows if "aten::copy_" in row.operators]
    rows.sort(key=lambda row: -(row.avoidable_ns or 0))
    return tuple(map(_waits.place, rows[:5]))


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    copies = [row for row in facts.rows(RowKind.COPY) if "HtoD" in row.name and "Pinned" in row.name and row.calls]
    waits = [row for row in facts.rows(RowKind.RUNTIME) if row.name in _SYNCHRONIZE and row.calls]
    copied, waited = _calls(copies), _calls(waits)
    lowest = limits["waits_per_copy"]
    if not copied or not lowest < waited / copied < 1 / lowest:
        return
    wait = facts.host_per_step(sum(row.self_cpu_ns or 0 for row in waits))
    if wait <= limits["gain_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in (*waits, *copies))
    evidence = Evidence(_SUBJECT_TABLE(), waited / copied, lowest, "number", where)
    claims = {f"copies:{row.name}": wait * (row.calls or 0) / copied for row in copies}
    change = _waits.printed_change(facts, wait, claims)
    params = {"calls": waited / facts.steps, "wait": wait}
    yield Draft((evidence,), change, params, ceiling="medium", confidence="B", summary=_SUMMARY_TABLE)


def _calls(rows: Sequence[TableRow]) -> int:
    return sum(row.calls or 0 for row in rows)


_SUMMARY_TABLE = Text(
    "h2d-blocking-summary-table",
    "There are as many waits as copies from pinned memory, {calls:count} per step: {wait:ns} per step is waiting.",
)

RULE = Rule(
    id="h2d-blocking",
    title=Text("h2d-blocking-title", "The program waits for copies although it need not"),
    summary=Text(
        "h2d-blocking-summary",
        "After {calls:count} copies per step from pinned memory the program waits, {wait:ns} in all, and then the "
        "GPU has nothing to do for {gain:ns} of a step.",
        one="After {calls:count} copy per step from pinned memory the program waits, for {wait:ns}, and then the GPU "
        "has nothing to do for {gain:ns} of a step.",
    ),
    advice=Text(
        "h2d-blocking-advice",
        "Copy with non_blocking=True: the memory is already pinned. Do not change or free the batch until the copy "
        "has ended.",
    ),
    not_when=Text(
        "h2d-blocking-not-when",
        "The host changes or frees the batch right after the copy, or something else bounds the step.",
    ),
    severity="low to medium",
    confidence="A",
    tags=("input", "host"),
    since="0.1",
    thresholds=(
        Threshold(
            "gain_share",
            0.01,
            "share",
            "avoidable waiting over the step; in a table, all of the waiting",
            "own choice, because less is within noise",
        ),
        Threshold(
            "waits_per_copy",
            0.9,
            "number",
            "in a table: synchronizations per copy at least, and copies per synchronization",
            "own choice, because then hardly any synchronization has another reason",
        ),
    ),
    code="batch = batch.to('cuda', non_blocking=True)",
    links=(
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html",
    ),
    trace=_trace,
    table=_table,
)
