"""The faults: each a training with it, the same training with its fix, and the rules that shall see it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from examples.lab import extras, networks
from examples.lab.training import Training

CLEAN = Training()


@dataclass(frozen=True)
class Fault:
    """One fault."""

    name: str
    rules: tuple[str, ...]
    """Each of them is a right answer; the one with the largest saving is the prediction."""
    before: Training
    after: Training
    needs_gpu: bool = True
    """On a CPU it does not exist, costs nothing, or is not judged."""
    recording: Mapping[str, Any] = field(default_factory=dict)
    """Options of `profile` that its rules need."""
    is_risk: bool = False
    """It costs memory, not time."""


def _adamw(parameters: Iterable[nn.Parameter], **how: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, **how)


_WORKERS = min(8, os.cpu_count() or 1)
_SLOW = replace(CLEAN, data=extras.SlowImages)
_DEEP = replace(CLEAN, network=networks.deep)
_WIDE = replace(CLEAN, network=networks.wide)

FAULTS: tuple[Fault, ...] = (
    Fault(
        "slow-loader",
        ("dataloader-bound", "dataloader-single-process"),
        _SLOW,
        replace(_SLOW, loader={"num_workers": _WORKERS, "persistent_workers": True, "prefetch_factor": 4}),
        needs_gpu=False,
    ),
    Fault(
        "pageable-copies",
        ("h2d-pageable", "h2d-blocking"),
        CLEAN,
        replace(CLEAN, loader={"pin_memory": True}, non_blocking=True),
    ),
    Fault(
        "item-in-loop",
        ("sync-item-frequent",),
        replace(CLEAN, beside=extras.read_values),
        replace(CLEAN, beside=extras.sum_up_values),
    ),
    Fault(
        "tensors-from-cpu",
        ("tensor-created-on-cpu",),
        replace(CLEAN, beside=extras.mask_from_cpu),
        replace(CLEAN, beside=extras.mask_in_place),
    ),
    Fault(
        "broadcast-blow-up",
        ("broadcast-blowup",),
        replace(CLEAN, network=partial(networks.Product, broadcasts=True)),
        replace(CLEAN, network=partial(networks.Product, broadcasts=False)),
    ),
    Fault(
        "repeat-and-permute",
        ("copies-materialized",),
        replace(CLEAN, network=partial(networks.Copies, copies=True)),
        replace(CLEAN, network=partial(networks.Copies, copies=False)),
    ),
    Fault(
        "clones",
        ("copies-materialized",),
        replace(CLEAN, beside=extras.clone_for_nothing),
        CLEAN,
        needs_gpu=False,
    ),
    Fault(
        "redundant-passes",
        ("redundant-passes",),
        replace(CLEAN, beside=extras.pass_for_nothing),
        CLEAN,
        needs_gpu=False,
    ),
    Fault(
        "float32-products",
        ("tensor-cores-unused", "tf32-disabled"),
        _WIDE,
        replace(_WIDE, autocast=torch.bfloat16),
    ),
    Fault(
        "optimizer-loop",
        ("optimizer-not-fused",),
        replace(_DEEP, optimizer=partial(_adamw, foreach=False)),
        replace(_DEEP, optimizer=partial(_adamw, fused=True)),
    ),
    Fault(
        "tiny-operators",
        ("loop-vectorizable", "launch-bound-small-kernels"),
        replace(CLEAN, network=partial(networks.Rows, loops=True)),
        replace(CLEAN, network=partial(networks.Rows, loops=False)),
        needs_gpu=False,
    ),
    Fault(
        "unfused-attention",
        ("attention-unfused",),
        replace(CLEAN, network=partial(networks.Attention, fused=False)),
        replace(CLEAN, network=partial(networks.Attention, fused=True)),
    ),
    Fault(
        "bias-before-norm",
        ("conv-bias-before-batchnorm",),
        replace(CLEAN, network=networks.convolutions_with_bias),
        CLEAN,
    ),
    Fault(
        "data-parallel",
        ("dataparallel",),
        replace(CLEAN, wrap=partial(nn.DataParallel, device_ids=[0])),
        CLEAN,
    ),
    Fault(
        "growing-memory",
        ("memory-growth",),
        replace(CLEAN, beside=extras.collect_batches),
        replace(CLEAN, beside=extras.collect_means),
        recording={"profile_memory": True},
        is_risk=True,
    ),
    Fault(
        "device-wide-sync",
        ("sync-device-wide",),
        replace(CLEAN, beside=extras.wait_for_device),
        replace(CLEAN, beside=extras.do_not_wait),
    ),
)

BY_NAME = {fault.name: fault for fault in FAULTS}
