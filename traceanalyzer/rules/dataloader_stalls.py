"""Some batches take far longer than the others.

What it detects:
    Waits for a batch that take more than five times the median, if that is more than one in twenty; or a first wait
    that takes more than ten times the median. Only time that is not hidden behind the GPU's work counts.

Why it matters:
    On average the loader looks slow, but most batches arrive in time: faster loading does not help, a longer queue
    does.

What to do:
    Prepare more batches ahead (`prefetch_factor`), use more workers, and keep them alive between epochs
    (`persistent_workers=True`), because the first batch of an epoch waits until they have started.

How the saving is estimated:
    At most the exposed part of these waits beyond the median, over all steps. At least nothing: if the workers are too
    slow overall, a longer queue runs empty, too. A late first batch has no saving, because a typical step does not
    contain it.

When it is wrong:
    A few waits do not show the usual duration, so fewer than ten are not judged. The first batches after a start come
    from a disk with a cold cache. Evaluation and checkpoints between steps are not waits for the loader.

References:
    https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.loader import DataLoader, Loader
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_P95 = Text("dataloader-stalls-p95", "95th percentile of the waits, as a multiple of the median")
_FIRST = Text("dataloader-stalls-first", "the first wait, as a multiple of the median")
_BASIS = Text(
    "dataloader-stalls-basis",
    "at most the time of these waits beyond the median, where nothing else runs meanwhile; at least nothing, if "
    "loading is too slow overall",
)
_FEW = Text(
    "dataloader-stalls-few",
    "only {calls:count} waits for batches were recorded: record {least:count} or more",
    one="only {calls:count} wait for a batch was recorded: record {least:count} or more",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    loaders = facts.need("dataloader", DataLoader).loaders
    judged = [loader for loader in loaders if loader.calls >= limits["calls"]]
    if not judged:
        most = max((loader.calls for loader in loaders), default=0)
        raise Missing(_FEW(calls=most, least=int(limits["calls"])))
    for loader in judged:
        yield from _judge(facts, loader, limits)


def _judge(facts: Facts, loader: Loader, limits: Mapping[str, float]) -> Iterator[Draft]:
    usual = max(loader.median_ns, 1.0)
    where = tuple(
        CodePlace("operator", loader.name, value=wait.duration_ns, unit="ns", start_ns=wait.start_ns)
        for wait in loader.longest
    )
    evidence, excess, calls = [], 0.0, 0
    if loader.p95_ns > limits["p95_medians"] * usual:
        evidence.append(Evidence(_P95(), loader.p95_ns / usual, limits["p95_medians"], "number", where))
        excess, calls = loader.excess_ns, loader.long_calls
    if loader.first_ns > limits["first_medians"] * usual:
        evidence.append(Evidence(_FIRST(), loader.first_ns / usual, limits["first_medians"], "number", where))
        excess, calls = excess + loader.first_excess_ns, calls + 1
    if not evidence or facts.host_per_step(excess) < limits["gain_share"] * facts.step_ns:
        return
    change = _change(facts.host_per_step(loader.excess_ns if loader.p95_ns > limits["p95_medians"] * usual else 0))
    params = {"calls": calls, "all": loader.calls, "usual": loader.median_ns, "excess": excess}
    yield Draft(tuple(evidence), change, params, severity="low", ceiling="high")


def _change(per_step: float) -> TimeSaved | None:
    """What long waits cost in each step; a late first batch is not part of a typical step, so it has no saving."""
    if not per_step:
        return None
    return TimeSaved("loader", (0.0, per_step), _BASIS(), (0.0, per_step), {"loader": per_step})


RULE = Rule(
    id="dataloader-stalls",
    title=Text("dataloader-stalls-title", "Some batches arrive much later than the others"),
    summary=Text(
        "dataloader-stalls-summary",
        "{calls:count} of {all:count} waits for a batch took much longer than the usual {usual:ns}: {excess:ns} more "
        "in all, in which no GPU worked.",
    ),
    advice=Text(
        "dataloader-stalls-advice",
        "Have more batches ready: raise prefetch_factor or the number of workers, and keep workers alive between "
        "epochs with persistent_workers=True if it is the first batch of each epoch that is late.",
    ),
    not_when=Text(
        "dataloader-stalls-not-when",
        "It happened only while the disk's cache was cold, or the recording caught one unusual moment.",
    ),
    severity="low to high",
    confidence="B",
    tags=("input", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "calls", 10, "count", "waits that must be recorded", "own choice, because fewer have no usual length"
        ),
        Threshold(
            "p95_medians",
            5,
            "number",
            "the longest twentieth of the waits over their median",
            "own choice, because batches vary by a factor of two or three without anything being wrong",
        ),
        Threshold(
            "first_medians",
            10,
            "number",
            "the first wait over the median",
            "own choice, because the first batch is always later than the others, by less than that",
        ),
        Threshold(
            "gain_share",
            0.01,
            "share",
            "exposed time beyond the median, per step, over the step",
            "own choice, because less is within noise",
        ),
    ),
    code="DataLoader(dataset, num_workers=8, prefetch_factor=4, persistent_workers=True)",
    links=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",),
    trace=_trace,
)
