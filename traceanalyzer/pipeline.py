"""The one story: read, analyze, (later) advise, report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from traceanalyzer import analyzers
from traceanalyzer._version import __version__
from traceanalyzer.analyzers import quality
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.steps import Steps
from traceanalyzer.errors import UsageError
from traceanalyzer.readers import kineto
from traceanalyzer.readers.source import open_source
from traceanalyzer.report import model
from traceanalyzer.report.warnings import warning
from traceanalyzer.trace.model import Trace, tables


@dataclass(frozen=True)
class StepChoice:
    """Which steps count: an inclusive range of step numbers, and how many of the first to leave out."""

    first: int | None = None
    last: int | None = None
    skip_warmup: int = 0

    @property
    def is_everything(self) -> bool:
        """No choice was made."""
        return self == StepChoice()

    def of(self, steps: Steps) -> Steps:
        """The chosen ones of a trace's steps.

        Raises:
            UsageError: None is left.
        """
        numbers = [int(name) for name in steps.names]
        chosen = [
            i
            for i, n in enumerate(numbers)
            if i >= self.skip_warmup
            and (self.first is None or n >= self.first)
            and (self.last is None or n <= self.last)
        ]
        if not chosen:
            known = f"the trace has steps {numbers[0]} to {numbers[-1]}" if numbers else "the trace has no steps"
            raise UsageError(f"no step is left to analyze: {known}")
        return steps.take(slice(chosen[0], chosen[-1] + 1))


def load(path: str | Path, progress: Callable[[int], None] | None = None) -> Trace:
    """Read a trace.

    Args:
        path: A Kineto trace (`.json`, `.json.gz`, `.tmp`), or "-" for standard input.
        progress: Called with the number of bytes after each read.

    Raises:
        UnusableInputError: Missing, empty, or no trace.
    """
    with open_source(path, progress or (lambda _: None)) as source:
        return kineto.read(source)


def analyze(trace: Trace, steps: StepChoice | None = None) -> model.Report:
    """Analyze a trace.

    Args:
        trace: What `load` returned.
        steps: The steps that count; all by default. Tables then hold what starts within them.

    Raises:
        UsageError: None of the chosen steps is in the trace.
    """
    context = Context(trace)
    if steps is not None and not steps.is_everything:
        context = Context(trace, steps.of(context.steps))
    results, skipped = analyzers.run(context)
    losses = [warning(loss.id, loss.count, loss.params) for loss in trace.losses]
    doubts = [warning(doubt.id, doubt.count, doubt.params) for doubt in quality.analyze(context)]
    return model.Report(
        schema_version=model.SCHEMA_VERSION,
        generator=model.Generator("traceanalyzer", __version__),
        source=model.Source(trace.info.name, "kineto", trace.info.size_bytes),
        trace=_summary(trace, context),
        warnings=(*losses, *doubts),
        analyses={key: msgspec.json.decode(msgspec.json.encode(result)) for key, result in results.items()},
        findings=(),
        skipped=tuple(model.Skipped(key, reason) for key, reason in skipped.items()),
    )


def _summary(trace: Trace, context: Context) -> model.TraceSummary:
    info = trace.info
    return model.TraceSummary(
        events=sum(map(len, tables(trace).values())),
        span_ns=info.span_ns,
        base_ns=None if info.base_ns is None else info.base_ns + info.origin_ns,
        devices=tuple(msgspec.convert(device, model.Device, from_attributes=True) for device in info.devices),
        rank=info.rank,
        world_size=info.world_size,
        options=msgspec.convert(info.options, model.Options, from_attributes=True),
        steps_from=context.steps.found_by,
    )
