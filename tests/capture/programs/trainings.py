"""Small trainings of KIND [STEPS], each with a mark of its own where its author says that a step begins."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2].isdecimal() else 24


def mark() -> None:
    """The author's step begins."""
    with torch.profiler.record_function("author: step"):
        pass


def data(count: int, batch_size: int = 4) -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(torch.randn(count * batch_size, 8)), batch_size=batch_size)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def reinforce() -> None:
    """Many calls of a policy, then one update."""
    policy = nn.Linear(8, 2)
    optimizer = sgd(policy)
    for _ in range(STEPS):
        mark()
        losses = []
        for _ in range(60):
            chances = torch.distributions.Categorical(logits=policy(torch.randn(1, 8)))
            losses.append(-chances.log_prob(chances.sample()))
        optimizer.zero_grad()
        torch.cat(losses).sum().backward()
        optimizer.step()


def rollouts() -> None:
    """Calls under no_grad collect what some updates then use."""
    policy = nn.Linear(8, 2)
    optimizer = sgd(policy)
    for _ in range(STEPS // 4):
        with torch.no_grad():
            seen = torch.cat([policy(torch.randn(1, 8)) for _ in range(50)])
        for _ in range(4):
            mark()
            optimizer.zero_grad()
            (policy(torch.randn(50, 8)) - seen).square().mean().backward()
            optimizer.step()


def cells() -> None:
    """A recurrent cell, called for each point in time."""
    cell = nn.LSTMCell(8, 8)
    optimizer = sgd(cell)
    for _ in range(STEPS):
        mark()
        state = None
        for _ in range(60):
            state = cell(torch.randn(4, 8), state)
        assert state is not None
        state[0].sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def cells_by_hand() -> None:
    """The same without an optimizer."""
    cell = nn.LSTMCell(8, 8)
    for _ in range(STEPS):
        mark()
        state = None
        for _ in range(60):
            state = cell(torch.randn(4, 8), state)
        assert state is not None
        state[0].sum().backward()
        _by_hand(cell)


def accumulation(update: Callable[[nn.Module], Callable[[], object]] = lambda model: sgd(model).step) -> None:
    model = nn.Linear(8, 2)
    step = update(model)
    for _ in range(STEPS):
        mark()
        for _ in range(32):
            model(torch.randn(4, 8)).sum().backward()
        step()
        model.zero_grad()


def accumulation_of_batches(
    update: Callable[[nn.Module], Callable[[], object]] = lambda model: sgd(model).step, many: int = 32
) -> None:
    model = nn.Linear(8, 2)
    step = update(model)
    for number, (inputs,) in enumerate(data(many * STEPS)):
        if number % many == 0:
            mark()
        model(inputs).sum().backward()
        if number % many == many - 1:
            step()
            model.zero_grad()


def _compiled(model: nn.Module) -> Callable[[], object]:
    return torch.compile(sgd(model).step, backend="eager")


def gan(update: Callable[[nn.Module], Callable[[], object]] = lambda model: sgd(model).step) -> None:
    maker, critic = nn.Linear(8, 8), nn.Linear(8, 1)
    made, judged = update(maker), update(critic)
    for _ in range(STEPS):
        mark()
        critic.zero_grad()
        (critic(torch.randn(4, 8)) - critic(maker(torch.randn(4, 8)).detach())).sum().backward()
        judged()
        maker.zero_grad()
        critic(maker(torch.randn(4, 8))).sum().backward()
        made()


def several() -> None:
    """Two optimizers of a model, one of which steps now and then."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    often, seldom = sgd(model[0]), sgd(model[1])
    for number, (inputs,) in enumerate(data(STEPS)):
        mark()
        model(inputs).sum().backward()
        often.step()
        if number % 5 == 4:
            seldom.step()
        model.zero_grad()


def in_backward() -> None:
    """An optimizer for each parameter, which steps as soon as there is a gradient."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    own = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in model.parameters()}

    def stepped(parameter: torch.Tensor) -> None:
        own[parameter].step()  # type: ignore[index]
        own[parameter].zero_grad()  # type: ignore[index]

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(stepped)
    for _ in range(STEPS):
        mark()
        (model(torch.randn(4, 8)) + model(torch.randn(4, 8))).sum().backward()


def _by_hand(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.sub_(0.01 * parameter.grad)
            parameter.grad = None


def _by_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data -= 0.01 * parameter.grad
        parameter.grad.zero_()


def functional() -> None:
    """No module, no loader and no optimizer."""
    weight = torch.randn(8, 2, requires_grad=True)
    for _ in range(STEPS):
        mark()
        (torch.randn(4, 8) @ weight).square().sum().backward()
        with torch.no_grad():
            assert weight.grad is not None
            weight -= 0.01 * weight.grad
            weight.grad = None


def gradients() -> None:
    """Gradients that are asked for, instead of a backward pass."""
    model = nn.Linear(8, 2)
    for _ in range(STEPS):
        mark()
        found = torch.autograd.grad(model(torch.randn(4, 8)).square().sum(), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), found, strict=True):
                parameter.sub_(0.01 * gradient)


def alternating(update: Callable[[nn.Module], Callable[[], object]] = lambda model: sgd(model).step) -> None:
    """Evaluates before and after each epoch."""
    model = nn.Linear(8, 2)
    step = update(model)
    _evaluate(model)
    for _ in range(4):
        model.train()
        for (inputs,) in data(STEPS // 4):
            mark()
            model(inputs).sum().backward()
            step()
            model.zero_grad()
        _evaluate(model)


def _evaluate(model: nn.Module) -> None:
    model.eval()
    with torch.no_grad():
        for (inputs,) in data(30, 16):
            model(inputs).argmax(-1)


def inference_then_training() -> None:
    """Many batches without gradients before the first step: to compute statistics, say."""
    model = nn.Linear(8, 2)
    _evaluate(model)
    for _ in range(40):
        model(torch.randn(4, 8))
    optimizer = sgd(model)
    for _ in range(STEPS):
        mark()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()


KINDS: dict[str, Callable[[], None]] = {
    "reinforce": reinforce,
    "rollouts": rollouts,
    "cells": cells,
    "cells-by-hand": cells_by_hand,
    "accumulation": accumulation,
    "accumulation-by-hand": lambda: accumulation(lambda model: lambda: _by_hand(model)),
    "accumulation-compiled": lambda: accumulation(_compiled),
    "accumulation-of-batches": accumulation_of_batches,
    "accumulation-of-batches-by-hand": lambda: accumulation_of_batches(lambda model: lambda: _by_data(model)),
    "gan": gan,
    "gan-by-hand": lambda: gan(lambda model: lambda: _by_hand(model)),
    "several": several,
    "in-backward": in_backward,
    "by-hand": lambda: accumulation_of_batches(lambda model: lambda: _by_hand(model), 1),
    "by-data": lambda: accumulation_of_batches(lambda model: lambda: _by_data(model), 1),
    "functional": functional,
    "gradients": gradients,
    "alternating": alternating,
    "alternating-by-hand": lambda: alternating(lambda model: lambda: _by_hand(model)),
    "inference-then-training": inference_then_training,
}
if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    KINDS[sys.argv[1]]()
    print(sys.argv[1])  # noqa: T201 - it prints, as programs do
