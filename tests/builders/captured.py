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
)
