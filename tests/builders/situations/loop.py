"""A training loop, simulated from a plan: what it does, on which hardware, under which writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from ..allocator import Allocator
from ..dialects import MODERN, Dialect
from ..hardware import A100, Device
from ..timeline import Host, Pace, Stream, finish
from ..trace import TraceBuilder
from ..values import micros
from .kernels import AMPERE, Kernels
from .layers import Layer, Step, backward, forward, size
from .networks import BATCH, CLASSES, IMAGES, convnet

_ENGINE_FRAMES = (
    "torch/_tensor.py(525): backward",
    "torch/autograd/__init__.py(267): backward",
    "torch/autograd/graph.py(744): _engine_run_backward",
)


@dataclass(frozen=True)
class Plan:
    """What a training loop looks like."""

    dialect: Dialect = MODERN
    device: Device = A100
    kernels: Kernels = AMPERE
    steps: int = 6
    first: int = 4
    seed: int = 1
    options: tuple[str, ...] = ("record_shapes", "profile_memory", "with_stack", "with_modules")
    loader: str = "_MultiProcessingDataLoaderIter"
    loader_us: int = 2600
    frames: bool = True
    memory: bool = True
    profiler_steps: bool = True
    read_loss: bool = True
    """`loss.item()` in every step, before backward."""
    side_stream: bool = True
    ranks: int = 0
    """Number of data-parallel ranks; 0 means no DDP."""
    host_gap_us: int = 40
    """Python time between steps."""
    metadata: Mapping[str, object] = field(default_factory=dict)


class Loop:
    """Simulates the steps of a plan."""

    def __init__(self, plan: Plan, trace: TraceBuilder) -> None:
        self.plan = plan
        self.trace = trace
        pace = Pace(plan.seed)
        self.host = Host(trace, at=120, pace=pace)
        self.engine = Host(trace, tid=trace.tid + 96, pace=pace)
        self.main = Stream(7 if plan.dialect.device_args == "cuda" else 0, pace=pace)
        self.side = Stream(20, pace=pace)
        self.comm = Stream(24, pace=pace)
        held = size((3, 7, 7, 64)) + size((64, 3, 3, 128)) + size((128, CLASSES))
        self.step = Step(self.main, Allocator(0, held=2 * held) if plan.memory else None)
        self.layers = convnet(plan.kernels)

    def run(self) -> TraceBuilder:
        """All steps, inside the frames of the script."""
        with self._frame("train.py(88): <module>"), self._frame("train.py(41): train"):
            for number in range(self.plan.first, self.plan.first + self.plan.steps):
                with self._step(number):
                    self._batch(number)
                self.host.work(self.plan.host_gap_us)
        return finish(self.trace, self.main, self.side, self.comm, annotations=self.plan.dialect.exact)

    @contextmanager
    def _frame(self, name: str, module: int | None = None) -> Iterator[None]:
        if not self.plan.frames:
            yield
            return
        with self.host.frame(name, module):
            yield

    @contextmanager
    def _step(self, number: int) -> Iterator[None]:
        if not self.plan.profiler_steps:
            yield
            return
        with self.host.annotation(f"ProfilerStep#{number}"):
            yield

    def _batch(self, number: int) -> None:
        host = self.host
        self._load(slow=number == self.plan.first)
        images = self._to_device()
        zero_grad = host.annotation("Optimizer.zero_grad#SGD.zero_grad", 12, 6)
        with self._frame("torch/optim/optimizer.py(955): zero_grad"), zero_grad:
            host.work(18)
        with ExitStack() as call:
            if self.plan.ranks:
                call.enter_context(host.annotation("DistributedDataParallel.forward", 30, 4))
            self._forward()
        if self.plan.side_stream:
            self._accuracy()
        if self.plan.read_loss:
            self._read_loss()
        self._backward()
        self._update()
        self.step.free(host, images)

    def _load(self, *, slow: bool) -> None:
        name = f"enumerate(DataLoader)#{self.plan.loader}.__next__"
        with self._frame("torch/utils/data/dataloader.py(691): __next__"), self.host.annotation(name, 6, 4):
            self.host.work(self.plan.loader_us * 3 if slow else self.plan.loader_us)
            self.host.leaf("aten::set_", 4, shapes=[[0], [], []], types=["float", "", ""])

    def _to_device(self) -> int:
        """Copy images from pageable memory and labels from pinned memory; returns the images' address."""
        host, address = self.host, 0
        for shape, kind, pinned, dur in (
            (IMAGES, "float", False, "1164.7"),
            ((BATCH,), "long int", True, "1.6"),
        ):
            with ExitStack() as nest:
                for name in ("aten::to", "aten::_to_copy"):
                    nest.enter_context(host.op(name, 3, 1, shapes=[list(shape)], types=[kind]))
                with host.op("aten::empty_strided", 4, 2):
                    if not pinned:
                        address = self.step.allocate(host, shape)
                with host.op("aten::copy_", 5, 2, shapes=[list(shape), list(shape)], types=[kind, kind]):
                    width = 8 if pinned else 4
                    host.copy("HtoD", size(shape, width), self.main, dur=dur, pinned=pinned, wait=not pinned)
        return address

    def _forward(self) -> None:
        model = "train.py(17): forward"
        with self._frame("nn.Module: ConvNet_0", module=0), self._frame(model):
            for number, layer in enumerate(self.layers[:-2], start=1):
                with self._frame(f"nn.Module: {layer.module}", module=number if number > 1 else 1):
                    forward(self.host, layer, self.step)
                self.host.work(6)
        loss = self.host.op("aten::cross_entropy_loss", 5, 2, shapes=[[BATCH, CLASSES], [BATCH]])
        with self._frame("nn.Module: CrossEntropyLoss_0", module=0), loss:
            for layer in self.layers[-2:]:
                forward(self.host, layer, self.step)

    def _accuracy(self) -> None:
        """A metric on a side stream, after an event of the main one."""
        host = self.host
        host.call("cudaEventRecord")
        host.call("cudaStreamWaitEvent")
        self.side.free_ns = max(self.side.free_ns, self.main.free_ns)
        with host.op("aten::argmax", 6, 2, shapes=[[BATCH, CLASSES], [], []], types=["float", "Scalar", "Scalar"]):
            host.launch(replace(self.plan.kernels.mean, dur="7.9", grid=(64, 1, 1)), self.side)
        with host.op("aten::eq", 4, 2, shapes=[[BATCH], [BATCH]], types=["long int", "long int"]):
            host.launch(replace(self.plan.kernels.relu, dur="2.1", grid=(1, 1, 1), occupancy=3), self.side)

    def _read_loss(self) -> None:
        host = self.host
        item = host.op("aten::item", 2, 1, shapes=[[]], types=["float"])
        scalar = host.op("aten::_local_scalar_dense", 3, 2, shapes=[[]], types=["float"])
        with self._frame("train.py(52): log_loss"), item, scalar:
            host.copy("DtoH", 4, self.main, dur="1.5", wait=True)

    def _backward(self) -> None:
        with ExitStack() as frames:
            for name in _ENGINE_FRAMES:
                frames.enter_context(self._frame(name))
            self.engine.now = self.host.now + 34_000
            backward(self.engine, self.step, self._reduce)
            self.host.now = self.engine.now + 21_000

    def _reduce(self, layer: Layer) -> None:
        """Average the gradients in two buckets; the first one overlaps with the rest of backward."""
        bucket = {"Conv2d_1": (204_864, 302), "Conv2d_0": (9_536, 96)}.get(layer.module)
        if not self.plan.ranks or bucket is None:
            return
        ready = max(self.main.free_ns, self.engine.now + 40_000)
        start, length = self.comm.run(bucket[1], ready, [])
        self.trace.collective(
            "all_reduce",
            start,
            length,
            at=micros(self.engine.now),
            nelems=bucket[0],
            ranks=tuple(range(self.plan.ranks)),
            tid=self.engine.tid,
        )
        self.engine.work(75)

    def _update(self) -> None:
        host = self.host
        self.main.free_ns = max(self.main.free_ns, self.comm.free_ns)
        with self._frame("torch/optim/sgd.py(76): step"), host.annotation("Optimizer.step#SGD.step", 25, 8):
            for name in ("aten::_foreach_mul_", "aten::_foreach_add_", "aten::_foreach_add_"):
                with host.op(name, 14, 4, shapes=[[], [], []], types=["TensorList", "TensorList", "Scalar"]):
                    host.launch(self.plan.kernels.update, self.main)


def train(plan: Plan, origin: str = "0", distributed: Mapping[str, object] | None = None) -> TraceBuilder:
    """The trace of a training loop."""
    trace = TraceBuilder(
        plan.dialect,
        devices=(plan.device,),
        options=plan.options,
        origin=origin,
        distributed=distributed,
        metadata=plan.metadata,
        margins=(85, 240),
    )
    return Loop(plan, trace).run()
