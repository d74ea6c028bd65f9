"""Finds where the passes of a program without marks begin: before each backward pass, or where its operators repeat.

Layers of a model repeat, too. So operators that repeat are passes only if something shows it in each: the program waits
for the device or for autograd, which hardly a model does between two of its layers; tokens are embedded, or parameters
updated; or the first operator takes a tensor of a shape that no other one takes, because a layer takes what the layer
before it gave. Where the repetitions are all that was recorded, it also shows it if each copies data to the device, has
blocks that repeat in it, or ends with a classifier: around layers there is a model, which does something before its
first and after its last.

Where layers wait, they are told from passes by the host: its pauses are longer where a pass begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.knowledge import compiled_code, marks
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import backward, critical_threads, graph
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.periods import LEAST, PASSES, longest_run
from traceanalyzer.structure.recording.step_signs import outermost
from traceanalyzer.structure.sums import Columns, group, sum_by
from traceanalyzer.structure.unrecorded_work import waits_for_mac
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I32, I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

BACKWARD = "backward pass"
OPERATORS = "repeated operators"
KERNELS = "repeated kernels"
FOUND_BY = (BACKWARD, OPERATORS, KERNELS)
"""How steps are called that were found so."""

_COVERS = 0.5
"""Share of the outermost operators that passes must exceed, and least share of the time from the first pass on."""
_FEWEST, _LAUNCHES = 2, 10
"""With so many launches, fewer operators are a pass, too (own choice: one operator makes a few)."""
_ALIKE = 0.8
"""Share of what a first pass does that the others do as well (own choice: it may allocate, or fill caches)."""
_OF_A_PASS = {KernelClass.EMBEDDING, KernelClass.OPTIMIZER}
"""Kernels that a pass has and a layer has not."""
_EMBEDDINGS = {"aten::embedding", "aten::embedding_bag", "aten::_embedding_bag"}
_CLASSIFIERS = {"aten::linear", "aten::addmm", "aten::softmax", "aten::log_softmax", "aten::argmax"}
"""What the last operator of a model mostly is; a layer that ends with a product shapes its result afterwards."""
_RARE = 0.1
"""Largest share of what a program does rarely beside what repeats (own choice)."""
_LONGER = 3
"""The pauses of the host before passes are so many times as long as those before layers (own choice)."""


def forward_starts(context: Context) -> I64 | None:
    """When the forward pass before each backward pass begins, in its outermost operator; None where none repeats."""
    passes, created = context.cached(backward), context.cached(graph)
    if len(passes.start_ns) < 2 or not len(created.node):
        return None
    # of the functions that forward passes create, the first one after each backward pass but the last began
    after_ns = np.append(np.iinfo(np.int64).min, passes.start_ns[:-1])
    first = np.searchsorted(created.start_ns, after_ns, side="right")
    before_its_backward = np.append(created.start_ns, np.iinfo(np.int64).max)[first] < passes.start_ns
    if not before_its_backward.all():
        return None  # several backward passes follow one forward pass
    tree = context.host.tree
    is_operator = context.host.category == Category.OPERATOR
    return tree.start_ns[_outermost_around(context, created.node[first], is_operator)]


def _outermost_around(context: Context, nodes: I64, is_wanted: np.ndarray) -> I64:
    """For each of some nodes the outermost one around it of those that are wanted, or itself."""
    tree, found = context.host.tree, nodes.copy()
    around = tree.nearest(is_wanted)
    while True:
        outer = np.where(tree.parent[found] >= 0, around[tree.parent[found]], -1)
        if (outer < 0).all():
            return found
        found = np.where(outer >= 0, outer, found)


def operator_starts(context: Context, after_ns: int = 0) -> I64 | None:
    """When each pass begins whose outermost operators are those of the pass before; None where nothing repeats so.

    Waits for the device between operators are part of what repeats: they tell passes from the layers of one.

    Args:
        context: The trace.
        after_ns: What starts before it does not count.
    """
    threads = critical_threads(context)
    thread = threads[0] if threads else host_activity.with_most_rows(context)
    host = context.trace.host
    rows = np.flatnonzero((host.category == Category.OPERATOR) & (host.thread == thread) & (host.start_ns >= after_ns))
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    compiles = context.trace.names.where(host_activity.is_compiling)[host.name[rows]]
    compiling, rows = rows[compiles], outermost(context, rows[~compiles])
    _, kind = _alike(context, rows)
    items = _with_waits(context, [thread], kind, host.start_ns[rows], host.end_ns[rows], after_ns)
    run = _repeated(context, items)
    starts = None if run is None else _begins_of(context, thread, rows, items, run)
    return None if starts is None else _with_compiling(context, starts, compiling, rows)


def _alike(context: Context, rows: I64) -> tuple[I64, I64]:
    """First row of each kind of operator, by name and shapes, and the kind of each.

    Calls of compiled code are one kind: a function that is compiled again has another number each time.
    """
    host = context.trace.host
    is_region = context.trace.names.where(compiled_code.is_region)[host.name[rows]]
    name, shapes = host.name[rows].astype(np.int64), host.shapes[rows].astype(np.int64)
    name[is_region], shapes[is_region] = NO_PARENT, NO_PARENT
    return group(name, shapes)


def _with_compiling(context: Context, starts_ns: I64, compiling: I64, rows: I64) -> I64:
    """Where passes begin whose first operator had to be compiled: when that began, after the operator before it."""
    host, frames = context.trace.host, context.trace.frames
    of_frames = frames.start_ns[context.trace.names.where(host_activity.is_compiling)[frames.name]]
    begun_ns = np.append(np.sort(np.append(host.start_ns[compiling], of_frames)), starts_ns.max())
    ends_ns = np.append(0, host.end_ns[rows])
    before_ns = ends_ns[np.searchsorted(host.start_ns[rows], starts_ns)]
    first_ns = begun_ns[np.searchsorted(begun_ns[:-1], before_ns)]
    begins_ns: I64 = np.minimum(starts_ns, first_ns)
    return begins_ns


def _begins_of(context: Context, thread: int | None, rows: I64, items: _Items, run: _Run) -> I64 | None:
    """When each repetition of operators begins, if they are passes; several repetitions may be one.

    Args:
        context: The trace.
        thread: The thread that calls the operators.
        rows: The operators in the order of time.
        items: The same, and waits between them.
        run: What repeats.
    """
    host = context.trace.host
    first, second, last = items.number[run.begins[[0, 1, -1]]].tolist()
    one, repeated = rows[first:second], rows[first : last + second - first]
    later_ns = host.dur_ns[rows[first:]].sum()  # what comes before may be a first pass, which takes long
    if len(repeated) <= _COVERS * len(rows) or host.dur_ns[repeated].sum() < _COVERS * later_ns:
        return None
    start_ns, end_ns = items.start_ns[run.begins], int(host.end_ns[repeated].max())
    is_embedding = context.trace.names.where(_is_embedding)[host.name[rows]]
    if is_embedding[first:second].any() or _trains_in_each(context, start_ns, end_ns):
        return start_ns
    if is_embedding[:first].any():
        return None  # the layers of one pass
    if _has_input_of_its_own(context, one):
        return start_ns
    if _waits_in_each(context, [thread], start_ns, end_ns):
        return items.start_ns[_of_pauses(items, run.begins)]
    is_model = _copies_in_each(context, start_ns, end_ns) or _has_blocks(items.kind[slice(*run.begins[:2])])
    return start_ns if _is_all(items, run) and (is_model or _has_another_end(context, one)) else None


def launch_starts(context: Context) -> I64 | None:
    """When each pass of a recording without operators begins, by its first launch; None where nothing repeats so.

    What repeats are kernels, copies and fills in the order of their launches, by name: of all threads, because a
    backward pass is launched by a thread of its own, or of the one that launches most. Where no launches were recorded,
    it is what the busiest stream does.
    """
    launch, launches = context.links.launch, context.trace.launches
    threads = critical_threads(context)
    if (context.trace.host.category == Category.OPERATOR).any():
        return None
    rows = np.flatnonzero(launch != NO_PARENT)
    rows = rows[np.argsort(launches.start_ns[launch[rows]], kind="stable")]
    if not threads:
        return _kernel_starts(context)
    every = host_activity.launching_threads(context)
    for among in (every, [threads[0]])[: len(every)]:
        own = rows[np.isin(launches.thread[launch[rows]], among)]
        start_ns, end_ns = launches.start_ns[launch[own]], launches.end_ns[launch[own]]
        kind = context.trace.device.name[own].astype(np.int64)
        items = _with_waits(context, among, kind, start_ns, end_ns)
        run = _repeated(context, items)
        if run is not None and (usual := _without_rare(context, items, run, own)) is not None:
            return usual
        if run is None or not _is_most(items, run):
            continue
        begins_ns, last_ns = items.start_ns[run.begins], int(items.start_ns[-1])
        if _waits_in_each(context, among, begins_ns, last_ns) or _is_model(context, items, run, own):
            return begins_ns
    return None


def _kernel_starts(context: Context) -> I64 | None:
    """When each pass begins on the stream that works most, where only what devices do was recorded."""
    device = context.trace.device
    if not len(device) or len(context.trace.launches):
        return None
    first, stream = group(device.device.astype(np.int64), device.stream.astype(np.int64))
    rows = np.flatnonzero(stream == np.argmax(sum_by(stream, device.dur_ns, len(first))))
    rows = rows[np.argsort(device.start_ns[rows], kind="stable")]
    kind = device.name[rows].astype(np.int64)
    items = _with_waits(context, [], kind, device.start_ns[rows], device.end_ns[rows])
    run = _repeated(context, items)
    if run is not None and (usual := _without_rare(context, items, run, rows)) is not None:
        return usual
    is_found = run is not None and _is_most(items, run) and _is_model(context, items, run, rows)
    return items.start_ns[run.begins] if run is not None and is_found else None


class _Items(Columns, frozen=True):
    """What threads do, in the order of time: operators or launches, and the waits for the device between them."""

    kind: I64
    """Equal numbers are alike."""
    start_ns: I64
    end_ns: I64
    number: I64
    """Position of the operator or launch among those given; of a wait, of the next one."""
    is_wait: Bool


class _Run(msgspec.Struct, frozen=True):
    """The longest part that repeats: its first position, the one after its last, and those of the repetitions."""

    first: int
    end: int
    begins: I64


def _with_waits(
    context: Context, threads: Sequence[int | None], kind: I64, start_ns: I64, end_ns: I64, after_ns: int = 0
) -> _Items:
    """Operators or launches with the waits of their threads that are in none of them; ascending, without overlap."""
    waits = context.cached(host_activity.waits)
    own = np.flatnonzero(_of_threads(waits.thread, threads) & (waits.start_ns >= after_ns))
    next_one = np.searchsorted(start_ns, waits.start_ns[own], side="right")
    is_between = waits.start_ns[own] >= np.append(0, end_ns)[next_one]
    own, next_one = own[is_between], next_one[is_between]
    return _Items(
        kind=np.insert(kind, next_one, kind.max(initial=0) + 1),
        start_ns=np.insert(start_ns, next_one, waits.start_ns[own]),
        end_ns=np.insert(end_ns, next_one, waits.end_ns[own]),
        number=np.insert(np.arange(len(kind)), next_one, next_one),
        is_wait=np.insert(np.zeros(len(kind), np.bool_), next_one, np.True_),
    )


def _of_threads(thread: I32, threads: Sequence[int | None]) -> Bool:
    return np.isin(thread, [number for number in threads if number is not None])


def _repeated(context: Context, items: _Items) -> _Run | None:
    """The longest periodic part, whose repetitions begin after a wait if they have some; None without one."""
    found = longest_run(items.kind) or longest_run(items.kind, _FEWEST)
    if found is None:
        return None
    first, period, end = found
    if period < LEAST and _launches(context, items, end - period, end) < _LAUNCHES:
        return None
    waits = np.flatnonzero(items.is_wait[end - period : end])
    if len(waits) == period:
        return None
    stop = end
    if not len(waits) and not first:
        stop -= _rest(items, period, end)
    elif len(waits) and waits[0] > 0:  # else a wait begins what repeats, as it must
        after_wait = end - period + int(waits[-1]) + 1  # a recording may end in the middle of a pass
        stop = after_wait if after_wait - first >= PASSES * period else end
    begins = _positions(first, period, stop)
    while items.is_wait[begins].all():
        begins += 1
    return _Run(first, end, begins)


def _without_rare(context: Context, items: _Items, run: _Run, rows: I64) -> I64 | None:
    """When each pass begins if many in what repeats are one but for little: a loss that is read in every tenth.

    A model repeats its layers between little else, too, so each must update parameters, or embed tokens.

    Args:
        context: The trace.
        items: Launches, and waits between them.
        run: The repetitions.
        rows: The device event of each launch.
    """
    one = items.kind[run.begins[0] : run.begins[1]]
    counts = np.bincount(one, minlength=int(items.kind.max()) + 1)
    is_rare = (PASSES * counts <= np.median(counts[counts > 0]))[items.kind]
    if not is_rare.any() or is_rare.mean() > _RARE:
        return None
    kept = items.take(~is_rare)
    usual = _repeated(context, kept)
    if usual is None or not _is_most(kept, usual) or not _is_all(kept, usual):
        return None
    if not any(kernel_class(name) in _OF_A_PASS for name in _names_of_one(context, kept, usual, rows)):
        return None
    size = int(usual.begins[1] - usual.begins[0])
    return kept.start_ns[usual.begins] if PASSES * size <= len(one) else None


def _positions(first: int, period: int, stop: int) -> I64:
    """Where the repetitions before a position begin, of which the first lies behind another position."""
    return stop - period * np.arange((stop - first) // period, 0, -1)


def _rest(items: _Items, period: int, end: int) -> int:
    """How much of a pass follows the last whole one, of a sequence that repeats from its first position on.

    None if the host pauses longer before what begins so, than before what the sequence begins with.
    """
    rest = end % period
    from_start, from_end = (_pause_ns(items, _positions(0, period, stop)) for stop in (end - rest, end))
    return 0 if from_end > _LONGER * from_start else rest


def _pause_ns(items: _Items, begins: I64) -> float:
    """The usual pause of the host before repetitions."""
    before = begins[begins > 0]
    return max(float(np.median(items.start_ns[before] - items.end_ns[before - 1])), 1.0)


def _launches(context: Context, items: _Items, first: int, end: int) -> int:
    """How many calls launch something while a thread is at some of the items."""
    called = context.trace.launches.start_ns[context.links.calls]
    return int(((called >= items.start_ns[first]) & (called < items.end_ns[end - 1])).sum())


def _of_pauses(items: _Items, begins: I64) -> I64:
    """Every second, third, ... repetition if the host pauses longer before these than before others; else all."""
    before = begins[begins > 0]
    pauses = items.start_ns[before] - items.end_ns[before - 1]
    is_long = pauses > _LONGER * max(float(np.median(pauses)), 1.0)
    longer = np.flatnonzero(is_long) + (len(begins) - len(before))
    apart = np.diff(longer)
    if len(longer) < PASSES - 1 or (apart != apart[0]).any() or apart[0] < 2:
        return begins
    size = int(apart[0])
    is_everywhere = longer[0] <= size and len(begins) - longer[-1] <= size
    return begins[longer[0] % size :: size] if is_everywhere else begins


def _is_most(items: _Items, run: _Run) -> bool:
    """Whether whole repetitions have at least half of the launches."""
    first, second, last = items.number[run.begins[[0, 1, -1]]].tolist()
    return bool(last + (second - first) - first >= _COVERS * (items.number[-1] + 1))


def _is_all(items: _Items, run: _Run) -> bool:
    """Whether the repetitions are all that was recorded, but for waits at the end and a first one that is unlike them.

    A model begins and ends with something that its layers do not do.
    """
    size = int(run.begins[1] - run.begins[0])
    head = items.kind[: run.first]
    is_known = np.isin(head, items.kind[run.begins[0] : run.begins[1]])
    is_cold_pass = not len(head) or (2 * len(head) >= size and is_known.mean() >= _ALIKE)
    return bool(is_cold_pass and items.is_wait[run.end :].all())


def _has_blocks(kind: I64) -> bool:
    """Whether most of a repetition are parts that repeat themselves: the layers of a model."""
    found = longest_run(kind)
    if found is None:
        return False
    first, period, end = found
    return (end - first) // period * period >= _COVERS * len(kind)


def _is_model(context: Context, items: _Items, run: _Run, rows: I64) -> bool:
    """Whether repetitions of launches are all there is, and embed tokens, update parameters, copy or have blocks.

    Args:
        context: The trace.
        items: Launches, and waits between them.
        run: The repetitions.
        rows: The device event of each launch.
    """
    if not _is_all(items, run):
        return False
    names = _names_of_one(context, items, run, rows)
    is_sign = any(kernel_class(name) in _OF_A_PASS or _is_input(name) for name in names)
    return is_sign or _has_blocks(items.kind[slice(*run.begins[:2].tolist())])


def _names_of_one(context: Context, items: _Items, run: _Run, rows: I64) -> list[str]:
    """Names of what a device does in one repetition of launches."""
    one = slice(*run.begins[:2].tolist())
    codes = distinct(context.trace.device.name[rows[items.number[one][~items.is_wait[one]]]])
    return [context.trace.names[code] for code in codes.tolist()]


def _has_input_of_its_own(context: Context, rows: I64) -> bool:
    """Whether the first of some operators takes a tensor of a shape that none of the others takes."""
    host, texts = context.trace.host, context.trace.shapes
    first, *others = (Inputs(texts[code], None).shapes or () for code in host.shapes[rows].tolist())
    taken = {shape for shapes in others for shape in shapes}
    return bool(first) and bool(first[0]) and first[0] not in taken


def _has_another_end(context: Context, rows: I64) -> bool:
    """Whether the last of some operators takes a tensor of fewer axes than the first, as a classifier does."""
    host, texts = context.trace.host, context.trace.shapes
    first, last = ((Inputs(texts[host.shapes[row]], None).shapes or ((),))[0] for row in (rows[0], rows[-1]))
    return 0 < len(last) < len(first) and context.trace.names[int(host.name[rows[-1]])] in _CLASSIFIERS


def _is_embedding(name: str) -> bool:
    return name in _EMBEDDINGS


def _is_input(name: str) -> bool:
    """Whether a name is that of a copy to the device."""
    return host_activity.direction(name) == "HtoD"


def _copies_in_each(context: Context, start_ns: I64, end_ns: int) -> bool:
    """Whether data is copied to the device in each pass."""
    copies = context.links.launch[context.trace.names.where(_is_input)[context.trace.device.name]]
    return _in_each(context.trace.launches.start_ns[copies[copies != NO_PARENT]], start_ns, end_ns)


def _waits_in_each(context: Context, threads: Sequence[int | None], start_ns: I64, end_ns: int) -> bool:
    """Whether threads wait for the device in each pass, the last of which may wait after its last operator."""
    waits, host, rows = context.cached(host_activity.waits), context.trace.host, waits_for_mac(context)
    of_mac = host.start_ns[rows[_of_threads(host.thread[rows], threads)]]
    return _in_each(np.append(waits.start_ns[_of_threads(waits.thread, threads)], of_mac), start_ns, end_ns)


def _trains_in_each(context: Context, start_ns: I64, end_ns: int) -> bool:
    """Whether autograd evaluates functions in each pass, after the last operator of the last one, too.

    Their names tell them from others even where no numbers of autograd were recorded.
    """
    host = context.trace.host
    return _in_each(host.start_ns[context.trace.names.where(marks.is_backward)[host.name]], start_ns, end_ns)


def _in_each(times: I64, start_ns: I64, end_ns: int) -> bool:
    """Whether some of the times lie in each pass; a program that waits before each may end without a wait."""
    times = np.sort(times)
    until = np.append(start_ns[1:], max(end_ns, int(times.max(initial=0)) + 1))
    counts = np.searchsorted(times, until) - np.searchsorted(times, start_ns)
    is_before = bool((times < start_ns[0]).any())
    return bool((counts[:-1] > 0).all()) and (bool(counts[-1]) or is_before)
