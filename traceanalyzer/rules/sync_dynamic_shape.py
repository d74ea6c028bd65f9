"""Operators whose result size only the GPU knows make the host wait for it.

What it detects:
    Waits inside `nonzero`, boolean indexing, `masked_select`, `unique` and `repeat_interleave`, with a gap after them
    of more than one percent of the step.

Why it matters:
    The host needs the size before it can go on. It waits until everything before has run; then the GPU has nothing to
    do.

What to do:
    Keep shapes fixed: multiply by a mask or use `torch.where` instead of selecting, give `repeat_interleave` its
    `output_size`, use `nonzero_static`, or move the operator to where the program waits anyway.

How the saving is estimated:
    For each wait, the smaller of the wait and the GPU's idle time after it that has no other cause; at least half of
    that, because the next wait may become longer instead.

When it is wrong:
    Detection and sparse models need results of unknown size. Waiting while the GPU has other work costs nothing.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html
    https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _waits
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SIZED = frozenset(
    {
        "aten::nonzero",
        "aten::nonzero_numpy",
        "aten::argwhere",
        "aten::masked_select",
        "aten::_unique",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::unique_dim_consecutive",
        "aten::repeat_interleave",
        "aten::bincount",
    }
)
"""Operators that wait for the size of their result. A boolean index is an `aten::index` with `aten::nonzero` inside."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    waits = facts.need("synchronizations", Synchronizations)
    if waits.avoidable_ns is None:
        raise Missing(_waits.NO_DEVICE())
    rows = [row for row in waits.rows if _SIZED & set(row.operators)]
    gain = _waits.avoidable_per_step(facts, sum(row.avoidable_ns or 0 for row in rows))
    share = gain / facts.step_ns if facts.step_ns else 0.0
    if not rows or share <= limits["gain_share"]:
        return
    evidence = Evidence(_waits.SUBJECT(), share, limits["gain_share"], "share", tuple(map(_waits.place, rows)))
    operator = _operator(rows[0])
    change = _waits.change(gain, {f"operator:{operator}": gain, "idle:synchronization": gain})
    calls = sum(row.calls_per_step or 0.0 for row in rows)
    params = {"calls": calls, "gain": gain, "step": facts.step_ns, "operator": operator}
    yield Draft((evidence,), change, params, ceiling="medium")


def _operator(row: Synchronization) -> str:
    """The outermost of the operators that wait for a size."""
    return next(name for name in row.operators if name in _SIZED)


RULE = Rule(
    id="sync-dynamic-shape",
    title=Text("sync-dynamic-shape-title", "The host waits for sizes that only the GPU knows"),
    summary=Text(
        "sync-dynamic-shape-summary",
        "{calls:count} times per step {operator} and similar operators wait for the size of their result. After "
        "these waits the GPU has nothing to do for {gain:ns} of a step of {step:ns}.",
        note="operator is a name such as aten::nonzero",
        one="Once per step {operator} waits for the size of its result. After this wait the GPU has nothing to do "
        "for {gain:ns} of a step of {step:ns}.",
    ),
    advice=Text(
        "sync-dynamic-shape-advice",
        "Keep shapes fixed: mask with torch.where or a product instead of selecting, pass output_size to "
        "repeat_interleave, use torch.nonzero_static where there is an upper bound.",
    ),
    not_when=Text(
        "sync-dynamic-shape-not-when",
        "The result's size is what the program needs, as in detection, or the fixed shape would be far larger.",
    ),
    severity="low to medium",
    confidence="A",
    tags=("host",),
    since="0.1",
    thresholds=(
        Threshold(
            "gain_share",
            0.01,
            "share",
            "what would go away, over the step",
            "own choice, because less is within noise",
        ),
    ),
    code="loss = torch.where(mask, per_token, 0).sum() / mask.sum()  # instead of per_token[mask].mean()",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html",
    ),
    trace=_trace,
)
