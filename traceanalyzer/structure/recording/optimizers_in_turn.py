"""How many optimizers take turns in one step of a program, such as those of a generator and a discriminator?

Ranges of optimizers of one class have the same name, so they are told apart by what autograd evaluates before each: as
often as it takes turns, in the same order. A validation every few updates evaluates nothing and changes no turn.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import evaluations
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I64

_MOST = 4
"""Greatest number of optimizers in turn that is recognized (own choice: losses of every eighth step are no turn)."""
_EXAMINED = 1000
"""Number of calls that are examined (own choice), so that many updates and functions make no large table."""
_REPEATS = 3
"""Number of whole turns that it takes to recognize them."""


def updates_of_a_step(context: Context, calls: I64) -> int:
    """The number of calls of optimizers from which on they repeat; 1 if they all are alike, or not periodic.

    Args:
        context: Of the trace.
        calls: Rows of the host table that are calls of `step`, in the order of time, shape (calls,).
    """
    if len(calls) < 2 * _REPEATS:
        return 1
    calls = calls[:_EXAMINED]
    what = _between(context, calls)
    if (what[1:] == what[:-1]).all():
        return 1
    fitting = range(2, min(_MOST, len(calls) // _REPEATS) + 1)
    return next((turns for turns in fitting if (what[turns:] == what[:-turns]).all()), 1)


def _between(context: Context, calls: I64) -> I64:
    """What lies between each call and the next one: how often autograd evaluates each function, and the call's name.

    Returns:
        Shape (calls - 1, functions + 1).
    """
    host, tree = context.trace.host, context.host.tree
    nodes = np.flatnonzero(context.once(evaluations))
    codes, function = ranked(host.name[context.host.row[nodes]])
    call = np.searchsorted(host.start_ns[calls], tree.start_ns[nodes], side="right") - 1
    within = (call >= 0) & (call < len(calls) - 1)
    shape = len(calls) - 1, len(codes)
    counts = np.bincount(call[within] * shape[1] + function[within], minlength=shape[0] * shape[1]).reshape(shape)
    return np.column_stack((counts, host.name[calls[:-1]]))
