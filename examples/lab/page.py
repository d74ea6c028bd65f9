"""The text of docs/lab.md, and the table of results that the command prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from examples.lab import blind, keeping
from examples.lab.catalogue import FAULTS
from examples.lab.results import Run
from examples.lab.score import NOISE, Score
from examples.lab.words import AFTER, BEFORE, BLIND, PLANTED
from traceanalyzer.knowledge.profiler_overhead import Overhead

Table = Sequence[Sequence[str]]

_COLUMNS = (
    "fault",
    "size",
    "fired",
    "predicted",
    "measured (range)",
    "inside",
    "width",
    "predicted share",
    "measured share (range)",
    "inside",
    "after the fix",
)


def render(runs: Mapping[str, tuple[Run, Sequence[Score]]], overheads: Iterable[Overhead]) -> str:
    """The text of the whole page.

    Args:
        runs: Each run with its scores, by name, in the order of time.
        overheads: Measured costs of the profiler.
    """
    parts = [BEFORE, _markdown(_catalogue()), "## Results", AFTER]
    for name, (run, rows) in runs.items():
        parts += [f"### The {name} run", _about(run, rows), summary(rows), table(rows)]
    on_cpu = {name: rows for name, (run, rows) in runs.items() if run.machine.gpu is None}
    parts += ["## The same in all runs on a CPU?", _agreement(on_cpu), "## What is outside"]
    parts += [_outside(name, runs[name][1]) for name in keeping.KEPT]
    written = blind.read()
    if written is not None:
        parts += ["## Programs written blind", BLIND, _markdown(blind.rows(written)), blind.summary(written)]
    parts += ["## What the profiler costs", _COST, _markdown(_costs(overheads)), PLANTED]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def table(rows: Iterable[Score]) -> str:
    """A table in Markdown, whose columns also line up as plain text."""
    return _markdown([_COLUMNS, *map(_cells, rows)])


def summary(rows: Sequence[Score]) -> str:
    """A list of counts: rows, predictions, predictions inside the interval, and so on."""
    ruled = [row for row in rows if row.fault.rules]
    predicted = [row for row in ruled if row.predicted is not None]
    faults = len({row.fault.name for row in rows})
    near = sum(row.touches is True and not row.inside for row in predicted)
    lines = [
        f"{len(rows)} rows, {faults} faults. No rule is about {len(rows) - len(ruled)} of the rows.",
        f"In {sum(bool(row.fired) for row in ruled)} of the {len(ruled)} others a rule sees the fault.",
        f"In {len(predicted)} a saving is predicted. Inside are {sum(map(_in_shares, predicted))} medians in shares.",
        f"In ms, inside are {sum(map(_in_ms, predicted))} medians, and at least one turn of {near} others.",
        f"In {sum(bool(row.false_alarms) for row in rows)} rows a rule of the fault still speaks after the fix.",
        f"In {sum(row.costs_nothing for row in rows)} rows the fault costs nothing that can be told from noise.",
    ]
    told = [row for row in predicted if not row.costs_nothing]
    inside = sum(map(_in_shares, told))
    part = f" ({inside / len(told):.0%})" if told else ""
    lines.append(f"Of the {len(told)} others with a prediction, {inside}{part} are inside in shares.")
    widths, others = ([row.width for row in part if row.width is not None] for part in (predicted, told))
    if others:
        lines.append(
            f"The intervals are {median(widths):.0%} of their middle wide in the median, and {median(others):.0%} of "
            "rows that can be told from noise."
        )
    return "\n".join(f"* {line}" for line in lines)


def _in_ms(row: Score) -> bool:
    return row.inside is True


def _in_shares(row: Score) -> bool:
    return row.inside_share is True


def _cells(row: Score) -> tuple[str, ...]:
    shares = row.predicted_shares
    return (
        row.fault.name,
        row.row.size,
        _fired(row),
        "" if row.predicted is None else "{:.2f} to {:.2f} ms".format(*row.predicted),
        "{1:.2f} ms ({0:.2f} to {2:.2f})".format(*row.measured),
        _verdict(row.inside),
        "" if row.width is None else f"{row.width:.0%}",
        "" if shares is None else "{:.0%} to {:.0%}".format(*shares),
        "{1:.0%} ({0:.0%} to {2:.0%})".format(*row.undisturbed_shares),
        _verdict(row.inside_share),
        _with_others(", ".join(row.false_alarms) or "silent", row.still_said),
    )


def _fired(row: Score) -> str:
    own = ", ".join(row.fired) or "nothing"
    return _with_others(own if row.fault.rules else "no rule" if row.fault.untold else "no rule yet", row.others)


def _with_others(own: str, others: Sequence[str]) -> str:
    return f"{own}; also {', '.join(others)}" if others else own


def _verdict(inside: bool | None) -> str:
    return "" if inside is None else "yes" if inside else "no"


def _catalogue() -> Table:
    rows = [
        (
            f"`{fault.name}`",
            fault.fault,
            fault.fix,
            ", ".join(f"`{rule}`" for rule in fault.rules) or fault.untold or "none yet",
            "GPU" if fault.needs_gpu else "CPU",
        )
        for fault in FAULTS
    ]
    return [("fault", "what is wrong", "the fix", "expected rules", "shown by"), *rows]


def _about(run: Run, rows: Sequence[Score]) -> str:
    machine, versions = run.machine, run.versions
    fresh = sum(row.is_fresh for row in rows)
    turns = [turn for row in rows for turn in row.row.before.turns]
    waits = [turn.waited_ms / turn.step_ms for turn in turns if turn.waited_ms is not None]
    text = (
        f"{run.started} to {run.ended}, {machine.cpu}, {machine.cores} cores, {machine.memory_gb:.0f} GB, "
        f"{machine.gpu or 'no GPU'}, {machine.system}, Python {versions['python']}, torch {versions['torch']}. Load "
        f"{machine.load[0]:.1f} at the beginning, {machine.load[1]:.1f} at the end. For {fresh} "
        f"rows this version of the tool predicts anew, from kept traces; for {len(rows) - fresh} the predictions were "
        "kept with the run."
    )
    if waits:
        text += f" The main thread waited for a core in {median(waits):.0%} of a turn in the median."
    text += f" {run.note}" if run.note else ""
    return text + "".join(f" `{name}` failed: {why}." for name, why in run.failed.items())


def _agreement(runs: Mapping[str, Sequence[Score]]) -> str:
    """How much the runs differ, which shows the noise between different moments.

    Args:
        runs: The scores of each run, by name.
    """
    found: dict[tuple[str, str], list[Score]] = {}
    for rows in runs.values():
        for row in rows:
            found.setdefault((row.fault.name, row.row.size), []).append(row)
    same = {key: rows for key, rows in found.items() if len(rows) == len(runs)}
    apart = {key: _apart(row.undisturbed_shares[1] for row in rows) for key, rows in same.items()}
    wall = [_apart(row.measured[1] / rows[0].row.before.step_ms for row in rows) for rows in same.values()]
    widest = sorted(same, key=lambda key: -apart[key])[:8]
    cells = [
        (
            *key,
            *("{1:.0%} ({0:.0%} to {2:.0%})".format(*row.undisturbed_shares) for row in same[key]),
            *("{1:.2f} ms ({0:.2f} to {2:.2f})".format(*row.measured) for row in same[key]),
        )
        for key in widest
    ]
    text = (
        f"{len(same)} rows are in all runs. The medians of their shares lie {median(apart.values()):.1%} of the step "
        f"apart in the median, {max(apart.values()):.0%} at most; those in ms {median(wall):.0%} in the median, "
        f"{max(wall):.0%} at most: that is the noise of different moments. The rows that lie furthest apart:"
    )
    columns = ("fault", "size", *(f"share, {name}" for name in runs), *(f"ms, {name}" for name in runs))
    return f"{text}\n\n{_markdown([columns, *cells])}"


def _apart(values: Iterable[float]) -> float:
    """Difference between the largest and the smallest value."""
    known = list(values)
    return max(known) - min(known)


def _outside(name: str, rows: Sequence[Score]) -> str:
    """The kinds of failures of a run, each with its rows and their measured shares."""
    ruled = [row for row in rows if row.fault.rules]
    seen = [row for row in ruled if row.predicted_shares is not None]
    too_much = [row for row in seen if row.undisturbed_shares[1] < (row.predicted_shares or (0, 0))[0]]
    too_little = [row for row in seen if row.undisturbed_shares[1] > (row.predicted_shares or (0, 0))[1]]
    costly = [row for row in rows if not row.costs_nothing]
    groups = {
        "Less was saved than the least that was promised, in shares of the step": too_much,
        "More was saved than the most that was promised": too_little,
        "A rule exists, the fault costs something, and the rule says nothing": [
            row for row in costly if row.fault.rules and not row.fired
        ],
        "The fault was seen, but no saving was told": [row for row in ruled if row.fired and row.predicted is None],
        "No rule is about it, and it costs something": [row for row in costly if not row.fault.rules],
        "A rule of the fault still speaks after the fix": [row for row in rows if row.false_alarms],
        f"It costs less than {NOISE:.0%} of the step, or turns disagree about the sign": [
            row for row in rows if row.costs_nothing
        ],
    }
    lines = [f"* {title}: {_named(found)}." for title, found in groups.items()]
    return "\n".join([f"Of the {name} run, with measured shares of the step:", "", *lines])


def _named(rows: Sequence[Score]) -> str:
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(row.fault.name, []).append(f"{row.undisturbed_shares[1]:.0%} {row.row.size}")
    return ", ".join(f"`{name}` ({', '.join(shares)})" for name, shares in names.items()) or "none"


_COST = """`python -m examples.lab overhead` measures the CPU time that the recording thread spends per event, by kind.
The package reads the figures in `traceanalyzer/knowledge/profiler_overhead.json`. In ns, the median and the middle half
of the rounds:"""


def _costs(overheads: Iterable[Overhead]) -> Table:
    kinds = ("operator", "shapes", "memory", "frame", "range")
    rows = []
    for entry in overheads:
        costs = [getattr(entry, kind) for kind in kinds]
        cells = [f"{cost.median_ns:.0f} ({cost.low_ns:.0f} to {cost.high_ns:.0f})" for cost in costs]
        rows.append((entry.measured, f"{entry.cpu}, torch {entry.torch}", *cells))
    titles = ("operator", "its shapes", "allocation or release", "Python frame", "range")
    return [("measured", "with", *titles), *rows]


def _markdown(cells: Table) -> str:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
