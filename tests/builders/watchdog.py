"""Builds the lines that the watchdogs of torch write into the log of a job, as each version words them."""

from __future__ import annotations

from collections.abc import Iterable

VERSIONS = ("1.10", "1.13", "2.1", "2.3", "2.4", "2.5", "2.8")
NUMBERED = VERSIONS[1:]
"""Versions that number operations."""
WITH_STATUS = VERSIONS[3:]
"""Versions that say how far a group came."""


def caught(
    rank: int,
    number: int,
    operation: str = "ALLREDUCE",
    *,
    version: str = "2.5",
    elements: int = 1024,
    group: tuple[int, str] = (0, "default_pg"),
    enqueued: int | None = None,
    completed: int | None = None,
    second: float = 0.0,
    ran_ms: int = 600_041,
) -> str:
    """What a rank says that waits in an operation: the watchdog, the status, and the exception that ends the process.

    Args:
        rank: Its number.
        number: That of the operation.
        operation: As the log names it.
        version: Version of torch.
        elements: Of its input.
        group: Number and description of its group.
        enqueued: Number of the last operation that it called; by default this one.
        completed: That of the last one that it finished; by default the one before.
        second: Seconds after 03:14:00 at which it speaks.
        ran_ms: For how long it waited.
    """
    head = _head(rank, version, group, second)
    sizes = f"TensorShape=[{elements}]" if version in VERSIONS[:2] else f"NumelIn={elements}, NumelOut={elements}"
    numbered = f"SeqNum={number}, " if version in NUMBERED else ""
    said = (
        f"Watchdog caught collective operation timeout: WorkNCCL({numbered}OpType={operation}, {sizes}, "
        f"Timeout(ms)=600000) ran for {ran_ms} milliseconds before timing out."
    )
    last = enqueued if enqueued is not None else number
    lines = [f"{head}{said}"]
    if version in WITH_STATUS:
        lines.append(
            f"{head}{_at(version, number)}{_status(version, last, number - 1 if completed is None else completed)}"
        )
    lines.append("terminate called after throwing an instance of 'c10::DistBackendError'")
    lines.append(f"  what():  {head.rpartition('] [')[1][2:]}[Rank {rank}] {said}" if version in VERSIONS[:3] else "")
    return "\n".join(lines) + "\n"


def idle(
    rank: int, last: int, *, version: str = "2.5", second: float = 0.0, group: tuple[int, str] = (0, "default_pg")
) -> str:
    """What a rank says that waits nowhere, when another one asks for dumps."""
    told = _status(version, last, last)
    return (
        f"{_head(rank, version, group, second)}Received a dump signal due to a collective timeout from rank 0 and we "
        f"will try our best to dump the debug info. L{told[1:]}This is most likely caused by incorrect usages of "
        "collectives.\n"
    )


def barrier(missing: Iterable[int], *, rank: int = 0) -> str:
    """What `monitored_barrier` says."""
    told = list(missing)
    ranks = f"Rank{'s' if len(told) > 1 else ''} {', '.join(map(str, told))}"
    return f"RuntimeError: [Rank {rank}]: {ranks} failed to pass monitoredBarrier in 5000 ms\n"


def gloo(rank: int) -> str:
    """What gloo says when it gives up."""
    where = "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81]"
    return f"[rank{rank}]: RuntimeError: {where} Timed out waiting 1800000ms for recv operation to complete\n"


def _head(rank: int, version: str, group: tuple[int, str], second: float) -> str:
    number, described = group
    if version in VERSIONS[:3]:
        return f"[E ProcessGroupNCCL.cpp:475] [Rank {rank}] "
    if version == "2.3":
        return f"[rank{rank}]:[E ProcessGroupNCCL.cpp:523] [PG {number} Rank {rank}] "
    clock = f"[rank{rank}]:[E1107 03:{14 + int(second // 60):02d}:{second % 60:09.6f}000 ProcessGroupNCCL.cpp:616] "
    if version == "2.4":
        return f"{clock}[PG {number} ({described}) Rank {rank}] "
    return f"{clock}[PG ID {number} PG GUID {number}({described}) Rank {rank}] "


def _at(version: str, number: int) -> str:
    return {
        "2.3": f"Timeout at NCCL work: {number}, ",
        "2.4": f"Exception (either an error or timeout) detected by watchdog at work: {number}, ",
        "2.5": f"Exception (either an error or timeout) detected by watchdog at work: {number}, ",
    }.get(version, f" failure detected by watchdog at work sequence id: {number} PG status: ")


def _status(version: str, enqueued: int, completed: int) -> str:
    what = "work" if version == "2.8" else "NCCL work"
    return f"last enqueued {what}: {enqueued}, last completed {what}: {completed}."
