"""Facts about the program that a capture records in addition to the events, because no trace holds them.

`traceanalyzer.capture` writes them as the first key of the trace, `"traceanalyzer"`; docs/capture.schema.json is made
from the structs here. Writer and reader meet in that JSON alone: a missing field is unknown, and an
unknown field is ignored.
"""

from __future__ import annotations

import msgspec

KEY = "traceanalyzer"
"""Key of the block in the metadata of a trace."""

VERSION = 1
"""Version of the block. A block of another version is not read."""


class Versions(msgspec.Struct, frozen=True):
    """Software that the program ran with."""

    python: str | None = None
    """Version of Python, such as `3.12.3`."""
    torch: str | None = None
    """Version of torch as it calls itself, such as `2.7.0+cu126`."""
    cuda: str | None = None
    """CUDA version that torch was built with; null for other builds."""
    hip: str | None = None
    """ROCm version that torch was built with; null for other builds."""
    cudnn: str | None = None
    """Version of cuDNN as torch counts it: 91002 is 9.10.2. On ROCm it is MIOpen's; null if unknown."""


class Host(msgspec.Struct, frozen=True):
    """The machine, without its name."""

    cpus: int | None = None
    """Number of cores that the process could use; a container may have fewer than the machine. Null if unknown."""
    threads: int | None = None
    """Number of threads that one operator on the CPU uses; null if unknown."""


class CapturedDevice(msgspec.Struct, frozen=True):
    """An accelerator that the process could see."""

    kind: str
    """Kind of the device as torch calls it: `cuda` (which is ROCm, too) or `xpu`."""
    index: int
    """Number of the device within the process, counted from 0."""
    name: str | None = None
    """Name of the device as reported by its driver; null if unknown."""
    memory_bytes: int | None = None
    """Memory of the device in bytes; null if unknown."""
    is_current: bool = False
    """Whether the process used this device when the trace was written."""


class DtypeCount(msgspec.Struct, frozen=True):
    """How many parameters have a type."""

    dtype: str
    """Element type without the prefix `torch.`, such as `bfloat16`."""
    tensors: int
    """Number of parameters of this type."""


class Parameters(msgspec.Struct, frozen=True):
    """Parameters of the optimizers that stepped; without any, of all modules."""

    tensors: int
    """Number of parameters, each once."""
    elements: int
    """Number of elements of all parameters together."""
    dtypes: tuple[DtypeCount, ...] = ()
    """Number of parameters by element type, in the order of the types."""
    devices: tuple[str, ...] = ()
    """Kinds of devices that the parameters are on, such as `cpu` and `cuda`."""


class CapturedOptimizer(msgspec.Struct, frozen=True):
    """An optimizer that stepped."""

    name: str
    """Name of the optimizer's class."""
    groups: int
    """Number of its parameter groups."""
    tensors: int
    """Number of parameters in all groups."""
    foreach: bool | None = None
    """Setting `foreach` of the first group; null leaves the choice to torch, which takes it on accelerators."""
    fused: bool | None = None
    """Setting `fused` of the first group; null leaves the choice to torch, which does not take it."""
    capturable: bool | None = None
    """Setting `capturable` of the first group, which CUDA graphs need; null if the optimizer has no such setting."""


class Parallel(msgspec.Struct, frozen=True):
    """A way of training on several devices that is in use."""

    name: str
    """Class of the wrapper: `DataParallel`, `DistributedDataParallel`, `FullyShardedDataParallel`, `FSDPModule` or
    `DeepSpeedEngine`."""
    devices: int | None = None
    """Number of devices that one process drives; null if the wrapper does not have it."""


class Numerics(msgspec.Struct, frozen=True):
    """Settings of the precision and determinism of arithmetic."""

    matmul_precision: str | None = None
    """Precision of products of float32 matrices: `highest`, `high` or `medium`; null if unknown."""
    matmul_allows_tf32: bool | None = None
    """Whether products of float32 matrices may use TF32 on CUDA; null if torch does not have the setting."""
    cudnn_allows_tf32: bool | None = None
    """Whether cuDNN may use TF32 for float32; null if torch does not have the setting."""
    cudnn_benchmark: bool | None = None
    """Whether cuDNN measures algorithms of convolutions and uses the fastest; null if torch does not have the
    setting."""
    cudnn_deterministic: bool | None = None
    """Whether cuDNN is limited to deterministic algorithms; null if torch does not have the setting."""
    deterministic_algorithms: bool | None = None
    """Whether torch is limited to deterministic algorithms; null if torch does not have the setting."""


class Distributed(msgspec.Struct, frozen=True):
    """The default process group."""

    rank: int
    """Rank of this process in the default process group."""
    world_size: int
    """Number of ranks in the default process group."""
    backend: str
    """Backend of the group as torch names it, such as `nccl`."""


class CapturedFetching(msgspec.Struct, frozen=True):
    """Preparing batches in the program's own process, over the recorded steps."""

    batches: int
    """Number of batches."""
    ns: int
    """Time in ns in which the program prepared these batches."""
    cpu_ns: int
    """CPU time in ns of all threads of the process meanwhile; more than `ns` if several threads worked."""
    queued_ns: int | None = None
    """Part of the time in ns in which the thread was ready to run but had no core; null if the system does not count
    it."""

    @property
    def asleep_ns(self) -> int | None:
        """Time in ns that needs no core: for files, a network or a clock. Null if unknown."""
        return None if self.queued_ns is None else max(0, self.ns - self.cpu_ns - self.queued_ns)


class CapturedSamples(msgspec.Struct, frozen=True):
    """What samples of a dataset cost: of batches of the recorded steps, or of all that forked workers prepared."""

    batches: int
    """Number of batches."""
    samples: int
    """Number of samples."""
    ns: int
    """Time in ns, without waiting for a core, in which they were taken from the dataset and collated to batches."""
    collate_ns: int = 0
    """Part of the time in ns in which samples were collated."""
    function: str | None = None
    """The function that makes a sample, such as `data.py(12): Words.__getitem__`; null for datasets of torch itself."""
    collate: str | None = None
    """The function that collates samples; null for torch's own."""

    @property
    def slowest(self) -> tuple[str, int] | None:
        """The function of the program that takes most of the time, and its time in ns; None if no name is known."""
        parts = ((self.function, self.ns - self.collate_ns), (self.collate, self.collate_ns))
        return max(((name, ns) for name, ns in parts if name is not None), key=lambda part: part[1], default=None)


class CapturedThread(msgspec.Struct, frozen=True):
    """A thread that ran Python beside the one that makes the steps."""

    function: str
    """The function that it began with, such as `train.py(7): watch`."""
    ns: int
    """Time in ns in which it ran or was ready to, over the recorded steps."""


class CapturedLoader(msgspec.Struct, frozen=True):
    """Settings of a `DataLoader` whose batches the program read."""

    workers: int | None = None
    """Number of worker processes; 0 prepares batches in the program's own process. Null if unknown."""
    pin_memory: bool | None = None
    """Whether batches are put into pinned memory; null if unknown."""
    persistent_workers: bool | None = None
    """Whether workers live on from epoch to epoch; null if unknown."""
    prefetch_factor: int | None = None
    """Number of batches that each worker keeps ready; null without workers or if unknown."""
    batch_size: int | None = None
    """Samples in a batch; null if the loader does not show it."""
    drop_last: bool | None = None
    """Whether a last batch that is not full is left out; null if unknown."""
    epochs: int = 0
    """How often the program began to read the loader from the start."""
    fetching: CapturedFetching | None = None
    """What it took to prepare the batches of the recorded steps; null with workers, if no batch was prepared in these
    steps, or if unknown."""
    samples: CapturedSamples | None = None
    """What its samples cost; null if none was measured, as in workers that were not forked."""


class CapturedGarbage(msgspec.Struct, frozen=True):
    """Collections of all garbage by Python, over the recorded steps."""

    collections: int
    """How often all garbage was collected, by `gc.collect()` or by Python itself."""
    ns: int
    """Time in ns that this took."""


class Autocast(msgspec.Struct, frozen=True):
    """A kind of automatic mixed precision that the program has entered."""

    device: str
    """Kind of device for which it was entered, such as `cuda`."""
    dtype: str
    """Element type that it chooses for fast operators, such as `float16`."""


_ENOUGH = 3
"""Least number of steps for which the median is used instead of the mean."""


class StepTimes(msgspec.Struct, frozen=True):
    """Durations of steps, measured by the clock of the process."""

    steps: int
    """Number of steps that were measured."""
    mean_ns: int
    """Mean duration of a step in ns."""
    median_ns: int
    """Median duration of a step in ns."""
    cpu_ns: int | None = None
    """Mean time in ns for which the thread that makes the steps ran on a core; null if the system does not count it."""
    queued_ns: int | None = None
    """Mean time in ns in which that thread was ready to run but had no core; null if the system does not count it."""
    range_ns: tuple[int, int] | None = None
    """First and third quartile of the durations in ns; null for fewer than three steps or if unknown."""
    undisturbed_range_ns: tuple[int, int] | None = None
    """The same of the durations without the time in which the thread had no core; null if the system does not count
    it."""
    others_ns: int | None = None
    """Mean time in ns in which other threads of Python ran or were ready to, all together; null if unknown."""

    @property
    def usual_ns(self) -> int:
        """Duration of a step in ns: the median of three or more steps, else the mean."""
        return self.median_ns if self.steps >= _ENOUGH else self.mean_ns


class TimedStep(msgspec.Struct, frozen=True):
    """What one step took."""

    ns: int
    """Duration in ns."""
    cpu_ns: int
    """Time in ns for which the thread that makes the steps ran on a core."""
    queued_ns: int
    """Time in ns in which that thread was ready to run but had no core."""

    @property
    def asleep_ns(self) -> int:
        """Time in ns in which the thread waited for something else than a core."""
        return max(0, self.ns - self.cpu_ns - self.queued_ns)


class Timing(msgspec.Struct, frozen=True):
    """Steps with the profiler and control steps without; null if there are none."""

    before: StepTimes | None = None
    """Steps without the profiler before the recording; the first step of the program is not among them."""
    profiled: StepTimes | None = None
    """Steps that were recorded, with the profiler on."""
    after: StepTimes | None = None
    """Steps without the profiler after the recording; the first step after it is not among them."""

    @property
    def control(self) -> StepTimes | None:
        """The phase without the profiler that has more steps; None if none was measured."""
        phases = [phase for phase in (self.after, self.before) if phase is not None]
        return max(phases, key=lambda phase: phase.steps) if phases else None

    @property
    def control_ns(self) -> int | None:
        """Duration of a step without the profiler in ns, from the phase with more steps; None if none was measured."""
        return None if self.control is None else self.control.usual_ns

    @property
    def profiled_ns(self) -> int | None:
        """Duration of a recorded step in ns; None if none was measured."""
        return None if self.profiled is None else self.profiled.usual_ns

    @property
    def overhead_share(self) -> float | None:
        """What recording adds to a step, over the step without it; None if it is less than steps differ by themselves.

        Half of the steps of each phase must be apart from those of the other, also without waiting for a core.
        """
        control, profiled = self.control, self.profiled
        if control is None or profiled is None or not 0 < control.usual_ns <= profiled.usual_ns:
            return None
        for one, other in (
            (control.range_ns, profiled.range_ns),
            (control.undisturbed_range_ns, profiled.undisturbed_range_ns),
        ):
            if one is not None and other is not None and one[1] >= other[0]:
                return None
        return profiled.usual_ns / control.usual_ns - 1


class Asked(msgspec.Struct, frozen=True):
    """The requested recording, in steps."""

    wait: int = 0
    """Number of steps to let pass before the warm-up."""
    warmup: int = 0
    """Number of steps directly before the recorded ones, in which program and profiler warm up."""
    steps: int = 0
    """Number of steps to record."""


class CaptureFacts(msgspec.Struct, frozen=True):
    """Everything that a capture recorded in addition to the events."""

    version: int
    """Version of this block; a block of another version is not read."""
    versions: Versions = Versions()
    """Versions of the software that the program ran with."""
    host: Host = Host()
    """The machine that the program ran on, without its name."""
    devices: tuple[CapturedDevice, ...] = ()
    """Accelerators that the process could see, of the kinds that the program had initialized."""
    parameters: Parameters | None = None
    """Parameters of the optimizers that stepped; without any, of all modules. Null if unknown."""
    optimizers: tuple[CapturedOptimizer, ...] = ()
    """Optimizers that stepped, with their settings."""
    parallel: tuple[Parallel, ...] = ()
    """Wrappers that train on several devices and that the program used."""
    is_compiled: bool | None = None
    """Whether `torch.compile` was used; null if unknown."""
    is_training: bool | None = None
    """Whether some module was in training mode; null without modules."""
    is_grad_enabled: bool | None = None
    """Whether gradients were enabled when the trace was written; null if unknown."""
    numerics: Numerics = Numerics()
    """Settings of precision and repeatability when the trace was written."""
    distributed: Distributed | None = None
    """The default process group; null without one."""
    loaders: tuple[CapturedLoader, ...] | None = None
    """Loaders that were read, the most often begun first; null if unknown."""
    autocast: tuple[Autocast, ...] | None = None
    """Kinds of automatic mixed precision that were entered; empty if none was, null if unknown."""
    has_grad_scaler: bool | None = None
    """Whether gradients were scaled, as float16 needs it; null if unknown."""
    backward_per_step: float | None = None
    """Backward passes per step, over the steps of `timing`; above 1 where gradients are accumulated. Null if no step
    counts."""
    batches_per_step: float | None = None
    """Batches that all loaders together delivered in a usual step: the median of three or more, else the mean. Null if
    no step counts."""
    frames: tuple[str, ...] = ()
    """Functions of installed packages that were running when the first step ended, the innermost first: they show
    which framework has the loop."""
    rows_per_step: float | None = None
    """Where calls of a module mark the steps, the first dimension of its first tensor, such as the sequences of a
    batch, in a usual step; null elsewhere."""
    generates: bool | None = None
    """Whether the calls that mark the steps come from a function `generate`, so that each is a token for each row; null
    if unknown."""
    garbage: CapturedGarbage | None = None
    """Collections of all garbage over the recorded steps; null if unknown."""
    threads: tuple[CapturedThread, ...] = ()
    """Other threads of Python that ran in the recorded steps, the busiest first, at most three functions."""
    lock_wait_ns: int | None = None
    """How long the thread that makes the steps waited for the interpreter's lock (GIL) when it asked for it between
    steps without the profiler, in ns: the mean; null if no other thread ran Python, or if unknown."""
    may_train: bool | None = None
    """Whether the program had computed gradients or made an optimizer when it was last looked at, in recordings of
    inference at its end; null if unknown."""
    steps_from: str | None = None
    """What marked the steps: `prof.step`, `optimizer`, `update` (parameters that change after a backward pass, where no
    optimizer is seen to step), `backward` (each backward pass, where no parameters are seen to change), `dataloader`,
    or `module` (calls of the outermost one); null where the whole run is one."""
    steps: int = 0
    """Number of whole steps in the trace."""
    asked: Asked = Asked()
    """The requested recording."""
    ended: str | None = None
    """Why the recording ended: `complete`; because the program ended by `exit`, `exception` or `signal`; because its
    steps are `large`, so that fewer than asked for were recorded; or because the recording `gave-way` to the program's
    own profiler. Null if unknown."""
    is_light: bool = False
    """Whether only devices were recorded: no operators, shapes or stacks. Marks of steps are the capture's own."""
    timing: Timing = Timing()
    """Durations of steps with and without the profiler."""
    recorded: tuple[TimedStep, ...] = ()
    """Every recorded step; empty if the system does not count times on cores."""


def parse(block: object) -> CaptureFacts | None:
    """The facts of a trace's metadata; None where the block is absent, damaged or of another version."""
    try:
        facts = msgspec.convert(block, CaptureFacts)
    except msgspec.ValidationError:
        return None
    return facts if facts.version == VERSION else None
