"""Work beside the training: each fault, and the same without it."""

from __future__ import annotations

import time

import torch

from examples.lab.training import Images, Moment

_SIDE = 1024
_SLOW_S = 0.001


class SlowImages(Images):
    """Fault: a sample takes a millisecond, as decoding does."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(_SLOW_S)
        return super().__getitem__(index)


def read_values(moment: Moment) -> None:
    """Fault: three values are read on the host in every step."""
    for _ in range(3):
        moment.inputs.sum().item()


def sum_up_values(moment: Moment) -> None:
    """The same values stay on the device."""
    for _ in range(3):
        moment.inputs.sum()


def mask_from_cpu(moment: Moment) -> None:
    """Fault: a mask is made on the CPU and moved."""
    torch.zeros(_SIDE, _SIDE).to(moment.device)


def mask_in_place(moment: Moment) -> None:
    """The same mask, made where it is used."""
    torch.zeros(_SIDE, _SIDE, device=moment.device)


def clone_for_nothing(moment: Moment) -> None:
    """Fault: ten copies of the batch that nobody uses."""
    copies = [moment.inputs.clone() for _ in range(10)]
    del copies


def pass_for_nothing(moment: Moment) -> None:
    """Fault: two passes over a half of the batch, whose gradients are cleared afterwards."""
    half = len(moment.inputs) // 2
    for _ in range(2):
        moment.criterion(moment.net(moment.inputs[:half]), moment.targets[:half]).backward()


def wait_for_device(moment: Moment) -> None:
    """Fault: the whole device is waited for, five times, between pieces of work."""
    for _ in range(5):
        moment.inputs.sum()
        torch.cuda.synchronize(moment.device)


def do_not_wait(moment: Moment) -> None:
    """The same work without waiting."""
    for _ in range(5):
        moment.inputs.sum()


def collect_batches(moment: Moment) -> None:
    """Fault: every batch is kept on the device."""
    moment.kept.append(moment.inputs.clone())


def collect_means(moment: Moment) -> None:
    """Only what is needed of a batch is kept."""
    moment.kept.append(moment.inputs.mean())
