"""A program as it runs and is recorded: passes, optimizers, copies and waits of one process with one GPU, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from math import prod
from typing import Any

from tests.builders import MODERN, Device, Dialect, Host, Pace, Stream, Time, TraceBuilder, finish, micros, ns
from tests.builders.transfers import Copy

from . import cards
from .cards import WIDTHS, Card, Shape
from .layers import Layer, Op

_EVALUATION = "autograd::engine::evaluate_function: "
_BUFFERED = 65_536
"""Bytes up to which a copy from pageable memory returns at once."""
ACCUMULATE = "torch::autograd::AccumulateGrad"
LOADER = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"


class Speed(Pace):
    """A CPU that takes so many percent of the usual time; durations vary a little, the same way every time."""

    def __init__(self, seed: int, percent: int = 100) -> None:
        super().__init__(seed)
        self.percent = percent

    def ns(self, time: Time) -> int:
        return super().ns(time) * self.percent // 100


class Script:
    """Writes what a program does, one thing after the other.

    Args:
        card: Its GPU; None: it has none.
        seed: What makes durations vary.
        speed: Of the CPU, in percent of the time that operators usually take.
        start: Microseconds of the recording before the first event.
        end: Microseconds of the recording after the last event.
        shapes: Whether shapes are recorded.
        is_old: Whether torch is older than 2.6.
        devices: What the header lists, if that is not the card.
    """

    def __init__(
        self,
        card: Card | None = cards.T4,
        *,
        seed: int = 1,
        speed: int = 100,
        start: Time = 150,
        end: Time = 300,
        shapes: bool = True,
        is_old: bool = False,
        devices: Sequence[Device] | None = None,
        dialect: Dialect = MODERN,
        **details: Any,
    ) -> None:
        self.card = card
        listed = tuple(devices) if devices is not None else (card.device,) if card else ()
        options = ("record_shapes",) if shapes else ()
        pid = details.pop("pid", 7_000 + 131 * seed)
        details = {"options": options, "origin": f"{1_419_247_332_972 + 7_919_311 * seed}.313"} | details
        self.trace = TraceBuilder(dialect, devices=listed, pid=pid, tid=pid, margins=(start, end), **details)
        self.trace.thread_names[pid + 96] = "pt_autograd_0"
        self.has_shapes = shapes
        self.is_old = is_old
        self.pace = Speed(seed, speed)
        self.host = Host(self.trace, pace=self.pace)
        self.engine = Host(self.trace, tid=pid + 96, pace=self.pace)
        self.stream = Stream(7, pace=Pace(seed))
        self.sequence = 100
        self.saved: list[tuple[Layer, int, int]] = []

    @property
    def gpu(self) -> Card:
        """The card, where there is one."""
        assert self.card is not None
        return self.card

    def run(self, op: Op, host: Host | None = None, sequence: int | None = None) -> None:
        """An operator with all that it does."""
        thread = host or self.host
        forward = 1 if thread is self.engine and sequence is not None else None
        with thread.op(op.name, 3, 1, sequence=sequence, fwd_thread=forward, **self.inputs(op)):
            if op.cpu:
                thread.work(op.cpu)
            for part in op.parts:
                if isinstance(part, Op):
                    self.run(part, thread)
                else:
                    thread.launch(part, self.stream)
                    thread.work(1)

    def inputs(self, op: Op) -> dict[str, Any]:
        """What `record_shapes` records of an operator's arguments."""
        if not self.has_shapes:
            return {}
        last = op.types[-1] if op.types else "float"
        types = [*op.types, *[last] * len(op.shapes)][: len(op.shapes)]
        rest: list[object] = [[] for _ in op.rest]
        strides = [[prod(shape[at + 1 :]) for at in range(len(shape))] for shape in op.shapes]
        return {
            "shapes": [*map(list, op.shapes), *rest],
            "strides": [*strides, *rest],
            "types": [
                *types,
                *("ScalarList" if text.startswith("[") else "Scalar" if text else "" for text in op.rest),
            ],
            "concrete": [*("" for _ in op.shapes), *op.rest],
        }

    def forward(self, layers: Iterable[Layer], *, grad: bool = True, gap: Time = 4) -> None:
        """The layers one after the other; with gradients, they are kept for `backward`."""
        for layer in layers:
            *before, main = layer.forward
            for op in before:
                self.run(op)
            start = self.host.now
            self.run(main, sequence=self.sequence if grad and layer.node else None)
            if grad and layer.node:
                self.saved.append((layer, self.sequence, start))
                self.sequence += 1
            self.host.work(gap)

    def backward(self, *, accumulate: str | None = None, after: Callable[[Layer], None] | None = None) -> None:
        """Everything kept, the last first, on autograd's thread, for which the main one waits.

        Args:
            accumulate: Type of the gradients that are there and to which these are added; None: there are none.
            after: Called when the gradients of a layer are there.
        """
        self.host.work(20)
        self.engine.now = self.host.now + 30_000
        fill = () if self.card is None else (self.card.pointwise(cards.FILL, (1,), tensors=1),)
        one = Op("aten::ones_like", ((),), (Op("aten::fill_", ((),), fill, rest=("1.",)),))
        self.run(one)
        self.engine.now = max(self.engine.now, self.host.now + 20_000)
        while self.saved:
            layer, number, start = self.saved.pop()
            engine = self.engine
            with engine.op(_EVALUATION + layer.node, 3, 2, sequence=number, fwd_thread=1):
                begin = engine.now
                with engine.op(layer.node, 3, 1, sequence=number, fwd_thread=1):
                    for op in layer.backward:
                        self.run(op, engine)
            self.trace.fwdbwd((micros(start), self.host.tid), (micros(begin), engine.tid))
            for shape in layer.parameters:
                self._accumulate(shape, accumulate)
            if after is not None:
                after(layer)
        self.host.now = self.engine.now + 15_000

    def _accumulate(self, shape: Shape, dtype: str | None) -> None:
        with self.engine.op(_EVALUATION + ACCUMULATE, 2, 1), self.engine.op(ACCUMULATE, 2, 1):
            if dtype is None:
                self.run(Op("aten::detach", (shape,)), self.engine)
            else:
                work = self.gpu.pointwise(cards.ADD, shape, tensors=3, dtype=dtype)
                self.run(Op("aten::add_", (shape, shape), (work,), (dtype,), ("1",)), self.engine)

    def update(self, layers: Iterable[Layer], *, name: str | None = "Adam", fused: bool = False) -> None:
        """The optimizer, by kernels for many parameters at a time; without a name nobody marks it."""
        total = sum(prod(shape) for layer in layers for shape in layer.parameters)
        with self.host.annotation(f"Optimizer.step#{name}.step", 30, 6) if name else nullcontext():
            steps = (
                [("aten::_fused_adam_", 7, cards.FUSED_ADAM)]
                if fused
                else [
                    ("aten::_foreach_lerp_", 3, cards.FOREACH),
                    ("aten::_foreach_mul_", 2, cards.FOREACH),
                    ("aten::_foreach_addcmul_", 3, cards.FOREACH),
                    ("aten::_foreach_sqrt", 2, cards.FOREACH),
                    ("aten::_foreach_div_", 2, cards.FOREACH),
                    ("aten::_foreach_addcdiv_", 4, cards.FOREACH),
                ]
            )
            for op, passes, kernel in steps:
                work = self.gpu.moving(kernel, (total,), passes=passes, block=512)
                self.run(Op(op, ((),), (work,), ("TensorList",)))
                self.host.work(6)

    def zero_grad(self, name: str = "Adam") -> None:
        """Gradients are dropped."""
        self.host.range(f"Optimizer.zero_grad#{name}.zero_grad", 35)

    def load(self, dur: Time, *, workers: bool = False) -> None:
        """A batch comes, from this process or from workers."""
        kind = "MultiProcessing" if workers else "SingleProcess"
        self.host.range(LOADER.format(kind), dur)

    def to_device(self, shape: Shape, dtype: str = "float", *, pinned: bool = False) -> None:
        """A tensor is copied to the device; from pageable memory the program waits for it.

        The call itself copies what is large into buffers of the driver, and returns shortly before the device is done.
        """
        nbytes = WIDTHS[dtype] * prod(shape)
        dur = cards.took(nbytes / (self.gpu.bus if pinned else self.gpu.bus / 2.2) / 1e3, 1.4)
        with self._copying(shape, dtype):
            if pinned or nbytes <= _BUFFERED:
                self.host.copy("HtoD", nbytes, self.stream, dur=dur, pinned=pinned, wait=not pinned)
            else:
                self._blocking_copy("HtoD", nbytes, dur, rest_us=70)

    def _blocking_copy(self, kind: Copy, nbytes: int, dur: Time, rest_us: int = 0) -> None:
        """A call that lasts as long as its copy but for a rest, for which the program waits in another call."""
        at = self.host.now
        start, length = self.stream.run(dur, at + 25_000, self.host.ranges)
        self.host.now = max(at + 8_000, ns(start) + ns(length) - 1_000 * rest_us + (0 if rest_us else 3_000))
        call_dur = micros(self.host.now - at)
        owner, tid = self.host.owner, self.host.tid
        place: dict[str, Any] = {"stream": self.stream.number, "device": self.stream.device}
        self.trace.memcpy(
            kind, nbytes, start, length, at=micros(at), call_dur=call_dur, external_id=owner, tid=tid, **place
        )
        self.host.wait(self.stream)

    @contextmanager
    def _copying(self, shape: Shape, dtype: str) -> Iterator[None]:
        with ExitStack() as nest:
            for name in ("aten::to", "aten::_to_copy", "aten::copy_"):
                inputs = self.inputs(Op(name, (shape,), types=(dtype,), rest=("False",)))
                nest.enter_context(self.host.op(name, 3, 1, **inputs))
            yield

    def item(self) -> None:
        """A number is read from the device, which the program waits for."""
        inputs = self.inputs(Op("aten::item", ((),)))
        with self.host.op("aten::item", 2, 1, **inputs), self.host.op("aten::_local_scalar_dense", 3, 2, **inputs):
            self.read(4)

    def read(self, nbytes: int) -> None:
        """A few bytes are read: torch before 2.6 waits in the copy itself, later ones after it."""
        if self.is_old:
            self._blocking_copy("DtoH", nbytes, "1.4")
        else:
            self.host.copy("DtoH", nbytes, self.stream, dur="1.4", pinned=True, wait=True)

    def synchronize(self) -> None:
        """`torch.cuda.synchronize()`."""
        self.host.wait(self.stream, call=self.trace.dialect.calls.wait_device)

    def to_host(self, shape: Shape, dtype: str = "float") -> None:
        """A tensor is copied to pageable memory, which the program waits for."""
        nbytes = WIDTHS[dtype] * prod(shape)
        with self._copying(shape, dtype):
            self._blocking_copy("DtoH", nbytes, cards.took(nbytes / self.gpu.bus * 2 / 1e3, 1.4))

    def finish(self) -> TraceBuilder:
        """The trace in the order in which kineto writes it."""
        return finish(self.trace, self.stream)
