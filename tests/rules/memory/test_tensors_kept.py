"""Tests of the rule `tensors-kept`: programs that keep results of steps."""

from __future__ import annotations

from tests.builders.memory_snapshot import BACKWARD, FORWARD, MIB, OPTIMIZER, SAVED, TRAIN, MemoryRecorder
from tests.rules.judging import findings

RULE = "tensors-kept"
LINE = (("/home/me/train.py", 33, "log"), *TRAIN)


def steps(count: int = 20, *, kept: int = 2 * MIB, freed_after: int | None = None) -> MemoryRecorder:
    """Steps of a training, each of which keeps a tensor of its result."""
    memory = MemoryRecorder()
    weights = memory.alloc(40 * MIB)
    state = None
    results = []
    for _ in range(count):
        activations = [memory.alloc(8 * MIB, FORWARD) for _ in range(4)]
        if kept:
            results.append(memory.alloc(kept, LINE))
        gradient = memory.alloc(40 * MIB, BACKWARD)
        for block in activations:
            memory.free(block, SAVED)
        state = state or memory.alloc(80 * MIB, OPTIMIZER)
        memory.free(gradient)
        if freed_after is not None and len(results) > freed_after:
            memory.free(results.pop(0))
    assert weights.requested
    return memory


def fires() -> MemoryRecorder:
    return steps()


def quiet() -> MemoryRecorder:
    return steps(kept=0)


def trap_the_last_results_are_kept() -> MemoryRecorder:
    """A window of three results."""
    return steps(freed_after=3)


def trap_a_model_is_built() -> MemoryRecorder:
    """Many blocks of one line, with nothing freed between them."""
    memory = MemoryRecorder()
    for _ in range(40):
        memory.alloc(3 * MIB, LINE)
    return memory


def test_which_line_and_how_much() -> None:
    (found,) = findings(fires(), RULE)
    assert found.evidence[0].where[0].name == "/home/me/train.py(33): log"
    assert found.summary.params["kept"] == 20 * 2 * MIB
    assert found.summary.params["blocks"] == 20


def test_edge_blocks() -> None:
    assert findings(steps(6), RULE)
    assert not findings(steps(5), RULE)


def test_what_the_peak_loses() -> None:
    """The peak is in the last step, when all of them are held."""
    (found,) = findings(fires(), RULE)
    assert found.advice.id == "tensors-kept-advice-replayed"
    assert found.advice.params["saved"]["params"] == {"size": 20 * 2 * MIB}
