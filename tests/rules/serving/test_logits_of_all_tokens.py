"""Tests of the rule `logits-of-all-tokens`: numbers worked out by hand, and edges of thresholds.

The programs: products with a vocabulary: for all tokens of a prompt, or for those that are used.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import ADDITION, MATRIX_UNITS, Call, kernel, product, training
from tests.rules.judging import findings, table

B, S, K, V = 4, 256, 1024, 32_000
TYPE = "c10::BFloat16"


def head(rows: int = B * S, outputs: int = V) -> Call:
    """The product with the vocabulary, 100 us."""
    return product(MATRIX_UNITS, 100, [[rows, K], [K, outputs]], TYPE)


def on(name: str, shape: Sequence[int], dur: int = 0) -> Call:
    """An operator on scores, or a view of them."""
    kernels = [kernel(ADDITION, dur)] if dur else []
    return Call(name, kernels, [list(shape), [], []], [TYPE, "Scalar", "Scalar"])


def program(*calls: Call) -> TraceBuilder:
    """Three steps with other work of 890 us."""
    return training([product(MATRIX_UNITS, 890, dtype=TYPE), *calls])


def fires() -> TraceBuilder:
    """1024 rows of scores, of which 4 are used."""
    return program(head(), on("aten::select", (B, S, V)), on("aten::argmax", (B, V), 10))


def fires_in_a_table() -> str:
    """A tenth of the device time is the product."""
    return printed("aten::argmax", [B, V])


def quiet() -> TraceBuilder:
    """The hidden states are cut before the product."""
    return program(head(B), on("aten::select", (B, 1, V)), on("aten::argmax", (B, V), 10))


def quiet_in_a_table() -> str:
    """Tokens are chosen at all positions."""
    return printed("aten::argmax", [B, S, V])


def trap_training() -> TraceBuilder:
    """The loss needs all tokens, although the program also uses the last one."""
    last = on("aten::select", (B, S, V)), on("aten::argmax", (B, V), 10)
    return program(head(), on("aten::_log_softmax", (B * S, V), 20), *last)


def trap_scoring() -> TraceBuilder:
    """A text is rated: probabilities of all tokens but the last."""
    last = on("aten::select", (B, S, V)), on("aten::argmax", (B, V), 10)
    return program(head(), on("aten::_log_softmax", (B, S - 1, V), 20), *last)


def trap_drafts() -> TraceBuilder:
    """Drafted tokens are checked: each position is chosen."""
    return program(head(), on("aten::select", (B, S, V)), on("aten::argmax", (B, S, V), 10))


def trap_a_wide_layer() -> TraceBuilder:
    """A wide layer of a recommender, whose last position is used: fewer outputs than a vocabulary has."""
    last = on("aten::select", (B, S, 16_384)), on("aten::argmax", (B, 16_384), 10)
    return program(head(outputs=16_384), *last)


def trap_nothing_is_chosen() -> TraceBuilder:
    """Only the scores are returned; who uses them is unknown."""
    return program(head())


def printed(choosing: str, shape: Sequence[int]) -> str:
    """A table of one second of device time."""

    def row(name: str, own: int, shapes: Sequence[object], calls: int) -> dict[str, object]:
        times = {"Self CPU": "1.000ms", "CPU total": "2.000ms", "Self CUDA": f"{own}ms", "CUDA total": f"{own}ms"}
        return {"Name": name, **times, "# of Calls": calls, "Input Shapes": str(shapes)}

    rows = [
        row("aten::select", 0, [[B, S, V], [], []], 10),
        row(choosing, 10, [list(shape), [], []], 10),
        row("aten::mm", 100, [[B * S, K], [K, V]], 10),
        row("aten::mm", 890, [[2048, 2048], [2048, 2048]], 100),
    ]
    return table(rows, cpu="100.000ms", device="1.000s")


RULE = "logits-of-all-tokens"

# elements of 1024 rows: 1024 * 32000 + 1024 * (1024 + 32000); of 4 rows: 1024 * 32000 + 4 * 33024
LEAST = 1 - 32_900_096 / 66_584_576
MOST = 1 - 4 / 1024


def test_between_memory_and_arithmetic() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(100 / 1000)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((LEAST * 100_000, MOST * 100_000))
    assert (finding.summary.params["rows"], finding.summary.params["chosen"]) == (1024, 4)
    assert finding.evidence[0].where[0].shapes == "[[1024,1024],[1024,32000]]"
    assert finding.stage == "preview"


def test_a_table_tells_as_much() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((LEAST * 1e8, MOST * 1e8))


def test_edge_outputs() -> None:
    assert findings(fires(), RULE, {"outputs": 32_001}) == []
    assert findings(fires(), RULE, {"outputs": 32_000})


def test_edge_rows_per_choice() -> None:
    assert findings(fires(), RULE, {"rows_per_choice": 256.1}) == []
    assert findings(fires(), RULE, {"rows_per_choice": 256})
