"""The charts of the ranks of a run: what each costs the others, a typical step on one clock, hidden communication."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import fsum
from typing import Any

from traceanalyzer.analyzers.ranks.model import RankRow, Ranks, RankStrip, RunStep, StripPart, TypicalStrips
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.formats.charts import Bars, Chart, LaneBox, Lanes, Series
from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean

_RANK = Text("figure-rank", "Rank {rank}", "name of a row or bar")
_LATE = Text("figure-rank-late", "Rank {rank}, late", "name of a row")
_COST = Text("figure-ranks-cost", "What each rank costs the others in each step")
_COST_OF_ONE = Text("figure-ranks-cost-of-one", "What each rank costs the others per step")
_COST_SAY = Text(
    "figure-ranks-cost-description",
    "Time that a rank lets the others wait, mean over the ranks: the stronger the colour, the longer, up to {most:ns} "
    "(rank {rank} in step {step}). Over all steps rank {main} costs most: {mean:ns} per step.",
)
_COST_OF_ONE_SAY = Text(
    "figure-ranks-cost-of-one-description",
    "Time that a rank lets the others wait, mean over the ranks. Rank {main} costs most: {mean:ns} per step.",
)
_WAITED_FOR = Text("figure-ranks-waited-for", "The others wait for it")
_STRIPS = Text("figure-ranks-strips", "Step {step} of the ranks on one clock", "step is a number")
_STRIPS_SAY = Text(
    "figure-ranks-strips-description",
    "{length:ns} from the first start to the last end. In each row above: own work; below: collectives. Rank {least} "
    "waits least for others, {low:ns}; rank {longest} longest, {high:ns}.",
)
_STRIPS_MORE = Text(
    "figure-ranks-strips-more",
    "{count:count} more ranks are not drawn.",
    one="{count:count} more rank is not drawn.",
)
_OVERLAP = Text("figure-ranks-overlap", "Communication that other work hides")
_OVERLAP_SAY = Text(
    "figure-ranks-overlap-description",
    "Share of the time of collectives in which other kernels run: {low:share} on rank {least} to {high:share} on rank "
    "{most}.",
)
_OVERLAP_VALUE = Text("figure-ranks-overlap-value", "{share:share} of {time:ns}", "share of a time")
_ROLES = {
    "compute": ("kernel", Text("figure-strip-computes", "Computes")),
    "memory": ("memcpy", Text("figure-strip-copies", "Copies or fills")),
    "loader": ("dataloader", Text("figure-strip-loader", "Waits for input")),
    "idle": ("other", Text("figure-strip-idle", "No device works")),
    "transfer": ("communication", Text("figure-strip-transfer", "Communicates")),
    "wait": ("runtime", Text("figure-strip-waits", "Waits for other ranks")),
}
"""Colour and name of what a rank does, by `StripPart.kind`."""

_MOST_STEPS = 60
_MOST_RANKS = 32
"""Most columns and rows of the heat map (own choice: what a screen shows)."""
_LEVELS = 10
_LEAST_HIDDEN = 0.01
"""Least share of hidden communication on some rank that is worth a picture (own choice)."""
_TOP, _MIDDLE, _BOTTOM = 0.08, 0.5, 0.92


def of_report(report: Report, language: Language) -> Iterator[Chart]:
    """The charts that the report of a run has data for."""
    ranks = report.result("ranks", Ranks)
    if ranks is None or len(ranks.ranks) < 2:
        return
    if not ranks.has_partial_groups:
        yield from _of_waiting(ranks, _late(report), language)
    shares = []
    for row in ranks.ranks:
        hidden = _hidden(row)
        if hidden is not None:
            shares.append((row, hidden))
    if len(shares) > 1 and max(hidden for _, hidden in shares) >= _LEAST_HIDDEN:
        yield _overlap(shares, language)


def _of_waiting(ranks: Ranks, late: Collection[int], language: Language) -> Iterator[Chart]:
    """The charts of who waits for whom, which only all ranks of a group show."""
    complete = [step for step in ranks.steps if len(step.costs_ns) == len(ranks.ranks)]
    if any(any(step.costs_ns) for step in complete):
        yield _cost([row.rank for row in ranks.ranks], complete, language)
    if ranks.typical_step is not None and ranks.typical_step.strips:
        yield _strips(ranks.typical_step, late, language)


def _cost(ranks: list[int], steps: Sequence[RunStep], language: Language) -> Chart:
    """A row per rank and a column per step, those that cost most; bars where there is one step."""
    means = [fsum(costs) / len(steps) for costs in zip(*(step.costs_ns for step in steps), strict=True)]
    costliest = sorted(range(len(ranks)), key=lambda position: (-means[position], position))
    shown = sorted(costliest[:_MOST_RANKS])
    main = {"main": ranks[costliest[0]], "mean": means[costliest[0]]}
    if len(steps) == 1:
        values = tuple(float(steps[0].costs_ns[position]) for position in shown)
        return Bars(
            "chart-ranks-cost",
            language.text(_COST_OF_ONE),
            language.text(_COST_OF_ONE_SAY, **main),
            tuple(language.text(_RANK, rank=ranks[position]) for position in shown),
            tuple(language.quantity(value, "ns") for value in values),
            Series(language.text(_WAITED_FOR), "runtime", values),
        )
    return _cost_per_step(ranks, steps[-_MOST_STEPS:], shown, main, language)


def _cost_per_step(
    ranks: list[int], steps: Sequence[RunStep], shown: list[int], main: dict[str, Any], language: Language
) -> Lanes:
    """The heat map.

    Args:
        ranks: The ranks.
        steps: The last steps.
        shown: Positions of the ranks that have a row.
        main: The rank that costs most, and its mean.
        language: Language of the texts.
    """
    # the largest cost; of equal ones that of the first step and rank
    costs = [(ns, -column, -row) for column, step in enumerate(steps) for row, ns in enumerate(step.costs_ns)]
    most, column, row = max(costs)
    said = language.text(_COST_SAY, most=most, rank=ranks[-row], step=clean(steps[-column].name), **main)
    return Lanes(
        "chart-ranks-cost",
        language.text(_COST),
        said,
        tuple(language.text(_RANK, rank=ranks[position]) for position in shown),
        float(len(steps)),
        tuple(clean(step.name) for step in steps),
        tuple(_cost_boxes([[step.costs_ns[position] for step in steps] for position in shown], most)),
        (Series(language.text(_WAITED_FOR), "runtime", ()),),
    )


def _cost_boxes(rows: Iterable[Sequence[int]], most: int) -> Iterator[LaneBox]:
    """A box for each cost of each rank, the stronger the larger; the weakest are not drawn."""
    for row, costs in enumerate(rows):
        for column, ns in enumerate(costs):
            if most and 2 * _LEVELS * ns >= most:
                yield LaneBox(row, 0.04, 0.96, column + 0.03, column + 0.97, "runtime", _strength(ns, most))


def _strength(value: int, most: int) -> float:
    """A value as one of a few opacities."""
    return max(1, round(_LEVELS * value / most)) / _LEVELS


def _late(report: Report) -> tuple[int, ...]:
    """The ranks for which the others wait."""
    found = report.result("stragglers", Stragglers)
    if found is None or found.late_rank is None:
        return ()
    return found.late_ranks or (found.late_rank,)


def _strips(typical: TypicalStrips, late: Collection[int], language: Language) -> Lanes:
    boxes = tuple(_boxes(typical.strips))
    used = {box.role for box in boxes}
    waits = [(_waiting(strip), strip.rank) for strip in typical.strips]
    low, least = min(waits)
    high, longest = max(waits, key=lambda wait: (wait[0], -wait[1]))
    said = language.text(_STRIPS_SAY, length=typical.duration_ns, least=least, low=low, longest=longest, high=high)
    if typical.more_ranks:
        said = f"{said} {language.text(_STRIPS_MORE, count=typical.more_ranks)}"
    return Lanes(
        "chart-ranks-strips",
        language.text(_STRIPS, step=clean(typical.step)),
        said,
        tuple(language.text(_LATE if strip.rank in late else _RANK, rank=strip.rank) for strip in typical.strips),
        float(typical.duration_ns),
        (),
        boxes,
        tuple(Series(language.text(text), role, ()) for role, text in _ROLES.values() if role in used),
    )


def _boxes(strips: Iterable[RankStrip]) -> Iterator[LaneBox]:
    """In each row, work above and collectives below."""
    for row, strip in enumerate(strips):
        for parts, top, bottom in ((strip.work, _TOP, _MIDDLE), (strip.communication, _MIDDLE, _BOTTOM)):
            for part in parts:
                box = _box(part, row, top, bottom)
                if box is not None:
                    yield box


def _box(part: StripPart, row: int, top: float, bottom: float) -> LaneBox | None:
    """The box of a part; None for a kind that this version does not know."""
    known = _ROLES.get(part.kind)
    return LaneBox(row, top, bottom, part.start_ns, part.start_ns + part.duration_ns, known[0]) if known else None


def _waiting(strip: RankStrip) -> int:
    return sum(part.duration_ns for part in strip.communication if part.kind == "wait")


def _hidden(row: RankRow) -> float | None:
    """Share of the communication of a rank that other work hides; None if unknown."""
    if not row.communication_ns or row.exposed_ns is None:
        return None
    return max(0.0, 1 - row.exposed_ns / row.communication_ns)


def _overlap(shares: list[tuple[RankRow, float]], language: Language) -> Bars:
    shown = shares[:_MOST_RANKS]
    least, most = (choose(shares, key=lambda entry: entry[1]) for choose in (min, max))
    values = tuple(share for _, share in shown)
    return Bars(
        "chart-ranks-overlap",
        language.text(_OVERLAP),
        language.text(_OVERLAP_SAY, low=least[1], least=least[0].rank, high=most[1], most=most[0].rank),
        tuple(language.text(_RANK, rank=row.rank) for row, _ in shown),
        tuple(language.text(_OVERLAP_VALUE, share=share, time=row.communication_ns) for row, share in shown),
        Series(language.text(_OVERLAP), "kernel", values),
        1.0,
    )
