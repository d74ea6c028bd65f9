"""Folds repeated modules: siblings of one class that contain the same modules become one row with their sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from traceanalyzer.analyzers.modules import Place

_SUMMED = ("calls", *(name for name in Place.__struct_fields__ if name.endswith("_ns")))
LEAST = 3
"""Least number of siblings that are folded (own choice: two are quickly read)."""


class _Branch(msgspec.Struct):
    """A place with those inside, as positions in the tree."""

    row: int
    kind: str
    inner: list[_Branch]

    def shape(self) -> tuple[object, ...]:
        """What equal branches have in common: their classes."""
        return (self.kind, *(branch.shape() for branch in self.inner))


def folded(tree: Sequence[Place]) -> list[Place]:
    """The tree in which repeated branches are one, `Linear x24`."""
    top = _Branch(-1, "", [])
    open_ = [top]
    for row, place in enumerate(tree):
        del open_[place.depth + 1 :]
        branch = _Branch(row, place.name.rpartition("_")[0] or place.name, [])
        open_[-1].inner.append(branch)
        open_.append(branch)
    return list(_places([[branch] for branch in top.inner], tree))


def _places(alike: Sequence[Sequence[_Branch]], tree: Sequence[Place]) -> Iterator[Place]:
    """The rows of groups of equal branches, of which some may be equal to their neighbours."""
    for _, several in groupby(alike, key=lambda group: group[0].shape()):
        groups = list(several)
        if len(groups) >= LEAST:
            groups = [[branch for group in groups for branch in group]]
            name = f"{groups[0][0].kind} x{len(groups[0])}"
        else:
            name = ""
        for group in groups:
            yield _sum([tree[branch.row] for branch in group], name)
            yield from _places([list(inner) for inner in zip(*(branch.inner for branch in group), strict=True)], tree)


def _sum(places: Sequence[Place], name: str) -> Place:
    if len(places) == 1:
        return places[0]
    sums = {field: sum(int(getattr(place, field) or 0) for place in places) for field in _SUMMED}
    return msgspec.structs.replace(places[0], name=name or places[0].name, **sums)
