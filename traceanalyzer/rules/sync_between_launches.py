"""The host waits for the GPU so often that it never gets ahead of it.

What it detects:
    Waits of all kinds (for values, sizes and copies), at least twenty per step and at least one per twenty kernels and
    copies, followed by idle time of the GPU of more than five percent of the step. A wait delays the host by the time
    for which it lasts while the GPU works: the gaps after it count, in the order of time, until they add up to this
    delay.

Why it matters:
    If the host runs ahead, the cost of launches overlaps the work of the GPU. After each wait the queue is empty, so
    the GPU waits for the next launches, although the host would be fast enough.

What to do:
    Remove the waits together, the most frequent ones first: removing a single wait changes little, because the next one
    follows. Keep results on the GPU in tensors of fixed size, work on many items at once, and read necessary values in
    one copy at the end. If an environment of reinforcement learning needs the values, step many environments at once.

How the saving is estimated:
    At most the result of a replay of the step without any of these waits. At least nothing, because a program must wait
    for values that decide what it does next.

When it is wrong:
    Each of these waits may be necessary: the next operators need the values. Then only more work at once helps. This is
    not about a training that reads a few values per step: see sync-item-frequent.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _environment, _idle
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text(
    "sync-between-launches-subject", "GPU idle time that would not be there without these waits, share of the step"
)
_BASIS = Text(
    "sync-between-launches-basis",
    "at most the idle time after all of these waits; at least nothing, because a program must wait for values that "
    "decide what it does next",
)
_REPLAYED = Text(
    "sync-between-launches-replayed",
    "at most as in a replay of the step without any of these waits; at least nothing, because a program must wait for "
    "values that decide what it does next",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _idle.enough(facts, limits["events"])
    device = _idle.busiest(facts, found)
    waits = facts.need("synchronizations", Synchronizations)
    if device is None or not device.time_ns or not _idle.waits_again_and_again(found, device):
        return
    time = sum(row.after_waits_ns for row in device.causes) / found.steps
    share = time / (device.time_ns / found.steps)
    rows = [row for row in waits.rows if row.operators]
    if share <= limits["gap_share"] or not rows:
        return
    evidence = Evidence(_SUBJECT(), share, limits["gap_share"], "share", _places(rows))
    claims = {f"operator:{row.operators[-1]}": time for row in rows}
    change = TimeSaved(
        "host", (0.0, time), _BASIS(), (0.0, time), {**claims, "idle:synchronization": time}, replayed=_REPLAYED()
    )
    params = {"waits": found.waits / found.steps, "launches": device.events / found.steps, "time": time}
    advice = _environment.ADVICE if _environment.is_stepped(facts) else None
    yield Draft((evidence,), change, params, ceiling="high", advice=advice)


def _places(rows: list[Synchronization]) -> tuple[CodePlace, ...]:
    """The operators, owners or lines that wait, with the number of waits per step, the most frequent first."""
    counts: dict[tuple[str, str], float] = {}
    for row in rows:
        place = ("python", row.python_line) if row.python_line is not None else ("operator", " > ".join(row.operators))
        counts[place] = counts.get(place, 0.0) + (row.calls_per_step or 0.0)
    order = sorted(counts, key=lambda place: (-counts[place], place))
    return tuple(CodePlace(kind, name, value=counts[kind, name], unit="count") for kind, name in order)


RULE = Rule(
    id="sync-between-launches",
    title=Text("sync-between-launches-title", "The host waits for the GPU so often that it never gets ahead of it"),
    summary=Text(
        "sync-between-launches-summary",
        "{waits:count} times per step the host waits for a value, a size or a copy from the GPU, while a step starts "
        "{launches:count} kernels and copies. After a wait nothing is queued: for {time:ns} of the step the GPU waits "
        "for launches that came late because of these waits.",
        one="Once per step the host waits for a value, a size or a copy from the GPU, while a step starts "
        "{launches:count} kernels and copies. After the wait nothing is queued: for {time:ns} of the step the GPU "
        "waits for launches that came late because of it.",
    ),
    advice=Text(
        "sync-between-launches-advice",
        "Remove the waits together, because one less changes little: the next one follows. Keep results on the GPU in "
        "tensors of fixed size (torch.where instead of nonzero or a mask as index), work on many items at once, copy "
        "inputs before the loop, and read what must be read in one copy at the end.",
        note="torch.where and nonzero are code",
    ),
    not_when=Text(
        "sync-between-launches-not-when",
        "The program needs each value before it can go on: then only more work at once helps.",
    ),
    severity="medium to high",
    confidence="B",
    tags=("host",),
    since="0.2",
    thresholds=(
        _idle.EVENTS,
        Threshold(
            "gap_share",
            0.05,
            "share",
            "idle time after waits, until it adds up to the waiting, over the steps",
            "own choice, as for launches that come late for other reasons",
        ),
    ),
    code="",
    links=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    ),
    trace=_trace,
    stage="preview",
)
