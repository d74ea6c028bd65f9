"""Estimates what loading in worker processes is worth."""

from __future__ import annotations

from traceanalyzer.analyzers.dataloader import DataLoader, Loader, is_in_process
from traceanalyzer.analyzers.step_breakdown import Average
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules import _settings
from traceanalyzer.rules.change import TimeSaved
from traceanalyzer.rules.facts import Facts

CONTENTION = 0.2
"""Share of a saving that workers may cost (own choice; 12 % was lost in the one measured pair: ResNet-50, 0 and 4
workers)."""

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


def with_workers(average: Average, basis: Message, share: float = 1.0) -> TimeSaved:
    """At most the exposed waiting; at least what one worker running beside the rest of the step saves, less a fifth.

    Args:
        average: Means over the steps.
        basis: How it was estimated.
        share: Share of the waiting that is saved, if there are several loaders.
    """
    exposed, full = average.dataloader_ns * share, average.dataloader_full_ns * share
    rest = average.duration_ns - exposed
    one_worker = max(0.0, average.duration_ns - max(rest, full))
    low = (1 - CONTENTION) * min(exposed, one_worker) if exposed >= WORTH_NS else 0.0
    return TimeSaved("loader", (low, exposed), basis, (low, exposed), {"loader": exposed})
