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
        """Trace and tables."""
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
