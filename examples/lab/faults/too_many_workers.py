"""Workers for a dataset that costs nothing: they only send batches."""

from __future__ import annotations

from examples.lab.parts import Images, Program, Setup, train_from


def before(setup: Setup) -> Program:
    """Use eight workers, or four per core on a larger machine."""
    workers = 8 if setup.device.type == "cpu" else 4 * setup.workers
    return train_from(setup, Images(setup), num_workers=workers, persistent_workers=True)


def after(setup: Setup) -> Program:
    """Use no workers."""
    return train_from(setup, Images(setup))
