"""A network compiled for fixed shapes gets another shape in each step."""

from __future__ import annotations

import torch

from examples.lab.faults.graph_breaks import compiled
from examples.lab.parts import Program, Setup, batches, mlp, sgd, train_step


def _train(setup: Setup, *, dynamic: bool) -> Program:
    net = compiled(setup, mlp(setup), dynamic=dynamic)
    optimizer = sgd(net)
    limits = (torch._dynamo.config.recompile_limit, torch._dynamo.config.accumulated_recompile_limit)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 100_000
    try:
        for step, (inputs, targets) in enumerate(batches(setup, 2 * setup.size.batch)):
            length = setup.size.batch + step % setup.size.batch
            train_step(net, optimizer, inputs[:length], targets[:length])
            if step % setup.size.batch == setup.size.batch - 1:
                torch._dynamo.reset()  # all lengths were used: forget the compiled code for the next epoch
            yield setup.size.batch
    finally:
        torch._dynamo.config.recompile_limit, torch._dynamo.config.accumulated_recompile_limit = limits


def before(setup: Setup) -> Program:
    """Compile in each step."""
    return _train(setup, dynamic=False)


def after(setup: Setup) -> Program:
    """Compile once for all lengths."""
    return _train(setup, dynamic=True)
