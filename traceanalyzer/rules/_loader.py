"""Estimates the saving of loading in worker processes."""

from __future__ import annotations

from traceanalyzer.analyzers.loader import DataLoader, Loader, in_workers
from traceanalyzer.analyzers.loader.in_workers import Room
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.knowledge.loader_workers import FETCH_NS, SLOWDOWN
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine import settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.structure.loader_waits import is_in_process
from traceanalyzer.structure.step_breakdown import Average

FEW_WORKERS = 2
"""Number of workers to advise if the number of cores is unknown; the training itself needs cores, too (own choice)."""


def has_workers(facts: Facts) -> bool | None:
    """Whether the batches that the program waits for come from workers: by a capture, or by the iterators' names."""
    if facts.table is None:
        return in_workers.are_workers(_loaders(facts), facts.capture.facts if facts.capture else None)
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row)]
    longest = max(rows, key=lambda row: row.self_cpu_ns or 0, default=None)
    in_process = None if longest is None else is_in_process(longest.name)
    return None if in_process is None else not in_process


def starting_code(facts: Facts) -> str | None:
    """Code with as many workers as the machine has room for, without settings that are there; None: the rule's."""
    workers = settings.starting_workers(facts)
    is_on_host = facts.resources.gpu_ns is None
    if workers is None:
        return code_without_gpu() if is_on_host else None
    pinning = "" if is_on_host or settings.all_pinned(facts) else "pin_memory=True, "
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


def room(facts: Facts) -> Room:
    """Cores and busy threads, by a capture."""
    host = facts.capture.facts.host if facts.capture else None
    return in_workers.room(host, is_on_host=facts.resources.gpu_ns is None)


def is_too_short(facts: Facts, average: Average, share: float = 1.0) -> bool:
    """Whether fetching and sending a batch takes as long as preparing it, if there is no free core for a worker."""
    return not room(facts).is_free and average.dataloader_ns * share < 2 * FETCH_NS


def with_workers(facts: Facts, average: Average, share: float = 1.0) -> TimeSaved:
    """At most the exposed waiting; at least the saving with one worker beside the rest of the step, less its cost.

    A worker without a free core may cost as much as it saves; waiting (for a network, asleep) needs no core.

    Args:
        facts: The facts of the run.
        average: Means over the steps.
        share: Share of the waiting that is removed, if there are several loaders.
    """
    own, loaders, capture = room(facts), _loaders(facts), facts.capture.facts if facts.capture else None
    asleep = in_workers.asleep_share(average, loaders, capture)
    saved = in_workers.saving(average, loaders, asleep, own, share)
    costs = {"slowdown": SLOWDOWN[1], "fetch": FETCH_NS}
    if own.is_free:
        basis = _FREE(**costs)
    elif asleep >= _MOSTLY or saved[0] > 0:
        basis = _ASLEEP(share=asleep, **costs)
    else:
        basis = _UNKNOWN() if own.cores is None else _BUSY(cores=own.cores, threads=own.busy)
    return TimeSaved("loader", saved, basis, saved, {"loader": saved[1]})


def _loaders(facts: Facts) -> tuple[Loader, ...]:
    found = facts.find("dataloader", DataLoader)
    return found.loaders if found else ()


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
    "loader-basis-needs-no-core",
    "at most the waiting in which nothing else runs; at least what one worker saves of the part that needs no core "
    "({share:share} is waiting for files, a network or a clock), less {slowdown:share} of the other part, because a "
    "worker shares memory and cores with the program, and {fetch:ns} to fetch a batch from it",
)
