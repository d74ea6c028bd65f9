"""Convolutions before batch norm have a bias, which the norm takes away again."""

from __future__ import annotations

from examples.lab.parts import Program, Setup, convnet, train


def before(setup: Setup) -> Program:
    """With the bias."""
    return train(setup, convnet(setup, bias=True))


def after(setup: Setup) -> Program:
    """Without."""
    return train(setup, convnet(setup))
