"""The loader's worker processes end with each epoch and are started again for the next one.

What it detects:
    Two waits for a loader with worker processes, a millisecond or more apart, without work of the model between them:
    the last wait of an epoch, in which the workers end, and the first one of the next epoch, for which new workers
    start, load code and prepare a batch. A start of processes is known from a capture (workers that are not persistent,
    or a loader that is created again) or from Python frames (`_MultiProcessingDataLoaderIter.__init__`,
    `multiprocessing`).

Why it matters:
    Starting a process takes milliseconds to seconds, and training stops meanwhile. With short epochs, because of a
    small dataset or frequent validation, this is a large part of the time.

What to do:
    Pass `persistent_workers=True`, and keep one `DataLoader` for all epochs: the workers belong to it.

How the saving is estimated:
    Time of the changes of epochs, divided by the steps of the recording. At most this time less two usual waits or, if
    that is more, the time by which steps with a change are longer than others, because starting workers slow a step
    down. At least the excess of the two waits over their usual length, because the rest may be the program's own work
    between epochs. The interval is widened by the errors of the mean duration and of the number of changes, because it
    is chance where in an epoch a recording begins. If only one change was recorded, their frequency is unknown, and no
    saving is given.

When it is wrong:
    A recording that happens to contain a change between two long epochs: it costs little compared with an epoch. Other
    work of the program between epochs (validation, checkpoints) also adds to the time.

References:
    https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import hypot, sqrt

from traceanalyzer.analyzers.loader import LoaderEpochs
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import EPOCH
from traceanalyzer.rules.engine.change import Interval, TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.simulation import variation

_SUBJECT = Text("dataloader-workers-restarted-subject", "changes of epochs, share of the recorded steps")
_BASIS = Text(
    "dataloader-workers-restarted-basis",
    "at most the time by which steps with a change of epochs are longer than others; at least the waits in them beyond "
    "the usual",
)
_ONCE = Text(
    "dataloader-workers-restarted-basis-once",
    "at most the time by which the step with the change of epochs is longer than others; at least nothing, because how "
    "often epochs change is not recorded",
)
_NO_SIGN = Text(
    "dataloader-workers-restarted-no-sign",
    "neither a capture nor Python frames tell whether workers start anew with each epoch",
)
_FEW = 2
"""Least number of changes of epochs from which their frequency is known."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("loader_epochs", LoaderEpochs)
    starts = _starts(facts, found)
    if starts is None:
        raise Missing(_NO_SIGN())
    usual = 2 * found.turns * found.usual_ns
    most = facts.host_per_step(max(0.0, found.total_ns - usual, found.excess_ns or 0.0))
    least = min(max(0.0, facts.host_per_step(found.wait_ns - usual)), most)
    share = most / facts.step_ns
    if not starts or share <= limits["share"]:
        return
    where = tuple(
        CodePlace("time", "epoch", None, turn.duration_ns, "ns", turn.start_ns, EPOCH()) for turn in found.longest
    )
    is_frequent = found.turns >= _FEW
    interval = _varied(found, least, most) if is_frequent else (0.0, most)
    change = TimeSaved("host", interval, (_BASIS if is_frequent else _ONCE)(), claims={"loader:epochs": most})
    params = {"turns": found.turns, "each": most * facts.steps / found.turns, "share": share}
    evidence = Evidence(_SUBJECT(), share, limits["share"], "share", where)
    yield Draft((evidence,), change, params, ceiling="critical" if is_frequent else "medium")


def _varied(found: LoaderEpochs, least: float, most: float) -> Interval:
    """The interval with the error of the mean of the changes, and of their number in the recorded steps.

    Where within an epoch a recording begins is chance, so that their number is off by less than one, each value as
    likely: a standard deviation of a change over the root of twelve.
    """
    middle = (least + most) / 2
    share = hypot(variation.of_mean([turn.duration_ns for turn in found.longest]), 1 / sqrt(12) / found.turns)
    low, high = variation.combined((least, most), middle, variation.COVERS * share * middle)
    return max(0.0, low), high


def _starts(facts: Facts, found: LoaderEpochs) -> bool | None:
    """Whether processes start when epochs change; None if the trace does not show it."""
    told = [turn.starts_processes for turn in found.longest if turn.starts_processes is not None]
    if told:
        return all(told)
    loaders = facts.capture.facts.loaders if facts.capture else None
    own = [loader for loader in loaders or () if loader.workers]
    if not own:
        return None
    return len(own) > 1 or own[0].persistent_workers is False


RULE = Rule(
    id="dataloader-workers-restarted",
    title=Text("dataloader-workers-restarted-title", "The loader's workers start anew with each epoch"),
    summary=Text(
        "dataloader-workers-restarted-summary",
        "Between {turns:count} pairs of epochs, worker processes end and others start, which costs {each:ns} each "
        "time: {share:share} of the recorded steps.",
        one="Between two epochs, worker processes end and others start, which costs {each:ns}: {share:share} of the "
        "recorded steps.",
    ),
    advice=Text(
        "dataloader-workers-restarted-advice",
        "Make one DataLoader before the first epoch, with persistent_workers=True, and use it in all epochs. If epochs "
        "are very short, join several of them into one (a sampler that repeats).",
        note="persistent_workers=True is code",
    ),
    not_when=Text(
        "dataloader-workers-restarted-not-when",
        "Epochs are long, and the recording happens to hold the change between two of them.",
    ),
    severity="info to critical",
    confidence="B",
    tags=("input", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "share",
            0.03,
            "share",
            "time of changes of epochs beyond the usual, over the recorded steps",
            "own choice, as for dataloader-bound: a step varies by 1 to 2 % from run to run",
        ),
    ),
    code="loader = DataLoader(dataset, num_workers=4, persistent_workers=True)  # once, before the first epoch",
    links=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",),
    trace=_trace,
    stage="preview",
)
