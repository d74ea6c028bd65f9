"""Recognizes the names by which PyTorch marks steps, loaders, optimizers and collectives on host threads."""

from __future__ import annotations

import re

_STEP = re.compile(r"ProfilerStep#(\d+)")
_BACKWARD = re.compile(r"Backward\d{0,2}\Z", re.ASCII)
_NO_OPERATOR = re.compile(r"[\s#\[]")
"""Characters that never occur in names of operators, autograd functions and compiled kernels."""
_ACCELERATOR = re.compile(
    r"cudnn(?!_is_acceptable)|cuda|miopen|nccl|rccl|xccl|hccl|mtia|\b[nxh]pu|flash_attention(?!\w*_for_cpu)|"
    r"aten::(?:\w*_)?mps(?![a-z0-9])",
    re.IGNORECASE,
)

_MAC = re.compile(r"aten::(?:\w*_)?mps(?![a-z0-9])")
"""Operators of MPS (Metal Performance Shaders), as in the names above."""

_PASS = re.compile(r"\(dynamo_timed\)$|(?:^|_|\b)pass(?:es)?\.|_pass(?:es)?$")
"""Names of passes of the compiler on any machine, such as `pass.post_grad_passes.move_constructors_to_cuda`."""

COUNTERS = "cuda_profiler_range"
"""Category of the events of CUPTI's range profiler, which contain hardware counters."""

_GRAPH_LAUNCH = re.compile(r"(cuda|hip|cu|musa)GraphLaunch")

PASSES = ("forward", "backward")
_PASSES = tuple(re.compile(pattern, re.IGNORECASE) for pattern in ("forward|fwd", "backward|bwd"))

COLLECTIVES = frozenset(
    f"{backend}:{operation}"
    for backend in ("nccl", "gloo")
    for operation in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
)
"""Host ranges that count as communication in the step breakdown, as in the TensorBoard plugin."""

DATA_PARALLEL = frozenset({"DataParallel.forward", "DistributedDataParallel.forward"})
"""Ranges of wrappers of the whole model, which are not rows of operator tables."""


def step_number(name: str) -> int | None:
    """The number N of a mark `ProfilerStep#N`."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def is_step(name: str) -> bool:
    """Whether a name is a step mark of the profiler's schedule."""
    return step_number(name) is not None


def is_dataloader(name: str) -> bool:
    """Whether a name is the wait for a batch: `enumerate(DataLoader)#<Iter>.__next__`, `enumerate(DataPipe)#<name>`."""
    loader = name.startswith("enumerate(DataLoader)#") and name.endswith(".__next__")
    return loader or name.startswith("enumerate(DataPipe)#")


def is_optimizer_step(name: str) -> bool:
    """Whether a name is an optimizer step: `Optimizer.step#<class>.step`."""
    return name.startswith("Optimizer.step")


def is_optimizer(name: str) -> bool:
    """Whether a name is any optimizer call: its step, or `Optimizer.zero_grad#<class>.zero_grad`."""
    return name.startswith("Optimizer.")


def passes(name: str) -> tuple[str, ...]:
    """The passes of a training, of `PASSES`, that a mark names: `## forward ##`, `fwd+bwd`."""
    return tuple(known for known, pattern in zip(PASSES, _PASSES, strict=True) if pattern.search(name))


def is_wrapper(name: str) -> bool:
    """Whether a name is a range around operators: an optimizer call, or a wrapper of the whole model."""
    return name in DATA_PARALLEL or is_optimizer(name)


def is_namespaced(name: str) -> bool:
    """Whether a name is that of a dispatcher operator or C++ function (`aten::mm`), not of a range in Python code."""
    return "::" in name


def is_backward(name: str) -> bool:
    """Whether a name is an autograd function: `MmBackward0`, `MyFunctionBackward`."""
    return _BACKWARD.search(name) is not None


def is_mark_among_operators(name: str) -> bool:
    """Whether an event with the category of operators is a range of a program or framework.

    Until 2022-04 all ranges were written as operators; some of `torch.compile`, such as `Torch-Compiled Region: 0/0`,
    still are.
    """
    if "::" in name or name.startswith("<"):
        return False
    return is_wrapper(name) or is_dataloader(name) or _NO_OPERATOR.search(name) is not None


def is_graph_launch(name: str) -> bool:
    """Whether a name is a runtime or driver call that launches a captured graph."""
    return _GRAPH_LAUNCH.match(name) is not None


def is_collective(name: str) -> bool:
    """Whether a name is a host range of a collective."""
    return name in COLLECTIVES


def is_of_mac(name: str) -> bool:
    """Whether a name is an operator that only the GPU of a Mac computes."""
    return _MAC.match(name) is not None


def is_of_accelerator(name: str) -> bool:
    """Whether a name is an operator, annotation, call or category that occurs only with an accelerator."""
    return _ACCELERATOR.search(name) is not None and _PASS.search(name) is None


_OF_PROGRAM: tuple[tuple[str | None, str], ...] = (
    (None, r"(?:forward|fwd).?(?:backward|bwd)|step_and_(?:backward|closure)"),  # both
    (
        "communication",
        r"all.?reduce|all.?gather|reduce.?scatter|all.?to.?all|broadcast|grads?-sync|nccl|(?:send|recv)\b",
    ),
    (
        "loader",
        r"dataloader_next|train_dataloader|data.?load|load.?data|(?:fetch|get|next)_?(?:train_)?batch|batch-generator",
    ),
    (
        "loader",
        r"_next_data\b|data[ _](?:time|wait)|load(?:ing)?[ _]time|\bdata\b$|DataLoaderIter|\bfetch(?:er|ing)?\b",
    ),
    ("checkpoint", r"check.?point|\bckpt|save_(?:model|state)|serialization[^(]{0,80}\(save\)"),
    ("evaluation", r"\b(?:eval|val|validation|validate|test)(?:uat\w+)?(?:_|-|\b)"),
    ("backward", r"backward|\bbwd"),
    ("update", r"optimi[sz]er|^step(?:_microstep)?$|update"),
    ("forward", r"forward|\bfwd|training_step|train_step|compute_loss"),
)
_PROGRAM_PARTS = tuple((part, re.compile(pattern, re.IGNORECASE)) for part, pattern in _OF_PROGRAM)


def part_of(name: str) -> str | None:
    """The part of a program that has such a name, the first that fits; None if the name does not tell."""
    return next((part for part, pattern in _PROGRAM_PARTS if pattern.search(name)), None)
