"""Pairs of sides that are the same program: recorded ones, and synthetic ones with every kind of noise.

Recordings are kept as the durations of their steps in `gate_recordings.json`, by program, in the order of time;
`python -m benchmarks.gate keep FOLDER` writes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.random import Generator

import traceanalyzer
from traceanalyzer.comparison import noise
from traceanalyzer.comparison.measurement import Measurement, StepRow
from traceanalyzer.report.difference import Side
from traceanalyzer.report.gate import Noise
from traceanalyzer.structure.recording import Recording
from traceanalyzer.trace.table import F64

FILE = Path(__file__).with_name("gate_recordings.json")
KINDS = ("drift", "bursts", "autocorrelation", "bimodal")
STEPS = (10, 20, 40)
_RUN = 0.02
"""Standard deviation between synthetic recordings of one program, where there are several (own choice)."""
_OUTLIER, _OFTEN, _OFTEN_SHARE = 0.2, 3, 1 / 3
"""Which steps are typical, as in the analysis `recording`."""


class Recorded(msgspec.Struct, frozen=True):
    """The steps of a recording."""

    us: tuple[int, ...]
    """Duration of each step in microseconds."""
    unlike: tuple[int, ...]
    """Numbers of the steps that are not typical."""


Programs = Mapping[str, Sequence[Recorded]]


class Pair(NamedTuple):
    """Two sides of one program, and what is known of the noise of its machine."""

    base: Measurement
    head: Measurement
    machine: Noise | None = None


def side(recordings: Sequence[Recorded], *, has_gpu: bool) -> Measurement:
    """The recordings of a side of a comparison."""
    parts = {"kernel": 1.0 if has_gpu else 0.0}
    every = tuple(tuple(1000.0 * us for us in each.us) for each in recordings)
    typical = tuple(
        tuple(StepRow(ns, parts) for row, ns in enumerate(run) if row not in each.unlike)
        for run, each in zip(every, recordings, strict=True)
    )
    about = Side("steps", "kineto", None, None, len(every), (), (), sum(map(len, typical)), "ProfilerStep", (), ())
    return Measurement(about, typical, None, {}, {}, {}, {}, None, (), None, None, all_runs=every)


def slower(measurement: Measurement, share: float) -> Measurement:
    """The same side with every step slower by a share."""
    factor = 1 + share
    runs = tuple(tuple(StepRow(s.duration_ns * factor, s.parts) for s in run) for run in measurement.runs)
    every = tuple(tuple(ns * factor for ns in run) for run in measurement.all_runs)
    return replace(measurement, runs=runs, all_runs=every)


def recorded(folder: Path) -> Programs:
    """Read the recordings of each program, which has a folder of its own, in the order of their names."""
    return {
        each.name: [_of_trace(file) for file in sorted(each.glob("*.json.gz"))]
        for each in sorted(folder.iterdir())
        if each.is_dir()
    }


def _of_trace(file: Path) -> Recorded:
    found = traceanalyzer.analyze(traceanalyzer.load(file)).result("recording", Recording)
    steps = found.steps if found is not None else ()
    unlike = tuple(row for row, step in enumerate(steps) if not step.is_typical)
    return Recorded(tuple(round(step.duration_ns / 1000) for step in steps), unlike)


def kept() -> Programs:
    """The recordings of the project."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, list[Recorded]])


def of_recordings(
    programs: Programs, count: int, sides: int, random: Generator, *, has_noise: bool = False
) -> Iterator[Pair]:
    """Pairs of `sides` recordings a side, drawn from those of one program; the others are the noise of the machine."""
    names = sorted(programs)
    for number in range(count):
        own = programs[names[number % len(names)]]
        drawn = random.permutation(len(own))
        chosen = [own[row] for row in drawn[: 2 * sides]]
        rest = [own[row] for row in drawn[2 * sides :]]
        machine = noise.of_programs("unchanged", [side(rest, has_gpu=False)]) if has_noise else None
        yield Pair(side(chosen[:sides], has_gpu=False), side(chosen[sides:], has_gpu=False), machine)


def quiet(count: int, random: Generator) -> Iterator[Pair]:
    """Pairs of one recording on a GPU each, of 20 steps with nothing but 1 % of noise."""
    for _ in range(count):
        one, two = (side([_typical(_steps("", 20, random))], has_gpu=True) for _ in range(2))
        yield Pair(one, two)


def synthetic(count: int, sides: int, random: Generator) -> Iterator[Pair]:
    """Pairs with each kind of noise, of a program on a GPU; several recordings differ by more than their steps show."""
    for number in range(count):
        kind, steps = KINDS[number % len(KINDS)], STEPS[number // len(KINDS) % len(STEPS)]
        drawn = [
            _typical(_steps(kind, steps, random) * math.exp(random.normal(0, _RUN if sides > 1 else 0.0)))
            for _ in range(2 * sides)
        ]
        yield Pair(side(drawn[:sides], has_gpu=True), side(drawn[sides:], has_gpu=True))


def _steps(kind: str, count: int, random: Generator) -> F64:
    """Steps of 100 ms with 1 % of noise, and more of one kind."""
    steps = np.exp(random.normal(0, 0.01, count))
    if kind == "drift":  # in one direction, and at random
        steps *= np.exp(random.normal(0, 0.05) * np.linspace(0, 1, count))
        steps *= np.exp(np.cumsum(random.normal(0, 0.004, count)))
    elif kind == "bursts":  # some steps in a row take up to four times as long
        for start in np.flatnonzero(random.random(count) < 0.04):
            steps[start : start + random.integers(1, 5)] *= random.uniform(1.5, 4)
    elif kind == "autocorrelation":
        alike, deviation = random.uniform(0.5, 0.9), 0.03
        value = random.normal(0, deviation)
        for row in range(count):
            steps[row] *= math.exp(value)
            value = alike * value + random.normal(0, deviation * math.sqrt(1 - alike**2))
    elif kind == "bimodal":  # about a third of the steps take 30 % longer
        steps[random.random(count) < 0.35] *= 1.3
    return 1e5 * steps


def _typical(us: F64) -> Recorded:
    median = float(np.median(us))
    unlike = np.flatnonzero(np.abs(us - median) > _OUTLIER * median)
    is_usual = len(unlike) >= _OFTEN and len(unlike) > _OFTEN_SHARE * len(us)
    return Recorded(tuple(round(step) for step in us.tolist()), () if is_usual else tuple(unlike.tolist()))
