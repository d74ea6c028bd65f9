"""Detects cells that the program calls in a loop over time: recurrent-cell-loop."""

from __future__ import annotations

from traceanalyzer.analyzers.operators import loops
from traceanalyzer.rules.engine.change import HostTime
from traceanalyzer.rules.engine.places import at_line
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN

_PAGE = page("recurrent-cell-loop")

_LEAST, _MOST = 0.6, 1.0
"""Least and most of the loop's time that goes away (own choice, explained on the rule's page)."""
_BESIDES = frozenset(
    f"aten::{name}"
    for name in (
        *("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "dropout"),
        *("select", "slice", "index", "unbind", "narrow", "index_select", "stack", "unsqueeze", "squeeze"),
        *("detach", "view", "reshape", "copy_", "zeros", "zeros_like", "to", "contiguous", "t"),
    )
)
"""Operators of a turn that a layer over all points in time also has, or does not need."""
_LATER = frozenset(
    f"aten::{name}"
    for name in (
        *("embedding", "linear", "relu", "tanh", "sigmoid", "add", "add_", "mul", "layer_norm"),
        *(
            "log_softmax",
            "nll_loss",
            "nll_loss_nd",
            "cross_entropy_loss",
            "mse_loss",
            "binary_cross_entropy_with_logits",
        ),
    )
)
"""Operators that may run on all points in time at once, if a cell does not get what they make."""
_TO_CELL = frozenset(
    f"aten::{name}" for name in ("embedding", "unsqueeze", "squeeze", "dropout", "to", "view", "reshape")
)
_PIECES = frozenset(f"aten::{name}" for name in ("select", "slice", "index", "narrow", "index_select", "unbind"))
_LEAST_BESIDES = 0.25
"""Least of the time where such operators are in the loop, which run once on all points in time then (0.36 was measured
on a CPU)."""
_LAYERS = {"lstm_cell": "torch.nn.LSTM", "gru_cell": "torch.nn.GRU"}


def _cells(facts: Facts, limits: Limits) -> Drafts:
    for row in facts.need("repeats", loops.Repeats).rows:
        cells = [name.removeprefix("aten::") for name in row.operators if name.endswith("_cell")]
        if cells and row.most_turns >= limits["turns"] and (_has_only_cells(row) or _is_fed_by_input(row)):
            yield from _cell(facts, row, cells[0], limits)


def _has_only_cells(row: loops.Repeat) -> bool:
    return set(row.operators) <= _BESIDES


def _is_fed_by_input(row: loops.Repeat) -> bool:
    """Whether each turn gives the cell a piece of the input, and what follows makes no input of the next one."""
    first = next(number for number, name in enumerate(row.operators) if name.endswith("_cell"))
    before = [name for name in row.operators[:first] if name not in _TO_CELL]
    return bool(before) and before[-1] in _PIECES and set(row.operators) <= _BESIDES | _LATER


def _cell(facts: Facts, row: loops.Repeat, cell: str, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    taken = row.host_ns + row.backward_ns
    time = processor.per_step(taken) if processor.is_cpu else facts.per_step(taken)
    if time <= limits["host_share"] * facts.step_ns:
        return
    least = _LEAST if _has_only_cells(row) else _LEAST_BESIDES
    interval = least * time, _MOST * time
    basis, within = _PAGE.text("basis")(least=least), loops.loop_at(row=row)
    change = HostTime(interval, basis, at=within)
    if not processor.is_cpu:
        exposed = None if row.idle_ns is None else (least * facts.per_step(row.idle_ns), facts.per_step(row.idle_ns))
        change = HostTime(interval, basis, exposed, within=within, device=ITS_OWN)
    where = at_line(row.python_line, "operator", " ".join(row.operators), row.host_ns, row.longest_start_ns)
    params = {
        "cell": cell,
        "turns": row.most_turns,
        "layer": _LAYERS.get(cell, "torch.nn.RNN"),
        "time": OfEvents(time),
        "step": facts.step_ns,
    }
    code = f"outputs, state = {params['layer']}(input_size, hidden_size)(sequence)  # instead of a cell in a loop"
    yield Draft((_PAGE.evidence(limits, "turns", row.most_turns, (where,)),), change, params, ceiling="high", code=code)


RULES = (_PAGE.rule(trace=_cells),)
