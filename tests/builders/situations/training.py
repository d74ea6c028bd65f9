"""Training loops: the same program on different hardware and under different writers."""

from __future__ import annotations

from ..dialects import OLD, ROCM
from ..hardware import MI250X, V100
from ..trace import TraceBuilder, distributed_info
from .kernels import CDNA, VOLTA_2021
from .loop import Plan, train

_CUDA_12 = {"cuda_runtime_version": 12040, "cuda_driver_version": 12040, "cupti_version": 22}


def gpu_training() -> TraceBuilder:
    """Six steps on an A100: exposed data loading, pageable copies, `loss.item()`, TF32 convolutions only."""
    return train(Plan(loader_us=4200, metadata=_CUDA_12), "6021345118.402")


def gpu_training_fed() -> TraceBuilder:
    """The training of `gpu_training` with more workers in its loader: batches are there when they are needed."""
    return train(Plan(loader_us=150, seed=7, metadata=_CUDA_12), "7033298441.115")


def old_categories() -> TraceBuilder:
    """Three steps on a V100 as torch 1.8 wrote them: other categories, string threads, whole microseconds."""
    plan = Plan(
        OLD,
        V100,
        VOLTA_2021,
        steps=3,
        first=0,
        seed=2,
        options=(),
        loader="_SingleProcessDataLoaderIter",
        loader_us=5200,
        frames=False,
        memory=False,
        side_stream=False,
    )
    return train(plan, "1612000000000000")


def rocm_training() -> TraceBuilder:
    """Three steps on an AMD GPU: hip calls, no occupancy, memory of device type 6."""
    plan = Plan(
        ROCM,
        MI250X,
        CDNA,
        steps=3,
        first=1,
        seed=3,
        options=("record_shapes", "profile_memory"),
        frames=False,
        side_stream=False,
        metadata={"hip_runtime_version": 60_342_134, "hip_driver_version": 60_342_134},
    )
    return train(plan, "4203669603187.439")


def ddp_nccl() -> TraceBuilder:
    """Rank 0 of 2 with gradients averaged by NCCL, the last bucket exposed."""
    plan = Plan(
        steps=3,
        seed=4,
        options=("record_shapes",),
        frames=False,
        memory=False,
        read_loss=False,
        side_stream=False,
        loader_us=140,
        ranks=2,
        metadata=_CUDA_12,
    )
    return train(plan, "887120443.127", distributed_info(0, 2))


def no_profiler_step() -> TraceBuilder:
    """Four optimizer steps without `prof.step()`."""
    plan = Plan(
        steps=4,
        seed=5,
        options=("record_shapes",),
        frames=False,
        memory=False,
        profiler_steps=False,
        side_stream=False,
        loader_us=900,
        metadata=_CUDA_12,
    )
    return train(plan, "90211345.006")
