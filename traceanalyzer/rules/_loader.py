"""Estimates what loading in worker processes is worth."""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.dataloader import DataLoader, Loader, is_in_process
from traceanalyzer.analyzers.step_breakdown import Average
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.knowledge.loader_workers import FETCH_NS, SLOWDOWN
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules import _settings
from traceanalyzer.rules.change import TimeSaved
from traceanalyzer.rules.facts import Facts

FEW_WORKERS = 2
"""Number of workers to advise if the number of cores is unknown; the training itself needs cores, too (own choice)."""


WORTH_NS = 1_000_000
"""Waiting per step in ns below which nothing is promised (own choice: a batch from a worker takes about as long to be
fetched)."""


def has_workers(facts: Facts) -> bool | None:
    """Whether the batches that the program waits for come from workers: by a capture, or by the iterators' names."""
    known = _settings.workers(facts)
    if known is not None:
        return known > 0
    if facts.table is not None:
        rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row)]
        waits = [(row.self_cpu_ns or 0, is_in_process(row.name)) for row in rows]
    else:
        found = facts.find("dataloader", DataLoader)
        waits = [(loader.exposed_ns, loader.in_process) for loader in (found.loaders if found else ())]
    in_process = max(waits, key=lambda wait: wait[0], default=(0, None))[1]
    return None if in_process is None else not in_process


def starting_code(facts: Facts) -> str | None:
    """Code with as many workers as the machine has room for, without settings that are there; None: the rule's."""
    workers = _settings.starting_workers(facts)
    is_on_host = facts.resources.gpu_ns is None
    if workers is None:
        return code_without_gpu() if is_on_host else None
    pinning = "" if is_on_host or _settings.all_pinned(facts) else "pin_memory=True, "
    return f"DataLoader(dataset, num_workers={workers}, {pinning}persistent_workers=True)"


def places(loaders: list[Loader]) -> tuple[CodePlace, ...]:
    """The longest waits for some loaders."""
    waits = [(wait, loader) for loader in loaders for wait in loader.longest]
    waits.sort(key=lambda entry: (-entry[0].exposed_ns, entry[0].start_ns))
    return tuple(
        CodePlace("operator", loader.name, value=wait.exposed_ns, unit="ns", start_ns=wait.start_ns)
        for wait, loader in waits[:5]
    )


def code_without_gpu() -> str:
    """The code without pinning, for programs that copy nothing to a device."""
    return f"DataLoader(dataset, num_workers={FEW_WORKERS}, persistent_workers=True)"


class Room(msgspec.Struct, frozen=True):
    """Whether cores are free for workers."""

    cores: int | None
    """Hardware threads that the program may use; None if unknown."""
    busy: int
    """Of them, those that the program keeps busy."""
    is_free: bool
    """Whether a worker has a core of its own. Two hardware threads of one core share its units, so half of them count.
    Without a figure: a program on a GPU leaves cores free, one on the CPU uses all of them."""


def room(facts: Facts) -> Room:
    """Cores and busy threads, by a capture."""
    on_host = facts.resources.gpu_ns is None
    host = facts.capture.facts.host if facts.capture else None
    cores, threads = (host.cpus, host.threads) if host else (None, None)
    if cores is None:
        return Room(None, 1, not on_host)
    busy = (threads or cores) if on_host else 1
    return Room(cores, min(busy, cores), 2 * (busy + 1) <= cores)


def is_too_short(facts: Facts, average: Average, share: float = 1.0) -> bool:
    """Whether fetching and sending a batch takes as long as making it, where a worker has no core of its own."""
    return not room(facts).is_free and average.dataloader_ns * share < 2 * FETCH_NS


def with_workers(facts: Facts, average: Average, share: float = 1.0) -> TimeSaved:
    """At most the exposed waiting; at least what one worker beside the rest of the step saves, less what it costs.

    A worker that has no core of its own may cost as much as it saves; waiting (for a network, asleep) needs no core.

    Args:
        facts: What is known of the run.
        average: Means over the steps.
        share: Share of the waiting that goes away, if there are several loaders.
    """
    exposed, full = average.dataloader_ns * share, average.dataloader_full_ns * share
    rest, waiting = average.duration_ns - exposed, min(full, _asleep(facts) * full)
    is_free = room(facts).is_free
    saved = min(exposed, max(0.0, average.duration_ns - max(rest, full)))
    lost = FETCH_NS + SLOWDOWN[1] * (full - waiting)
    if not is_free:
        saved = min(saved, waiting)
    low = max(0.0, saved - lost) if exposed >= WORTH_NS else 0.0
    basis = _FREE(slowdown=SLOWDOWN[1], fetch=FETCH_NS) if is_free else _basis_busy(facts, waiting, full)
    return TimeSaved("loader", (low, exposed), basis, (low, exposed), {"loader": exposed})


def _asleep(facts: Facts) -> float:
    """Share of the waits in which the process itself only waits, as far as stacks tell."""
    found = facts.find("dataloader", DataLoader)
    loaders = [loader for loader in (found.loaders if found else ()) if loader.asleep_ns is not None]
    total = sum(loader.total_ns for loader in loaders)
    return sum(loader.asleep_ns or 0 for loader in loaders) / total if total else 0.0


def _basis_busy(facts: Facts, waiting: float, full: float) -> Message:
    if waiting >= _MOSTLY * full:
        return _ASLEEP(share=waiting / full, fetch=FETCH_NS)
    own = room(facts)
    return _UNKNOWN() if own.cores is None else _BUSY(cores=own.cores, threads=own.busy)


_MOSTLY = 0.5
_FREE = Text(
    "loader-basis-free",
    "at most the waiting in which nothing else runs; at least what one worker saves, less {slowdown:share} of the time "
    "that it loads, because it shares memory and cores with the program, and {fetch:ns} to fetch a batch from it",
)
_BUSY = Text(
    "loader-basis-busy",
    "at most the waiting in which nothing else runs; at least nothing: of {cores:count} hardware threads the program "
    "keeps {threads:count} busy, so workers take time from it",
)
_UNKNOWN = Text(
    "loader-basis-unknown",
    "at most the waiting in which nothing else runs; at least nothing, because the program computes on the CPU and may "
    "keep all cores busy",
)
_ASLEEP = Text(
    "loader-basis-asleep",
    "at most the waiting in which nothing else runs; at least the part that needs no core ({share:share} is waiting "
    "for files, a network or a clock), less {fetch:ns} to fetch a batch from a worker",
)
