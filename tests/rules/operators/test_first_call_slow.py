"""Tests of the rule `first-call-slow`: numbers worked out by hand, and edges of thresholds.

The tables: programs on a GPU, of which one operator takes seconds on the host.
"""

from __future__ import annotations

from tests.rules.judging import findings, table

RULE = "first-call-slow"


def program(
    own: int, *, calls: int = 2, device: int = 100, whole: int = 4000, name: str = "aten::cudnn_convolution"
) -> str:
    """A table; own times in ms."""
    rows = [
        {
            "Name": row,
            "Self CPU": f"{host}.000ms",
            "CPU total": f"{host}.000ms",
            "Self CUDA": f"{work}.000ms",
            "# of Calls": count,
        }
        for row, host, work, count in ((name, own, device, calls), ("aten::add", whole - own, 50, 100_000))
    ]
    return table(rows, cpu=f"{whole}.000ms", device=f"{device + 50}.000ms")


def fires() -> str:
    """Two calls take 3 of 4 s on the host, and 100 ms on the device."""
    return program(3000)


def quiet() -> str:
    """A thousand calls take 3 ms each."""
    return program(3000, calls=1000)


def trap_waits_for_the_device() -> str:
    """The device works for as long, so the host may wait for it."""
    return program(3000, device=3200)


def trap_on_the_cpu() -> str:
    """Without a GPU a call may compute for seconds."""
    rows = [{"Name": "aten::mm", "Self CPU": "3.000s", "CPU total": "3.000s", "# of Calls": 1}]
    return table(rows, cpu="4.000s")


def test_the_sentence_has_the_numbers_of_the_table() -> None:
    (found,) = findings(fires(), RULE)
    assert found.summary.params == {
        "operator": "aten::cudnn_convolution",
        "time": 3e9,
        "calls": 2,
        "share": 0.75,
    }


def test_edge_of_the_mean() -> None:
    assert not findings(program(3000, calls=10), RULE)
    assert findings(program(3001, calls=10), RULE)


def test_edge_of_the_share() -> None:
    assert not findings(program(1200), RULE)
    assert findings(program(1201), RULE)
