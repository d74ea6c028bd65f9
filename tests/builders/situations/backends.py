"""Traces of other back ends in miniature: the CPU alone, Intel XPU, Meta MTIA, Ascend NPU, Gaudi HPU, and of the legacy
profiler."""

from __future__ import annotations

from ..allocator import Allocator
from ..dialects import MODERN, XPU
from ..hardware import MAX1550, MTIA
from ..timeline import Host, Pace, Stream, Work, finish
from ..trace import TraceBuilder
from ..values import micros


def cpu_only() -> TraceBuilder:
    """Two training steps without a device: `deviceProperties` is empty, all time is the host's."""
    trace = TraceBuilder(
        devices=(), options=("record_shapes", "profile_memory"), origin="71203344.918", margins=(30, 45)
    )
    host, memory = Host(trace, at=40, pace=Pace(21)), Allocator()
    for number in (1, 2):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                host.leaf("aten::stack", 210, shapes=[[]], types=["TensorList"])
            with host.op("aten::linear", 3, 1, shapes=[[32, 128], [10, 128], [10]], types=["float"] * 3):
                address = _matmul(host, memory)
            with host.annotation("Optimizer.step#SGD.step", 6, 2):
                host.leaf("aten::add_", 9, shapes=[[10, 128], [10, 128], []], types=["float", "float", "Scalar"])
            memory.free(host, address)
        host.work(15)
    return finish(trace)


def _matmul(host: Host, memory: Allocator) -> int:
    host.leaf("aten::t", 3, shapes=[[10, 128]], types=["float"])
    shapes = [[10], [32, 128], [128, 10], [], []]
    with host.op("aten::addmm", 64, 2, shapes=shapes, types=["float", "float", "float", "Scalar", "Scalar"]):
        return memory.allocate(host, 4 * 32 * 10)


def xpu() -> TraceBuilder:
    """Two steps on an Intel GPU: `xpu_runtime` and `xpu_driver` launches, SYCL queues as streams."""
    trace = TraceBuilder(XPU, devices=(MAX1550,), options=("record_shapes",), origin="5120044.201", margins=(9, 9))
    host, queue = Host(trace, at=10, pace=Pace(22)), Stream(1)
    for number in (1, 2):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.op("aten::mm", shapes=[[512, 512], [512, 512]], types=["c10::Half", "c10::Half"]):
                host.launch(Work("gemm_kernel", 96), queue)
            with host.op("aten::relu", shapes=[[512, 512]], types=["c10::Half"]):
                name = "at::native::xpu::VectorizedElementwiseKernel<8, at::native::xpu::ReluFunctor<c10::Half>>"
                host.launch(Work(name, 21), queue, call="zeCommandListAppendLaunchKernel")
            with host.op("aten::copy_"):
                host.copy("DtoH", 524_288, queue, dur=31)
            host.wait(queue)
    return finish(trace)


def mtia() -> TraceBuilder:
    """Two requests on an MTIA card: a queue waits for longer than all work takes; another's work overlaps."""
    dialect_args = {"device": 0, "stream_id": 4}
    trace = TraceBuilder(MODERN, devices=(MTIA,), origin="301805216.892", margins=(12, 12))
    for request, start in enumerate((20, 620)):
        trace.annotation("Stage::run", start, 500)
        trace.op("aten::cat", start + 15, 60, shapes=[[]], types=["TensorList"])
        calls = (("enqueueCommand memcpyHtoDAsync", 90, 12), ("runFunction - request", 110, 35))
        correlations = [
            _mtia_call(trace, name, start + at, dur, 40_000 + 10 * request + index, dialect_args)
            for index, (name, at, dur) in enumerate(calls)
        ]
        events = (("dma_request", 108, 22), ("pe_exe", 150, 290))
        for correlation, (name, at, dur) in zip(correlations, events, strict=True):
            details = {"correlation": correlation, "stream": 4, "column": "0", "row": "0", "packet_ptr": 4}
            trace.add("mtia_ccp_events", name, (start + at, dur), trace.stream(0, 4), details)
            trace.flow_end("f", ("ac2g", "ac2g"), correlation, (start + at, *trace.stream(0, 4)))
        _mtia_call(trace, "synchronizeStream", start + 155, 300, 41_000 + request, dialect_args)
        for name, at, dur in (("event_wait", -10, 410), ("merge", 400, 80), ("event_record", 480, 1)):
            trace.add("mtia_ccp_events", name, (start + at, dur), trace.stream(0, 5), {"stream": 5})
    return trace


def _mtia_call(trace: TraceBuilder, name: str, at: int, dur: int, correlation: int, args: dict[str, int]) -> int:
    where = trace.thread(None)
    trace.add("mtia_runtime", name, (at, dur), where, {"correlation": correlation, **args})
    trace.flow_end("s", ("ac2g", "ac2g"), correlation, (micros(at * 1000), *where))
    return correlation


def npu() -> TraceBuilder:
    """One step on an Ascend NPU: events of the device have no category, but a type of task; their times are texts."""
    trace = TraceBuilder(devices=(), origin="5120044.201", margins=(9, 9))
    trace.step(1, 20, 1000)
    trace.op("aten::mm", 30, 40, shapes=[[512, 512], [512, 512]], types=["c10::Half", "c10::Half"])
    tasks = (
        ("MatMulV2", "AI_CORE", 2, 100, 200),
        ("Add", "AI_VECTOR_CORE", 2, 320, 40),
        ("EVENT_RECORD", "EVENT_RECORD", 2, 360, 1),
        ("EVENT_WAIT", "EVENT_WAIT", 5, 100, 800),
        ("MEMCPY_ASYNC", "MEMCPY_ASYNC", 5, 200, 140),
        ("hcom_allReduce__512_0_1", "AI_VECTOR_CORE", 5, 950, 50),
    )
    for number, (name, task, stream, at, dur) in enumerate(tasks):
        args = {"Model Id": 4_294_967_295, "Task Type": task, "Physic Stream Id": stream, "Task Id": number}
        _uncategorized(trace, name, (at, dur), (trace.pid << 10 | 4 << 5 | 1, stream), args)
    _uncategorized(
        trace, "AscendCL@aclrtLaunchKernel", (45, 5), (trace.pid << 10 | 2 << 5, trace.tid), {"level": "acl"}
    )
    trace.add("npu_detail", "aicore", (100, 200), trace.thread(None), {})
    return trace


def _uncategorized(
    trace: TraceBuilder, name: str, span: tuple[int, int], where: tuple[int, int], args: dict[str, object]
) -> None:
    event = trace.add("", name, span, where, args)
    del event["cat"]
    event["ts"] = str(event["ts"])


def hpu() -> TraceBuilder:
    """One step on Gaudi: calls of the host and events of the device are both `hpu_op`; engines overlap."""
    trace = TraceBuilder(devices=(), origin="5120044.201", margins=(9, 9))
    trace.step(1, 20, 500)
    trace.op("aten::mm", 30, 60, shapes=[[512, 512], [512, 512]], types=["c10::BFloat16", "c10::BFloat16"])
    trace.add("hpu_op", "synLaunch", (40, 30), trace.thread(None), {})
    tasks = (
        ("GEMM", "MMEH_WB", 6000, 100, 200),
        ("add_fwd_bf16", "TPC_SPU_START_TO_SPU_HALT", 7000, 250, 150),
        ("DmaTranspose", "DBG_DMA_TRC_WR_DATA_LAST", 4000, 380, 40),
        ("allReduce", "STM_0_RX", 8000, 420, 30),
    )
    for name, engine, tid, at, dur in tasks:
        trace.add("hpu_op", name, (at, dur), (0, tid), {"HW event name": engine})
    return trace


def legacy_list() -> TraceBuilder:
    """Three iterations of a training in a list of `torch.autograd.profiler`: operators on the CPU and on the GPU."""
    trace = TraceBuilder(devices=())
    trace.framed = False
    number = 0
    for begin in (0, 1000, 2000):
        rows = [
            ("aten::linear", 1, (0, 60), (50, 400)),
            ("aten::addmm", 1, (10, 35), (60, 380)),
            ("AddmmBackward", 2, (100, 60), (450, 440)),
            ("aten::mm", 2, (110, 40), (455, 430)),
            *(("aten::add_", 1, (200 + 25 * place, 20), (890 + 4 * place, 4)) for place in range(4)),
        ]
        for name, thread, (at, dur), (there, took) in rows:
            host = {"name": name, "tid": thread, "pid": "CPU functions"}
            device = {"name": name, "tid": 0, "pid": "CUDA functions"}
            arrow = {"id": number, "cat": "cpu_to_cuda", "args": {}}
            trace.raw({**host, "ph": "X", "ts": begin + at, "dur": dur, "args": {}})
            trace.raw({**host, "ph": "s", "ts": begin + at, **arrow})
            trace.raw({**device, "ph": "f", "ts": begin + there, **arrow})
            trace.raw({**device, "ph": "X", "ts": begin + there, "dur": took, "args": {}})
            number += 1
    return trace
