"""Short epochs, in each of which the workers start anew."""

from __future__ import annotations

from examples.lab.parts import Images, Program, Setup, train_from

_STEPS = 4
"""Of an epoch."""


def before(setup: Setup) -> Program:
    """The workers end with the epoch."""
    return train_from(setup, Images(setup, _STEPS * setup.size.batch), num_workers=setup.workers)


def after(setup: Setup) -> Program:
    """They stay."""
    return train_from(
        setup, Images(setup, _STEPS * setup.size.batch), num_workers=setup.workers, persistent_workers=True
    )
