"""What worker processes of a loader cost the program that they work for.

Workers take cores, caches and memory bandwidth, so the rest of a step gets longer while they load. `slowdown` tells it
from a pair of recordings of one program, without workers and with them; docs/whatif.md has the errors of each pair when
it is predicted from the other (`scripts/whatif_errors.py`).
"""

from __future__ import annotations

import msgspec

SLOWDOWN = (0.0, 0.31)
"""Time that the rest of a step loses per time that workers load, at least and at most: two pairs of recordings of
ResNet-50 on a V100, with 0 and 4 workers, their typical steps (0.00 and 0.09) and the means of all (0.09 and 0.31)."""

FETCH_NS = 1_500_000
"""Time in ns in which the program fetches a batch that a worker has ready: 0.1 to 1.5 ms in those recordings, 1.2 to
2.0 ms in the lab on two cores. Sending it costs the worker about as much."""

READY_NS = 2 * FETCH_NS
"""Wait in ns up to which a batch of a worker was ready (own choice: twice what fetching it usually takes)."""


class LoadedSteps(msgspec.Struct, frozen=True):
    """Steps of a program that waits for its loader; times in ns per step."""

    step_ns: float
    exposed_ns: float
    """Waiting that nothing hides."""
    full_ns: float
    """All waiting; without workers what it takes to make a batch."""

    @property
    def rest_ns(self) -> float:
        """The step without that waiting."""
        return self.step_ns - self.exposed_ns


def slowdown(alone: LoadedSteps, beside: LoadedSteps) -> float:
    """How much longer the rest of a step is with workers, per time that they load; at least 0.

    Args:
        alone: Without workers.
        beside: With workers.
    """
    return max(0.0, beside.rest_ns - alone.rest_ns) / alone.full_ns if alone.full_ns else 0.0


def with_workers(alone: LoadedSteps, share: float, workers: int) -> float:
    """Step in ns with workers: the rest, longer by a share of what they load, or what they need for a batch."""
    return max(alone.rest_ns + share * alone.full_ns, alone.full_ns / workers)
