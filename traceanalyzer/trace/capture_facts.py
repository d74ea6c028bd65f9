"""What a capture recorded beside the events: facts about the program that no trace can know.

`traceanalyzer.capture` writes them as the first key of the trace, `"traceanalyzer"`; docs/capture.schema.json is made
from the structs here. Writer and reader meet in that JSON alone: a field that is not there is unknown, and one that
nobody here knows is passed over.
"""

from __future__ import annotations

import msgspec

KEY = "traceanalyzer"
"""Of the block in the metadata of a trace."""

VERSION = 1
"""Of the block. A block of another version is not read."""


class Versions(msgspec.Struct, frozen=True):
    """Software that the program ran with."""

    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    """That torch was built with; null for other builds."""
    hip: str | None = None
    """The same for ROCm."""
    cudnn: str | None = None
    """As torch counts it: 91002 is 9.10.2. On ROCm it is MIOpen's."""


class Host(msgspec.Struct, frozen=True):
    """The machine, without its name."""

    cpus: int | None = None
    """Cores that the process could use; a container may have fewer than the machine."""
    threads: int | None = None
    """Threads that one operator on the CPU uses."""


class CapturedDevice(msgspec.Struct, frozen=True):
    """An accelerator that the process could see."""

    kind: str
    """`cuda` (which is ROCm, too) or `xpu`."""
    index: int
    name: str | None = None
    memory_bytes: int | None = None
    is_current: bool = False
    """The one that the process used when the trace was written."""


class DtypeCount(msgspec.Struct, frozen=True):
    """How many parameters have a type."""

    dtype: str
    tensors: int


class Parameters(msgspec.Struct, frozen=True):
    """Parameters of the optimizers that stepped; without any, of all modules."""

    tensors: int
    elements: int
    dtypes: tuple[DtypeCount, ...] = ()
    devices: tuple[str, ...] = ()
    """Kinds of devices that they are on."""


class CapturedOptimizer(msgspec.Struct, frozen=True):
    """An optimizer that stepped."""

    name: str
    """Of its class."""
    groups: int
    tensors: int
    foreach: bool | None = None
    """As it was asked for; null leaves it to torch, which takes it on accelerators."""
    fused: bool | None = None
    """As it was asked for; null leaves it to torch, which does not take it."""
    capturable: bool | None = None


class Parallel(msgspec.Struct, frozen=True):
    """A way of training on several devices that is in use."""

    name: str
    """`DataParallel`, `DistributedDataParallel`, `FullyShardedDataParallel`, `FSDPModule`, `DeepSpeedEngine`."""
    devices: int | None = None
    """Devices that one process drives; null where the wrapper does not say."""


class Numerics(msgspec.Struct, frozen=True):
    """How exact and how repeatable arithmetic was asked to be."""

    matmul_precision: str | None = None
    """Of products of float32 matrices: `highest`, `high`, `medium`."""
    matmul_allows_tf32: bool | None = None
    cudnn_allows_tf32: bool | None = None
    cudnn_benchmark: bool | None = None
    cudnn_deterministic: bool | None = None
    deterministic_algorithms: bool | None = None


class Distributed(msgspec.Struct, frozen=True):
    """The default process group."""

    rank: int
    world_size: int
    backend: str


class CapturedLoader(msgspec.Struct, frozen=True):
    """Settings of a `DataLoader` that was read, as it was used."""

    workers: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    prefetch_factor: int | None = None
    """Batches that each worker keeps ready; null without workers."""
    batch_size: int | None = None
    drop_last: bool | None = None
    epochs: int = 0
    """How often it was begun from the start."""


class Autocast(msgspec.Struct, frozen=True):
    """Automatic precision that the program has entered."""

    device: str
    dtype: str


class StepTimes(msgspec.Struct, frozen=True):
    """Durations of steps on the wall."""

    steps: int
    mean_ns: int
    median_ns: int


class Timing(msgspec.Struct, frozen=True):
    """Steps with the profiler and control steps without; null where there are none."""

    before: StepTimes | None = None
    """Without it, before the recording; the first step of the program is not among them."""
    profiled: StepTimes | None = None
    """The recorded ones."""
    after: StepTimes | None = None
    """Without it, after the recording; the first step after it is not among them."""


class Asked(msgspec.Struct, frozen=True):
    """What was asked for."""

    wait: int = 0
    warmup: int = 0
    steps: int = 0


class CaptureFacts(msgspec.Struct, frozen=True):
    """Everything that a capture recorded beside the events."""

    version: int
    versions: Versions = Versions()
    host: Host = Host()
    devices: tuple[CapturedDevice, ...] = ()
    """Those that the program had initialized."""
    parameters: Parameters | None = None
    optimizers: tuple[CapturedOptimizer, ...] = ()
    parallel: tuple[Parallel, ...] = ()
    is_compiled: bool | None = None
    """`torch.compile` was used."""
    is_training: bool | None = None
    """Some module was in training mode; null without modules."""
    is_grad_enabled: bool | None = None
    """When the trace was written."""
    numerics: Numerics = Numerics()
    distributed: Distributed | None = None
    """Null without a process group."""
    loaders: tuple[CapturedLoader, ...] | None = None
    """Those that were read, the most often begun first; null is unknown."""
    autocast: tuple[Autocast, ...] | None = None
    """Null is unknown; empty is "none was entered"."""
    has_grad_scaler: bool | None = None
    """Gradients were scaled, as float16 needs it."""
    backward_per_step: float | None = None
    """Backward passes per step, above 1 where gradients are accumulated; over the steps of `timing`."""
    batches_per_step: float | None = None
    """Batches that were read per step, of all loaders together."""
    steps_from: str | None = None
    """What marked the steps: `prof.step`, `optimizer`, `dataloader`; null where the whole run is one."""
    steps: int = 0
    """Whole steps in the trace."""
    asked: Asked = Asked()
    ended: str | None = None
    """Why the recording ended: `complete`; or the program ended by `exit`, `exception`, `signal`; or recording
    `gave-way` to the program's own profiler."""
    timing: Timing = Timing()


def parse(block: object) -> CaptureFacts | None:
    """The facts of a trace's metadata; None where the block is absent, damaged or of another version."""
    try:
        facts = msgspec.convert(block, CaptureFacts)
    except msgspec.ValidationError:
        return None
    return facts if facts.version == VERSION else None
