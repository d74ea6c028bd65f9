"""Runs with a planted fault, the verdict on each, and the ranks that it names."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders.flight_recorder import FlightRun


def begun(ranks: int, *, collectives: int = 20) -> FlightRun:
    """A run that has called some collectives, and many before."""
    run = FlightRun(ranks, first=1000)
    for _ in range(collectives):
        run.collective("all_reduce")
        run.collective("_all_gather_base", shape=(64,), dtype="BFloat16")
    return run


def with_groups(ranks: int) -> FlightRun:
    """A run with pairs of ranks (tensor), and the even and the odd ranks (data)."""
    run = begun(ranks, collectives=2)
    for first in range(0, ranks, 2):
        run.group(str(10 + first), "TENSOR", (first, first + 1))
    run.group("5", "DATA", range(0, ranks, 2))
    run.group("6", "DATA", range(1, ranks, 2))
    for _ in range(5):
        for first in range(0, ranks, 2):
            run.collective("all_reduce", str(10 + first))
        run.collective("_reduce_scatter_base", "5")
        run.collective("_reduce_scatter_base", "6")
    return run


def asleep(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.collective(absent=(ranks - 1,))
    return run, (ranks - 1,)


def asleep_ahead(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    """The others call several collectives ahead of the one in which they wait."""
    run = begun(ranks)
    for _ in range(5):
        run.collective(absent=(0,))
    return run, (0,)


def chained(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    """The last rank sleeps; its partner waits for it, and the partner's row waits for the partner."""
    run = with_groups(max(ranks, 4))
    last = max(ranks, 4) - 1
    run.collective("all_reduce", str(10 + last - 1), absent=(last,))
    for first in range(0, last - 1, 2):
        run.collective("all_reduce", str(10 + first))
    run.collective("_reduce_scatter_base", "5", absent=(last - 1,))
    run.collective("_reduce_scatter_base", "6", absent=(last,))
    return run, (last,)


def stopped(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.collective("all_reduce", stuck=(1,))
    run.collective("all_reduce", stuck=tuple(range(ranks)))
    return run, (1,)


def stopped_two(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = with_groups(max(ranks, 4))
    run.collective("all_reduce", "10", stuck=(1,))
    run.collective("all_reduce", "12", stuck=(2,))
    run.collective("_reduce_scatter_base", "5", stuck=range(0, max(ranks, 4), 2))
    run.collective("_reduce_scatter_base", "6", stuck=range(1, max(ranks, 4), 2))
    return run, (1, 2)


def wrong_shape(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(max(ranks, 3))
    run.collective(stuck=range(max(ranks, 3)), other={1: {"input_sizes": [[7]]}})
    return run, (1,)


def wrong_dtype(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(max(ranks, 3))
    run.collective(stuck=range(max(ranks, 3)), other={2: {"input_dtypes": ["Half"]}})
    return run, (2,)


def wrong_order(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(max(ranks, 3))
    for name, swapped in (("all_reduce", "broadcast"), ("broadcast", "all_reduce")):
        run.collective(name, stuck=range(max(ranks, 3)), other={0: {"profiling_name": f"nccl:{swapped}"}})
    return run, (0,)


def missing_barrier(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    """One rank skips the barrier and calls what comes after it."""
    run = begun(max(ranks, 3))
    run.collective("barrier", stuck=range(max(ranks, 3)), other={1: {"profiling_name": "nccl:all_reduce"}})
    return run, (1,)


def without_partner(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.send(0, ranks - 1, only="recv")
    return run, (0,)


def send_without_partner(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.send(0, ranks - 1, only="send")
    return run, (ranks - 1,)


def crossed(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.group("8", "ONE", (0, 1))
    run.group("9", "TWO", (0, 1))
    for group in ("8", "9"):
        run.collective(group=group)
    run.collective(group="8", absent=(1,))
    run.collective(group="9", absent=(0,))
    return run, (0, 1)


def nobody_finishes(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.collective(stuck=range(ranks))
    return run, ()


def healthy(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    return begun(ranks), ()


def healthy_groups(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = with_groups(max(ranks, 4))
    run.send(0, 1)
    run.collective("all_to_all", other={0: {"input_sizes": [[3]]}})
    return run, ()


def slow(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = FlightRun(ranks, first=5)
    for _ in range(30):
        run.collective(late_ns={1: 4_000_000})
    return run, (1,)


def not_begun(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.collective(stuck=range(ranks), other={rank: {"state": "started"} for rank in range(ranks) if rank != 1})
    return run, (1,)


def unfinished(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.collective(stuck=(ranks - 1,))
    return run, (ranks - 1,)


def late(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    run.collective(stuck=range(ranks), late_ns={1: 599_000_000_000})
    return run, (1,)


def sends(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    for rank in range(ranks):
        run.send(rank, (rank + 1) % ranks, only="send")
    return run, tuple(range(ranks))


def crossed_halves(ranks: int) -> tuple[FlightRun, tuple[int, ...]]:
    run = begun(ranks)
    every = tuple(range(ranks))
    for group in ("8", "9"):
        run.group(group, group, every)
        run.collective(group=group)
    run.collective(group="8", absent=every[: ranks // 2])
    run.collective(group="9", absent=every[ranks // 2 :])
    return run, every


FAULTS: dict[str, tuple[Callable[[int], tuple[FlightRun, tuple[int, ...]]], str]] = {
    "a rank sleeps": (asleep, "missing"),
    "a rank sleeps, the others run ahead": (asleep_ahead, "missing"),
    "a rank sleeps, in a chain of groups": (chained, "missing"),
    "a device stops": (stopped, "stopped"),
    "two devices stop": (stopped_two, "stopped"),
    "another shape": (wrong_shape, "mismatch"),
    "another type": (wrong_dtype, "mismatch"),
    "another order": (wrong_order, "mismatch"),
    "a barrier left out": (missing_barrier, "mismatch"),
    "a recv without its send": (without_partner, "missing"),
    "a send without its recv": (send_without_partner, "missing"),
    "two groups crossed": (crossed, "circle"),
    "nobody finishes": (nobody_finishes, "all-waiting"),
    "a healthy run": (healthy, "none"),
    "a healthy run with groups": (healthy_groups, "none"),
    "a slow rank": (slow, "slow"),
    "a device has not begun": (not_begun, "not-begun"),
    "a device is in its last operation": (unfinished, "unfinished"),
    "a rank comes when the limit is over": (late, "timeout"),
    "all send": (sends, "circle"),
    "halves crossed": (crossed_halves, "circle"),
}
