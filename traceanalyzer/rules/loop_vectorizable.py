"""A Python loop processes a tensor piece by piece.

What it detects:
    The same few operators, starting with one that takes a piece (`select`, `slice`, `index`, `unbind`, `narrow`), ten
    times or more in a row, called by the program itself.

Why it matters:
    Each iteration pays for its operators and launches; one operator on the whole tensor pays only once.

What to do:
    Write the loop as operations on the whole tensor: broadcasting, `torch.where`, `gather`, `cumsum`, or `torch.vmap`.

How the saving is estimated:
    At most the host time of all iterations but one, including what autograd evaluates for them. At least half of that,
    because operators on the whole tensor take longer than those on a piece. In a program without a GPU in which the
    operators take 10 us or less each, most of this time is the cost of calling them: then 65 to 110 % of it. If
    gradients pass through the loop at least all of it, and up to 1.6 times as much, because the gradients of the pieces
    are also added up and released (in the lab 0.6 to 1.2 times this time was saved without gradients, and 1.1 to 1.7
    times with them, in four programs).

When it is wrong:
    Loops in which an iteration needs the result of the one before (recurrent layers, decoding) cannot be vectorized;
    loops with matrix products, concatenation, sampling or readings of values are not judged. Loops inside PyTorch's own
    operators do not count. A printed table counts `aten::select` but does not show who calls it.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.vmap.html
    https://docs.pytorch.org/docs/stable/notes/broadcasting.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.operators.loops import Repeat, Repeats
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._processor import Processor
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_KEPT = 0.5
"""Own choice: operators on the whole tensor are few, but each takes longer than one on a piece."""

_SMALL_NS = 10_000
"""Own choice: a call of an operator with next to no work takes 2 to 5 us with a profiler."""
_OF_SMALL = 0.65, 1.1
"""Least and most that goes away where operators are small (measured in the lab, explained on the rule's page)."""
_WITH_GRADIENTS = 1.0, 1.6
"""The same where gradients pass through the loop."""

_SUBJECT = Text("loop-vectorizable-subject", "consecutive iterations of the loop")
_BASIS = Text(
    "loop-vectorizable-basis",
    "at most the host time of all iterations but one, with their backward pass; at least half of it, because "
    "operators on the whole tensor take longer",
)
_BASIS_SMALL = Text(
    "loop-vectorizable-basis-calls",
    "{least:number} to {most:number} times the time of all iterations but one, with their backward pass: most of what "
    "operators on such small pieces cost is their call, and so is putting the pieces together",
)
_NO_TABLE = Text(
    "loop-vectorizable-no-table",
    "a printed table counts operators but does not show whether the program loops over them",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    for row in facts.need("repeats", Repeats).rows:
        if not row.is_carrying and row.most_turns >= limits["turns"]:
            yield from _judge(facts, row, limits)


def _judge(facts: Facts, row: Repeat, limits: Mapping[str, float]) -> Iterator[Draft]:
    taken = row.host_ns + row.backward_ns
    processor = Processor.of(facts)
    per_step = processor.per_step if processor.is_cpu else facts.host_per_step
    removed = per_step(taken * (1 - row.runs / row.turns))
    if removed <= limits["host_share"] * facts.step_ns:
        return
    kind, name = ("operator", " ".join(row.operators)) if row.python_line is None else ("python", row.python_line)
    where = CodePlace(kind, name, value=row.host_ns, unit="ns", start_ns=row.longest_start_ns)
    evidence = Evidence(_SUBJECT(), row.most_turns, limits["turns"], "count", (where,))
    exposed = None
    if row.idle_ns is not None:
        idle = facts.host_per_step(row.idle_ns * (1 - row.runs / row.turns))
        exposed = (_KEPT * idle, idle)
    # not only the operator: on a CPU, time outside of operators is saved as well
    claims = {f"{'loop' if processor.is_cpu else 'operator'}:{row.operators[0]}": removed}
    least, most, basis = _KEPT, 1.0, _BASIS()
    if processor.is_cpu and row.host_ns <= _SMALL_NS * row.turns * len(row.operators):
        least, most = _WITH_GRADIENTS if row.backward_ns else _OF_SMALL
        basis = _BASIS_SMALL(least=least, most=most)
    change = TimeSaved("host", (least * removed, min(most * removed, facts.step_ns)), basis, exposed, claims)
    params = {"turns": row.most_turns, "operators": ", ".join(row.operators), "time": per_step(taken)}
    yield Draft((evidence,), change, params, ceiling="high")


RULE = Rule(
    id="loop-vectorizable",
    title=Text("loop-vectorizable-title", "A loop works on a tensor piece by piece"),
    summary=Text(
        "loop-vectorizable-summary",
        "{turns:count} times in a row the program calls {operators}, each time on another piece: {time:ns} of host "
        "time per step, including the backward pass.",
        note="operators is a list of names such as aten::select",
    ),
    advice=Text(
        "loop-vectorizable-advice",
        "Do it on the whole tensor at once: broadcast, index with a tensor, or wrap the body in torch.vmap.",
    ),
    not_when=Text(
        "loop-vectorizable-not-when",
        "Each iteration needs the result of the one before, or the whole tensor would not fit into memory.",
    ),
    severity="low to high",
    confidence="C",
    tags=("host",),
    since="0.1",
    thresholds=(
        Threshold(
            "turns",
            10,
            "count",
            "turns in a row; no fewer than ten are looked for",
            "as PyTorch's own pattern matcher (ForLoopIndexing in torch.profiler)",
        ),
        Threshold(
            "host_share",
            0.01,
            "share",
            "host time of all turns but one, and of their backward pass, over the step",
            "own choice, because less is within noise",
        ),
    ),
    code="y = torch.vmap(f)(x)  # instead of torch.stack([f(row) for row in x])",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.vmap.html",
        "https://docs.pytorch.org/docs/stable/notes/broadcasting.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
