"""Finds where the passes of a program without marks begin: before each backward pass, or where its operators repeat.

Layers of a model repeat, too. So operators that repeat are passes only if something shows it in each: the program waits
for the device or for autograd, or reads a value of a CPU, which hardly a model does between two of its layers; it draws
random numbers, or ends with a result of fewer axes; tokens are embedded, or parameters updated; or the first operator
takes a tensor of a shape that no other one takes, because a layer takes what the layer before it gave. Where the
repetitions are all that was recorded, it also shows it if each copies data to the device, has blocks that repeat in it,
or ends with a classifier: around layers there is a model, which does something before its first and after its last.

Where layers wait, they are told from passes by the host: its pauses are longer where a pass begins.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.knowledge import compiled_code
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import backward, critical_threads, graph
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import pass_signs
from traceanalyzer.structure.recording.left_out import FEWEST
from traceanalyzer.structure.recording.periods import PASSES
from traceanalyzer.structure.recording.runs import (
    COVERS,
    Items,
    RepeatedRun,
    has_blocks,
    is_all,
    is_most,
    of_pauses,
    rare_ones,
    repeated_part,
    with_last,
    with_waits,
)
from traceanalyzer.structure.recording.step_signs import outermost, period
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

BACKWARD = "backward pass"
OPERATORS = "repeated operators"
KERNELS = "repeated kernels"
FOUND_BY = (BACKWARD, OPERATORS, KERNELS)
"""How steps are called that were found so."""


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
    return tree.start_ns[_outermost_around(context, created.node[first[_of_iterations(passes.functions)]], is_operator)]


def _of_iterations(functions: I64) -> slice:
    """Which backward passes are the first of an iteration: all, or those after one through passes of an inner loop.

    Args:
        functions: How many functions each pass evaluates.
    """
    size = period(functions)
    turn = functions[:size]
    if size < FEWEST or 2 * turn.max() < turn.sum():
        return slice(None)
    return slice((int(turn.argmax()) + 1) % size, None, size)


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
    for kind, has_shapes in _kinds(context, rows):
        items = with_waits(context, [thread], kind, host.start_ns[rows], host.end_ns[rows], after_ns)
        starts = _starts_among(context, thread, rows, items, has_shapes)
        if starts is not None:
            return _with_compiling(context, starts, compiling, rows)
    return None


def _kinds(context: Context, rows: I64) -> list[tuple[I64, bool]]:
    """The kind of each operator, by name and shapes, and whether shapes tell kinds apart; then by name alone.

    Sequences that grow, and values that choose what is computed, change shapes. Calls of compiled code are one kind: a
    function that is compiled again has another number each time.
    """
    host = context.trace.host
    is_region = context.trace.names.where(compiled_code.is_region)[host.name[rows]]
    name, shapes = host.name[rows].astype(np.int64), host.shapes[rows].astype(np.int64)
    name[is_region], shapes[is_region] = NO_PARENT, NO_PARENT
    exact, named = group(name, shapes)[1], group(name)[1]
    return [(exact, True), (named, False)] if exact.max(initial=0) > named.max(initial=0) else [(exact, True)]


def _starts_among(context: Context, thread: int | None, rows: I64, items: Items, has_shapes: bool) -> I64 | None:
    """When each pass begins that repeats among some operators and waits, also if it does something else now and then.

    Args:
        context: The trace.
        thread: The thread that calls the operators.
        rows: The operators in the order of time.
        items: The same, and waits between them.
        has_shapes: Whether operators of other shapes are of other kinds.
    """
    run = repeated_part(context, items)
    for among, repeated in (_without_extras(context, items, run), (items, run)):
        if repeated is not None:
            begins = _begins_of(context, thread, rows, among, repeated, has_shapes)
            if begins is not None:
                return among.start_ns[begins]
    return None


def _without_extras(context: Context, items: Items, run: RepeatedRun | None) -> tuple[Items, RepeatedRun | None]:
    """What repeats most often if what is rare within it does not count: a loss that is printed in every tenth pass.

    What comes before and after the repetitions remains.
    """
    one = items.kind if run is None else items.kind[run.begins[0] : run.begins[1]]
    is_rare = rare_ones(items.kind, one)
    if not is_rare.any():
        return items, None
    usual = repeated_part(context, items.take(~is_rare))
    is_much_smaller = usual is not None and PASSES * int(usual.begins[1] - usual.begins[0]) <= len(one)
    if usual is None or (run is not None and is_most(items, run) and not is_much_smaller):
        return items, None
    first, last = np.flatnonzero(~is_rare)[[usual.first, usual.end - 1]].tolist()
    before = int(is_rare[:first].sum())
    is_rare[:first], is_rare[last:] = False, False
    return items.take(~is_rare), RepeatedRun(usual.first + before, usual.end + before, usual.begins + before)


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


def _begins_of(
    context: Context,
    thread: int | None,
    rows: I64,
    items: Items,
    run: RepeatedRun,
    has_shapes: bool,
) -> I64 | None:
    """Where each repetition of operators begins, if they are passes; several repetitions may be one.

    Args:
        context: The trace.
        thread: The thread that calls the operators.
        rows: The operators in the order of time.
        items: The same, and waits between them.
        run: What repeats.
        has_shapes: Whether operators of other shapes are of other kinds; else layers of a pyramid are of one.
    """
    part = _part(context, rows, items, run, has_shapes)
    if part is None:
        return None
    end_ns, one = int(context.trace.host.end_ns[rows[part.every]].max()), rows[part.one]
    is_embedded = pass_signs.embeds(context, one)
    if not is_embedded and pass_signs.embeds(context, rows[: part.one.start]):
        return None  # the layers of one pass
    if is_embedded or pass_signs.trains_in_each(context, part.start_ns, end_ns):
        return with_last(run)
    if has_shapes and pass_signs.has_input_of_its_own(context, one):
        return with_last(run)
    return _of_layers_or_passes(context, thread, items, run, part)


def _of_layers_or_passes(
    context: Context,
    thread: int | None,
    items: Items,
    run: RepeatedRun,
    part: pass_signs.PassPart,
) -> I64 | None:
    """The same where repetitions neither begin with what is a pass's alone, nor train."""
    end_ns = int(context.trace.host.end_ns[part.rows[part.every]].max())
    waits = pass_signs.waits_in_each(context, [thread], part.start_ns, end_ns)
    if waits and (part.has_shapes or pass_signs.is_loop(context, part)):
        return of_pauses(items, run.begins)
    signs = pass_signs.reads_in_each, pass_signs.draws_in_each, pass_signs.ends_each
    if any(sign(context, part) for sign in signs):
        return _of_a_loop(context, part.rows, items, run)
    return with_last(run) if part.has_shapes and _is_model(context, items, run, part) else None


def _part(context: Context, rows: I64, items: Items, run: RepeatedRun, has_shapes: bool) -> pass_signs.PassPart | None:
    """The operators that repeat, if they are many enough and take long enough."""
    host = context.trace.host
    first, second, last = items.number[run.begins[[0, 1, -1]]].tolist()
    every = slice(first, last + second - first)
    later_ns = host.dur_ns[rows[first:]].sum()  # what comes before may be a first pass, which takes long
    if len(rows[every]) <= COVERS * len(rows) or host.dur_ns[rows[every]].sum() < COVERS * later_ns:
        return None
    return pass_signs.PassPart(rows, slice(first, second), every, items.start_ns[run.begins], has_shapes)


def _is_model(context: Context, items: Items, run: RepeatedRun, part: pass_signs.PassPart) -> bool:
    """Whether repetitions are all there is, and those of a model."""
    if not is_all(items, run):
        return False
    end_ns = int(context.trace.host.end_ns[part.rows[part.every]].max())
    is_model = pass_signs.copies_in_each(context, part.start_ns, end_ns)
    return (
        is_model
        or has_blocks(items.kind[slice(*run.begins[:2])])
        or pass_signs.has_another_end(context, part.rows[part.one])
    )


def _of_a_loop(context: Context, rows: I64, items: Items, run: RepeatedRun) -> I64:
    """Where repetitions begin that end with reading a value, or else where the first one of a loop does."""
    size = int(run.begins[1] - run.begins[0])
    one = np.arange(*run.begins[:2])
    one = one[~items.is_wait[one]]
    reads = one[pass_signs.are_reads(context, rows[items.number[one]])]
    after = int(reads[-1]) + 1 - run.first if len(reads) and run.first else 0
    begins = np.arange(run.first + after % size, run.end - size // 2, size)
    return begins if len(begins) >= PASSES else run.begins
