"""Detects dataloader-workers-restarted: see pages/dataloader-workers-restarted.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import hypot, sqrt

from traceanalyzer.analyzers.loader import LoaderEpochs
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import EPOCH
from traceanalyzer.rules.engine.change import Interval, TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.simulation import variation

_PAGE = page("dataloader-workers-restarted")
_FEW = 2
"""Least number of changes of epochs from which their frequency is known."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("loader_epochs", LoaderEpochs)
    starts = _starts(facts, found)
    if starts is None:
        raise Missing(_PAGE.text("no-sign")())
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
    change = TimeSaved(
        "host",
        interval,
        (_PAGE.text("basis") if is_frequent else _PAGE.text("basis-once"))(),
        claims={"loader:epochs": most},
    )
    params = {"turns": found.turns, "each": most * facts.steps / found.turns, "share": share}
    evidence = Evidence(_PAGE.text("subject")(), share, limits["share"], "share", where)
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


RULE = _PAGE.rule(trace=_trace)
