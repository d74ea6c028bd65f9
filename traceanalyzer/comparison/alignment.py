"""Aligns the work of devices by structure: it is compared under the lowest caller that both sides have.

As AMD's TraceDiff does (TraceLens), so that eager and compiled programs, two GPUs, or two versions of torch compare row
by row, whatever their kernels and the operators around them are called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass

from traceanalyzer.comparison.measurement import Key, LaunchedWork, Path, Table
from traceanalyzer.knowledge.compiled_code import is_compiled
from traceanalyzer.report.difference import Cost

Work = Mapping[Path, LaunchedWork]

_AS_OFTEN = 0.05
"""Largest difference of calls per step that count as equally many (own choice)."""


def aligned(base: Work, head: Work) -> tuple[Table, Table]:
    """What is launched below each caller that both sides have, and below no other one; events are the calls.

    Callers that a side does not have count as the caller around them. Where one side has more compiled code in a
    caller than the other, operators in it that the sides call differently often have moved, and count as that caller.
    """
    common = {name for path in base for name in path} & {name for path in head for name in path}
    sides = (_Side.of(base, common), _Side.of(head, common))
    known = (sides[0].calls.keys() & sides[1].calls.keys()) | {()}
    homes = _homes(sides, known)
    one, two = (_sums(side, known, homes) for side in sides)
    return _table(one, two), _table(two, one)


@dataclass(frozen=True)
class _Side:
    """The launched work of a side, by its paths through callers."""

    work: Work
    reduced: Mapping[Path, Path]
    """Each path without the callers that only this side has."""
    calls: Mapping[Path, float]
    """Calls per step of each reduced path and of those around it."""

    @classmethod
    def of(cls, work: Work, common: Set[str]) -> _Side:
        """A side, of whose callers some are common to both."""
        reduced = {path: tuple(name for name in path if name in common) for path in work}
        return cls(work, reduced, _calls(work, reduced))


def _homes(sides: tuple[_Side, _Side], known: Set[Path]) -> dict[Path, Path]:
    """Where the work below each known path is compared: there, or below a caller around it from which it moved."""
    moved = _moved(sides, known)
    homes: dict[Path, Path] = {(): ()}
    for path in sorted(known, key=len):
        if not path:
            continue
        around = homes[path[:-1]]
        is_alike = is_as_often(sides[0].calls.get(path, 0.0), sides[1].calls.get(path, 0.0))
        is_inside_moved = around in moved and (not is_alike or around != path[:-1])
        homes[path] = around if is_inside_moved else path
    return homes


def is_as_often(base: float, head: float) -> bool:
    """Whether something is called equally often per step on both sides."""
    return abs(base - head) <= _AS_OFTEN * max(base, head)


def _calls(work: Work, reduced: Mapping[Path, Path]) -> dict[Path, float]:
    """Calls per step of each reduced path and of those around it."""
    calls: defaultdict[Path, float] = defaultdict(float)
    for path, launched in work.items():
        is_last_kept = path and reduced[path][-1:] == path[-1:]
        calls[reduced[path]] += launched.calls if is_last_kept else 0.0
        for depth in range(len(reduced[path])):
            calls[reduced[path][:depth]] += 0.0
    return calls


def _deepest(path: Path, known: Set[Path]) -> Path:
    """The longest known path that a path begins with."""
    return next(path[:depth] for depth in range(len(path), -1, -1) if path[:depth] in known)


def _moved(sides: tuple[_Side, _Side], known: Set[Path]) -> set[Path]:
    """Callers in which the sides do not have equally much compiled code."""
    regions: list[defaultdict[Path, float]] = []
    for side in sides:
        calls: defaultdict[Path, float] = defaultdict(float)
        for path, launched in side.work.items():
            if path and is_compiled(path[-1]):
                calls[_deepest(side.reduced[path[:-1]], known)] += launched.calls
        regions.append(calls)
    one, two = regions
    return {path for path in {*one, *two} if not is_as_often(one[path], two[path])}


def _sums(side: _Side, known: Set[Path], homes: Mapping[Path, Path]) -> dict[Path, Cost]:
    """What is launched below each path under which work is compared."""
    sums: defaultdict[Path, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for path, launched in side.work.items():
        total = sums[homes[_deepest(side.reduced[path], known)]]
        total[0] += launched.events
        total[1] += launched.device_ns
    return {path: Cost(events, device_ns, None) for path, (events, device_ns) in sums.items()}


def _table(costs: Mapping[Path, Cost], other: Mapping[Path, Cost]) -> Table:
    """The rows of a side; both sides have each caller, but one of them may launch nothing there."""
    nothing = Cost(0.0, 0.0, None)
    table: dict[Key, Cost] = {}
    for path in {**costs, **other}:
        cost = costs.get(path, nothing)
        if cost.calls or other.get(path, nothing).calls:
            table[Key(path[-1] if path else "", owner=" / ".join(path[:-1]) or None)] = cost
    return table
