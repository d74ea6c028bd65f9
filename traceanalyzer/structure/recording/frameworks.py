"""Which frameworks took part in the recorded program, and which of them is the main one?

Each distinct name of annotations, operators, frames and categories is checked once, because a trace has far more events
than names. A framework is shown with its strongest evidence: a mark, else an operator, a module, a frame, a category of
events. Without any of these, the sizes of all-reduces may be evidence.

DistributedDataParallel puts gradients one after another into flat buckets and reduces each bucket when it is full. The
first is full at 1 MiB, so that communication starts early; the others at 25 MiB, except for the last one, which has the
rest. Each step reduces the same buckets in the same order. Programs that set `bucket_cap_mb` or reduce by hand have
other sizes and are not recognized. This helps with traces without its marks, because threads or events were left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import IntEnum

import msgspec
import numpy as np

from traceanalyzer.knowledge.first_match import AnyOf, alternatives, required_word
from traceanalyzer.knowledge.frameworks import FRAMEWORKS, Framework
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I32
from traceanalyzer.trace.tables import Category, Vendor

_ALL_REDUCE = re.compile(r"[a-z]{2,8}:all_?reduce", re.ASCII)
_MIB = 1 << 20
_FIRST_CAP = 1 * _MIB
_CAP = 25 * _MIB
_STEPS = 3
"""Fewer repetitions may be chance."""
_BYTES = {"float": 4, "c10::Half": 2, "c10::BFloat16": 2}
_MODULE = "nn.Module: "
_BUILT_IN = "<built-in "
_NEVER = 1 << 62
_OF_MTIA = "mtia_ccp_events"
"""Category of events of MTIA devices."""


class Buckets(msgspec.Struct, frozen=True):
    """All-reduces that have the sizes of gradient buckets."""

    name: str
    events: int


def gradient_buckets(context: Context) -> Buckets | None:
    """The all-reduces, if their sizes are those of gradient buckets in three steps or more."""
    trace = context.trace
    is_reduction = trace.names.where(_is_all_reduce)[trace.host.name]
    rows = np.flatnonzero(is_reduction)
    sizes = [flat_bytes(trace, int(row)) for row in rows]
    known = [size for size in sizes if size]
    buckets = len(set(known))
    if len(known) < len(sizes) or buckets < 2 or len(known) < _STEPS * buckets or len(known) % buckets:
        return None
    if known != known[:buckets] * (len(known) // buckets) or not _are_full(known[:buckets]):
        return None
    return Buckets(trace.names[int(trace.host.name[rows[0]])], len(rows))


def _is_all_reduce(name: str) -> bool:
    return _ALL_REDUCE.fullmatch(name) is not None


def _are_full(sizes: list[int]) -> bool:
    """Whether each bucket except the last one is full."""
    return sizes[0] >= _FIRST_CAP and all(size >= _CAP for size in sizes[1:-1])


def flat_bytes(trace: Trace, row: int) -> int | None:
    """Size of the one flat tensor of numbers that a collective is called with; None for anything else."""
    given = Inputs.of(trace, row)
    shapes, types = given.shapes or (), given.types or ()
    if len(shapes) != 1 or len(shapes[0]) != 1 or len(types) != 1 or types[0] not in _BYTES:
        return None
    return shapes[0][0] * _BYTES[types[0]]


class _Kind(IntEnum):
    """Kinds of evidence, the strongest first."""

    MARK = 0
    OPERATOR = 1
    MODULE = 2
    FRAME = 3
    CATEGORY = 4
    COLLECTIVE = 5


class FrameworkEvidence(msgspec.Struct, frozen=True):
    """The strongest kind of evidence that a framework ran."""

    id: str
    """Id of the framework: `vllm`, `huggingface`, `ddp`, ..."""
    kind: str
    """Kind of evidence: a `mark`, `operator`, `module`, Python `frame`, `category` of events, or `collective`s."""
    name: str
    """Name of the first event that was recognized."""
    events: int
    """Number of events of this kind that were recognized."""
    names: int
    """Number of distinct names that these events have."""


@cached
def frameworks(context: Context) -> tuple[FrameworkEvidence, ...]:
    """The frameworks for which there is evidence, in the order of priority by which a report names one."""
    names = [*_names(context)]
    found = _Found("\n".join(name for name, *_ in names))
    for name, kind, events, first in names:
        found.ask(name, kind, events, first)
    if not any(known.is_named and known.id in found.by_id for known in FRAMEWORKS):
        buckets = gradient_buckets(context)
        if buckets:
            found.add("ddp", buckets.name, _Kind.COLLECTIVE, buckets.events, 0)
    return tuple(found.by_id[known.id].result for known in FRAMEWORKS if known.id in found.by_id)


def main_framework(context: Context) -> Framework | None:
    """The framework that a report names; None if no such framework was found."""
    found = {evidence.id for evidence in frameworks(context)}
    return next((known for known in FRAMEWORKS if known.is_named and known.id in found), None)


def _names(context: Context) -> Iterator[tuple[str, _Kind, int, int]]:
    """Each distinct name that may be evidence, its kind of events, their number, and its rank in the order of time."""
    trace, host = context.trace, context.trace.host
    is_operator = host.category == Category.OPERATOR
    columns = (
        (_Kind.MARK, host.name[~is_operator]),
        (_Kind.MARK, _only_on_devices(trace)),
        (_Kind.OPERATOR, host.name[is_operator]),
        (_Kind.FRAME, trace.frames.name),
    )
    captured = trace.info.capture
    yield from ((frame, _Kind.FRAME, 1, _NEVER) for frame in (captured.frames if captured else ()))
    for kind, codes in columns:
        for code, events, first in _distinct(codes):
            name = trace.names[code]
            if kind != _Kind.FRAME:
                yield name, kind, events, first
            elif not name.startswith(_BUILT_IN):
                yield name, _Kind.MODULE if name.startswith(_MODULE) else kind, events, first
    categories = {**trace.info.unsupported, _OF_MTIA: int((trace.accelerator.vendor == Vendor.MTIA).sum())}
    for category, events in categories.items():
        if events:
            yield category, _Kind.CATEGORY, events, 0


def _only_on_devices(trace: Trace) -> I32:
    """Names of marks on devices whose marks on the host were not recorded."""
    on_host = np.zeros(len(trace.names), np.bool_)
    on_host[trace.host.name] = True
    names = trace.gpu_annotations.name
    return names[~on_host[names]]


def _distinct(codes: I32) -> Iterator[tuple[int, int, int]]:
    """Each code of a column, how many rows have it, and the first of them."""
    counts = np.bincount(codes)
    first = np.zeros(len(counts), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of rows with one code the last to be set stays
    present = np.flatnonzero(counts)
    yield from zip(present.tolist(), counts[present].tolist(), first[present].tolist(), strict=True)


class _Evidence(msgspec.Struct):
    """The evidence for one framework so far."""

    id: str
    kind: _Kind
    name: str = ""
    first: int = _NEVER
    events: int = 0
    names: int = 0

    def add(self, name: str, events: int, first: int) -> None:
        """Count a name of this kind."""
        self.events += events
        self.names += 1
        if first < self.first:
            self.name, self.first = name, first

    @property
    def result(self) -> FrameworkEvidence:
        return FrameworkEvidence(self.id, self.kind.name.lower(), self.name, self.events, self.names)


class _Found:
    """The strongest evidence of each framework."""

    def __init__(self, text: str) -> None:
        """Nothing is found yet.

        Args:
            text: All names that will be asked about.
        """
        self.by_id: dict[str, _Evidence] = {}
        self._names, self._frames = _NAMES.within(text), _FRAMES.within(text)

    def ask(self, name: str, kind: _Kind, events: int, first: int) -> None:
        """Add a name to all frameworks that match it; marks of steps count as marks even if written as another kind."""
        lines = self._frames if kind in (_Kind.MODULE, _Kind.FRAME) else self._names
        for known in lines.matching(name):
            mark = kind == _Kind.OPERATOR and known.step_mark and known.step_mark(name)
            self.add(known.id, name, _Kind.MARK if mark else kind, events, first)

    def add(self, framework: str, name: str, kind: _Kind, events: int, first: int) -> None:
        """Add a name to a framework; stronger evidence replaces weaker."""
        best = self.by_id.get(framework)
        if best is None or kind < best.kind:
            best = self.by_id[framework] = _Evidence(framework, kind)
        if kind == best.kind:
            best.add(name, events, first)


class _Lines:
    """The `names` or the `frames` of all frameworks; a name that matches none costs only a search for a few words."""

    def __init__(self, lines: Iterable[tuple[Framework, AnyOf, tuple[str, ...]]]) -> None:
        """Each line has a word for each alternative, without which that cannot match."""
        self._lines = tuple(lines)
        words = {word for _, _, line in self._lines for word in line}
        self._words = sorted(word for word in words if not any(other in word for other in words - {word}))

    @classmethod
    def of(cls, patterns: Iterable[tuple[Framework, AnyOf | None]]) -> _Lines:
        """The lines of some frameworks."""
        return cls((known, pattern, _words(pattern)) for known, pattern in patterns if pattern)

    def within(self, text: str) -> _Lines:
        """Those that can match a part of a text: only their words need to be looked for in each of thousands of names.

        Args:
            text: All names.
        """
        lower = text.lower()
        found = ((known, pattern, tuple(filter(lower.__contains__, words))) for known, pattern, words in self._lines)
        return _Lines(line for line in found if line[-1])

    def matching(self, name: str) -> Iterator[Framework]:
        """The frameworks that match a name."""
        lower = name.lower()
        if any(map(lower.__contains__, self._words)):
            for known, pattern, words in self._lines:
                if any(map(lower.__contains__, words)) and pattern.compiled.search(name):
                    yield known


def _words(pattern: AnyOf) -> tuple[str, ...]:
    return tuple(required_word(alternative) for alternative in alternatives(pattern.pattern))


_NAMES = _Lines.of((known, known.names) for known in FRAMEWORKS)
_FRAMES = _Lines.of((known, known.frames) for known in FRAMEWORKS)
