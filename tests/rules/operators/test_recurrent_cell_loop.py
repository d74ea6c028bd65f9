"""Tests of the rule `recurrent-cell-loop`: numbers worked out by hand, and edges of thresholds.

The programs: cells that are called in a loop over time.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.rules.cpu_work import Call, program
from tests.rules.judging import findings, skipped, table
from tests.rules.operators.test_loop_vectorizable import iterating

RULE = "recurrent-cell-loop"


def loop(turn: Sequence[str], *, turns: int = 64, each: int = 20) -> TraceBuilder:
    """A loop without a GPU, beside 1 ms of work."""
    return program([Call("aten::mm", 1000), *[Call(name, each) for name in turn] * turns])


def fires() -> TraceBuilder:
    """An LSTMCell for each point in time."""
    return loop(("aten::select", "aten::lstm_cell"))


def fires_on_pieces_of_a_list() -> TraceBuilder:
    """The sequence is a list already."""
    return loop(("aten::gru_cell",))


def fires_on_a_gpu() -> TraceBuilder:
    """The same with kernels."""
    return iterating(64, ("aten::select", "aten::lstm_cell"))


def fires_on_a_language_model() -> TraceBuilder:
    """Each turn embeds a word of the text, and its loss compares the next word with the one that follows."""
    turn = ("aten::slice", "aten::select", "aten::embedding", "aten::gru_cell", "aten::linear", "aten::select")
    return loop((*turn, "aten::cross_entropy_loss", "aten::add"))


def trap_forecast() -> TraceBuilder:
    """The cell gets what the linear layer made of its last state, and the loss takes a piece of the targets."""
    return loop(("aten::select", "aten::mse_loss", "aten::add", "aten::gru_cell", "aten::linear"))


def quiet() -> TraceBuilder:
    """Four cells are the layers of a model."""
    return loop(("aten::select", "aten::lstm_cell"), turns=4)


def trap_decoder() -> TraceBuilder:
    """A decoder attends to the input and feeds its words back."""
    return loop(("aten::select", "aten::lstm_cell", "aten::bmm", "aten::softmax", "aten::linear", "aten::argmax"))


def trap_other_loop() -> TraceBuilder:
    """A loop without a cell."""
    return loop(("aten::select", "aten::mul"))


def in_a_table() -> str:
    """Many calls of a cell in a table."""
    return table([{"Name": "aten::lstm_cell", "Self CPU": "1.000ms", "# of Calls": 300}], cpu="1.000ms")


def test_time_of_the_loop() -> None:
    (finding,) = findings(fires(), RULE)
    assert "lstm_cell" in finding.summary.text
    assert "torch.nn.LSTM" in finding.advice.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.6 * 64 * 40_000, 64 * 40_000), rel=0.02)


def test_a_rnn_cell_of_another_kind_has_its_layer() -> None:
    (finding,) = findings(loop(("aten::select", "aten::rnn_tanh_cell")), RULE)
    assert "torch.nn.RNN" in finding.advice.text


def test_edge_host_share() -> None:
    share = 64 * 40 / (64 * 40 + 1003)
    assert findings(fires(), RULE, {"host_share": share - 0.01})
    assert not findings(fires(), RULE, {"host_share": share + 0.01})


def test_a_table_shows_no_loops() -> None:
    assert "does not show loops" in (skipped(in_a_table(), RULE) or "")


def test_linear_layers_and_losses_of_the_loop_remain() -> None:
    (finding,) = findings(fires_on_a_language_model(), RULE)
    assert "torch.nn.GRU" in finding.advice.text
    assert "torch.nn.GRU" in (finding.code or "")
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.25 * 64 * 160_000, 64 * 160_000), rel=0.02)
