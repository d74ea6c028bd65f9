"""Groups files by run: which files are the ranks of one run?

The rank comes from `distributedInfo`, or else from the name: `rank3`, `rank-3_of_8`, a folder `rank_3`, `-TP-3`.
torch's own handler (`torch.profiler.tensorboard_trace_handler`) names files `host_pid.timestamp.pt.trace.json`; all
of a job lie in one folder, and a schedule with `repeat` makes every rank write several.

A file without a known rank, or with a world size of 1, is a separate run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

_RANK = re.compile(r"(?<![a-z])(?<!local.)(?<!local)(?:global[-_.]?)?rank[-_.=]?(\d{1,7})(?!\d)", re.IGNORECASE)
_TENSOR_PARALLEL = re.compile(r"(?<![a-z])TP[-_](\d{1,5})(?!\d)", re.IGNORECASE)
_OTHER_PARALLEL = re.compile(r"(?<![a-z])(?:DP|PP|EP|CP)[-_]?\d", re.IGNORECASE)
"""Matches names with a second dimension of parallelism, where the first number is not a rank."""

_WORLD = re.compile(r"(?:_|-)(?:of|world|ws|world[-_]size)[-_]?(\d{1,7})(?!\d)", re.IGNORECASE)
_HANDLER = re.compile(r"\A(?P<worker>.+)\.(?P<stamp>\d{10,19})\.pt\.trace\.json(?:\.gz)?", re.IGNORECASE | re.DOTALL)
_HOST_PID = re.compile(r"\A.+_\d+", re.DOTALL)
_DIGITS = re.compile(r"\d+")
_ANY = "*"


class RankFile(msgspec.Struct, frozen=True):
    """The facts about a file by which it is grouped."""

    name: str
    """Relative path, "/" between its parts."""
    rank: int | None = None
    """Rank as recorded in `distributedInfo`; None if it is not recorded."""
    world_size: int | None = None
    base_ns: int | None = None
    """Absolute start of the recording in ns; None if unknown."""


class RankGroup(msgspec.Struct, frozen=True):
    """The files of the ranks of one run."""

    name: str
    """Name of the run, unique in a batch."""
    ranks: tuple[tuple[int | None, str], ...]
    """Ranks and their files, by rank; a single entry with rank None if no rank is known."""
    world_size: int | None

    @property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """Ranks that have no file, as ranges of first and last."""
        here = sorted({rank for rank, _ in self.ranks if rank is not None})
        before, after = [-1, *here], [*here, self.world_size or 0]
        return tuple((a + 1, b - 1) for a, b in zip(before, after, strict=True) if b - a > 1)


class _Place(msgspec.Struct, frozen=True):
    """Facts about the run in the name of a file."""

    folder: str
    stem: str
    """The part of the name that all files of one run share."""
    rank: int | None
    world_size: int | None
    stamp: int | None
    member: RankFile


def group(members: Iterable[RankFile]) -> tuple[RankGroup, ...]:
    """Group files into runs, in the order of their names."""
    places = sorted((_place(member) for member in members), key=lambda place: (place.folder, place.member.name))
    runs = [run for _, here in groupby(places, lambda place: place.folder) for run in _of_folder(list(here))]
    return tuple(sorted(runs, key=lambda run: run.name))


def folder_of(member: RankFile) -> str | None:
    """The folder by which a file is grouped; None for a file that is a separate run.

    A batch groups one folder at a time, so that it never needs all files in memory.
    """
    place = _place(member)
    return None if place.rank is None else place.folder


def _place(member: RankFile) -> _Place:
    folder, _, file = member.name.rpartition("/")
    named = _rank_in(file)
    in_folder = None if named is not None else _rank_in(folder)
    rank = member.rank if member.rank is not None else named if named is not None else in_folder
    world = member.world_size or _world_in(file) or _world_in(folder)
    if world == 1 or (world is not None and rank is not None and rank >= world):
        rank = None
    handler = _HANDLER.fullmatch(file)
    if rank is not None and folder.rpartition("/")[2] == str(rank):
        folder = folder.removesuffix(str(rank)) + _ANY
    return _Place(
        folder=_RANK.sub(_ANY, folder),
        stem=_stem(file, handler, is_named=named is not None or in_folder is not None),
        rank=rank,
        world_size=world,
        stamp=int(handler["stamp"]) if handler else member.base_ns,
        member=member,
    )


def _rank_in(text: str) -> int | None:
    if numbers := _RANK.findall(text):
        return int(numbers[-1])
    axis = _TENSOR_PARALLEL.search(text)
    return int(axis[1]) if axis and not _OTHER_PARALLEL.search(text) else None


def _world_in(text: str) -> int | None:
    """World size in a name; `_of_8` counts only beside a rank."""
    match = _WORLD.search(text) if _rank_in(text) is not None else None
    return int(match[1]) if match else None


def _stem(file: str, handler: re.Match[str] | None, *, is_named: bool) -> str:
    if handler:
        worker = handler["worker"]
        if _rank_in(worker) is None and _HOST_PID.fullmatch(worker):
            return _ANY  # the default name of torch's handler
        return _DIGITS.sub(_ANY, worker)
    if is_named:
        return _TENSOR_PARALLEL.sub(_ANY, _RANK.sub(_ANY, file))
    return _DIGITS.sub(_ANY, file)


def _of_folder(places: list[_Place]) -> Iterator[RankGroup]:
    for place in places:
        if place.rank is None:
            yield RankGroup(place.member.name, ((None, place.member.name),), place.world_size)
    ranked = sorted((place for place in places if place.rank is not None), key=_key)
    families = [list(family) for _, family in groupby(ranked, _key)]
    cycles = [cycle for family in _merged(families) for cycle in _cycles(family)]
    names = [_name(cycle) for cycle in cycles]
    seen: Counter[str] = Counter()
    for cycle, name in zip(cycles, names, strict=True):
        seen[name] += 1
        worlds = [place.world_size for place in cycle if place.world_size is not None]
        yield RankGroup(
            name=name if names.count(name) == 1 else f"{name} #{seen[name]}",
            ranks=tuple(sorted((place.rank, place.member.name) for place in cycle if place.rank is not None)),
            world_size=max(worlds, default=None),
        )


def _name(cycle: list[_Place]) -> str:
    first = cycle[0]
    return first.member.name if len(cycle) == 1 else "/".join(part for part in (first.folder, first.stem) if part)


def _key(place: _Place) -> tuple[str, int]:
    return place.stem, place.world_size or 0


def _merged(families: list[list[_Place]]) -> list[list[_Place]]:
    """Merge families of files that differ only in the host name, if their world sizes are equal and no rank repeats."""
    merged: list[list[_Place]] = []
    for family in families:
        ranks = {place.rank for place in family}
        for other in merged:
            is_handler = all(_HANDLER.fullmatch(p.member.name.rpartition("/")[2]) for p in (*other, *family))
            same_world = family[0].world_size is not None and family[0].world_size == other[0].world_size
            if is_handler and same_world and not ranks & {place.rank for place in other}:
                other.extend(family)
                break
        else:
            merged.append(family)
    return merged


def _cycles(family: list[_Place]) -> list[list[_Place]]:
    """Split a family into successive runs, each of which contains a rank only once."""
    return _by_time(family) if all(place.stamp is not None for place in family) else _by_order(family)


def _by_time(family: list[_Place]) -> list[list[_Place]]:
    """Split by time: ranks write at about the same time, and a repeated rank begins the next run."""
    cycles: list[list[_Place]] = []
    seen: set[int | None] = set()
    for place in sorted(family, key=lambda place: (place.stamp or 0, place.member.name)):
        if not cycles or place.rank in seen:
            cycles.append([])
            seen = set()
        cycles[-1].append(place)
        seen.add(place.rank)
    return cycles


def _by_order(family: list[_Place]) -> list[list[_Place]]:
    """Split without times: the first file of each rank, then the second of each, and so on."""
    cycles: list[list[_Place]] = []
    count: dict[int | None, int] = {}
    for place in sorted(family, key=lambda place: _natural(place.member.name)):
        number = count.get(place.rank, 0)
        count[place.rank] = number + 1
        if number == len(cycles):
            cycles.append([])
        cycles[number].append(place)
    return cycles


def _natural(name: str) -> list[tuple[int, str]]:
    """Natural sort key, by which `step_10` comes after `step_9`: alternating texts and numbers."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if i % 2 else (0, part) for i, part in enumerate(parts)]
