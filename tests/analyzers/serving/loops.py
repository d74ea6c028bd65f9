"""Steps of 1 ms, written event by event."""

from __future__ import annotations

from collections.abc import Sequence

from tests.builders import A100, TraceBuilder
from tests.builders.hardware import Device
from tests.reading import read_built
from traceanalyzer.analyzers import serving
from traceanalyzer.analyzers.serving import ThroughputFigures
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import ProgramSteps, program_steps

STEP = 1000
BF16 = "c10::BFloat16"
TENSOR_CORE = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_cublas"
PLAIN = "ampere_sgemm_128x64_nn"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm"
NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
EVALUATION = "autograd::engine::evaluate_function: "


class Loop(TraceBuilder):
    """Writes what a step holds, one part after the other; steps follow each other without a pause."""

    def __init__(self, *devices: Device, facts: object = None) -> None:
        super().__init__(devices=devices or (A100,), metadata={} if facts is None else {"traceanalyzer": facts})
        self.now = 0
        self.number = 0

    def begin(self) -> None:
        """Begin the next step."""
        self.now = STEP * self.number
        self.number += 1
        self.step(self.number, self.now, STEP)

    def batch(self, *shapes: Sequence[int]) -> None:
        """Wait for a batch and copy its tensors to the device."""
        self.annotation(NEXT, self.now, 10)
        self.now += 10
        for shape in shapes:
            self.op("aten::copy_", self.now, 8, shapes=[shape, shape, []], types=["float", "float", "Scalar"])
            self.memcpy("HtoD", 1000, self.now + 8, 1, at=self.now + 1)
            self.now += 10

    def layer(self, name: str, *shapes: Sequence[int], kernel: str = CONVOLUTION, types: Sequence[str] = ()) -> None:
        """An operator with a kernel of 10 us."""
        self.op(name, self.now, 8, shapes=shapes, types=types or ["float"] * len(shapes))
        self.launch_kernel(kernel, self.now + 8, 10, at=self.now + 1)
        self.now += 20

    def convolution(self, batch: int) -> None:
        """The first layer of a network for images."""
        self.layer("aten::conv2d", [batch, 3, 8, 8], [4, 3, 3, 3])

    def product(
        self, size: int, dur: int, kernel: str = TENSOR_CORE, dtype: str | None = BF16, device: int = 0
    ) -> None:
        """A product of square matrices that takes `dur` us."""
        types = None if dtype is None else [dtype, dtype]
        self.op("aten::mm", self.now, 8, shapes=[[size, size], [size, size]], types=types)
        self.launch_kernel(kernel, self.now + 8, dur, at=self.now + 1, device=device)
        self.now += dur + 10


def analyze(trace: TraceBuilder, reasons: Sequence[str | None] | None = None) -> ThroughputFigures:
    """The analysis of a trace, with its steps left out for these reasons if some are given."""
    context = Context(read_built(trace))
    if reasons is not None:
        steps = context.steps
        found = ProgramSteps(steps.names, steps.start_ns, steps.end_ns, steps.found_by, tuple(reasons))
        context._shared[program_steps.__wrapped__,] = found  # type: ignore[attr-defined]  # as if the steps had been judged so
    return serving.analyze(context)
