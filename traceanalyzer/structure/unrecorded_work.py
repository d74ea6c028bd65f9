"""What happened that was not recorded: work launched before the recording, removed events, devices that were not read.

A stream runs its work in order. Three signs at the start of a recording, before much work was launched, show that
unrecorded work was in front; each counts only while no recorded event runs:

* an event starts long after its launch call returned, and later ones on its stream do not, nor do others of the
  device again and again (`late_starts`);
* a call waits for the device although no launch was recorded before it;
* a copy starts late within its own call, and the copies of later calls do not.

They do not count if the program loads code or allocates memory before its first work, because it has just begun to use
the device, which also takes time. Host work in this time does not keep the device waiting, so this time is not idle
time of the program.

A hole is a time in the middle of the recording in which no event of any kind begins or runs, apart from marks around
it, although correlation ids show that the runtime made many calls. A program that only sleeps makes no calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from traceanalyzer.knowledge.marks import is_of_accelerator, is_of_mac
from traceanalyzer.structure import gaps, host_activity
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.late_starts import late_starts
from traceanalyzer.structure.operator_times import works_of
from traceanalyzer.structure.sums import group, members
from traceanalyzer.trace.capture_facts import CaptureFacts
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, UNKNOWN, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_ASKS = re.compile(r"^(?:cuda|hip|cu|musa)(?:(?:(?!Get)\w)*+Get\w+|\w*Synchronize|Init|DriverGetVersion|SetDevice)$")
"""Calls that tell something of devices or wait for them."""
_OF_CPU = re.compile(r"^aten::_?mkldnn_|_for_cpu(_backward)?$")
"""Operators that only a CPU computes (names of dispatched functions in native_functions.yaml of torch)."""
_WAITS_FOR_MAC = frozenset({"aten::_copy_from", "aten::_local_scalar_dense"})
_CPU = 0
"""`c10::DeviceType` of memory on the host."""
_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"})
_CELLS = frozenset({"aten::lstm", "aten::gru", "aten::lstm_cell", "aten::gru_cell"})
"""Layers for which every device has a kernel of its own, which the CPU computes by products and elementwise ones."""
_OF_CELLS = re.compile(r"cudnn|miopen|_thnn_fused|mps|mkldnn")
_LOOKED_UP = frozenset({"aten::_embedding_bag", "aten::embedding"})
"""Operators without a model of their bytes, which return at once on a device."""
_READ = "aten::_local_scalar_dense"
_READ_NS = 8_000
"""Own choice: reading a value from a device takes a copy and a wait, 10 us or more even of an idle one."""
_LARGE_FLOPS, _FEW_PRODUCTS = 1e7, 3
"""Own choice: a CPU needs far longer for such a product than for its call; a few of them are no first use."""
_COMPUTED_NS = 100_000
"""Own choice: a launch takes 5 to 30 us, so products that take longer in the median are computed there."""
_KERNELS_OF_DEVICES = re.compile(r"cudnn|miopen|mps|mkldnn|slow|thnn|depthwise|overrideable")
"""Convolutions of one kind, beneath `aten::_convolution`; the CPU computes some itself, such as transposed ones."""
_ELEMENTWISE = re.compile(
    r"^aten::(?:add|sub|mul|div|neg|abs|exp|log|sqrt|tanh|sigmoid|clamp_min|eq|ne|lt|le|gt|ge|bitwise_and)_?$"
)
_LAUNCHED_NS = 3_000
"""Own choice: an operator that launches a kernel takes longer, the launch alone 3 to 5 us."""
_MANY = 50
"""Own choice: so many operators are no exception, such as a counter that stays on the CPU."""
_FLOPS_PER_NS = 5_000
"""Faster than a CPU computes fp32 (5 TFLOP/s; two sockets of 64 cores with AVX-512 reach about that)."""
LEAST_NS = 1_000_000
"""Own choice: a first launch, copy or wait may well take less on an idle device."""
_EMPTY = 0.9
"""Share of a delay in which the device must run nothing that was recorded (own choice: nearly all)."""
_HARDLY_ANY = 0.05
"""Greatest share of recorded work in a delay; with more, other streams may have waited for recorded work."""
_USUAL = 10
"""Own choice: a delay within this many times the median of later ones is usual."""
_LEAST_HOLE_NS = 1_000_000
_LEAST_HOLE_SHARE = 0.05
"""Least share of the recording that a time without events must have to be examined (own choice)."""
_SAMPLED = 16
"""One of so many events is looked at first: they nearly always show that no time is without events (own choice)."""
_AS_FREQUENT = 10
"""Own choice: a program that works makes calls within this factor as often at one time as at another."""
_REMOVED_CALLS = 100
"""Own choice: some calls leave no event at all, but rarely so many at once."""


@cached
def unrecorded_work(context: Context) -> Mapping[int, Intervals]:
    """The times of such work by number of the device; devices without any are left out."""
    device = context.trace.device
    numbers = distinct(device.device[device.device != UNKNOWN]).tolist()
    by_device = {number: _of_device(context, number) for number in numbers}
    return {number: times for number, times in by_device.items() if times}


def longest_ns(context: Context) -> int:
    """The most such time that one device has, in ns; 0 if none has any."""
    return max((times.length for times in unrecorded_work(context).values()), default=0)


def _of_device(context: Context, number: int) -> Intervals:
    """The times of unrecorded work on one device: those that the three signs show, without recorded work."""
    device = context.trace.device
    linked = np.flatnonzero((device.device == number) & (context.links.launch != NO_PARENT))
    if not len(linked):
        return Intervals.none()
    first = int(device.start_ns[linked].min())
    busy = gaps.busy(context, number)
    spans = [
        *_late_first_starts(context, linked, busy),
        *_waits_for_nothing(context, linked, first),
        *_late_copies(context, linked, first),
    ]
    first_use = _first_use_ns(context)
    empty = [span for span in spans if _is_empty(busy, *span) and first_use > max(first, span[1])]
    return _union(empty) - busy


def _union(spans: list[tuple[int, int]]) -> Intervals:
    """The union of spans, each with its start and its end."""
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    return Intervals.union(bounds[:, 0], bounds[:, 1])


def _is_empty(busy: Intervals, start: int, end: int) -> bool:
    """Whether a span is long, and hardly any recorded event runs in it."""
    length = end - start
    ran = int(busy.within(np.array([start]), np.array([end]))[0])
    return length >= LEAST_NS and length - ran >= _EMPTY * length


def _first_use_ns(context: Context) -> int:
    """When a call first loads code for the device, or takes long to allocate memory; without one, the largest int64."""
    launches, names = context.trace.launches, context.trace.names
    loads = names.where(host_activity.is_loading)[launches.name]
    takes = names.where(_takes_memory)[launches.name] & (launches.dur_ns >= LEAST_NS)
    return int(launches.start_ns[loads | takes].min(initial=np.iinfo(np.int64).max))


def _takes_memory(name: str) -> bool:
    """Whether a call takes memory; one that frees it waits for the device."""
    return host_activity.is_allocation(name) and not host_activity.is_free(name)


def _late_first_starts(context: Context, linked: I64, busy: Intervals) -> list[tuple[int, int]]:
    """On each stream from the return of the first launch to its start, if later launches wait far less."""
    device, launches, launch = context.trace.device, context.trace.launches, context.links.launch
    found = []
    for _, on_stream in members(device.stream[linked]):
        rows = linked[on_stream]
        begin, end = int(launches.end_ns[launch[rows[0]]]), int(device.start_ns[rows[0]])
        if end - begin < LEAST_NS:
            continue
        first_of_call, _ = group(launch[rows])
        rows = rows[first_of_call]  # one of each graph
        returned, start = launches.end_ns[launch[rows]], device.start_ns[rows]
        # events launched after the first wait for the same work: compare with events launched afterwards
        later_delays = (start - returned)[returned > end]
        ran_before = int(busy.within(np.array([0]), np.array([begin]))[0])
        if ran_before <= _HARDLY_ANY * (end - begin) and not _is_usual(end - begin, later_delays):
            found.append((begin, end))
    late = late_starts(context).get(int(device.device[linked[0]])) if found else None
    return [] if late is not None and late.is_again_and_again else found


def _waits_for_nothing(context: Context, linked: I64, first: int) -> list[tuple[int, int]]:
    """Waits that end although nothing that was recorded before them was launched, up to the first event."""
    launches, waits = context.trace.launches, context.cached(host_activity.waits)
    launched = int(launches.start_ns[context.links.launch[linked]].min())
    is_copy = context.trace.names.where(host_activity.is_synchronous_copy)[launches.name[waits.row]]
    is_early = (waits.start_ns < launched) & (waits.start_ns < first) & ~is_copy
    start = waits.start_ns[is_early]
    end = np.minimum(waits.end_ns[is_early], first)
    return list(zip(start.tolist(), end.tolist(), strict=True))


def _late_copies(context: Context, linked: I64, first: int) -> list[tuple[int, int]]:
    """From the call of the first copy to its start within the call, if copies of later calls start sooner."""
    device, launches = context.trace.device, context.trace.launches
    rows = linked[device.category[linked] == Category.MEMCPY]
    call = context.links.launch[rows]
    start = device.start_ns[rows]
    starts_within = (launches.start_ns[call] < start) & (start < launches.end_ns[call])
    rows, call = rows[starts_within], call[starts_within]
    if not len(rows) or int(device.start_ns[rows[0]]) != first:
        return []
    delay = device.start_ns[rows] - launches.start_ns[call]
    if len(delay) < 2 or _is_usual(int(delay[0]), delay[1:]):
        return []
    return [(int(launches.start_ns[call[0]]), first)]


def _is_usual(delay: int, others: I64) -> bool:
    """Whether a delay is like the others; without others it is unknown whether it is."""
    return len(others) > 0 and delay <= _USUAL * float(np.median(np.maximum(others, 0)))


@cached
def holes(context: Context) -> Intervals:
    """The times in which events were removed, found once."""
    trace, tree = context.trace, context.host.tree
    tables = (trace.launches, trace.device, trace.frames)
    # A part of the events shows cheaply that most traces have no holes; only then are all of them looked at.
    some = _times([(table.start_ns[::_SAMPLED], table.end_ns[::_SAMPLED]) for table in tables])
    of_tables = [(table.start_ns, table.end_ns) for table in tables]
    bounds = _times([(tree.start_ns, tree.end_ns), *of_tables], edges=True)
    if not len(bounds[0]) or _is_covered(*some, (int(bounds[0].min()), int(bounds[1].max()))):
        return Intervals.none()
    leaves = _recorded_leaves(context)
    start, end = _times([(tree.start_ns[leaves], tree.end_ns[leaves]), *of_tables])
    if not len(start) or _is_covered(start, end, (int(start.min()), int(end.max()))):
        return Intervals.none()
    return _union(_removed_between(context, Intervals.union(start, end)))


def _recorded_leaves(context: Context) -> Bool:
    """Nodes of the host that are around no others, nor marks around a launch: something was recorded in all of them."""
    tree, node = context.host.tree, context.links.node
    leaves = np.ones(len(tree), np.bool_)
    leaves[tree.parent[tree.parent != NO_PARENT]] = False
    around = node[node != NO_PARENT]
    leaves[around[context.host.category[around] == Category.ANNOTATION]] = False
    return leaves


def _removed_between(context: Context, covered: Intervals) -> list[tuple[int, int]]:
    """Long times without events in which numbers of calls are missing."""
    span = int(covered.end[-1] - covered.start[0])
    start, end = covered.end[:-1], covered.start[1:]
    is_long = end - start >= max(_LEAST_HOLE_NS, _LEAST_HOLE_SHARE * span)
    long_holes = zip(start[is_long].tolist(), end[is_long].tolist(), strict=True)
    return [hole for hole in long_holes if _are_removed(context, *hole)]


def _times(parts: list[tuple[I64, I64]], *, edges: bool = False) -> tuple[I64, I64]:
    """All starts and ends, each end after its start; or only the first start and the last end of each part."""
    if edges:
        parts = [(start.min(keepdims=True), end.max(keepdims=True)) for start, end in parts if len(start)]
    none = np.empty(0, np.int64)
    start = np.concatenate([none, *(start for start, _ in parts)])
    return start, np.maximum(np.concatenate([none, *(end for _, end in parts)]), start + 1)


def _is_covered(start: I64, end: I64, bounds: tuple[int, int]) -> bool:
    """Whether intervals cover the time between two bounds so densely that no long hole can lie between them.

    A long hole contains one of the equal parts that are at most half as long. Counting the intervals in each part needs
    no sorting; parts of a power of two are found by shifting.
    """
    low, high = bounds
    long_hole = int(max(_LEAST_HOLE_NS, _LEAST_HOLE_SHARE * (high - low)))
    shift = (long_hole // 2).bit_length() - 1
    whole_parts = (high - low) >> shift
    begins = np.bincount((start - low) >> shift, minlength=whole_parts + 1)
    ends = np.bincount((end - 1 - low) >> shift, minlength=whole_parts + 1)
    running = np.cumsum(begins) - np.append(0, np.cumsum(ends)[:-1])
    return bool((running[:whole_parts] > 0).all())


def _are_removed(context: Context, begin: int, end: int) -> bool:
    """Whether the calls in a time without events were as frequent as those around it.

    Calls that the profiler leaves out are numbered as well: a program that asks a device for its state makes a million
    calls in a second, and one that does something else makes a few.
    """
    calls = _removed_calls(context, begin, end)
    if calls < _REMOVED_CALLS:
        return False
    ids = context.trace.launches.correlation
    others = int(np.ptp(ids[ids != UNKNOWN])) - calls
    rate, usual_rate = calls / (end - begin), others / max(1, context.trace.info.span_ns - (end - begin))
    return usual_rate / _AS_FREQUENT <= rate <= usual_rate * _AS_FREQUENT


def _removed_calls(context: Context, begin: int, end: int) -> int:
    """By how much correlation ids increase from the last call before a time to the first one after it."""
    launches = context.trace.launches
    is_known = launches.correlation != UNKNOWN
    is_after = launches.start_ns >= end
    before = launches.correlation[is_known & ~is_after & (launches.start_ns <= begin)]
    after = launches.correlation[is_known & is_after]
    return int(after.min() - before.max()) if len(before) and len(after) else 0


def _only_asks(context: Context) -> bool:
    """Whether calls of a device's runtime were recorded that neither put work on it nor wait for any.

    The profiler itself asks for devices and waits for them when it ends, so such calls are no sign of a device's work.
    """
    trace = context.trace
    calls = trace.launches
    asks = trace.names.where(lambda name: _ASKS.search(name) is not None)[calls.name]
    return bool(len(calls) and asks.all() and calls.dur_ns.sum() < LEAST_NS)


@cached
def _computes_on_cpu(context: Context) -> bool:
    """Whether the CPU computes, as far as it shows, and no call of a device's runtime was recorded.

    It shows by operators that only a CPU computes or makes of others, by values that are read at once, by allocations,
    of which each names its device, by products and convolutions: on a device they return at once, however large; and by
    arithmetic that takes less time than a launch.
    """
    trace = context.trace
    if len(trace.launches):
        return False
    if trace.names.where(lambda name: _OF_CPU.search(name) is not None)[trace.host.name].any():
        return True
    if _cells_are_made_of_others(trace) or _what_is_read_is_there(context):
        return True
    kinds = trace.memory.device_type[trace.memory.device_type != UNKNOWN]
    if len(kinds):
        return bool((kinds == _CPU).all())
    signs = (_products_take_their_time, _convolutions_take_their_time, _arithmetic_launches_nothing)
    return any(sign(context) for sign in signs)


def _cells_are_made_of_others(trace: Trace) -> bool:
    """Whether there are cells of recurrent layers, and no kernel of their own that computes them."""
    names = trace.names
    is_cell = names.where(lambda name: name in _CELLS)[trace.host.name]
    return bool(
        is_cell.any() and not names.where(lambda name: _OF_CELLS.search(name) is not None)[trace.host.name].any()
    )


def _what_is_read_is_there(context: Context) -> bool:
    """Whether values are read at once, each of them, though operators before them take far longer than a launch.

    Optimizers read values of their own, which are on the CPU beside a device as well.
    """
    host, trace = context.host, context.trace
    is_operator = host.kind == NodeKind.OPERATOR
    is_optimizer = host.kind == NodeKind.OPTIMIZER
    reads = np.flatnonzero(is_operator & trace.names.where(lambda name: name == _READ)[host.name])
    reads = reads[host.tree.nearest(is_optimizer)[reads] == NO_PARENT]
    looks = np.flatnonzero(is_operator & trace.names.where(lambda name: name in _LOOKED_UP)[host.name])
    if min(len(reads), len(looks)) < _FEW_PRODUCTS or host.tree.dur_ns[reads].max() > _READ_NS:
        return False
    return bool(np.median(host.tree.dur_ns[looks]) >= _COMPUTED_NS)


def _products_take_their_time(context: Context) -> bool:
    """Whether products of large matrices take as long as a CPU needs for them, each of them, and none is faster."""
    host, trace = context.host, context.trace
    is_product = trace.names.where(lambda name: name in _PRODUCTS)[host.name]
    nodes = np.flatnonzero(is_product & (host.kind == NodeKind.OPERATOR))
    works, _, groups = works_of(context, nodes)
    flops = np.array([0 if work is None else work.flops for work in works], np.float64)[groups]
    large = flops >= _LARGE_FLOPS
    taken_ns = host.tree.dur_ns[nodes[large]]
    if len(taken_ns) < _FEW_PRODUCTS or np.median(taken_ns) < _COMPUTED_NS:
        return False
    return bool((flops[large] <= _FLOPS_PER_NS * taken_ns).all())


def _convolutions_take_their_time(context: Context) -> bool:
    """Whether convolutions that call no kernel of a device take longer themselves than launches would.

    Where their shapes are known, none is faster than a CPU.
    """
    host, names = context.host, context.trace.names
    is_operator = host.kind == NodeKind.OPERATOR
    nodes = np.flatnonzero(is_operator & names.where(lambda name: name == "aten::_convolution")[host.name])
    is_kernel = names.where(lambda name: _KERNELS_OF_DEVICES.search(name) is not None)[host.name]
    nodes = nodes[host.tree.sums(is_kernel.astype(np.int64))[nodes] == 0]
    own_ns = (host.tree.dur_ns - host.tree.child_sums(host.tree.dur_ns))[nodes]
    if len(nodes) < _FEW_PRODUCTS or np.median(own_ns) < _COMPUTED_NS:
        return False
    works, _, groups = works_of(context, nodes)
    flops = np.array([0 if work is None else work.flops for work in works], np.float64)[groups]
    return bool((flops <= _FLOPS_PER_NS * own_ns).all())


def _arithmetic_launches_nothing(context: Context) -> bool:
    """Whether elementwise operators take less time than a launch, and values are read at once, if any are.

    Optimizers count their steps, and loaders make batches, on the CPU beside a device as well.
    """
    host, names = context.host, context.trace.names
    is_beside = (host.kind == NodeKind.OPTIMIZER) | (host.kind == NodeKind.DATALOADER)
    is_own = (host.kind == NodeKind.OPERATOR) & (host.tree.nearest(is_beside) == NO_PARENT)
    is_leaf = np.ones(len(host.tree), np.bool_)
    is_leaf[host.tree.parent[host.tree.parent != NO_PARENT]] = False
    taken_ns = host.tree.dur_ns[
        is_own & is_leaf & names.where(lambda name: _ELEMENTWISE.search(name) is not None)[host.name]
    ]
    read_ns = host.tree.dur_ns[is_own & names.where(lambda name: name == _READ)[host.name]]
    if len(taken_ns) < _MANY or np.median(taken_ns) >= _LAUNCHED_NS:
        return False
    return not len(read_ns) or bool(np.median(read_ns) <= _READ_NS)


def unused_device(context: Context) -> str | None:
    """Name of a device that nothing was put on although its runtime was recorded; None if there is none."""
    trace = context.trace
    named = [device.name or str(device.id) for device in trace.info.devices]
    if len(trace.device) or len(trace.accelerator) or trace.info.unsupported or not named:
        return None
    signs = trace.names.where(is_of_accelerator)[trace.host.name]
    return None if signs.any() or not _only_asks(context) else named[0]


def unread_device(context: Context) -> str | None:
    """A sign of a device that left no event: an unknown kind of events, a runtime call, a name, or the header.

    None if device events were read, there is no such sign, or a capture saw that there was no device.
    """
    trace = context.trace
    if len(trace.device) or len(trace.accelerator) or _is_known_to_lack(trace.info.capture):
        return None
    asks = _only_asks(context) or _computes_on_cpu(context)
    calls = [] if asks else [trace.names[name] for name in trace.launches.name[:1].tolist()]
    named = np.flatnonzero(trace.names.where(is_of_accelerator)[trace.host.name])[:1]
    names = [trace.names[name] for name in trace.host.name[named].tolist()]
    devices = [] if asks else [device.name or str(device.id) for device in trace.info.devices]
    return next(iter([*_unread_categories(trace), *calls, *names, *devices]), None)


def _unread_categories(trace: Trace) -> Iterator[str]:
    """Categories of events of a device that were not read: unknown ones, and arrows of the legacy profiler."""
    for loss in trace.losses:
        if loss.id == "read-unsupported" and is_of_accelerator(str(loss.params["category"])):
            yield str(loss.params["category"])
        elif loss.id == "read-legacy-list" and loss.params:
            yield str(loss.params["sign"])


def waits_for_mac(context: Context) -> I64:
    """Rows of operators in which the host waits for the GPU of a Mac, which is unrecorded: reads of values, copies."""
    host, names = context.trace.host, context.trace.names
    if not names.where(is_of_mac)[host.name].any():
        return np.empty(0, np.int64)
    return np.flatnonzero(names.where(lambda name: name in _WAITS_FOR_MAC)[host.name])


def _is_known_to_lack(captured: CaptureFacts | None) -> bool:
    """Whether a capture saw that the program used no device: it initialized none, and its parameters are on the CPU."""
    on = () if captured is None or captured.parameters is None else captured.parameters.devices
    return captured is not None and not captured.devices and set(on) == {"cpu"}
