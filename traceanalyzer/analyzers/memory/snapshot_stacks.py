"""Which line of the program made a block of a memory snapshot, and in which part of a training, by its stack."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from traceanalyzer.knowledge import python_frames
from traceanalyzer.trace.memory_snapshot import Frame

_BACKWARD = ("_engine_run_backward", "torch::autograd::Engine::", "torch::autograd::python::PythonEngine::")
"""Functions that run the backward pass, in Python and below it."""
_LOADING = frozenset(
    ("_apply", "load_state_dict", "_load_from_state_dict", "reset_parameters", "from_pretrained", "create_weights")
)
_MODULE = "/torch/nn/modules/module.py"
_CELL = ("<ipython-input", "<stdin>", "<cell ")


_SAVED = ("release_variables", "SavedVariable", "Backward0::~", "deleteNode")
"""Functions that free what autograd saved, after the backward pass or with the graph."""


class Origin(Enum):
    """The part of a training that made a block."""

    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    MODEL = "model"
    FORWARD = "forward"
    OTHER = "other"


def line_of(stack: Sequence[Frame]) -> str | None:
    """The innermost line of the program, as `train.py(12): step`; None if the stack has none."""
    for file, line, function in stack:
        if _is_own(file):
            return f"{file}({line}): {function}"
    return None


@lru_cache(1 << 14)
def _is_own(file: str) -> bool:
    """Whether a frame is one of Python, not of what runs below it, and of the program."""
    return (file.endswith(".py") or file.startswith(_CELL)) and python_frames.is_own_file(file)


def origin_of(stack: Sequence[Frame]) -> Origin:
    """Which part of a training made a block."""
    found = [_part(file, function) for file, _, function in stack]
    return next((part for part in Origin if part in found), Origin.OTHER)


@lru_cache(1 << 14)
def _part(file: str, function: str) -> Origin | None:
    """The part that a frame is of; None if it does not tell."""
    path = file.replace("\\", "/")
    if function.startswith(_BACKWARD):
        return Origin.BACKWARD
    if "/torch/optim/" in path or (function == "step" and "optim" in path.rpartition("/")[2]):
        return Origin.OPTIMIZER
    if function in _LOADING or (function == "__init__" and "/torch/nn/" in path):
        return Origin.MODEL
    if function == "forward" or (path.endswith(_MODULE) and function.endswith("call_impl")):
        return Origin.FORWARD
    return None


def frees_saved(stack: Sequence[Frame]) -> bool:
    """Whether a stack of a free shows that the block was saved for the backward pass."""
    return any(mark in function for _, _, function in stack for mark in _SAVED)
