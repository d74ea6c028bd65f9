"""Why an analysis cannot run on a trace: the reasons that several analyses share."""

from __future__ import annotations

from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.tables import Category

NO_CONVOLUTIONS = Text("skip-no-convolutions", "the trace has no convolutions with kernels")
_NO_STEPS = Text("skip-no-steps", "the trace has no events from which steps could be found")
_NO_KERNELS = Text("skip-no-kernels", "the trace has no kernels: nothing ran on a GPU, or it was not recorded")
_NO_OPERATORS = Text("skip-no-operators", "the trace has no operators")


def steps(context: Context) -> Message | None:
    """Why steps are missing, or None."""
    return None if len(context.steps) else _NO_STEPS()


def kernels(context: Context) -> Message | None:
    """Why kernels are missing, or None."""
    return None if (context.trace.device.category == Category.KERNEL).any() else _NO_KERNELS()


def gpu_window(context: Context) -> Message | None:
    """Why a time in which a GPU works is missing, or None."""
    return kernels(context) or steps(context)


def operators(context: Context) -> Message | None:
    """Why operators are missing, or None."""
    return None if (context.trace.host.category == Category.OPERATOR).any() else _NO_OPERATORS()
