"""What kind of program was recorded? The first kind in `WORKLOADS` whose evidence the trace has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.structure import gap_causes, gaps, host_activity, unrecorded_work
from traceanalyzer.structure.autograd import backward
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.first_uses import first_uses
from traceanalyzer.structure.graph_events import BACKWARD, graph_labels, passes
from traceanalyzer.structure.host_activity import is_free, is_taking
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.launch_calls import graph_capture
from traceanalyzer.structure.recording import left_out, repetition
from traceanalyzer.structure.recording.frameworks import FrameworkEvidence, frameworks
from traceanalyzer.structure.recording.program_steps import WHOLE, is_foreign, program_steps
from traceanalyzer.structure.sums import group, members, rows_by
from traceanalyzer.structure.unrecorded_work import holes
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

WORKLOADS = ("graph-capture", "micro-benchmark", "fragment", "start-up", "serving", "training", "inference")

PASSES_ALONE = "passes-without-training"
"""Evidence that most typical steps of a training do not train: evaluations, rollouts."""
HARDLY_ANY_NS = 1_000_000
"""With less device work than this in total, no bound is named."""
FEW_KERNELS = 50
"""Own choice: a marked step with this many kernels is a real step, however small the model."""
_LATER, _TIMES_LATER, _FIRST_CALL_NS = 2, 5, 1_000_000
"""A first call is cold if it is at least so long, and at least so many times as long as each of so many later ones (own
choice)."""
_SURE_TIMES = 100
"""So many times as long as later ones, a first call is no chance (own choice)."""
COLD_SHARE = 0.2
"""Share of a single step from which on first uses make it a cold one (own choice: what is worth a headline)."""
STARTUP_SHARE = 0.5
"""A recording is start-up if loading or compiling code and allocating memory take at least this share of it."""
_HOLES_SHARE = 0.5
_FEW_OPERATORS = 10
_OF_A_MODEL = 50
"""Least functions in one backward pass that are those of a model (own choice: benchmarks call some layers)."""
_FREES = 10
"""Least number of calls that free memory where that recurs (own choice)."""
_PARTS, _IN_PARTS = 10, 8
"""In how many of ten equal parts of all calls there must be some (own choice: a start-up tries what it frees, and the
end of a program frees what is left)."""
_REQUESTS = 10
_IN_FLIGHT = 0.2
_is_backward = finds(r"^autograd::engine::evaluate_function|Backward\d*$|^## backward ##$|^aten::\w+_backward$")
_trains_by_kernel = finds(
    r"(?i)backward|bwd|bn_bw_|wgrad|_wrw_|bprop|grad_input|multi_tensor_apply|fused_?(adam|sgd|adagrad|lamb|lion)"
    r"|\badamw?_\w*kernel|kOptimizer"
)
"""Kernels of backward passes and of optimizers on lists, by names of torch, cuDNN, MIOpen and FlashAttention."""


class WorkloadEvidence(msgspec.Struct, frozen=True):
    """One piece of evidence for the kind of the program."""

    kind: str
    """Id of the reason, as listed in the documentation of the recording."""
    name: str | None = None
    """Name of an example event; null if there is none."""
    count: int | None = None
    """Number of such events; null if they are not counted."""
    time_ns: int | None = None
    """Time in ns that it is about; null if it is about none."""


@cached
def workload(context: Context) -> tuple[str, tuple[WorkloadEvidence, ...]]:
    """The kind of program and the reasons, found once."""
    for kind, find in _KINDS:
        reasons = tuple(find(context))
        if reasons:
            return kind, reasons
    return "inference", tuple(_forward_only(context))


def is_hardly_any(context: Context) -> bool:
    """Whether the device did too little work to decide what bounds the program."""
    device = context.trace.device
    kernels = int((device.category == Category.KERNEL).sum())
    if not len(device) or kernels <= 1:
        return len(device) > 0
    return device_busy_ns(context) < HARDLY_ANY_NS and not _is_step(context, kernels)


def _is_step(context: Context, kernels: int) -> bool:
    """Whether there is a step that repeats, or trains, or has many kernels, and is not mostly start-up."""
    found = program_steps(context)
    if found.found_by == WHOLE:
        return False
    is_whole = kernels >= FEW_KERNELS or len(found.typical) > 1 or _trains(context)
    return is_whole and startup_ns(context) < STARTUP_SHARE * int((found.end_ns - found.start_ns).sum())


def device_busy_ns(context: Context) -> int:
    """Time in which something runs on some device, in ns."""
    return gaps.any_busy(context).length


@cached
def first_calls_ns(context: Context) -> int:
    """Time of a single step that first calls of operators take beyond later ones with inputs of the same shapes.

    Libraries are loaded, memory is touched and code is generated in them, of which nothing else is recorded. Another
    program may also stop one call for a while: 0 if that may be all.
    """
    found = program_steps(context)
    if len(found) != 1 or unrecorded_work.unread_device(context) is not None:
        return 0  # it may be waited for
    cold = list(_first_calls(context))
    time = sum(first - int(np.median(later)) for _, first, later in cold)
    is_much = time >= COLD_SHARE * int((found.end_ns - found.start_ns).sum())
    is_sure = len({name for name, _, _ in cold}) > 1 or any(
        first >= _SURE_TIMES * max(later) for _, first, later in cold
    )
    return time if is_much or is_sure else 0


def _first_calls(context: Context) -> Iterator[tuple[int, int, list[int]]]:
    """Name, time in ns, and times of later calls of an operator on equal shapes whose first is far longer."""
    host, shapes = context.host, context.trace.host.shapes
    rows = np.flatnonzero((host.category == Category.OPERATOR) & ~host.merged & (host.row != NO_PARENT))
    rows = rows[context.trace.shapes.where(bool)[shapes[host.row[rows]]]]
    rows = rows[np.argsort(host.tree.start_ns[rows], kind="stable")]
    own_ns = host_activity.own_times(context)[rows]
    for _, same in members(group(host.name[rows], shapes[host.row[rows]])[1]):
        first, *later = own_ns[same].tolist()
        if len(later) >= _LATER and first >= max(_FIRST_CALL_NS, _TIMES_LATER * max(later)):
            yield int(host.name[rows[same[0]]]), first, later


def mostly_startup_ns(context: Context) -> int | None:
    """The time of start-up, if that is most of the steps; None where devices that are no GPUs may be waited for."""
    found, time = program_steps(context), startup_ns(context)
    is_most = time >= STARTUP_SHARE * int((found.end_ns - found.start_ns).sum())
    return time if is_most and not len(context.trace.accelerator) else None


@cached
def startup_ns(context: Context) -> int:
    """Time of the steps in ns in which launching threads load or compile code, or take memory.

    What each of several typical steps takes for it is no start-up, because it recurs; nor is memory that is taken from
    the driver and given back to it again and again.
    """
    found = program_steps(context)
    if not len(found):
        return 0
    timeline = gap_causes.explicit(context)
    labels = (gap_causes.COMPILATION, gap_causes.ALLOCATION)[: 1 if _gives_back(context) else 2]
    times: I64 = np.sum(timeline.within(found.start_ns, found.end_ns, labels), axis=0)
    recurs = int(times[found.is_typical].min()) if len(found.typical) > 1 else 0
    return int(np.maximum(times - recurs, 0).sum())


def _gives_back(context: Context) -> bool:
    """Whether calls free device memory about as often as others take it, all the time: nothing keeps it for later."""
    names, called = context.trace.names, context.trace.launches.name
    frees = np.flatnonzero(names.where(is_free)[called])  # rows are in the order of time
    takes = int(names.where(is_taking)[called].sum())
    parts = distinct(frees * _PARTS // max(1, len(called)))
    return len(frees) >= _FREES and 2 * len(frees) >= takes and len(parts) >= _IN_PARTS


def _capture(context: Context) -> Iterator[WorkloadEvidence]:
    found = graph_capture(context)
    if found is None:
        return
    marked = [mark for mark in program_steps(context).marks if mark is not None]
    if found.is_most or (marked and all(mark.phase == "capture" for mark in marked)):
        yield WorkloadEvidence("captures", count=found.captures)
    if found.is_most:
        yield WorkloadEvidence("launches-without-events", count=found.launch_calls)


def _micro_benchmark(context: Context) -> Iterator[WorkloadEvidence]:
    for found in _of_role(context, "benchmark"):
        yield WorkloadEvidence("benchmark-marks", found.name, found.events)
    if len(context.trace.device) and is_hardly_any(context) and _trains(context):
        yield WorkloadEvidence("hardly-any-device-work", time_ns=device_busy_ns(context))
    elif _has_operators(context) and _backward(context) is not None and not _is_of_training(context):
        yield WorkloadEvidence("backward-without-optimizer", _backward(context))


def _of_role(context: Context, *roles: str) -> Iterator[FrameworkEvidence]:
    """WorkloadEvidence of the frameworks with some role, the most specific first."""
    role = {known.id: known.role for known in FRAMEWORKS}
    return (found for found in frameworks(context) if role[found.id] in roles)


def _trains(context: Context) -> bool:
    return bool((context.kind == NodeKind.OPTIMIZER).any()) or _backward(context) is not None


def _is_of_training(context: Context) -> bool:
    """Whether something shows a part of a training: steps, an optimizer, a loader, a wrapper, or a whole model."""
    of_training = (NodeKind.STEP, NodeKind.OPTIMIZER, NodeKind.DATALOADER)
    wrapped = next(_of_role(context, "training", "parallel", "serving"), None)
    repeats = len(program_steps(context)) > 1
    functions = int(context.cached(backward).functions.max(initial=0))
    if functions >= _OF_A_MODEL:
        return True
    return repeats or wrapped is not None or bool(np.isin(context.kind, of_training).any())


def _fragment(context: Context) -> Iterator[WorkloadEvidence]:
    trace, found = context.trace, program_steps(context)
    removed = holes(context)
    length = int((found.end_ns - found.start_ns).sum())
    if removed.length >= _HOLES_SHARE * max(length, 1):
        yield WorkloadEvidence("removed-events", time_ns=removed.length)
    if is_foreign(context):
        yield WorkloadEvidence("foreign-steps")
    yield from _unread(context)
    operators = int((trace.host.category == Category.OPERATOR).sum())
    collectives = trace.names.where(marks.is_collective)[trace.host.name]
    if not len(trace.device) and collectives.any() and operators < _FEW_OPERATORS:
        yield WorkloadEvidence("only-collectives", count=int(collectives.sum()))
    is_apart = not operators and not (context.links.launch != NO_PARENT).any()
    if 0 < len(trace.device) < FEW_KERNELS and is_apart:  # more may well be a complete pass
        yield WorkloadEvidence("kernels-without-launches", count=len(trace.device))
    if found.found_by == WHOLE and not len(trace.frames) and _calls(context) == 1:
        yield WorkloadEvidence("one-call")


def _unread(context: Context) -> Iterator[WorkloadEvidence]:
    """A device of which nothing was recorded; of whole steps operators show what they are, wherever they compute."""
    sign = unrecorded_work.unread_device(context)
    is_whole = len(program_steps(context).typical) > 1
    if sign is not None and not is_whole and not len(context.trace.launches) and not marks.is_of_mac(sign):
        yield WorkloadEvidence("no-device-events", sign)


def _calls(context: Context) -> int:
    """Number of outermost operators and calls that launched something; annotations around them do not count."""
    host, parent = context.host, context.host.tree.parent
    node = context.links.node[context.links.calls]
    is_outermost = (parent == NO_PARENT) | (host.category[parent] == Category.ANNOTATION)
    return len(distinct(host.tree.nearest(is_outermost)[node[node != NO_PARENT]]))


def _start_up(context: Context) -> Iterator[WorkloadEvidence]:
    found = program_steps(context)
    if next(_requests(context), None) is not None:
        return  # what starts up serves nothing
    if not found.is_typical.all() and left_out.LOADING in found.reasons:
        return  # what remains has started up
    # what one operator compiles at its first use makes no other program of it
    time = startup_ns(context) - int(first_uses(context).dur_ns.sum())
    whole = int((found.end_ns - found.start_ns).sum())
    if whole and time >= STARTUP_SHARE * whole:
        yield WorkloadEvidence("loading", time_ns=time)


def _serving(context: Context) -> Iterator[WorkloadEvidence]:
    for found in _of_role(context, "serving"):
        yield WorkloadEvidence("framework", found.name, found.events)
    if not _trains(context):
        yield from _requests(context)


def _requests(context: Context) -> Iterator[WorkloadEvidence]:
    """The annotation that is open most often several times at once."""
    host = context.trace.host
    rows = np.flatnonzero(host.category == Category.ANNOTATION)
    codes, group, counts = np.unique(host.name[rows], return_inverse=True, return_counts=True)
    of_name = rows_by(group)
    best: tuple[int, str] | None = None
    for number in np.flatnonzero(counts >= _REQUESTS).tolist():
        own = rows[of_name(number)]
        before = np.maximum.accumulate(np.append(-1, host.end_ns[own]))[:-1]
        overlaps = host.start_ns[own] < before
        if len(distinct(host.thread[own])) == 1:
            overlaps &= host.end_ns[own] > before  # on one thread, a mark within another is a part of it
        if int(overlaps.sum()) >= _IN_FLIGHT * len(own):
            best = max(best or (0, ""), (len(own), context.trace.names[int(codes[number])]))
    if best is not None:
        yield WorkloadEvidence("requests-in-flight", best[1], best[0])


def _training(context: Context) -> Iterator[WorkloadEvidence]:
    optimizer = np.flatnonzero(context.kind == NodeKind.OPTIMIZER)
    if len(optimizer):
        yield WorkloadEvidence(
            "optimizer-steps", context.trace.names[int(context.trace.host.name[optimizer[0]])], len(optimizer)
        )
    name = _backward(context)
    if name is not None:
        yield WorkloadEvidence("backward-operators", name)
    for found in _of_role(context, "training"):
        yield WorkloadEvidence("training-framework", found.name, found.events)
    steps = program_steps(context)
    if name is not None and steps.found_by == repetition.OPERATORS:
        is_apart = left_out.calls_without_training(context, steps.every) & steps.is_typical
        if 2 * is_apart.sum() > len(steps.typical):
            yield WorkloadEvidence(PASSES_ALONE, count=int(is_apart.sum()))


def _forward_only(context: Context) -> Iterator[WorkloadEvidence]:
    if len(context.trace.host) or len(context.trace.device):
        yield WorkloadEvidence("no-backward")


def _has_operators(context: Context) -> bool:
    """Whether operators were recorded; where only the device was, marks of optimizers and loaders are missing, too."""
    return bool((context.trace.host.category == Category.OPERATOR).any())


@cached
def _backward(context: Context) -> str | None:
    """Name of an operator of a backward pass, or of a kernel where no operator was recorded; None if there is none."""
    names, host, device = context.trace.names, context.trace.host, context.trace.device
    codes = host.name[names.where(_is_backward)[host.name]]
    if not len(codes) and not _has_operators(context):
        codes = device.name[names.where(_trains_by_kernel)[device.name]]
    return names[int(codes[0])] if len(codes) else _labelled_backward(context)


def _labelled_backward(context: Context) -> str | None:
    """A label of kernels of a backward pass that was captured into a graph; None if there is none."""
    found = context.cached(graph_labels)
    labelled = (path for path, one in zip(found.paths, passes(found), strict=True) if one == BACKWARD)
    return next((".".join(path) for path in labelled), None)


_KINDS: tuple[tuple[str, Callable[[Context], Iterator[WorkloadEvidence]]], ...] = (
    ("graph-capture", _capture),
    ("micro-benchmark", _micro_benchmark),
    ("fragment", _fragment),
    ("start-up", _start_up),
    ("serving", _serving),
    ("training", _training),
)
