"""The lanes of the strip: devices first, then collectives, phases, modules and the program, each with names in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, zip_longest
from typing import NamedTuple

from msgspec.structs import replace

from traceanalyzer.analyzers.steps.slice_rows import SliceLane
from traceanalyzer.analyzers.steps.slices import RecordedSlices, SliceTime
from traceanalyzer.formats.html.timeline_data import GPU, lane_label
from traceanalyzer.formats.html.waterfall import tone_of
from traceanalyzer.formats.language import Language
from traceanalyzer.knowledge import collectives, marks
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import clean, shorten

_PHASES = Text("strip-phases", "Phases", "ranges that people mark in the program")
_MODULES = Text("strip-modules", "Modules", "nn.Module of PyTorch")
_CPU = Text("strip-cpu", "CPU, {thread}", "thread is Main or Autograd")
_COLLECTIVES = Text("strip-collectives", "{device}, collectives", "device is GPU 0; collectives are operations of NCCL")
_GLOO = Text("strip-gloo", "Collectives, CPU", "a lane with operations of gloo")
_TIMES = Text("strip-folded", "{name} x{count:count}", "a module, and how many of them follow each other")

COLUMNS = 1000
"""Columns of the picture."""
WAITS = "cpu_waits"
"""The colour of a CPU that waits for the GPU."""
CHARACTER = 1.05
"""Width of a character in percent of the strip, on a screen on which texts are in it."""
_FUNCTION = re.compile(r"(?:.*/)?([^/]+\.py)\(\d+\): (.+)")
_MODULE = re.compile(r"nn\.Module: (.+?)(?:_\d+)?$")
_NOISE = re.compile(r"^[#\s]*(?:Call |torch::autograd::|aten::)?|[#\s]+$")
"""What frameworks add to names."""
_DOTTED = re.compile(r"[A-Za-z_]\w*\.(?!py$)[a-z_]\w*")
"""A class or module and one of its functions."""
_MOST_DEVICES = 8
_COVERS = 0.9
"""A mark that covers so much of the step is the step itself, not a phase."""
_HOLE = 12
"""Most columns between two pieces that are shown as one (own choice: 1 % of the step)."""
_REPEATED = 0.2
"""Least share of the modules' time that modules of one class take that follow each other, to be shown as one."""


@dataclass(frozen=True)
class StripText:
    """Words in the picture; their place in percent of its width."""

    x: str
    text: str
    anchor: str = "start"
    is_on_pale: bool = False
    """Whether most of what is below it is pale."""


@dataclass(frozen=True)
class StripArea:
    """All areas of one colour in a lane."""

    tone: str
    path: str


@dataclass(frozen=True)
class TypicalLane:
    """One lane of the picture."""

    label: str
    areas: tuple[StripArea, ...]
    texts: tuple[StripText, ...]
    shows_idle: bool = False


class _Piece(NamedTuple):
    """Neighbouring columns that show the same."""

    begin: int
    end: int
    tone: str
    name: str


_Key = tuple[str, str]
"""Colour and name."""
_Shares = dict[_Key, int]
"""How much of a column each colour with its name fills: of its width, in units of duration / columns."""


def lanes(slices: RecordedSlices, one: SliceTime, language: Language) -> list[TypicalLane]:
    """All lanes of a step, from the devices up to the program."""
    return [
        *_devices(slices, one, language),
        *_collectives_of_host(slices, one, language),
        *_phases(slices, one, language),
        *_modules(slices, one, language),
        *_hosts(slices, one, language),
    ]


def short(name: str) -> str:
    """A name without what frameworks add to it; of a function in a file the function first."""
    if marks.is_dataloader(name):
        return "DataLoader"
    function = _FUNCTION.match(name)
    if function:
        return shorten(clean(f"{function[2]}, {function[1]}"), 60)
    bare = _NOISE.sub("", name)
    return shorten(clean(bare.partition("#")[0].strip() or bare or name), 60)


# Devices


def _devices(slices: RecordedSlices, one: SliceTime, language: Language) -> Iterator[TypicalLane]:
    """What each device computes, all streams together, and what it communicates."""
    for kind in ("device", "accelerator"):
        streams: dict[str, list[SliceLane]] = {}  # by device
        for lane in one.lanes:
            if lane.kind == kind:
                streams.setdefault(lane.label.partition("/")[0], []).append(lane)
        for device, own in list(streams.items())[:_MOST_DEVICES]:
            is_known = kind == "device" and device == str(slices.device)
            name = clean(device)
            label = language.text(GPU, device=device) if kind == "device" else language.marked(name, name, "device")
            yield _lane(label, _runs(_most_of_columns(one, own, slices)), shows_idle=is_known)
            shared = [] if kind != "device" else _named_collectives(_most_of_columns(one, own, slices, _is_collective))
            if shared:
                yield _lane(language.text(_COLLECTIVES, device=label), shared)


def _is_collective(kind: str, name: str) -> bool:
    return tone_of(kind, name) == "communication"


def _named_collectives(columns: list[_Key | None]) -> list[_Piece]:
    """Pieces that have the names of their operations."""
    named = [None if key is None else (key[0], collectives.operation(key[1]) or short(key[1])) for key in columns]
    return list(_runs(named))


def _collectives_of_host(slices: RecordedSlices, one: SliceTime, language: Language) -> Iterator[TypicalLane]:
    """Collectives that threads of the CPU run, as gloo does."""
    own = [lane for lane in one.lanes if lane.kind == "host" and lane.role is None]
    pieces = _named_collectives(_most_of_columns(one, own, slices, _is_collective))
    if pieces:
        yield _lane(language.text(_GLOO), pieces)


# Phases and modules


def _phases(slices: RecordedSlices, one: SliceTime, language: Language) -> Iterator[TypicalLane]:
    """The marks of the main thread, the outermost that are not the step itself; between them what autograd shows."""
    columns = _marked(slices, one)
    if not any(key is not None and marks.passes(key[1]) for key in columns):
        columns = [own or other for own, other in zip(columns, _passes(slices, one), strict=True)]
    pieces = list(_runs(columns))
    if pieces:
        yield _lane(language.text(_PHASES), pieces)


def _marked(slices: RecordedSlices, one: SliceTime) -> list[_Key | None]:
    lane = next((lane for lane in one.lanes if lane.kind == "marks" and lane.role == "main"), None)
    if lane is None:
        return [None] * COLUMNS
    rows = list(zip(lane.depth, lane.duration, strict=True))
    covered = {depth for depth, length in rows if length >= _COVERS * one.duration_ns}
    depth = next((depth for depth in sorted(set(lane.depth)) if depth not in covered), None)
    return [None] * COLUMNS if depth is None else _most_of_columns(one, [lane], slices, depth=depth)


def _passes(slices: RecordedSlices, one: SliceTime) -> list[_Key | None]:
    """Where autograd shows the backward pass, and where the main thread works before it."""
    back = _of_role(slices, one, "host", "autograd")
    if not any(back):
        return [None] * COLUMNS
    last = max(column for column, key in enumerate(back) if key)
    works = _of_role(slices, one, "owners", "main")[:last]
    found = [
        ("other", "backward") if is_back else ("other", "forward") if is_work else None
        for is_back, is_work in zip_longest(back, works)
    ]
    filled: list[_Key | None] = [None] * COLUMNS
    for piece in _joined(piece for piece in _runs(found) if piece.name == "backward" or piece.end - piece.begin > 1):
        filled[piece.begin : piece.end] = [(piece.tone, piece.name)] * (piece.end - piece.begin)
    return filled


def _of_role(slices: RecordedSlices, one: SliceTime, kind: str, role: str) -> list[_Key | None]:
    """What most of each column is, of the lanes of a kind whose threads have a role."""
    return _most_of_columns(one, [lane for lane in one.lanes if lane.kind == kind and lane.role == role], slices)


def _joined(pieces: Iterable[_Piece]) -> list[_Piece]:
    """Pieces that show the same with a small hole between them, as one."""
    found: list[_Piece] = []
    for piece in pieces:
        before = found[-1] if found else None
        is_near = before is not None and before[2:] == piece[2:] and piece.begin - before.end <= _HOLE
        if before is not None and is_near:
            found[-1] = before._replace(end=piece.end)
        else:
            found.append(piece)
    return found


def _modules(slices: RecordedSlices, one: SliceTime, language: Language) -> Iterator[TypicalLane]:
    """The modules that the main thread is in; those of one class that follow each other are one, with their number."""
    lane = next((lane for lane in one.lanes if lane.kind == "host" and lane.role == "main"), None)
    rows = [] if lane is None else list(_module_rows(lane, slices))
    depth = _telling_depth(rows)
    if depth is None:
        return
    columns: list[_Shares] = [{} for _ in range(COLUMNS)]
    for start, length, level, name in rows:
        if level == depth:
            _add(columns, one.duration_ns, start, length, ("cpu_exec", name))
    starts = [(start * COLUMNS // one.duration_ns, name) for start, _, level, name in rows if level == depth]
    pieces = [
        piece._replace(name=_folded(piece, starts, language))
        for piece in _joined(_runs(_most(shares, one.duration_ns) for shares in columns))
    ]
    if pieces:
        yield _lane(language.text(_MODULES), pieces)


def _module_rows(lane: SliceLane, slices: RecordedSlices) -> Iterator[tuple[int, int, int, str]]:
    """Start, length, depth and class of each call of a module."""
    for start, length, depth, name in zip(accumulate(lane.start), lane.duration, lane.depth, lane.name, strict=True):
        module = _MODULE.match(slices.names[name]) if name >= 0 else None
        if module:
            yield start, length, depth, module[1]


def _telling_depth(rows: Sequence[tuple[int, int, int, str]]) -> int | None:
    """The outermost depth at which modules of one class follow each other for long; else that of the outermost ones."""
    if not rows:
        return None
    outermost = min(level for _, _, level, _ in rows)
    whole = sum(length for _, length, level, _ in rows if level == outermost)
    for depth in sorted({level for _, _, level, _ in rows}):
        own = [(name, length) for _, length, level, name in rows if level == depth]
        runs = [list(run) for _, run in groupby(own, key=lambda row: row[0])]
        if sum(length for run in runs if len(run) > 1 for _, length in run) >= _REPEATED * whole:
            return depth
    return outermost


def _folded(piece: _Piece, starts: Iterable[tuple[int, str]], language: Language) -> str:
    """The class of modules, and how many of them begin in a piece."""
    count = sum(piece.begin <= begin < piece.end and name == piece.name for begin, name in starts)
    return language.unmarked.text(_TIMES, name=piece.name, count=count) if count > 1 else piece.name


def _hosts(slices: RecordedSlices, one: SliceTime, language: Language) -> Iterator[TypicalLane]:
    """Which part of the program each critical thread is in; without any, the outermost calls of the main thread."""
    own = [lane for lane in one.lanes if lane.kind == "owners"]
    own = own or [lane for lane in one.lanes if lane.kind == "host" and lane.role == "main"]
    waits = waiting_columns(one)
    for lane in own:
        thread = lane_label(replace(lane, kind="host"), several_devices=False, language=language)
        columns = _most_of_columns(one, [lane], slices, depth=None if lane.kind == "owners" else 0)
        pieces = [piece for piece in _runs(columns) if not marks.is_step(piece.name)]
        if pieces:
            yield _lane(language.text(_CPU, thread=thread), pieces, waits=waits)


def waiting_columns(one: SliceTime, count: int = COLUMNS) -> frozenset[int]:
    """Which of so many columns of a time are mostly those in which the CPU waits for the GPU."""
    waits = [0] * count  # times are multiplied by the number of columns, so they stay whole
    for start, length in zip(accumulate(one.wait_start), one.wait_duration, strict=True):
        begin, end = start * count, (start + length) * count
        for column in range(begin // one.duration_ns, min(count, -(-end // one.duration_ns))):
            waits[column] += min((column + 1) * one.duration_ns, end) - max(column * one.duration_ns, begin)
    return frozenset(column for column, ns in enumerate(waits) if 2 * ns >= one.duration_ns)


# Columns


def _most_of_columns(
    time: SliceTime,
    own: Iterable[SliceLane],
    slices: RecordedSlices,
    is_shown: Callable[[str, str], bool] | None = None,
    *,
    depth: int | None = None,
) -> list[_Key | None]:
    """What most of each column is, over some lanes; of a depth, or of all, and of some slices, or of all."""
    columns: list[_Shares] = [{} for _ in range(COLUMNS)]
    for lane in own:
        is_device = lane.kind in ("device", "accelerator")
        starts = accumulate(lane.start)
        for start, length, level, name in zip(starts, lane.duration, lane.depth, lane.name, strict=True):
            text = slices.names[name] if name >= 0 else ""
            if depth is not None and level != depth:
                continue
            if is_shown is not None and not is_shown(lane.kind, text):
                continue
            key = (tone_of(lane.kind, text), "" if is_device and is_shown is None else text)
            _add(columns, time.duration_ns, start, length, key)
    return [_most(shares, time.duration_ns) for shares in columns]


def _runs(main: Iterable[_Key | None]) -> Iterator[_Piece]:
    """Neighbouring columns that show the same, as one piece; columns that show nothing make none."""
    begin = 0
    for key, run in groupby(main):
        end = begin + len(list(run))
        if key is not None:
            yield _Piece(begin, end, *key)
        begin = end


def _add(columns: list[_Shares], duration: int, start: int, length: int, key: _Key) -> None:
    """Add a slice to the columns that it is in. Times are multiplied by the number of columns, so they stay whole."""
    begin = start * COLUMNS
    end = (start + length) * COLUMNS
    after_last = min(COLUMNS, -(-end // duration))
    for column in range(begin // duration, after_last):
        inside = min((column + 1) * duration, end) - max(column * duration, begin)
        if inside > 0:
            columns[column][key] = columns[column].get(key, 0) + inside


def _most(shares: _Shares, duration: int) -> _Key | None:
    """What fills most of a column; None if less than a third of it is filled."""
    if 3 * sum(shares.values()) < duration:
        return None
    return max(shares, key=lambda key: shares[key])


def _lane(
    label: str, pieces: Iterable[_Piece], *, shows_idle: bool = False, waits: frozenset[int] = frozenset()
) -> TypicalLane:
    """A lane; pieces with room for it have their name. Where the CPU waits, its parts are paler."""
    shown = tuple(pieces)
    paths: dict[str, str] = {}
    for begin, end, tone in (part for piece in shown for part in _by_waiting(piece, waits)):
        edge = 0.6 if end - begin > 3 else 0.0
        paths[tone] = f"{paths.get(tone, '')}M{begin} 0H{end - edge:g}V1H{begin}Z"
    areas = tuple(StripArea(tone, path) for tone, path in paths.items())
    return TypicalLane(label, areas, tuple(_names(shown, waits)), shows_idle)


def _by_waiting(piece: _Piece, waits: frozenset[int]) -> Iterator[tuple[int, int, str]]:
    """Begin, end and tone of the parts of a piece in which the CPU works, or waits for the GPU; loaders do neither."""
    if piece.tone == "dataloader":
        waits = frozenset()
    begin = piece.begin
    for is_waiting, run in groupby(range(piece.begin, piece.end), key=waits.__contains__):
        end = begin + len(list(run))
        yield begin, end, WAITS if is_waiting else piece.tone
        begin = end


def _names(pieces: Iterable[_Piece], waits: frozenset[int]) -> Iterator[StripText]:
    """The names of the pieces with room for at least some characters, cut where they are longer.

    Of `Optimizer.zero_grad` the last part says most.
    """
    for begin, end, tone, full in pieces:
        name = short(full)
        room = (end - begin - 6) / 10 / CHARACTER
        if len(name) > room and _DOTTED.fullmatch(name):
            name = name.rpartition(".")[2]
        if name and room >= min(len(name), 6):
            text = name if len(name) <= room else f"{name[: int(room) - 1]}…"
            under = range(begin, begin + round(10 * CHARACTER * len(text)))
            is_pale = tone != "dataloader" and 2 * sum(column in waits for column in under) > len(under)
            yield StripText(percent(begin + 3), text, is_on_pale=is_pale)


def percent(column: float) -> str:
    """A column as a place in percent of the width."""
    return f"{100 * column / COLUMNS:.2f}".rstrip("0").rstrip(".")
