"""Convolutions before batch norm have a bias, which the norm removes again."""

from __future__ import annotations

from examples.lab.parts import Program, Setup, convnet, train


def before(setup: Setup) -> Program:
    """Convolutions with a bias."""
    return train(setup, convnet(setup, bias=True))


def after(setup: Setup) -> Program:
    """Convolutions without a bias."""
    return train(setup, convnet(setup))
