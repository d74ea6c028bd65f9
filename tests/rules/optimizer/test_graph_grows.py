"""Tests of the rule `graph-grows`: numbers worked out by hand, and edges of thresholds.

The programs: trainings whose backward passes reach into earlier steps, or do not.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.training import Training
from tests.rules.judging import findings, skipped, table

RULE = "graph-grows"


def training(kept: int | None, *, steps: int = 6, gpu: bool = False) -> TraceBuilder:
    """Steps of three functions, whose backward passes also evaluate those of so many earlier steps; None: of all."""
    loop = Training(trace=TraceBuilder() if gpu else TraceBuilder(devices=()), gpu=gpu)
    earlier: list[list[int]] = []
    for _ in range(steps):
        with loop.iteration():
            loop.zero_grad()
            made = loop.forward()
            reached = earlier if kept is None else earlier[len(earlier) - min(kept, len(earlier)) :]
            loop.backward([number for functions in (*reached, made) for number in functions])
            earlier.append(made)
            loop.step()
    return loop.finish()


def fires() -> TraceBuilder:
    """Nothing is detached."""
    return training(None)


def fires_on_a_gpu() -> TraceBuilder:
    """The same on a GPU."""
    return training(None, gpu=True)


def quiet() -> TraceBuilder:
    """Each graph ends with its step."""
    return training(0)


def trap_truncated() -> TraceBuilder:
    """Gradients pass through the two steps before."""
    return training(2)


def trap_accumulation() -> TraceBuilder:
    """Each step has two passes of its own."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(6):
        with loop.iteration():
            loop.zero_grad()
            loop.backward([*loop.forward(), *loop.forward()])
            loop.backward(loop.forward())
            loop.step()
    return loop.finish()


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


def test_functions_of_earlier_steps_are_counted() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.summary.params["last"] == 15, "three of each of five earlier steps"
    assert finding.evidence[0].observed == 6
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high / low == pytest.approx(1.5 / 0.9)


def test_edge_share() -> None:
    assert findings(fires(), RULE, {"share": 0.1})
    assert not findings(fires(), RULE, {"share": 0.95})


def test_a_table_has_no_steps() -> None:
    assert "does not show steps" in (skipped(in_a_table(), RULE) or "")
