"""Classifies the work of host threads: waits, allocations, compilation, operators, Python lines.

Runtime and driver calls are distinguished by their names; the expressions below hold for CUDA, HIP, Level Zero,
Unified Runtime, and for the vendors that follow CUDA's naming.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks, python_frames
from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.gaps import times_of
from traceanalyzer.structure.host_tree import NodeKind, nest
from traceanalyzer.structure.sums import Columns, sum_by
from traceanalyzer.trace.distinct import ascending, ranked
from traceanalyzer.trace.table import I32, I64, Bool, take_or
from traceanalyzer.trace.tables import Category, Frames, HostEvents, Launches
from traceanalyzer.trace.tree import NO_PARENT, Tree

_LOADING_OVERHEAD = frozenset({"Runtime Triggered Module Loading", "Lazy Function Loading", "Driver Compiler"})
FIRST_USE_NS = 1_000_000
"""Own choice: launch calls take about 5 us; a call that takes 200 times as long does more than launch."""
_CONTEXT_NS = 50_000_000
"""Least time in ns in which a driver creates its context (own choice: it takes 100 ms and more, freeing far less)."""
_FEW = 16
"""Number of points per slice from which on points outside of all slices are removed first (own choice)."""
_DIRECTION = re.compile(r"\b([HMDSPA])(?:to|2)([HMDSPA])\b")
_SIDE = re.compile(r"\b(pageable|pinned)\b", re.IGNORECASE)
_LINE = re.compile(r"(?!<built-in |nn\.Module: ).*\(\d+\): .*", re.DOTALL)
_TORCH = re.compile(r"(.*[/\\]site-packages[/\\])?torch[/\\]")


is_synchronization = finds(r"synchronize|^ur(EventWait$|QueueFinish)|^pi(EventsWait|QueueFinish)$", re.IGNORECASE)
"""Whether a runtime call makes the host wait for the device, a stream or an event."""

is_copy_call = finds(r"^(cuda|hip|cu|musa)Memcpy")
"""Whether a call copies, blocking or not."""
is_synchronous_copy = finds(r"^(cuda|hip|cu|musa)Memcpy(?!.*Async)")
"""Whether a copy call returns only when the copy is done (`cudaMemcpy`, `hipMemcpyWithStream`)."""
is_allocation = finds(
    r"^(cuda|hip|musa)(Ext)?(Malloc|Free|Host(Alloc|Malloc|Free|Register|Unregister))"
    r"|^cuMem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|AddressReserve|AddressFree|Host)"
    r"|^zeMem(Alloc|Free)|^urUSM(\w*Alloc|Free)"
)
"""Whether a runtime call allocates or frees memory of the device or pinned memory of the host."""
is_free = finds(r"^(cuda|hip|musa)Free(?!Async|Host|Array)|^cuMemFree(?!Async|Host)")
"""Whether a call frees device memory, for which it waits until the device is idle."""
is_taking = finds(r"^(?:cuda|hip|musa)(?:Ext)?Malloc(?!Async|Host|FromPool)|^cuMemAlloc(?!Async|Host|FromPool)")
"""Whether a call takes device memory from the driver."""
is_loading = finds(
    r"^(cu|cuda|hip)(Module|Library)Load|^cuLink(Create|Add|Complete)|rtcCompileProgram$"
    r"|^zeModuleCreate|^urProgram(Build|Compile|Link|CreateWith)"
)
"""Whether a runtime call loads or compiles code for the device."""
is_compiling = finds(
    r"\(dynamo_timed\)$|_dynamo[\\/]convert_frame\.py\(\d+\): _?compile"
    r"|_inductor[\\/]compile_fx\.py\(\d+\): \w*compile_fx|triton[\\/]compiler[\\/]compiler\.py\(\d+\): compile$"
    r"|torch[\\/]utils[\\/]cpp_extension\.py\(\d+\): (load|load_inline|_jit_compile)$"
    r"|^load_(cuda|cpu|cpp)_(ops|kernels|extensions?)$|\.py\(\d+\): load_(cuda|cpu|cpp)_(ops|kernels|extensions?)$"
    r"|torch[\\/]nn[\\/]modules[\\/]lazy\.py\(\d+\): _infer_parameters$"
)
"""Whether a range or frame compiles: TorchDynamo, Inductor, Triton, an extension; or makes lazy parameters."""
_PART = 0.5
"""Greatest share of the recording for which a function tells where time goes (own choice: most are much shorter)."""
is_communicating = finds(r"^((nccl|rccl|gloo|xccl|hccl|ucc|mpi):|_?c10d(_functional)?::|record_param_comms$)")
"""Whether a host range is a collective or point-to-point operation, waits included."""
is_python_line = finds(r"\.py\(\d+\): |^<ipython-input|ipykernel")
"""Whether a frame has a file and a line, unlike built-in functions and nn.Module calls."""
is_arranging = finds(
    r"^aten::(_?(unsafe_)?(reshape_alias|view|view_as|reshape|slice|select|t|transpose|as_strided|expand|expand_as"
    r"|permute|detach|alias|unsqueeze|squeeze|narrow|empty|empty_strided|empty_like|resolve_conj|resolve_neg"
    r"|result_type|lift_fresh|split|chunk|unbind|flatten|(un)?flatten_dense_tensors))_?$"
)
"""Whether an operator neither computes nor copies."""
_is_of_tensors = finds(r"^(aten|quantized|mkldnn|pyg|torch[a-z_]*)::")
"""Whether an operator belongs to a library that computes: others also name ranges, or start what runs elsewhere."""
_LONG_ON_CPU_NS = 200_000
"""Own choice: ten times what an operator takes to launch its kernel with shapes recorded (20 us)."""
is_library_line = finds(
    r"(^|[\\/])torch[\\/]|^(contextlib|functools|threading|queue|runpy|selectors|socket|copy|typing\w*|abc)\.py\("
    r"|^(multiprocessing|concurrent|asyncio|importlib|collections)[\\/]|<frozen "
)
"""Whether a frame is of PyTorch itself or of the standard library."""


def is_computing(name: str) -> bool:
    """Whether an operator belongs to a library that computes, and does more than to arrange tensors."""
    return _is_of_tensors(name) and not is_arranging(name)


def is_wait(name: str) -> bool:
    """Whether a call returns only when the device has done some work, by its documentation."""
    return is_synchronization(name) or is_synchronous_copy(name)


def loading_calls(context: Context) -> I64:
    """Rows of launch-table calls in which device code is loaded or compiled, or the device initialized.

    By name; and calls of a millisecond or longer that have no other reason to be slow. Drivers load code at its
    first use, within whatever call that is, and only newer CUDA writes an event about it.
    """
    names, launches = context.trace.names, context.trace.launches
    by_name = names.where(is_loading)[launches.name]
    slow = names.where(_has_no_reason)[launches.name]
    return np.flatnonzero(by_name | (slow & (launches.dur_ns >= FIRST_USE_NS)) | _creates_context(context))


def _creates_context(context: Context) -> Bool:
    """Whether a call frees memory, for long, before any was taken and anything ran: so torch initializes a device."""
    names, launches, device = context.trace.names, context.trace.launches, context.trace.device
    works = names.where(is_taking)[launches.name]
    works[context.links.calls] = True
    begun = min(times.min(initial=np.iinfo(np.int64).max) for times in (launches.start_ns[works], device.start_ns))
    creates: Bool = names.where(is_free)[launches.name] & (launches.dur_ns >= _CONTEXT_NS) & (launches.end_ns <= begun)
    return creates


def own_times(context: Context) -> I64:
    """Time in ns of each node of the host tree, without its children and without calls of a device's runtime."""
    tree, launches = context.host.tree, context.trace.launches
    calls_ns = sum_by(context.links.node + 1, launches.dur_ns, len(tree) + 1)[1:]  # the first is for -1
    return tree.dur_ns - tree.child_sums(tree.dur_ns) - calls_ns


def _has_no_reason(name: str) -> bool:
    return not (is_synchronization(name) or is_allocation(name) or "memcpy" in name.lower())


def is_loading_overhead(name: str) -> bool:
    """Whether an overhead event is the driver's lazy loading or compilation, not the profiler's work."""
    return name in _LOADING_OVERHEAD


@cached
def operator_rows(context: Context) -> Bool:
    """Which host rows are operators: not steps, loaders, optimizers, annotations, wrappers of the whole model."""
    wrapper = context.trace.names.where(marks.is_wrapper)[context.trace.host.name]
    plain = (context.kind == NodeKind.OPERATOR) | (context.kind == NodeKind.PYTHON)
    is_operator: Bool = plain & ~wrapper
    return is_operator


@cached
def cpu_operators(context: Context) -> I64:
    """Nodes of the host tree: operators that compute on the CPU for long beside a device, the outermost only.

    Operators of a device launch or copy something, or wait for it. These hold no call of its runtime at all.
    """
    host, tree = context.host, context.host.tree
    if not len(context.links.calls):
        return np.empty(0, np.int64)  # launches were not recorded, so it is unknown where operators compute
    nodes = np.flatnonzero(host.is_row & (tree.dur_ns >= _LONG_ON_CPU_NS))
    nodes = nodes[context.trace.names.where(is_computing)[host.name[nodes]]]
    nodes = nodes[tree.count_in(nodes, context.links.innermost) == 0]
    ended = np.maximum.accumulate(np.append(0, tree.after[nodes]))[:-1]  # where all before each have ended
    return np.extract(nodes >= ended, nodes)


@cached
def launching_threads(context: Context) -> list[int]:
    """Threads that launched work on a device, the one with the most device events first."""
    launch = context.links.launch
    threads, rank = ranked(context.trace.launches.thread[launch[launch != NO_PARENT]])
    counts = np.bincount(rank)
    order: list[int] = threads[np.lexsort((threads, -counts))].tolist()
    return order


def with_most_rows(context: Context) -> int | None:
    """The thread with the most host rows; of equal ones that with most time, then the first by its ids; None without.

    Not the first one of the file, in which threads stand in any order.
    """
    trace = context.trace
    numbers, rank = ranked(trace.host.thread)
    counts = np.bincount(rank).tolist()
    times = np.bincount(rank, trace.host.dur_ns).tolist()
    known = zip(counts, times, numbers.tolist(), strict=True)
    ids = ((-count, -time, trace.threads[n].pid, trace.threads[n].tid, n) for count, time, n in known)
    return min(ids, default=(None,))[-1]


class HostWaits(Columns, frozen=True):
    """Calls in which the host waits for the device, in the order of their start; none lies within another."""

    row: I64
    """Row of each wait in the launch table."""
    start_ns: I64
    end_ns: I64
    thread: I32


def waits(context: Context) -> HostWaits:
    """Find all waits: synchronizations, and copy calls that block (see `blocking_copies`)."""
    launches = context.trace.launches
    is_waiting = context.trace.names.where(is_wait)[launches.name]
    blocking = context.cached(blocking_copies)
    is_waiting[context.links.launch[blocking]] = True
    tree, rows = nest(launches, np.flatnonzero(is_waiting))
    rows = ascending(rows[tree.parent == NO_PARENT])
    start = launches.start_ns[rows]
    return HostWaits(rows, start, start + launches.dur_ns[rows], launches.thread[rows])


def blocking_copies(context: Context) -> Bool:
    """Which device events are copies whose call blocked the host until they had ended.

    Either the call is synchronous by its documentation, or it returned only after the copy's end. An asynchronous call
    that copies from or to pinned memory, or within devices, does not block: if it returns after the copy's end, the
    copy was just short.
    """
    trace, device = context.trace, context.trace.device
    linked: Bool = (device.category == Category.MEMCPY) & (context.links.launch != NO_PARENT)
    rows = np.flatnonzero(linked)
    launch = context.links.launch[rows]
    synchronous = trace.names.where(is_synchronous_copy)[trace.launches.name[launch]]
    may_block = trace.names.where(lambda n: host_side(n) != "pinned" and "H" in (direction(n) or ""))
    call_end = trace.launches.start_ns[launch] + trace.launches.dur_ns[launch]
    outlasted = call_end >= device.start_ns[rows] + device.dur_ns[rows]
    linked[rows] = synchronous | (outlasted & may_block[device.name[rows]])
    return linked


def direction(name: str) -> str | None:
    """Direction in a copy's name, such as `HtoD` or `DtoH`; Level Zero's M (system memory) is H."""
    match = _DIRECTION.search(name)
    return "to".join("H" if side == "M" else side for side in match.groups()) if match else None


def host_side(name: str) -> str | None:
    """`pageable` or `pinned` memory on the host's side of a copy; None if the name does not show it."""
    match = _SIDE.search(name)
    return match[1].lower() if match else None


def innermost(slices: HostEvents | Launches | Frames, rows: I64, thread: I32, times: I64) -> I64:
    """For each point in time, the innermost slice of its thread that is open (start <= time < end).

    Args:
        slices: The table.
        rows: The rows of the table that count, ascending.
        thread: Thread of each point.
        times: Time of each point in ns.

    Returns:
        Rows of the table, or -1. Only slices that contain some point are nested, so a few points are cheap, and only
        points in some slice are looked for, so a few slices are cheap.
    """
    if not len(rows) or not len(times):
        return np.full(len(times), NO_PARENT, np.int64)
    if _FEW * len(rows) < len(times):
        asked = np.flatnonzero(times_of(slices, rows).contains(times))
        found = np.full(len(times), NO_PARENT, np.int64)
        found[asked] = _innermost(slices, rows, thread[asked], times[asked])
        return found
    return _innermost(slices, rows, thread, times)


def _innermost(slices: HostEvents | Launches | Frames, rows: I64, thread: I32, times: I64) -> I64:
    points = ascending(times)
    start = slices.start_ns[rows]
    before = np.searchsorted(start, points, side="right")  # the rows of a table are in the order of time
    counts = np.diff(np.concatenate(([0], before, [len(start)])))
    following = np.repeat(np.append(points, np.iinfo(np.int64).max), counts)
    rows = rows[following < start + slices.dur_ns[rows]]  # open at that point, so the slice contains a point
    tree, rows = nest(slices, rows)
    return take_or(rows, tree.innermost(thread, times), NO_PARENT)


def python_lines(context: Context, thread: I32, times: I64) -> I64:
    """For each point in time, the code of the name of the Python line that runs, or -1.

    The innermost frame of the program's own code that is part of the recording only; without one, that outside of
    PyTorch and the standard library; without one, the innermost frame with a line.
    """
    frames = context.trace.frames
    found = np.full(len(times), NO_PARENT, np.int64)
    for rows in context.cached(rows_with_lines):
        homeless = np.flatnonzero(found == NO_PARENT)
        if len(homeless):
            found[homeless] = innermost(frames, rows, thread[homeless], times[homeless])
    return np.where(found == NO_PARENT, -1, take_or(frames.name, found, -1))


def rows_with_lines(context: Context) -> tuple[I64, I64, I64]:
    """Rows of the table of frames, the most telling first: the program's own, outside of PyTorch, and any with a line.

    A function around most of the recording, such as `main`, does not tell where in a library the time goes.
    """
    names, frames = context.trace.names, context.trace.frames
    lines = np.flatnonzero(names.where(is_python_line)[frames.name])
    others = lines[~names.where(is_library_line)[frames.name[lines]]]
    is_part = frames.dur_ns[others] <= _PART * context.trace.info.span_ns
    return others[is_part & names.where(python_frames.is_of_program)[frames.name[others]]], others, lines


class LineTree(msgspec.Struct, frozen=True):
    """Frames that have a line, nested."""

    tree: Tree
    name: I32
    """Code of the name of each frame, in the order of the tree."""
    row: I64
    """Row of each frame in the table of frames."""

    def names_at(self, thread: I32, times: I64) -> I32:
        """The code of the innermost line that runs on a thread at a time, -1 for none."""
        position = self.tree.innermost(thread, times)
        return take_or(self.name, position, np.int32(-1))


def line_tree(context: Context) -> LineTree:
    """The frames of the trace that have a line."""
    return _nested(context, is_line)


def own_line_tree(context: Context) -> LineTree:
    """The frames that have a line outside of the package torch."""
    return _nested(context, lambda name: is_line(name) and not is_torch(name))


def is_line(name: str) -> bool:
    """Whether a frame is of Python code: `file.py(123): function`."""
    return _LINE.fullmatch(name) is not None


def is_torch(name: str) -> bool:
    """Whether a frame is of torch's own Python code; the profiler shortens paths to what follows `sys.path`."""
    return _TORCH.match(name) is not None


def _nested(context: Context, wanted: Callable[[str], bool]) -> LineTree:
    frames = context.trace.frames
    tree, rows = nest(frames, np.flatnonzero(context.trace.names.where(wanted)[frames.name]))
    return LineTree(tree, frames.name[rows], rows)


def lines_of_nodes(context: Context, nodes: I64) -> list[str | None]:
    """The Python line that runs at the start of each of some nodes of the host tree; None without one."""
    tree, names = context.host.tree, context.trace.names
    codes = python_lines(context, tree.thread[nodes], tree.start_ns[nodes])
    return [names[code] if code >= 0 else None for code in codes.tolist()]
