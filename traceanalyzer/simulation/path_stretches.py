"""The critical path of one step in the order of time, merged to at most as many stretches as a report shows."""

from __future__ import annotations

import numpy as np

from traceanalyzer.simulation.back_pointers import Pieces
from traceanalyzer.trace.table import I64

MOST = 100
"""Most stretches (own choice: a lane of a timeline shows no more)."""


def merged(pieces: Pieces, label: I64, step: tuple[int, int], unknown: int) -> tuple[I64, I64]:
    """Starts in ns and labels of the stretches of a step; a stretch too short to show is merged into the previous one.

    Args:
        pieces: The path.
        label: Label of each piece.
        step: Start and end of the step in ns.
        unknown: Label of the time before the first piece.
    """
    start, end = step
    rows = np.flatnonzero((pieces.end_ns > start) & (pieces.start_ns < end))
    begins, label = np.maximum(pieces.start_ns[rows], start), label[rows]
    if not len(rows) or begins[0] > start:
        begins, label = np.append(start, begins), np.append(unknown, label)
    least = 0
    while True:
        changes = np.append(True, label[1:] != label[:-1])
        begins, label = begins[changes], label[changes]
        if len(begins) <= MOST:
            return begins, label
        length = np.append(begins[1:], end) - begins
        least = max(2 * least, int(np.partition(length, len(length) - MOST)[len(length) - MOST]), 1)
        kept = length >= least
        kept[0] = True
        begins, label = begins[kept], label[kept]
