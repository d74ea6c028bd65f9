"""Compares two measurements: what changed, by how much, and whether the change is more than noise.

    sides           reads the inputs: traces, saved reports, documents
    measurement     the figures of one side per step
    traces          the figures of a side that was recorded as traces
    comparability   whether both do the same work, on the same machine
    statistics      tests and intervals that hold for few steps
    all_steps       all recorded steps, and those unlike the typical ones
    clocks          clocks and power of both sides
    noise           by how much recordings of unchanged programs differ
    verdict         faster, slower, or inconclusive
    gate            the answer to --fail-on-regression
    alignment       work of devices under the lowest caller that both sides have
    explanation     parts, operators, kernels and modules that changed
    findings        which are fixed, which are new
    runs            what changed between the ranks of two runs
    verification    what became of each finding of the base
    views           what people see of each side
    snapshots       two snapshots of memory, which have no steps

The result is a `Difference` (`report/difference.py`), plain data like a report.
"""

from __future__ import annotations

from pathlib import Path

from traceanalyzer._version import __version__
from traceanalyzer.comparison import (
    all_steps,
    comparability,
    explanation,
    findings,
    gate,
    measurement,
    runs,
    traces,
    verdict,
)
from traceanalyzer.comparison import noise as noises
from traceanalyzer.comparison import sides as side_inputs
from traceanalyzer.comparison.measurement import MeasuredGpu, Measurement
from traceanalyzer.comparison.sides import Given, Reading
from traceanalyzer.config import Config
from traceanalyzer.errors import UsageError
from traceanalyzer.inputs import opening
from traceanalyzer.inputs.opening import FileProgress, silent
from traceanalyzer.pipeline import StepChoice
from traceanalyzer.report.difference import SCHEMA_VERSION, Difference, GpuUse, MemoryPeak
from traceanalyzer.report.gate import Noise
from traceanalyzer.report.model import Generator, Report
from traceanalyzer.sections.in_steps import has_calls_in_steps, has_typical_steps

Input = str | Path | Report


def diff(
    base: Input,
    head: Input | None = None,
    *,
    limit: float | None = None,
    noise: str | Path | None = None,
    steps: StepChoice | None = None,
    config: Config | None = None,
    progress: FileProgress | None = None,
    jobs: int = 1,
) -> Difference:
    """Compare two measurements.

    Args:
        base: Before: a trace, a saved report (`report -o x.json`), a folder, a pattern or a URL that leads to the
            traces of a run, a report in memory, or a run of a document with tables (`notes.md#run-1`).
        head: After. None: `base` is a document with two runs.
        limit: A slower step by more than this share is a regression; None if there is no limit.
        noise: A folder with recordings of unchanged programs on the same machine (those of a folder within it are of
            one program), or a difference that was written with one; None if there is none.
        steps: The steps of traces that count.
        config: Settings of a project; `traceanalyzer.config.load` reads them.
        progress: From the name of a file to what takes the number of bytes after each read.
        jobs: As of `load`; files are read one after another.

    Raises:
        UnusableInputError: A side contains nothing that can be compared.
        UsageError: The sides are of different kinds, or no run was named where there are several.
    """
    how = reading(steps=steps, config=config, progress=progress, jobs=jobs)
    machine = None if noise is None else machine_noise(noise, how)
    return compare(*measured(base, head, how), limit, machine)


def reading(*, steps: StepChoice | None, config: Config | None, progress: FileProgress | None, jobs: int) -> Reading:
    """How the sides of a comparison are read; arguments as of `diff`."""
    return Reading(config or Config(), steps or StepChoice(), progress or silent, jobs)


def machine_noise(where: str | Path, reading: Reading) -> Noise:
    """Read how much recordings of unchanged programs differ: from a folder with them, or a difference that kept it."""
    name = str(where)
    if opening.is_one_file(name):
        return side_inputs.saved_noise(name)
    read = side_inputs.recordings(name, reading)
    programs = noises.by_program(read).values()
    measured = [traces.measure(name, [read[file] for file in files], None, ()) for files in programs]
    return noises.of_programs(opening.name_of([name], list(read)), measured)


def measured(base: Input, head: Input | None, reading: Reading) -> tuple[Measurement, Measurement]:
    """Read both sides of a comparison; errors as of `diff`."""
    if head is None:
        if isinstance(base, Report):
            raise UsageError("a single report cannot be compared; name two")
        sides = side_inputs.both_of(str(base), reading)
    else:
        sides = (_given(base, reading), _given(head, reading))
    return _measured(*sides, reading.config)


def _given(side: Input, reading: Reading) -> Given:
    return Given(side.source.name, (side,)) if isinstance(side, Report) else side_inputs.open_side(str(side), reading)


def _measured(base: Given, head: Given, config: Config) -> tuple[Measurement, Measurement]:
    if base.is_printed != head.is_printed:
        trace, table = (head, base) if base.is_printed else (base, head)
        raise UsageError(
            f"{trace.name} is a trace and {table.name} contains printed tables: their figures cannot be compared; "
            "compare two traces, or print a table of the trace (export -o table.txt) and compare two tables"
        )
    if base.is_printed:
        one, two = (
            measurement.measure_tables(s.reports[0], measurement.choose_table(s.reports[0], s.run))
            for s in (base, head)
        )
        return one, two
    common = frozenset(traces.ranks_of(base.reports)).intersection(traces.ranks_of(head.reports)) or None
    steps, calls = (all(map(has, (*base.reports, *head.reports))) for has in (has_typical_steps, has_calls_in_steps))
    one, two = (
        traces.measure(s.name, s.reports, common, s.ignored, is_typical=steps, is_host_typical=calls, config=config)
        for s in (base, head)
    )
    return one, two


def compare(
    base: Measurement, head: Measurement, limit: float | None = None, machine: Noise | None = None
) -> Difference:
    """Compare two sides that have been read."""
    conditions = comparability.check(base, head)
    times = verdict.compare(base, head, machine)
    judged = verdict.judge(base, head, times, conditions, limit)
    is_unrelated = conditions.is_unrelated
    breakdown = () if is_unrelated else explanation.compare_parts(base, head)
    changes = findings.compare(base, head, conditions, judged.change_ns)
    ranked = () if is_unrelated else explanation.compare_rankings(base, head)
    return Difference(
        schema_version=SCHEMA_VERSION,
        generator=Generator("traceanalyzer", __version__),
        base=base.side,
        head=head.side,
        comparability=conditions,
        verdict=judged,
        gate=None if limit is None else gate.judge(base, head, judged, conditions, limit, machine),
        step_time=times,
        parts=breakdown,
        attribution=None if conditions.obstacle else explanation.attribute(breakdown, judged),
        notes=explanation.collect_notes(base, head, times, ranked),
        findings=changes,
        prediction=findings.predict(base, head, changes, times, judged),
        gpus=() if is_unrelated else _gpus(base, head),
        memory=() if is_unrelated else _memory(base, head),
        rankings=ranked,
        run=None if is_unrelated else runs.compare(base.run, head.run),
        base_view=None if is_unrelated else base.view,
        head_view=None if is_unrelated else head.view,
        unusual=() if is_unrelated else all_steps.compare(base, head),
        noise=machine,
    )


def _gpus(base: Measurement, head: Measurement) -> tuple[GpuUse, ...]:
    """Devices of both sides by number; where each side has one device, its number does not matter."""
    fields = ("utilization", "busy_share", "est_sm_efficiency", "tensor_core_share")
    if len(base.gpus) == len(head.gpus) == 1:
        (number, one), (other,) = *base.gpus.items(), head.gpus.values()
        pairs: list[tuple[int, MeasuredGpu | None, MeasuredGpu | None]] = [(number, one, other)]
    else:
        pairs = [(n, base.gpus.get(n), head.gpus.get(n)) for n in sorted({*base.gpus, *head.gpus})]
    return tuple(
        GpuUse(number, *(getattr(side, f, None) for f in fields for side in sides)) for number, *sides in pairs
    )


def _memory(base: Measurement, head: Measurement) -> tuple[MemoryPeak, ...]:
    fields = ("allocated_bytes", "reserved_bytes")
    return tuple(
        MemoryPeak(device, *(getattr(side.memory.get(device), f, None) for f in fields for side in (base, head)))
        for device in sorted({*base.memory, *head.memory})
    )
