"""Realistic situations, each a function that returns a finished builder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..layout import LAYOUTS, Layout
from ..trace import TraceBuilder
from .backends import cpu_only, hpu, legacy_list, mtia, npu, xpu
from .oddities import (
    cuda_driver_launches,
    external_id_is_correlation,
    forked_processes,
    gpu_step_annotations,
    kernels_without_launch,
    overlapping_slices,
    streams_shared_by_devices,
)
from .planted import planted_faults
from .serving import serving_graphs
from .training import ddp_nccl, gpu_training, gpu_training_fed, no_profiler_step, old_categories, rocm_training


@dataclass(frozen=True)
class Situation:
    """One committed trace in `fixtures/synthetic`."""

    build: Callable[[], TraceBuilder]
    """Its docstring describes what the trace shows."""
    expect: str
    """The expected result of the tool."""
    suffix: str = ".json"
    layout: Layout | None = None
    """Layout of the file; None for the layout of the dialect's own writer."""

    @property
    def name(self) -> str:
        """The situation's name, which is the file's."""
        return self.build.__name__


SITUATIONS: tuple[Situation, ...] = (
    Situation(
        gpu_training,
        "steps 4 to 9; data loading exposed, the GPU idle meanwhile; pageable copy; one sync per step; "
        "tensor cores in convolutions, not in the linear layer",
        ".json.gz",
    ),
    Situation(gpu_training_fed, "faster than `gpu_training`, by the DataLoader's part of the step", ".json.gz"),
    Situation(
        planted_faults,
        "each fault of `examples/planted_faults.py`: `.item()` three times per step and pauses, zeros from the CPU, "
        "ten clones in a row, 6 of 9 passes for nothing, DataParallel on one GPU, fp32 without tensor cores",
        ".json.gz",
        layout=LAYOUTS["minified"],
    ),
    Situation(
        serving_graphs,
        "one step over the whole trace; 504 graph kernels share 12 launches and belong to no operator",
        ".json.gz",
    ),
    Situation(old_categories, "steps 0 to 2; same classes of time as in a modern trace", ".json.gz"),
    Situation(rocm_training, "device memory of GPU 0; occupancy and blocks per SM unknown, not 0", ".json.gz"),
    Situation(
        ddp_nccl,
        "NCCL kernels are communication, partly hidden by backward; rank 0 of 2",
        ".json.gz",
        layout=LAYOUTS["distributed_last"],
    ),
    Situation(
        no_profiler_step,
        "one step over the whole trace; four steps inferred from `Optimizer.step`",
        ".json.gz",
        layout=LAYOUTS["events_first"],
    ),
    Situation(cpu_only, "device times 0; no GPU section, and why"),
    Situation(xpu, "kernels attributed to operators through both kinds of launch", layout=LAYOUTS["current"]),
    Situation(mtia, "device busy for 704 us, waiting for 820 us is no work; no kernels"),
    Situation(
        npu,
        "device 1 busy for 310 us, waiting for 800 us; one event without a category and one of an unknown one left out",
        layout=LAYOUTS["bare_array"],
    ),
    Situation(hpu, "device 0 busy for 350 us; `synLaunch` is an operator of the host"),
    Situation(
        legacy_list,
        "a list of the legacy profiler; CUDA device 0 busy for 2.57 ms, 1.29 of them in `aten::mm`; three steps of a "
        "training",
        layout=LAYOUTS["bare_array"],
    ),
    Situation(overlapping_slices, "two overlapping slices on threads, cut where their parent ends, counted"),
    Situation(
        kernels_without_launch,
        "three device events without launch: in tables and busy time, no operator",
        layout=LAYOUTS["pretty"],
    ),
    Situation(gpu_step_annotations, "three steps, not six", layout=LAYOUTS["minified"]),
    Situation(
        cuda_driver_launches,
        "driver calls are launches; kernels belong to `aten::mm` and the Triton op",
        layout=LAYOUTS["keys_reordered"],
    ),
    Situation(
        external_id_is_correlation,
        "kernels attributed by containment, not by `External id`",
        layout=LAYOUTS["spaced"],
    ),
    Situation(streams_shared_by_devices, "two GPUs with separate busy times", layout=LAYOUTS["events_last"]),
    Situation(
        forked_processes,
        "operators of both processes kept apart; no overlap reported",
        layout=LAYOUTS["bare_array"],
    ),
)

__all__ = [
    "SITUATIONS",
    "Situation",
    "cpu_only",
    "cuda_driver_launches",
    "ddp_nccl",
    "external_id_is_correlation",
    "forked_processes",
    "gpu_step_annotations",
    "gpu_training",
    "gpu_training_fed",
    "hpu",
    "kernels_without_launch",
    "legacy_list",
    "mtia",
    "no_profiler_step",
    "npu",
    "old_categories",
    "overlapping_slices",
    "planted_faults",
    "rocm_training",
    "serving_graphs",
    "streams_shared_by_devices",
    "xpu",
]
