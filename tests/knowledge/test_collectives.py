"""Names, sizes and traffic factors of collectives."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge.collectives import bus_factor, message_bytes, operation
from traceanalyzer.trace.model import Collective


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("c10d::allreduce_", "all_reduce"),
        ("nccl:all_reduce", "all_reduce"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("nccl:_all_gather_base", "all_gather"),
        ("all_gather_into_tensor", "all_gather"),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "all_gather"),
        ("gather", "gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "reduce_scatter"),
        ("scatter", "scatter"),
        ("reduce", "reduce"),
        ("broadcast", "broadcast"),
        ("_broadcast_oop", "broadcast"),
        ("all_to_all", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("c10d::alltoall_base_", "all_to_all"),
        ("send", "send"),
        ("nccl:recv 0<-1", "recv"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("barrier", "barrier"),
        ("record_param_comms", None),
        ("rcclGenericKernel_4(ncclDevKernelArgsStorage<4096ul>)", None),
        ("coalesced", None),
        ("", None),
    ],
)
def test_operation(name: str, found: str | None) -> None:
    assert operation(name) == found


@pytest.mark.parametrize(
    ("name", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75),
        ("all_reduce", 1, 0),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 2, 0.5),
        ("gather", 2, 0.5),
        ("broadcast", None, 1),
        ("reduce", 8, 1),
        ("send_recv", 8, 1),
        ("all_reduce", None, None),
        ("barrier", 8, None),
        (None, 8, None),
    ],
)
def test_bus_factor(name: str | None, ranks: int | None, factor: float | None) -> None:
    assert bus_factor(name, ranks) == factor


@pytest.mark.parametrize(
    ("name", "dtype", "given", "arriving", "size"),
    [
        ("all_reduce", "Float", 1000, 1000, 4000),
        ("all_gather", "BFloat16", 1000, 8000, 16000),  # all that arrives
        ("reduce_scatter", "BFloat16", 8000, 1000, 16000),  # all that a rank puts in
        ("all_to_all", "Half", 500, 500, 1000),
        ("recv", "Long", 0, 10, 80),
        ("send", "Byte", 7, 0, 7),
        ("broadcast", "Float8_e4m3fn", 9, 9, 9),
        ("all_gather", "Float", 1000, None, 4000),  # older writers leave one of the two out
        (None, "Float", 10, 10, 40),
        ("all_reduce", "Float", 0, 0, 0),
        ("all_reduce", "Float", None, None, None),
        ("all_reduce", "BrandNew", 10, 10, None),
        ("all_reduce", "", 10, 10, None),
        ("barrier", "Float", 1, 1, None),
    ],
)
def test_message_bytes(name: str | None, dtype: str, given: int | None, arriving: int | None, size: int | None) -> None:
    assert message_bytes(name, Collective("x", dtype, given, arriving)) == size
