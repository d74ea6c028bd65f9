"""The tables of a trace. Rows are ordered by start time; rows of equal start keep the order of the file.

Times are integer nanoseconds since the first event (`TraceInfo.origin_ns`). Names, shapes and types are
codes into the trace's pools, threads are rows of `Threads`, and -1 means that the file does not say. A column with a
`key` is filled with this argument of the events; one line here is all that it takes to read another one.
"""

from __future__ import annotations

from enum import IntEnum

from traceanalyzer.trace.table import F64, I32, I64, U8, SliceTable, Table, column


class Category(IntEnum):
    """Kinds of events, independent of the names that versions of the profiler used."""

    OPERATOR = 0
    ANNOTATION = 1
    PYTHON = 2
    """Events of the old category `python`: operators in the step breakdown, but not rows of operator tables."""
    RUNTIME = 3
    KERNEL = 4
    MEMCPY = 5
    MEMSET = 6
    GPU_ANNOTATION = 7
    FRAME = 8
    SYNC = 9
    OVERHEAD = 10
    ACCELERATOR = 11


class Vendor(IntEnum):
    """Kinds of devices whose events are not kernels, copies and fills as on CUDA, ROCm and XPU."""

    MTIA = 0
    NPU = 1
    """Ascend's cards, also of torch_npu."""
    HPU = 2
    """Gaudi cards of Habana."""
    CUDA = 3
    """GPUs, where the legacy profiler measured operators on them and no kernels."""


class HostEvents(SliceTable):
    """Operators and annotations on host threads (`cpu_op`, `Operator`, `user_annotation`, `python`)."""

    start_ns: I64 = column("i8", "ns", "start, since the first event of the trace")
    dur_ns: I64 = column("i8", "ns", "duration")
    name: I32 = column("i4", "", "code of the name", pool="names")
    category: U8 = column("u1", "", "OPERATOR, ANNOTATION or PYTHON")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")
    external_id: I64 = column("i8", "", "id that launches refer to; -1 where absent", "External id")
    shapes: I32 = column("i4", "", "code of the input shapes; 0 is none recorded", "Input Dims", "shapes")
    types: I32 = column("i4", "", "code of the input types; 0 is none recorded", "Input type", "types")
    strides: I32 = column("i4", "", "code of the input strides; 0 is none recorded", "Input Strides", "strides")
    concrete: I32 = column(
        "i4", "", "code of the values of inputs that are no tensors; 0 is none recorded", "Concrete Inputs", "concrete"
    )
    collective: I32 = column(
        "i4", "", "row of the collective that the operator describes; 0 is none", "Collective name", "collectives"
    )
    source: I32 = column(
        "i4",
        "",
        "row of the source of the generated kernel that the operator launches; 0 is none",
        "kernel_backend",
        "sources",
    )
    sequence: I64 = column("i8", "", "autograd sequence number; -1 where absent", "Sequence number")
    forward_thread: I64 = column(
        "i8", "", "thread of the forward pass, on backward operators; 0 or -1 else", "Fwd thread id"
    )


class Launches(SliceTable):
    """Calls into the device's runtime or driver: launches, copies, synchronizations, allocations."""

    start_ns: I64 = column("i8", "ns", "start of the call")
    dur_ns: I64 = column("i8", "ns", "duration of the call")
    name: I32 = column("i4", "", "code of the name", pool="names")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")
    correlation: I64 = column(
        "i8", "", "id shared with what the call put on the device; -1 where absent", "correlation"
    )
    external_id: I64 = column("i8", "", "id of an operator, where the writer's era got it right", "External id")
    kernel: I32 = column(
        "i4", "", "code of the name of the kernel that the call launches, which HIP says; -1 else", "kernel", "names"
    )


class DeviceEvents(SliceTable):
    """Kernels, copies and fills on devices."""

    start_ns: I64 = column("i8", "ns", "start on the device")
    dur_ns: I64 = column("i8", "ns", "duration on the device")
    name: I32 = column("i4", "", "code of the name", pool="names")
    category: U8 = column("u1", "", "KERNEL, MEMCPY or MEMSET")
    device: I32 = column("i4", "", "device id; -1 where absent", "device")
    stream: I64 = column("i8", "", "stream id; -1 where absent", "stream")
    correlation: I64 = column("i8", "", "id shared with the launching call; -1 where absent", "correlation")
    external_id: I64 = column("i8", "", "id of an operator, where the writer's era got it right", "External id")
    grid: I32 = column("i4", "", "code of the grid dimensions; 0 is none recorded", "grid", "dims")
    block: I32 = column("i4", "", "code of the block dimensions; 0 is none recorded", "block", "dims")
    registers: I32 = column("i4", "", "registers per thread; -1 where absent", "registers per thread")
    shared_memory: I64 = column("i8", "bytes", "shared memory per block; -1 where absent", "shared memory")
    blocks_per_sm: F64 = column("f8", "", "thread blocks over multiprocessors; NaN where absent", "blocks per SM")
    occupancy: F64 = column(
        "f8", "%", "estimated achieved occupancy, 0 to 100; NaN where absent", "est. achieved occupancy %"
    )
    bytes: I64 = column("i8", "bytes", "size of a copy or fill; -1 where absent", "bytes")
    collective: I32 = column(
        "i4", "", "row of the collective that the kernel belongs to; 0 is none", "Collective name", "collectives"
    )
    graph: I64 = column("i8", "", "id of the graph that launched it; -1 where absent", "graph id")
    graph_node: I64 = column("i8", "", "id of its node in the graph; -1 where absent", "graph node id")
    thread: I32 = column("i4", "", "row of the pseudo thread that is the stream", pool="threads")
    rank: I32 = column("i4", "", "rank that a script which merged several traces wrote; -1 where absent", "rank")
    detail: I32 = column(
        "i4", "", "row of what only some writers say of the event; 0 is nothing", "copy kind", "details"
    )


class AcceleratorEvents(SliceTable):
    """What devices do that write no kernels, copies and fills: work, transfers and waiting alike."""

    start_ns: I64 = column("i8", "ns", "start on the device")
    dur_ns: I64 = column("i8", "ns", "duration on the device")
    name: I32 = column("i4", "", "code of the name", pool="names")
    vendor: U8 = column("u1", "", "MTIA, NPU, HPU, or CUDA for operators that the legacy profiler measured")
    task: I32 = column(
        "i4", "", "code of the type of task or engine among the names; the empty name where absent", pool="names"
    )
    device: I32 = column("i4", "", "device id; -1 where absent")
    stream: I64 = column("i8", "", "stream, queue or engine; -1 where absent")
    thread: I32 = column("i4", "", "row of the pseudo thread that the writer made of it", pool="threads")
    correlation: I64 = column("i8", "", "id shared with the launching call; -1 where absent")


class GpuAnnotations(SliceTable):
    """Host annotations projected onto streams: spans from the first to the last kernel, gaps included."""

    start_ns: I64 = column("i8", "ns", "start of the first kernel")
    dur_ns: I64 = column("i8", "ns", "until the end of the last kernel")
    name: I32 = column("i4", "", "code of the name", pool="names")
    thread: I32 = column("i4", "", "row of the pseudo thread that is the stream", pool="threads")


class Frames(SliceTable):
    """Python stack frames, and calls of nn.Module."""

    start_ns: I64 = column("i8", "ns", "start of the call")
    dur_ns: I64 = column("i8", "ns", "duration of the call")
    name: I32 = column("i4", "", "code of the name", pool="names")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")
    python_id: I64 = column("i8", "", "id of the call; -1 where absent", "Python id")
    parent_id: I64 = column("i8", "", "id of the calling frame; -1 where absent", "Python parent id")
    module_id: I64 = column("i8", "", "which instance of the class, on nn.Module calls; -1 else", "Python module id")


class MemoryEvents(Table):
    """Allocations and frees of the caching allocators."""

    start_ns: I64 = column("i8", "ns", "time of the allocation or free")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")
    device_type: I32 = column(
        "i4", "", "c10::DeviceType: 0 CPU, 1 CUDA, 6 HIP, 20 PrivateUse1; -1 absent", "Device Type"
    )
    device: I32 = column("i4", "", "device id; -1 on the CPU", "Device Id")
    bytes: I64 = column("i8", "bytes", "size, negative for a free", "Bytes", missing=0)
    address: I64 = column("i8", "", "address; 0 where absent", "Addr", missing=0)
    allocated: I64 = column(
        "i8", "bytes", "total allocated on the device after the event; -1 where absent", "Total Allocated"
    )
    reserved: I64 = column(
        "i8", "bytes", "total reserved on the device after the event; -1 where absent", "Total Reserved"
    )


class Counters(Table):
    """Samples of what a GPU measures of itself: clocks, power, temperature, utilization."""

    start_ns: I64 = column("i8", "ns", "time of the sample; negative before the first event")
    name: I32 = column("i4", "", "code of the name, which has the unit", pool="names")
    thread: I32 = column("i4", "", "row of the pseudo thread, whose process names the device", pool="threads")
    value: F64 = column("f8", "", "in the unit of the name")


class Syncs(SliceTable):
    """Device-side records of synchronizations (`cuda_sync`, opt-in)."""

    start_ns: I64 = column("i8", "ns", "start of the wait")
    dur_ns: I64 = column("i8", "ns", "duration of the wait")
    name: I32 = column("i4", "", "code of the name", pool="names")
    device: I32 = column("i4", "", "device id; -1 where absent", "device")
    stream: I64 = column("i8", "", "stream id; -1 is every stream", "stream")
    waited_stream: I64 = column("i8", "", "stream of the event that is waited for; -1 where unknown", "wait_on_stream")
    record: I64 = column(
        "i8", "", "id of the call that recorded this event; -1 where unknown", "wait_on_cuda_event_record_corr_id"
    )
    correlation: I64 = column("i8", "", "id shared with the call; -1 where absent", "correlation")
    thread: I32 = column("i4", "", "row of the pseudo thread that is the stream", pool="threads")


class Overheads(SliceTable):
    """Time that the profiler itself cost: buffer flushes, lazy loading, instrumentation."""

    start_ns: I64 = column("i8", "ns", "start")
    dur_ns: I64 = column("i8", "ns", "duration")
    name: I32 = column("i4", "", "code of the name", pool="names")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")


class GraphNodes(SliceTable):
    """Nodes of graphs that are no work of a device: records of events, and callbacks for which a stream waits."""

    start_ns: I64 = column("i8", "ns", "start")
    dur_ns: I64 = column("i8", "ns", "duration")
    name: I32 = column("i4", "", "code of the name: EventRecord, or HostNode with the function", pool="names")
    device: I32 = column("i4", "", "device id; -1 where absent", "device")
    stream: I64 = column("i8", "", "stream id; -1 where absent", "stream")
    ran_on: I64 = column(
        "i8", "", "stream on which it ran, where it was moved to another one to be shown; -1 else", "original_stream"
    )
    correlation: I64 = column("i8", "", "id shared with the launch of the graph; -1 where absent", "correlation")
    thread: I32 = column("i4", "", "row of the pseudo thread that is the stream", pool="threads")


class Dependencies(Table):
    """Ends of arrows between nodes of a graph, in one launch of it: a node starts after those that it depends on."""

    start_ns: I64 = column("i8", "ns", "end of the node that comes first, or start of the one that depends on it")
    thread: I32 = column("i4", "", "row of the pseudo thread on which the node is shown", pool="threads")
    arrow: I64 = column("i8", "", "id shared by both ends")
    is_start: U8 = column("u1", "", "1 on the side of the node that comes first, 0 on that of the other")


class Flows(Table):
    """Ends of forward-backward flows: an operator of the forward pass and its derivative."""

    start_ns: I64 = column("i8", "ns", "time of the end, which is the start of its operator")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")
    flow: I64 = column("i8", "", "id shared by both ends; -1 where absent")
    is_start: U8 = column("u1", "", "1 on the forward side, 0 on the backward side")
