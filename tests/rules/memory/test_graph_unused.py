"""Tests of the rule `graph-unused`: forward passes whose graph nobody uses."""

from __future__ import annotations

from tests.builders.memory_snapshot import BACKWARD, DROPPED, FORWARD, MIB, SAVED, TRAIN, MemoryRecorder
from tests.rules.judging import findings

RULE = "graph-unused"


def forward(*, graph: bool, backward: bool = False) -> MemoryRecorder:
    """Ten layers of 8 MiB, whose activations live until the end of the pass if a graph is recorded."""
    memory = MemoryRecorder()
    memory.alloc(20 * MIB)
    live = []
    for _ in range(10):
        live.append(memory.alloc(8 * MIB, FORWARD))
        if not graph and len(live) > 1:
            memory.free(live.pop(0), FORWARD)
    gradient = memory.alloc(8 * MIB, BACKWARD) if backward else None
    for block in live:
        memory.free(block, SAVED if backward else DROPPED if graph else TRAIN)
    if gradient is not None:
        memory.free(gradient)
    return memory


def fires() -> MemoryRecorder:
    return forward(graph=True)


def quiet() -> MemoryRecorder:
    return forward(graph=False)


def trap_a_training() -> MemoryRecorder:
    return forward(graph=True, backward=True)


def test_bytes() -> None:
    (found,) = findings(fires(), RULE)
    assert found.summary.params["unused"] == 10 * 8 * MIB
    assert found.summary.params["peak"] == 100 * MIB


def test_what_the_peak_loses() -> None:
    """At most all of the 80 MiB; at least all but a block whose two successors have just been made, and these."""
    (found,) = findings(fires(), RULE)
    assert found.advice.id == "graph-unused-advice-replayed"
    assert found.advice.params["saved"]["params"] == {"least": (80 - 3 * 8) * MIB, "most": 80 * MIB}
