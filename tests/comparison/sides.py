"""Sides of a comparison: traces of a small training loop, and bare step times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.builders import A100, Device, TraceBuilder, distributed_info
from tests.reading import read_built
from traceanalyzer.comparison.measurement import Measurement, Ranked, StepRow
from traceanalyzer.config import Config
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.difference import Side
from traceanalyzer.report.model import Report

KEYS = ("operators", "operators_by_shape", "kernels", "kernels_by_operator", "modules")
QUIET = (100_000, 100_200, 99_900, 100_100, 99_800, 100_050)
"""Step times in microseconds of a loop that is hardly disturbed."""


def training(
    steps_us: Sequence[int] = QUIET,
    *,
    loader_us: int = 1000,
    batch: int = 32,
    operators: Mapping[str, int] | None = None,
    kernels: Mapping[str, int] | None = None,
    rank: int | None = None,
    world_size: int = 2,
    first: int = 1,
    device: Device = A100,
    options: Iterable[str] = ("record_shapes",),
) -> TraceBuilder:
    """Steps of given durations: a wait for the loader, operators (host us each), and a kernel per entry (us each)."""
    distributed = None if rank is None else distributed_info(rank, world_size)
    trace = TraceBuilder(devices=(device,), options=options, distributed=distributed)
    start = 0
    for number, length in enumerate(steps_us, first):
        trace.step(number, start, length)
        at = start + 10
        trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, loader_us)
        at += loader_us + 10
        shapes = [[batch, 64], [64, 64]]
        for name, host_us in (operators or {"aten::relu": 200}).items():
            trace.op(name, at, host_us, shapes=shapes)
            at += host_us + 10
        for name, kernel_us in (kernels or {"ampere_sgemm_128x64_nn": 5000}).items():
            trace.op("aten::mm", at, 40, shapes=shapes)
            trace.launch_kernel(name, at + 50, kernel_us, at=at + 10)
            at += kernel_us + 60
        assert at < start + length, "the work does not fit into the step"
        start += length
    return trace


def report(trace: TraceBuilder, rules: tuple[str, ...] = ()) -> Report:
    """The report on one side, by some rules or by all that are not deprecated."""
    return analyze(read_built(trace), config=Config(select=rules))


def written(trace: TraceBuilder, path: Path) -> Path:
    """The file of one of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return trace.write(path)


def bare(*runs: Sequence[float], has_gpu: bool = False) -> Measurement:
    """Step times and nothing else; one sequence per capture."""
    parts = {"kernel": 1.0 if has_gpu else 0.0, "other": 0.0}
    rows = tuple(tuple(StepRow(ns, parts) for ns in run) for run in runs)
    count = sum(map(len, runs))
    return Measurement(
        side=Side("steps", "kineto", None, None, len(runs), (), (), count, "ProfilerStep", (), ()),
        runs=rows,
        total_ns=None,
        parts={},
        rankings={key: Ranked({}) for key in KEYS},
        memory={},
        gpus={},
        resources=None,
        findings=(),
        options=None,
        world_size=None,
        all_runs=tuple(map(tuple, runs)),
    )
