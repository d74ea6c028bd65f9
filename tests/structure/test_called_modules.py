"""Passes by the modules that a program calls again."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.structure.test_repetition import length, steps


def calling(*modules: str, passes: int, grows: bool = False) -> TraceBuilder:
    """Passes that call some modules, each of which calls another one with six operators; maybe on longer sequences."""
    trace, at = TraceBuilder(options=("with_stack", "record_shapes"), devices=()), 0
    for number in range(passes):
        for name in modules:
            trace.module(name, at, 150)
            trace.module(f"Inner_{name}", at + 5, 140)
            for each in range(6):
                trace.op("aten::linear", at + 10 + 20 * each, 20, shapes=[[1, number + 1 if grows else 8, 64]])
            at += 160
        at += 40
    return trace


@pytest.mark.parametrize("grows", [False, True])
def test_modules_that_are_called_again_are_passes_of_any_length(grows: bool) -> None:
    """A model generates token by token: without marks, waits and other shapes nothing but its modules shows it."""
    found = steps(calling("Embedding_0", "Encoder_0", "Linear_0", passes=8, grows=grows))
    assert (found.found_by, len(found), length(found)) == ("repeated operators", 8, {3 * 160 + 40})
    assert int(found.start_ns[0]) == 0


def test_layers_are_modules_of_their_own() -> None:
    assert steps(calling(*(f"Layer_{number}" for number in range(8)), passes=1)).found_by == "whole-trace"


def test_what_one_model_calls_again_is_no_pass() -> None:
    trace = calling("Cell_0", passes=8)
    trace.module("Rnn_0", 0, 8 * 200)
    assert steps(trace).found_by == "whole-trace"
