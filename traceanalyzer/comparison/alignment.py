"""Aligns the work of devices by structure: it is compared under the lowest caller that both sides have.

As AMD's TraceDiff does (TraceLens), so that eager and compiled programs, two GPUs, or two versions of torch compare row
by row, whatever their kernels and the operators around them are called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

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
    reduced = [{path: tuple(name for name in path if name in common) for path in side} for side in (base, head)]
    calls = [_calls(side, paths) for side, paths in zip((base, head), reduced, strict=True)]
    known = {path for path in calls[0] if path in calls[1]} | {()}
    moved = _moved((base, head), reduced, known)
    homes: dict[Path, Path] = {(): ()}
    for path in sorted(known, key=len):
        if path:
            around = homes[path[:-1]]
            differ = not is_as_often(calls[0].get(path, 0.0), calls[1].get(path, 0.0))
            homes[path] = around if around in moved and (differ or around != path[:-1]) else path
    one, two = (
        _sums(side, {path: homes[_deepest(paths[path], known)] for path in side})
        for side, paths in zip((base, head), reduced, strict=True)
    )
    return _table(one, two), _table(two, one)


def is_as_often(base: float, head: float) -> bool:
    """Whether something is called equally often per step on both sides."""
    return abs(base - head) <= _AS_OFTEN * max(base, head)


def _calls(side: Work, reduced: Mapping[Path, Path]) -> dict[Path, float]:
    """Calls per step of each reduced path and of those around it."""
    calls: defaultdict[Path, float] = defaultdict(float)
    for path, work in side.items():
        calls[reduced[path]] += work.calls if path and reduced[path][-1:] == path[-1:] else 0.0
        for depth in range(len(reduced[path])):
            calls[reduced[path][:depth]] += 0.0
    return calls


def _deepest(path: Path, known: set[Path]) -> Path:
    return next(path[:depth] for depth in range(len(path), -1, -1) if path[:depth] in known)


def _moved(sides: tuple[Work, Work], reduced: list[dict[Path, Path]], known: set[Path]) -> set[Path]:
    """Callers in which the sides do not have equally much compiled code."""
    regions: list[defaultdict[Path, float]] = []
    for side, paths in zip(sides, reduced, strict=True):
        calls: defaultdict[Path, float] = defaultdict(float)
        for path, work in side.items():
            if path and is_compiled(path[-1]):
                calls[_deepest(paths[path[:-1]], known)] += work.calls
        regions.append(calls)
    one, two = regions
    return {path for path in {*one, *two} if not is_as_often(one[path], two[path])}


def _sums(side: Work, home: Mapping[Path, Path]) -> dict[Path, Cost]:
    sums: defaultdict[Path, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for path, work in side.items():
        total = sums[home[path]]
        total[0] += work.events
        total[1] += work.device_ns
    return {path: Cost(events, device_ns, None) for path, (events, device_ns) in sums.items()}


def _table(own: Mapping[Path, Cost], other: Mapping[Path, Cost]) -> Table:
    """The rows of a side; both sides have each caller, but one of them may launch nothing there."""
    nothing = Cost(0.0, 0.0, None)
    paths = [path for path in {**own, **other} if own.get(path, nothing).calls or other.get(path, nothing).calls]
    keys = (Key(path[-1] if path else "", owner=" / ".join(path[:-1]) or None) for path in paths)
    return {key: own.get(path, nothing) for key, path in zip(keys, paths, strict=True)}
