"""What devices do that write no kernels; numbers are worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import MAX1550, XPU, TraceBuilder
from tests.builders.situations import hpu, mtia, npu
from tests.reading import read_built
from traceanalyzer.analyzers.kernels import accelerators
from traceanalyzer.analyzers.kernels.accelerators import AcceleratorUse, devices, times
from traceanalyzer.knowledge.accelerators import BUSY, TaskKind, task_kind
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.tables import Vendor

US = 1000


def uses(trace: TraceBuilder) -> tuple[AcceleratorUse, ...]:
    return accelerators.analyze(Context(read_built(trace))).devices


def only(trace: TraceBuilder) -> AcceleratorUse:
    (found,) = uses(trace)
    return found


def ccp(trace: TraceBuilder, name: str, at: int, dur: int, *, device: int = 0, stream: int = 4) -> None:
    trace.add("mtia_ccp_events", name, (at, dur), (device, stream), {"stream": stream})


def test_overlapping_queues_of_one_device_count_once() -> None:
    trace = TraceBuilder(devices=())
    ccp(trace, "merge", 0, 100, stream=1)
    ccp(trace, "remote", 50, 100, stream=2)
    ccp(trace, "dma_request", 140, 40, stream=3)
    found = only(trace)
    assert (found.busy_ns, found.work_ns, found.transfer_ns) == (180 * US, 150 * US, 40 * US)
    assert (found.span_ns, found.busy_share_of_span, found.streams) == (180 * US, 1.0, 3)


def test_waiting_for_longer_than_all_work_is_no_work() -> None:
    found = only(mtia())
    # of each request: dma_request from 108 to 130, pe_exe from 150 to 440, merge from 400 to 480
    assert found.busy_ns == 2 * (22 + 330) * US
    assert found.work_ns == 2 * 330 * US
    # event_wait from -10 to 400, of which 22 and 250 us are busy
    assert (found.waiting_ns, found.only_waiting_ns) == (2 * 410 * US, 2 * (410 - 22 - 250) * US)
    assert found.waiting_ns > found.busy_ns
    assert (found.vendor, found.device, found.events, found.streams) == ("MTIA", 0, 10, 2)


def test_an_npu_tells_by_the_type_of_task() -> None:
    found = only(npu())
    # MatMulV2 100 to 300, Add 320 to 360, copy 200 to 340, collective 950 to 1000
    assert (found.work_ns, found.transfer_ns, found.communication_ns) == (240 * US, 140 * US, 50 * US)
    assert (found.busy_ns, found.waiting_ns, found.only_waiting_ns) == (310 * US, 800 * US, 540 * US)
    assert (found.vendor, found.device, found.span_ns) == ("NPU", 1, 900 * US)


def test_an_hpu_tells_by_the_engine() -> None:
    found = only(hpu())
    # MME 100 to 300, TPC 250 to 400, DMA 380 to 420, network 420 to 450; the call of the host is none of them
    assert (found.work_ns, found.transfer_ns, found.communication_ns) == (300 * US, 40 * US, 30 * US)
    assert (found.busy_ns, found.events, found.streams) == (350 * US, 4, 4)
    assert (found.vendor, found.device) == ("HPU", 0)


def test_what_keeps_a_device_busy_comes_first() -> None:
    rows = [(task.name, task.kind, task.task, task.calls, task.total_ns) for task in only(npu()).tasks]
    assert rows == [
        ("MatMulV2", "work", "AI_CORE", 1, 200 * US),
        ("MEMCPY_ASYNC", "transfer", "MEMCPY_ASYNC", 1, 140 * US),
        ("hcom_allReduce__512_0_1", "communication", "AI_VECTOR_CORE", 1, 50 * US),
        ("Add", "work", "AI_VECTOR_CORE", 1, 40 * US),
        ("EVENT_WAIT", "waiting", "EVENT_WAIT", 1, 800 * US),
        ("EVENT_RECORD", "control", "EVENT_RECORD", 1, 1 * US),
    ]


def test_devices_are_told_apart_and_the_busiest_is_first() -> None:
    trace = TraceBuilder(devices=())
    ccp(trace, "merge", 0, 100, device=3)
    ccp(trace, "merge", 50, 200, device=7)
    ccp(trace, "event_wait", 0, 250, device=3)
    context = Context(read_built(trace))
    assert [(device.vendor, device.number) for device in devices(context)] == [(Vendor.MTIA, 7), (Vendor.MTIA, 3)]
    assert [times(context, device, BUSY).length for device in devices(context)] == [200 * US, 100 * US]


def test_a_device_that_only_waits_is_not_busy() -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 100)
    ccp(trace, "event_wait", 0, 100)
    found = only(trace)
    assert (found.busy_ns, found.busy_share, found.only_waiting_ns) == (0, 0.0, 100 * US)


def test_without_such_events_there_is_nothing_to_tell() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("gemm", 10, 20, at=5)
    context = Context(read_built(trace))
    reason = accelerators.ANALYSES[0].missing(context)
    assert reason is not None
    assert reason.id == "skip-no-accelerator"
    assert devices(context) == ()


def test_an_intel_gpu_writes_kernels_and_its_counters_are_no_work() -> None:
    trace = TraceBuilder(XPU, devices=(MAX1550,))
    trace.op("aten::mm", 0, 50)
    trace.kernel("gemm_kernel", 20, 100)
    trace.kernel("relu", 60, 100, stream=2)
    trace.add("xpu_scope_profiler", "metrics", (19, 5000), (0, 0), {"GpuTime[ns]": 100})
    found = read_built(trace)
    assert (len(found.device), len(found.accelerator), found.info.unsupported) == (2, 0, {})
    assert found.info.span_ns == 160 * US


@pytest.mark.parametrize(
    ("vendor", "name", "task", "kind"),
    [
        (Vendor.MTIA, "event_wait", "", TaskKind.WAITING),
        (Vendor.MTIA, "event_record", "", TaskKind.CONTROL),
        (Vendor.MTIA, "dma_request", "", TaskKind.TRANSFER),
        (Vendor.MTIA, "pe_exe", "", TaskKind.WORK),
        (Vendor.MTIA, "await_features", "", TaskKind.WORK),
        (Vendor.NPU, "aclnnMatmul_MatMulV2", "MIX_AIC", TaskKind.WORK),
        (Vendor.NPU, "future", "NEW_CORE", TaskKind.WORK),
        (Vendor.NPU, "NOTIFY_WAIT_SQE", "NOTIFY_WAIT_SQE", TaskKind.WAITING),
        (Vendor.NPU, "notify", "NOTIFY_WAIT", TaskKind.WAITING),
        (Vendor.NPU, "NOTIFY_RECORD_SQE", "NOTIFY_RECORD_SQE", TaskKind.CONTROL),
        (Vendor.NPU, "WRITE_VALUE_SQE", "WRITE_VALUE_SQE", TaskKind.CONTROL),
        (Vendor.NPU, "MODEL_EXECUTE", "MODEL_EXECUTE", TaskKind.CONTROL),
        (Vendor.NPU, "SDMA_SQE", "SDMA_SQE", TaskKind.TRANSFER),
        (Vendor.NPU, "PCIE_DMA_SQE", "PCIE_DMA_SQE", TaskKind.TRANSFER),
        (Vendor.NPU, "ROCCE_SQE", "ROCCE_SQE", TaskKind.COMMUNICATION),
        (Vendor.HPU, "GEMM", "MMEH_WB", TaskKind.WORK),
        (Vendor.HPU, "memcpy", "TPC_SPU_START_TO_SPU_HALT", TaskKind.WORK),
        (Vendor.HPU, "DmaTranspose", "", TaskKind.TRANSFER),
        (Vendor.HPU, "x", "STM_1_TX", TaskKind.COMMUNICATION),
    ],
)
def test_kinds_of_tasks(vendor: Vendor, name: str, task: str, kind: TaskKind) -> None:
    assert task_kind(vendor, name, task) is kind


@pytest.mark.corpus
def test_a_real_card_is_busy_while_its_queues_wait(corpus: Path) -> None:
    found = accelerators.analyze(corpus_files.context_of(corpus / "corpus" / "mtia_inference.json.gz"))
    (use,) = found.devices
    # unions over the file by another program
    assert (use.device, use.events) == (17, 1313)
    assert use.busy_ns == pytest.approx(421.7e6, abs=0.05e6)
    assert use.work_ns == pytest.approx(414.1e6, abs=0.05e6)
    assert sum(task.total_ns for task in use.tasks if task.kind == "waiting") == pytest.approx(352.6e6, abs=0.05e6)
