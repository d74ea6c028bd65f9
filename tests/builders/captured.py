"""The traces in `fixtures/captured`: real ones, written by torch on a CPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Captured:
    """One captured trace, and the `key_averages()` tables of the same profile beside it."""

    name: str
    shows: str
    expect: str

    @property
    def files(self) -> tuple[str, str]:
        """A trace and the tables of the same profile."""
        return f"{self.name}.json.gz", f"{self.name}.key_averages.txt"


CAPTURED = (
    Captured(
        "training_workers",
        "Training with two loader workers, `record_shapes`, `profile_memory`, three active steps.",
        "steps 2 to 4; loader time of `_MultiProcessingDataLoaderIter`; host memory curve; no device",
    ),
    Captured(
        "modules_and_stacks",
        "Two training steps without a schedule, `with_stack` and `with_modules`: frames, modules.",
        "steps inferred from `Optimizer.step`; a module tree; frames never counted as operators",
    ),
    Captured(
        "inference_flops",
        "Inference of a transformer layer with `with_flops` and `record_shapes`, no steps.",
        "one step over the whole trace; operators by shape",
    ),
    Captured("plain", "A few operators, no option on, no steps.", "one step; no shapes, no memory, and why"),
    Captured(
        "convnet_everything",
        "One training step of convolutions of all kinds (stride, groups, dilation, `same`), every option on.",
        "the table of torch, FLOPs included, in every order",
    ),
    Captured(
        "autocast_stacks",
        "One training step of an MLP in bfloat16 by autocast, `profile_memory` and `with_stack`.",
        "the table of torch, frames included, in every order",
    ),
    Captured(
        "transformer_memory",
        "Two transformer layers operator by operator, `record_shapes`, `profile_memory`, `with_flops`.",
        "the table of torch, by shapes and with FLOPs, in every order",
    ),
    Captured(
        "lstm_embedding",
        "Two training steps of an embedding and an LSTM with Adam over lists of tensors.",
        "the table of torch; lists of tensors have no shapes in it",
    ),
    Captured(
        "two_threads",
        "Two threads that work at the same time, `profile_all_threads`, `profile_memory`.",
        "the table of torch: each thread counts the memory of both",
    ),
)


@dataclass(frozen=True)
class Commanded:
    """A trace of `traceanalyzer capture`, with the facts that the capture recorded besides the events."""

    name: str
    shows: str
    expect: str

    @property
    def file(self) -> str:
        """The trace."""
        return f"{self.name}.json.gz"


COMMANDED = (
    Commanded(
        "command_workers",
        "`traceanalyzer capture --memory`: training with two loader workers under autocast, three steps.",
        "steps from the optimizer; settings of loader, optimizer and autocast; control steps and so the overhead",
    ),
    Commanded(
        "command_stacks",
        "`traceanalyzer capture --stacks --modules` of the same training, two steps.",
        "frames relative to the project or its package; a module tree; control steps that tell what stacks cost",
    ),
    Commanded(
        "command_rank0",
        "`traceanalyzer capture` of torchrun: rank 0 of 2, gloo, two backward passes per update.",
        "rank 0 of 2; two backward passes per step; collectives of gloo on the host",
    ),
    Commanded("command_rank1", "Rank 1 of the same run.", "rank 1 of 2; steps comparable with those of rank 0"),
    Commanded(
        "command_compiled",
        "`traceanalyzer capture` of a network that `torch.compile` has compiled, three steps.",
        "the settings say that it is compiled; operators within compiled regions",
    ),
)
