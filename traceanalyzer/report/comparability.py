"""The two sides of a difference, and the conditions that decide whether they can be compared."""

from __future__ import annotations

import msgspec

from traceanalyzer.report.message import Message


class Side(msgspec.Struct, frozen=True):
    """One of the two measurements."""

    name: str
    """Name of the file, folder or run, without its path."""
    format: str
    """Format of the input: `kineto` for traces, `key_averages` for printed tables."""
    run: str | None
    """Id of the run in a document of printed tables; null for traces."""
    title: str | None
    """Heading of that run in its document; null for traces or without a heading."""
    traces: int
    """Number of traces that the figures are of; 1 for printed tables."""
    ranks: tuple[int, ...]
    """Ranks that the figures are of; empty where the files name none."""
    ranks_left_out: tuple[int, ...]
    """Ranks of this side that the other side does not have; they are left out of the figures."""
    steps: int
    """Number of steps that the figures per step are of, over all traces."""
    steps_from: str | None
    """How the steps were found; null where the traces differ in it, or there are none."""
    devices: tuple[str, ...]
    """Names of the accelerators, in the order of the alphabet."""
    ignored: tuple[str, ...]
    """Files of the folder that are not part of the comparison."""


class Check(msgspec.Struct, frozen=True):
    """One condition under which two measurements can be compared."""

    id: str
    """Id of the condition: `work` (only where nothing is in common), `gpu`, `world-size`, `ranks`, `steps-from`,
    `step-count`, `shapes`, `sizes`, `calls` or `options`."""
    similarity: float | None
    """How alike both sides are, from 0 (nothing in common) to 1 (equal); null if unknown on a side."""
    required: bool
    """Whether times cannot be compared at all where the similarity is 0."""
    message: Message
    """A condition of the comparison, with the values of both sides."""


class Comparability(msgspec.Struct, frozen=True):
    """Whether the two measurements are of the same work on the same machine, seen in the same way."""

    score: float | None
    """Weighted mean of the known similarities (0 to 1); 0 where no work is in common, null where nothing is known."""
    checks: tuple[Check, ...]
    """The conditions that were checked."""

    @property
    def obstacle(self) -> Check | None:
        """The first required condition that is not met."""
        return next((check for check in self.checks if check.required and check.similarity == 0), None)

    @property
    def is_unrelated(self) -> bool:
        """The sides have no work in common."""
        return any(check.id == "work" and check.similarity == 0 for check in self.checks)
