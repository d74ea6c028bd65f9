"""Which part of a program a name in a tool's table stands for: waiting for data, forward, backward, and others."""

from __future__ import annotations

import re

_PARTS: tuple[tuple[str | None, str], ...] = (
    (None, r"(?:forward|fwd).?(?:backward|bwd)"),  # both
    (
        "communication",
        r"all.?reduce|all.?gather|reduce.?scatter|all.?to.?all|broadcast|grads?-sync|nccl|(?:send|recv)\b",
    ),
    ("loader", r"dataloader_next|train_dataloader|data.?load|load.?data|(?:fetch|get|next)_?batch|batch-generator"),
    ("loader", r"_next_data\b|data (?:time|wait)|\bdata\b$|DataLoaderIter|\bfetch(?:er|ing)?\b"),
    ("checkpoint", r"check.?point|\bckpt|save_(?:model|state)|torch.*serialization.*\(save\)"),
    ("evaluation", r"\b(?:eval|val|validation|validate|test)(?:uat\w+)?(?:_|-|\b)"),
    ("backward", r"backward|\bbwd"),
    ("update", r"optimi[sz]er|^step(?:_microstep)?$|update"),
    ("forward", r"forward|\bfwd|training_step|train_step|compute_loss"),
)
_COMPILED = tuple((part, re.compile(pattern, re.IGNORECASE)) for part, pattern in _PARTS)


def part_of(name: str) -> str | None:
    """The part of a program that has such a name, the first that fits; None if the name does not tell."""
    return next((part for part, pattern in _COMPILED if pattern.search(name)), None)
