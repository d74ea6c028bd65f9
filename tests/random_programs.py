"""Programs of arbitrary steps, for laws about all reports: what a step does is drawn, when it happens is simulated."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from random import Random

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Pace, Stream, Work, finish

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
PRODUCT = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_nn"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>(int)"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

_KINDS = ("load", "python", "script", "elementwise", "product", "clone", "read", "wait", "upload", "reduce", "graph")
_LONGEST_US = 1200

Part = tuple[str, int, int]
"""What it does, a duration in microseconds and a number; what they mean depends on what it does."""


@dataclass(frozen=True)
class Program:
    """What a program does in each step."""

    parts: tuple[Part, ...]
    steps: int = 4
    is_marked: bool = True
    """Whether the profiler marks the steps; the optimizer does otherwise, and each step ends by reading the loss: a
    host that runs ahead of its device would mark steps of its own length."""
    twice: int | None = None
    """A step that does everything twice."""
    seed: int | None = None
    """What makes durations vary by a few percent; None leaves them as they are."""

    @classmethod
    def random(cls, seed: int) -> Program:
        """One of many programs; the same for the same seed, wherever the test runs."""
        draw = Random(seed)
        kinds = [(draw.choice(_KINDS), draw.randint(8, _LONGEST_US), draw.randint(1, 6)) for _ in range(7)]
        return cls(
            parts=tuple(kinds[: draw.randint(1, len(kinds))]),
            steps=draw.randint(1, 5),
            is_marked=draw.random() < 0.5,
            twice=draw.choice((None, *range(5))),
            seed=draw.choice((None, *range(1, 10))),
        )

    def build(self) -> TraceBuilder:
        """The recording of the program."""
        run = _Run(TraceBuilder(options=("record_shapes",)), Pace(self.seed))
        for number in range(self.steps):
            run.step(number, self.parts * (2 if number == self.twice else 1), is_marked=self.is_marked)
        return finish(run.trace, annotations=False)


class _Run:
    """The program while it runs."""

    def __init__(self, trace: TraceBuilder, pace: Pace) -> None:
        self.trace = trace
        self.host = Host(trace, at=10, pace=pace)
        self.streams = (Stream(7, pace=pace), Stream(20, pace=pace))

    def step(self, number: int, parts: tuple[Part, ...], *, is_marked: bool) -> None:
        with self.host.annotation(f"ProfilerStep#{number}") if is_marked else nullcontext():
            self._parts(parts)
            if not is_marked:
                self.read(1, 1)

    def _parts(self, parts: tuple[Part, ...]) -> None:
        for name, dur, count in parts:
            getattr(self, name)(dur, count)
        with self.host.annotation("Optimizer.step#SGD.step"):
            self.elementwise(20, 2)

    def load(self, dur: int, _: int) -> None:
        """Wait for a batch."""
        self.host.range(LOADER, dur)

    def python(self, dur: int, _: int) -> None:
        """Do what nothing records."""
        self.host.work(dur)

    def script(self, dur: int, count: int) -> None:
        """Run Python functions."""
        for number in range(count):
            with self.host.frame(f"train.py({10 + number}): part_{number}"):
                self.host.work(dur)

    def elementwise(self, dur: int, count: int) -> None:
        """Launch small kernels from small operators."""
        for _ in range(count):
            with self.host.op("aten::add", 6, 2, shapes=[[64, 64], [64, 64]], types=["float", "float"]):
                self.host.launch(Work(POINTWISE.format("add_kernel"), dur // 8, grid=(200, 1, 1)), self.streams[0])

    def product(self, dur: int, count: int) -> None:
        """Multiply matrices, on the second stream every other time."""
        for number in range(count):
            with self.host.op("aten::mm", 8, 2, shapes=[[512, 512], [512, 512]], types=["float", "float"]):
                self.host.launch(Work(PRODUCT, dur, grid=(400, 1, 1)), self.streams[number % 2])

    def clone(self, dur: int, count: int) -> None:
        """Copy tensors on the device."""
        for _ in range(count):
            with self.host.op("aten::clone", 5, 2, shapes=[[1024, 1024], []]), self.host.op("aten::copy_", 4, 2):
                self.host.launch(Work(POINTWISE.format("copy_kernel"), dur // 4, grid=(900, 1, 1)), self.streams[0])

    def read(self, _: int, count: int) -> None:
        """Read values, each of which waits for the device."""
        for _number in range(count):
            with self.host.op("aten::item", 2, 1), self.host.op("aten::_local_scalar_dense", 3, 1):
                self.host.copy("DtoH", 4, self.streams[0], dur=1, wait=True)

    def wait(self, _: int, __: int) -> None:
        """Wait for everything."""
        self.host.wait(*self.streams, call="cudaDeviceSynchronize")

    def upload(self, dur: int, count: int) -> None:
        """Copy batches to the device from pageable memory, or from pinned memory every other time."""
        for number in range(count):
            with self.host.op("aten::to", 3, 2), self.host.op("aten::copy_", 4, 2, shapes=[[dur, 4096], [dur, 4096]]):
                pinned = bool(number % 2)
                self.host.copy("HtoD", dur * 12_000, self.streams[0], dur=dur, pinned=pinned, wait=not pinned)

    def reduce(self, dur: int, count: int) -> None:
        """Average gradients over the ranks, on a stream of its own, and wait for it on the device."""
        for _ in range(count):
            args = {"Collective name": "allreduce", "In msg nelems": 1 << 20, "dtype": "Float", "Group size": 2}
            with self.host.op("nccl:all_reduce", 8, 2):
                self.host.launch(Work(REDUCE, dur, grid=(8, 1, 1), args=args), self.streams[1])

    def graph(self, dur: int, count: int) -> None:
        """Launch a graph of kernels."""
        self.host.graph([Work(PRODUCT, dur // 4, grid=(400, 1, 1))] * (4 * count), self.streams[0])
