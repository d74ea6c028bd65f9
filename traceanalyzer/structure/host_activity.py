"""Classifies the work of host threads: waits, allocations, compilation, operators, Python lines.

Runtime and driver calls are distinguished by their names; the expressions below hold for CUDA, HIP, Level Zero,
Unified Runtime, and for the vendors that follow CUDA's naming.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.distinct import ascending, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I32, I64, Bool, entries
from traceanalyzer.trace.tables import Category, Frames, HostEvents, Launches
from traceanalyzer.trace.tree import NO_PARENT, Tree

_SYNCHRONIZATION = re.compile(r"synchronize|^ur(EventWait$|QueueFinish)|^pi(EventsWait|QueueFinish)$", re.IGNORECASE)
_SYNCHRONOUS_COPY = re.compile(r"^(cuda|hip|cu|musa)Memcpy(?!.*Async)")
_ALLOCATION = re.compile(
    r"^(cuda|hip|musa)(Ext)?(Malloc|Free|Host(Alloc|Malloc|Free|Register|Unregister))"
    r"|^cuMem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|AddressReserve|AddressFree|Host)"
    r"|^zeMem(Alloc|Free)|^urUSM(\w*Alloc|Free)"
)
_FREE = re.compile(r"^(cuda|hip|musa)Free(?!Async|Host|Array)|^cuMemFree(?!Async|Host)")
_LOADING = re.compile(
    r"^(cu|cuda|hip)(Module|Library)Load|^cuLink(Create|Add|Complete)|rtcCompileProgram$"
    r"|^zeModuleCreate|^urProgram(Build|Compile|Link|CreateWith)"
)
_COMPILING = re.compile(
    r"\(dynamo_timed\)$|_dynamo[\\/]convert_frame\.py\(\d+\): _?compile"
    r"|_inductor[\\/]compile_fx\.py\(\d+\): \w*compile_fx|triton[\\/]compiler[\\/]compiler\.py\(\d+\): compile$"
    r"|torch[\\/]utils[\\/]cpp_extension\.py\(\d+\): (load|load_inline|_jit_compile)$"
)
_LOADING_OVERHEAD = frozenset({"Runtime Triggered Module Loading", "Lazy Function Loading", "Driver Compiler"})
_FIRST_USE_NS = 1_000_000
"""Own choice: launch calls take about 5 us; a call that takes 200 times as long does more than launch."""
_FEW = 16
"""Number of points per slice from which on points outside of all slices are removed first (own choice)."""
_COMMUNICATION = re.compile(r"^((nccl|rccl|gloo|xccl|hccl|ucc|mpi):|_?c10d(_functional)?::|record_param_comms$)")
_PYTHON_LINE = re.compile(r"\.py\(\d+\): |^<ipython-input|ipykernel")
_LIBRARY_LINE = re.compile(
    r"(^|[\\/])torch[\\/]|^(contextlib|functools|threading|queue|runpy|selectors|socket|copy|typing|abc)\.py\("
    r"|^(multiprocessing|concurrent|asyncio|importlib|collections)[\\/]|<frozen "
)


def is_synchronization(name: str) -> bool:
    """Whether a runtime call makes the host wait for the device, a stream or an event."""
    return _SYNCHRONIZATION.search(name) is not None


def is_synchronous_copy(name: str) -> bool:
    """Whether a copy call returns only when the copy is done (`cudaMemcpy`, `hipMemcpyWithStream`)."""
    return _SYNCHRONOUS_COPY.search(name) is not None


def is_wait(name: str) -> bool:
    """Whether a call returns only when the device has done some work, by its documentation."""
    return is_synchronization(name) or is_synchronous_copy(name)


def is_allocation(name: str) -> bool:
    """Whether a runtime call allocates or frees memory of the device or pinned memory of the host."""
    return _ALLOCATION.search(name) is not None


def is_free(name: str) -> bool:
    """Whether a call frees device memory, for which it waits until the device is idle."""
    return _FREE.search(name) is not None


def is_loading(name: str) -> bool:
    """Whether a runtime call loads or compiles code for the device."""
    return _LOADING.search(name) is not None


def loading_calls(context: Context) -> I64:
    """Rows of launch-table calls in which device code is loaded or compiled, or the device initialized.

    By name; and calls of a millisecond or longer that have no other reason to be slow. Drivers load code at its
    first use, within whatever call that is, and only newer CUDA writes an event about it.
    """
    names, launches = context.trace.names, context.trace.launches
    by_name = names.where(is_loading)[launches.name]
    slow = names.where(_has_no_reason)[launches.name]
    return np.flatnonzero(by_name | (slow & (launches.dur_ns >= _FIRST_USE_NS)))


def _has_no_reason(name: str) -> bool:
    return not (is_synchronization(name) or is_allocation(name) or "memcpy" in name.lower())


def is_loading_overhead(name: str) -> bool:
    """Whether an overhead event is the driver's lazy loading or compilation, not the profiler's work."""
    return name in _LOADING_OVERHEAD


def is_compiling(name: str) -> bool:
    """Whether a range or frame is the compilation of TorchDynamo, Inductor, Triton or an extension."""
    return _COMPILING.search(name) is not None


def is_communicating(name: str) -> bool:
    """Whether a host range is a collective or point-to-point operation, waits included."""
    return _COMMUNICATION.search(name) is not None


def is_python_line(name: str) -> bool:
    """Whether a frame has a file and a line, unlike built-in functions and nn.Module calls."""
    return _PYTHON_LINE.search(name) is not None


def is_library_line(name: str) -> bool:
    """Whether a frame is of PyTorch itself or of the standard library."""
    return _LIBRARY_LINE.search(name) is not None


def operator_rows(context: Context) -> Bool:
    """Which host rows are operators: not steps, loaders, optimizers, annotations, wrappers of the whole model."""
    return context.once(_operator_rows)


def _operator_rows(context: Context) -> Bool:
    names, host = context.trace.names, context.trace.host
    wrapper = names.where(marks.is_wrapper)[host.name]
    plain = (context.kind == NodeKind.OPERATOR) | (context.kind == NodeKind.PYTHON)
    found: Bool = plain & ~wrapper
    return found


def launching_threads(context: Context) -> list[int]:
    """Threads that launched work on a device, the one with the most device events first."""
    return context.once(_launching_threads)


def _launching_threads(context: Context) -> list[int]:
    launch = context.links.launch
    threads, rank = ranked(context.trace.launches.thread[launch[launch != NO_PARENT]])
    counts = np.bincount(rank)
    order: list[int] = threads[np.lexsort((threads, -counts))].tolist()
    return order


class HostWaits(msgspec.Struct, frozen=True):
    """Calls in which the host waits for the device, in the order of their start; none lies within another."""

    row: I64
    """Row of each wait in the launch table."""
    start_ns: I64
    end_ns: I64
    thread: I32

    def take(self, rows: I64 | Bool) -> HostWaits:
        """Keep some of the waits."""
        return HostWaits(self.row[rows], self.start_ns[rows], self.end_ns[rows], self.thread[rows])


def waits(context: Context) -> HostWaits:
    """Find all waits: synchronizations, and copy calls that block (see `blocking_copies`)."""
    launches = context.trace.launches
    found = context.trace.names.where(is_wait)[launches.name]
    blocking = context.once(blocking_copies)
    found[context.links.launch[blocking]] = True
    rows = np.flatnonzero(found)
    tree, order = Tree.build(launches.thread[rows], launches.start_ns[rows], launches.dur_ns[rows])
    rows = ascending(rows[order[tree.parent == NO_PARENT]])
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


_DIRECTION = re.compile(r"\b([HMDSPA])(?:to|2)([HMDSPA])\b")
_SIDE = re.compile(r"\b(pageable|pinned)\b", re.IGNORECASE)


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
        asked = np.flatnonzero(Intervals.union(slices.start_ns[rows], slices.end_ns[rows]).contains(times))
        found = np.full(len(times), NO_PARENT, np.int64)
        found[asked] = _innermost(slices, rows, thread[asked], times[asked])
        return found
    return _innermost(slices, rows, thread, times)


def _innermost(slices: HostEvents | Launches | Frames, rows: I64, thread: I32, times: I64) -> I64:
    points = ascending(times)
    start = slices.start_ns[rows]
    following = np.append(points, np.iinfo(np.int64).max)[np.searchsorted(points, start)]
    rows = rows[following < start + slices.dur_ns[rows]]  # open at that point, so the slice contains a point
    tree, order = Tree.build(slices.thread[rows], slices.start_ns[rows], slices.dur_ns[rows])
    found = tree.innermost(thread, times)
    result = np.full(len(times), NO_PARENT, np.int64)
    inside = found != NO_PARENT
    result[inside] = rows[order[found[inside]]]
    return result


def python_lines(context: Context, thread: I32, times: I64) -> I64:
    """For each point in time, the code of the name of the Python line that runs, or -1.

    The innermost frame outside of PyTorch and the standard library; without one, the innermost frame with a line.
    """
    names, frames = context.trace.names, context.trace.frames
    lines = names.where(is_python_line)[frames.name]
    own = lines & ~names.where(is_library_line)[frames.name]
    found = innermost(frames, np.flatnonzero(own), thread, times)
    homeless = np.flatnonzero(found == NO_PARENT)
    if len(homeless):
        rows = np.flatnonzero(lines)
        found[homeless] = innermost(frames, rows, thread[homeless], times[homeless])
    return np.where(found == NO_PARENT, -1, entries(frames.name, found, -1))


def lines_of_nodes(context: Context, nodes: I64) -> list[str | None]:
    """The Python line that runs at the start of each of some nodes of the host tree; None without one."""
    tree, names = context.host.tree, context.trace.names
    codes = python_lines(context, tree.thread[nodes], tree.start_ns[nodes])
    return [names[code] if code >= 0 else None for code in codes.tolist()]
