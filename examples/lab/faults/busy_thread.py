"""A thread computes in Python beside the training and holds the interpreter's lock."""

from __future__ import annotations

import threading

from examples.lab.parts import Program, Setup, convnet, train


def before(setup: Setup) -> Program:
    """Run a thread that never waits."""
    stop = threading.Event()
    thread = threading.Thread(target=_count, args=(stop,), daemon=True)
    thread.start()
    try:
        yield from train(setup, convnet(setup))
    finally:
        stop.set()
        thread.join()


def after(setup: Setup) -> Program:
    """Run no such thread."""
    return train(setup, convnet(setup))


def _count(stop: threading.Event) -> None:
    """Compute until the training ends."""
    total = 0
    while not stop.is_set():
        total = sum(number * number for number in range(1000)) + total % 7
