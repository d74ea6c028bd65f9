"""What several analyses cannot do without."""

from __future__ import annotations

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Need
from traceanalyzer.trace.tables import Category

STEPS = Need(
    Text("skip-no-steps", "the trace has no events from which steps could be found"),
    lambda context: len(context.steps) > 0,
)
KERNELS = Need(
    Text("skip-no-kernels", "the trace has no kernels: nothing ran on a GPU, or it was not recorded"),
    lambda context: (context.trace.device.category == Category.KERNEL).any(),
)
OPERATORS = Need(
    Text("skip-no-operators", "the trace has no operators"),
    lambda context: (context.trace.host.category == Category.OPERATOR).any(),
)
SHAPES = Need(
    Text(
        "skip-no-shapes",
        "the trace has no input shapes: record them with record_shapes=True",
        "record_shapes=True is code",
    ),
    lambda context: (context.trace.host.shapes > 0).any(),
)
RUNTIME_CALLS = Need(
    Text("skip-no-runtime-calls", "the trace has no runtime calls, so waits of the host are unknown"),
    lambda context: len(context.trace.launches) > 0,
)
NO_CONVOLUTIONS = Text("skip-no-convolutions", "the trace has no convolutions with kernels")
