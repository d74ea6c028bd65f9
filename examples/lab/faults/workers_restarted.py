"""Short epochs; the workers are started again in each epoch."""

from __future__ import annotations

from examples.lab.parts import Images, Program, Setup, train_from

_STEPS = 4
"""Batches of one epoch."""


def before(setup: Setup) -> Program:
    """Stop the workers at the end of each epoch."""
    return train_from(setup, Images(setup, _STEPS * setup.size.batch), num_workers=setup.workers)


def after(setup: Setup) -> Program:
    """Keep the workers over all epochs."""
    return train_from(
        setup, Images(setup, _STEPS * setup.size.batch), num_workers=setup.workers, persistent_workers=True
    )
