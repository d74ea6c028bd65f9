"""Tests of the rule `moe-dense`: numbers worked out by hand.

The programs: layers of eight experts for 512 tokens.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS, Call, kernel, training
from tests.rules.judging import findings, table

TOKENS, WIDTH, INNER = 512, 1024, 4096


def router(experts: int = 8) -> Call:
    """The choice of the two best experts of each token."""
    return Call(
        "aten::topk", [kernel("gatherTopK", 10)], [[TOKENS, experts], [], [], [], []], ["float"] + 4 * ["Scalar"]
    )


def layer(rows: int, *, inner: int = INNER, dur: int = 100) -> Call:
    """One product of an expert."""
    return Call("aten::mm", [kernel(MATRIX_UNITS, dur)], [[rows, WIDTH], [WIDTH, inner]], ["c10::BFloat16"] * 2)


def model(*experts: Call, experts_of: int = 8, layers: int = 2) -> TraceBuilder:
    """Layers that choose experts and run them, beside other work of 1 ms."""
    other = Call("aten::add", [kernel("elementwise", 500)], [[TOKENS, WIDTH]] * 2, ["c10::BFloat16"] * 2)
    return training([router(experts_of), *experts, other] * layers)


def fires() -> TraceBuilder:
    """Eight products of all tokens in each of two layers."""
    return model(*[layer(TOKENS)] * 8)


def fires_in_a_table() -> str:
    """The same by rows with shapes."""
    return printed(16)


def quiet() -> TraceBuilder:
    """Each expert has an eighth of the tokens."""
    return model(*[layer(TOKENS // 8)] * 8)


def quiet_in_a_table() -> str:
    """Three products of this size for each choice, as queries, keys and values have."""
    return printed(6)


def trap_attention_beside_it() -> TraceBuilder:
    """Products of the size of the model are those of attention."""
    return model(*[layer(TOKENS, inner=WIDTH)] * 8)


def trap_choice_of_tokens() -> TraceBuilder:
    """The choice is among 32,000 tokens, and the model has many layers."""
    return model(*[layer(TOKENS)] * 24, experts_of=32_000)


def printed(calls: int) -> str:
    """A table with two choices and so many products."""

    def row(name: str, time: str, calls: int, shapes: list[list[int]]) -> dict[str, object]:
        cells = {"Name": name, "Self CPU": "1.000ms", "CPU total": "1.000ms", "Self CUDA": time, "CUDA total": time}
        return {**cells, "# of Calls": calls, "Input Shapes": str(shapes)}

    rows = [
        row("aten::topk", "10.000ms", 2, [[TOKENS, 8], [], [], [], []]),
        row("aten::mm", "500.000ms", calls, [[TOKENS, WIDTH], [WIDTH, INNER]]),
        row("aten::add", "490.000ms", 2, [[TOKENS, WIDTH], [TOKENS, WIDTH]]),
    ]
    return table(rows, cpu="100.000ms", device="1.000s")


RULE = "moe-dense"


def test_all_but_one_of_eight_parts_or_half_of_that() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    most = 16 * 100_000 * 7 / 8
    assert finding.saving.direct_ns_per_step == pytest.approx((most / 2, most))
    assert (finding.summary.params["experts"], finding.summary.params["calls"]) == (8, 8)


def test_a_bias_changes_nothing() -> None:
    shapes, types = [[INNER], [TOKENS, WIDTH], [WIDTH, INNER], [], []], [*3 * ["c10::BFloat16"], "Scalar", "Scalar"]
    assert findings(model(*[Call("aten::addmm", [kernel(MATRIX_UNITS, 100)], shapes, types)] * 8), RULE)
