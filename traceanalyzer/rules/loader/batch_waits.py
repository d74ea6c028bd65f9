"""What a run shows of its loaders and of how long it waits for them, for the rules about loaders."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.analyzers.loader import DataLoader, Loader, LoaderEpochs, in_workers
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.knowledge.loaders import FETCH_NS, SLOWDOWN
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine import host_work, program
from traceanalyzer.rules.engine.change import LoaderShorter
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.structure.events import LOADER
from traceanalyzer.structure.host_waits import is_in_process
from traceanalyzer.structure.step_breakdown import Average, StepBreakdown
from traceanalyzer.trace.capture_facts import CaptureFacts
from traceanalyzer.trace.document import TableRow

_FEW_WORKERS = 2
"""Number of workers to advise if the number of cores is unknown; the training itself needs cores, too (own choice)."""
_SHOWN = 5
_AGAIN = 2
"""Least number of long waits that are no accident (own choice)."""

_FREE = Text(
    "loader-basis-free",
    "at most the wait in which nothing else runs; at least what one worker saves, which loads {slowdown:share} slower "
    "because it shares memory and cores with the program, and takes {fetch:ns} to hand over a batch",
)
_BUSY = Text(
    "loader-basis-busy",
    "at most the wait in which nothing else runs; at least nothing: the program keeps {threads:count} of "
    "{cores:count} hardware threads busy, so workers take time from it",
)
_UNKNOWN = Text(
    "loader-basis-unknown",
    "at most the wait in which nothing else runs; at least nothing, because the program computes on the CPU and may "
    "keep all cores busy",
)
_ASLEEP = Text(
    "loader-basis-side-by-side",
    "at most the wait in which nothing else runs; at least what {workers:count} workers save, which wait side by side: "
    "{share:share} of it is for files, a network or a clock and needs no core; the rest is {slowdown:share} slower in "
    "a worker, which shares memory and cores with the program, and takes {fetch:ns} to hand over a batch",
)


_MOST_OF_IT = 0.5
"""Least part of the time to prepare batches, and of the waiting, for which a cause is named (own choice)."""


class SlowFunction(msgspec.Struct, frozen=True):
    """The function of the program that takes most of the time in which batches are prepared."""

    name: str
    """File, line and name, as the profiler writes frames."""
    sample_ns: float
    """Its time for a sample in ns."""
    share: float
    """Its part of the time in which batches are prepared."""


class BatchWaits(msgspec.Struct, frozen=True):
    """The loaders of a trace, and the part of the typical step in which the program waits for them."""

    facts: Facts
    average: Average
    """The typical step by its parts."""
    loaders: tuple[Loader, ...]

    @classmethod
    def of(cls, facts: Facts) -> BatchWaits | None:
        """The waits of a run; None without a step of any length."""
        average = facts.step_parts
        recorded = facts.find("dataloader", DataLoader)
        if average is None or not average.duration_ns:
            return None
        return cls(facts, average, recorded.loaders if recorded else ())

    @property
    def in_process(self) -> tuple[Loader, ...]:
        """The loaders of which the program prepares the batches itself."""
        return tuple(loader for loader in self.loaders if loader.in_process)

    @property
    def in_process_part(self) -> float:
        """Their part in the time in which the program waits for all loaders and nothing else runs."""
        exposed = sum(loader.exposed_ns for loader in self.loaders)
        return sum(loader.exposed_ns for loader in self.in_process) / exposed if exposed else 0.0

    @property
    def within_epochs_ns(self) -> float:
        """Exposed waiting per step, without that at the change of epochs, which is about starting workers."""
        epochs = self.facts.find("loader_epochs", LoaderEpochs)
        turning = 0.0 if epochs is None else self.facts.spread(epochs.wait_ns - epochs.usual_total_ns)
        return self.average.dataloader_ns - min(max(0.0, turning), self.average.dataloader_ns)

    @property
    def sampler(self) -> Loader | None:
        """The loader of which the program waits longest, if most of that is for its sampler; else None."""
        longest = max(self.loaders, key=lambda loader: loader.total_ns, default=None)
        return longest if longest is not None and waits_for_sampler(longest) else None

    @property
    def bursts(self) -> tuple[int, int] | None:
        """How many of the waits for the main loader have most of its time, again and again, and how many there are."""
        longest = max(self.loaders, key=lambda loader: loader.total_ns, default=None)
        if longest is None or longest.long_calls < _AGAIN or longest.excess_ns < _MOST_OF_IT * longest.exposed_ns:
            return None
        is_first_long = longest.first_excess_ns * longest.long_calls >= longest.excess_ns / 2
        return longest.long_calls + is_first_long, longest.calls

    def share(self, wait_ns: float) -> float:
        """The part of a wait in the step."""
        return wait_ns / self.average.duration_ns

    def figures(self, wait_ns: float) -> dict[str, float | str]:
        """The quantities of a sentence about a wait."""
        return {"wait": wait_ns, "step": self.average.duration_ns, "share": self.share(wait_ns)}

    @property
    def has_workers(self) -> bool | None:
        """Whether the batches that the program waits for come from workers: by a capture, or by iterators' names."""
        return in_workers.are_workers(self.loaders, self._capture)

    @property
    def asleep(self) -> float:
        """Share of the waiting that needs no core."""
        return in_workers.asleep_share(self.average, self.loaders, self._capture)

    @property
    def is_mostly_asleep(self) -> bool:
        """Whether most of the waiting needs no core, so that more workers help than there are cores."""
        return self.asleep >= in_workers.MOSTLY

    @property
    def room(self) -> in_workers.Room:
        """Cores and busy threads, by a capture."""
        host = self._capture.host if self._capture else None
        return in_workers.room(host, is_on_host=self._is_on_host)

    def is_too_short(self, part: float = 1.0) -> bool:
        """Whether fetching and sending a batch takes as long as preparing it, if no core is free for a worker.

        Args:
            part: Part of the waiting that is judged.
        """
        return not self.room.is_free and self.average.dataloader_ns * part < 2 * FETCH_NS

    @property
    def slow_function(self) -> SlowFunction | None:
        """What makes batches slow, where a capture measured it and it is enough for most of the waiting."""
        capture = self._capture
        measured = [(each.samples, each.workers or 1) for each in (capture.loaders if capture else None) or ()]
        known = [(samples, workers) for samples, workers in measured if samples is not None and samples.ns]
        if not known or capture is None:
            return None
        samples, workers = max(known, key=lambda row: row[0].ns)
        slowest = samples.slowest
        if slowest is None or slowest[1] < _MOST_OF_IT * samples.ns:
            return None
        a_step = slowest[1] / samples.batches * (capture.batches_per_step or 1.0) / workers
        is_enough = a_step >= _MOST_OF_IT * self.average.dataloader_ns * host_work.on_core(self.facts)
        return SlowFunction(slowest[0], slowest[1] / samples.samples, slowest[1] / samples.ns) if is_enough else None

    @property
    def starting_code(self) -> str | None:
        """Code with as many workers as there is room for, or as wait side by side; None: the rule's."""
        workers = program.starting_workers(self.facts)
        if self.asleep and (workers or self.is_mostly_asleep):
            workers = max(workers or 0, self._side_by_side)
        if workers is None and not self._is_on_host:
            return None
        is_pinned = workers is None or self._is_on_host or program.all_pinned(self.facts)
        pinning = "" if is_pinned else "pin_memory=True, "
        return f"DataLoader(dataset, num_workers={workers or _FEW_WORKERS}, {pinning}persistent_workers=True)"

    def saved_by_workers(self, part: float = 1.0) -> LoaderShorter:
        """What workers save of a part of the waiting, if there are several loaders, and why it is no more or less."""
        saved = in_workers.saving(self.average, self.loaders, self.asleep, self.room, part)
        return LoaderShorter(saved, self._basis(saved[0]), saved, {LOADER: saved[1]})

    def _basis(self, least: float) -> Message:
        costs = {"slowdown": SLOWDOWN[1], "fetch": FETCH_NS}
        room, workers = self.room, self._side_by_side
        if workers > 1 and (self.is_mostly_asleep or least > 0):
            return _ASLEEP(workers=workers, share=self.asleep, **costs)
        if room.is_free:
            return _FREE(**costs)
        return _UNKNOWN() if room.cores is None else _BUSY(cores=room.cores, threads=room.busy)

    @property
    def _side_by_side(self) -> int:
        return in_workers.side_by_side(self.average, self.loaders, self.asleep, self.room)

    @property
    def _capture(self) -> CaptureFacts | None:
        return self.facts.capture.facts if self.facts.capture else None

    @property
    def _is_on_host(self) -> bool:
        return self.facts.resources.gpu_ns is None


def waits_for_sampler(loader: Loader) -> bool:
    """Whether most of the waits for a loader is for the order of samples, which workers do not draw."""
    return loader.sampler_ns > _MOST_OF_IT * loader.total_ns


def steps_with_most(breakdown: StepBreakdown) -> tuple[CodePlace, ...]:
    """The steps that wait longest for loaders."""
    steps = sorted(breakdown.steps, key=lambda step: (-step.dataloader_ns, step.start_ns))
    times = [(step, step.dataloader_ns) for step in steps[:_SHOWN]]
    return tuple(CodePlace("step", step.name, value=ns, unit="ns", start_ns=step.start_ns) for step, ns in times)


def longest_waits(loaders: Sequence[Loader]) -> tuple[CodePlace, ...]:
    """The longest waits for some loaders."""
    waits = [(wait, loader) for loader in loaders for wait in loader.longest]
    waits.sort(key=lambda entry: (-entry[0].exposed_ns, entry[0].start_ns))
    return tuple(
        CodePlace("operator", loader.name, value=wait.exposed_ns, unit="ns", start_ns=wait.start_ns)
        for wait, loader in waits[:_SHOWN]
    )


def printed_waits(facts: Facts, *, in_process: bool = False) -> list[TableRow]:
    """Rows of a table that are waits for loaders, or for those of which the program prepares the batches itself."""
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row)]
    return [row for row in rows if is_in_process(row.name)] if in_process else rows


def printed_places(rows: Sequence[TableRow]) -> tuple[CodePlace, ...]:
    """Rows of a table with their time in ns."""
    return tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)


def prints_workers(facts: Facts) -> bool | None:
    """Whether the batches that the program of a table waits for longest come from workers, by the iterators' names."""
    longest = max(printed_waits(facts), key=lambda row: row.self_cpu_ns or 0, default=None)
    in_process = None if longest is None else is_in_process(longest.name)
    return None if in_process is None else not in_process
