"""How far is the causal model from recordings? Writes docs/whatif.md, or prints the table for some traces.

python scripts/whatif_errors.py            docs/whatif.md, for the traces in TRACEANALYZER_CORPUS
python scripts/whatif_errors.py TRACE...   print the errors of these traces
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import traceanalyzer
from scripts import whatif_pairs
from traceanalyzer.analyzers.context import Context
from traceanalyzer.knowledge.loader_workers import LoadedSteps, slowdown, with_workers
from traceanalyzer.simulation import model, natural_experiments, replay_error, variation
from traceanalyzer.simulation.natural_experiments import StepPrediction
from traceanalyzer.simulation.replay_error import Replay
from traceanalyzer.trace.model import Trace


def measured(paths: Sequence[str]) -> Iterator[tuple[str, Replay, tuple[StepPrediction, ...], float]]:
    """For each trace with steps: its replay error, the predictions of steps, and the deviation of steps as a share."""
    for path in paths:
        trace = traceanalyzer.load(path)
        if isinstance(trace, Trace):
            context = Context(trace)
            found = model.of(context)
            if found is not None:
                predictions = natural_experiments.predictions(context)
                share = variation.deviation(found.durations_ns(found.recorded)) / found.recorded_ns
                yield Path(path).name, replay_error.analyze(context), predictions, share


PAGE = Path(__file__).parents[1] / "docs" / "whatif.md"
TEXT = """# What if

`traceanalyzer whatif` predicts what the typical step of a trace would take with some changes. It replays the
dependencies in the recording: what each host thread does, what it launches, in which order streams run, and what waits
for what. If no change is given, it ranks what would help most.

    traceanalyzer whatif trace.json.gz
    traceanalyzer whatif trace.json.gz --loader 0 --speedup "aten::convolution*=2" --no-sync aten::item
    traceanalyzer whatif trace.json.gz --free class:elementwise --graphs -o whatif.html

In Python: `traceanalyzer.whatif(trace, loader=0, speedup={"aten::convolution*": 2})`. `traceanalyzer whatif --help`
describes the selectors. Reports show the [critical path](metrics/critical_path.md), and `analyses.replay` has the error
of the replay. The savings of findings come from the same replays ([savings](metrics/savings.md)).

## What the figures mean

The low and the high end of a prediction are replays with and without the parts of the recording that the model does not
explain (residuals). Apart from this error of the model, the interval covers two more uncertainties. Steps that do the
same work differ ([below](#how-much-steps-differ)), which adds 2 % of the saving, combined as the root of the sum of
squares. `--loader MS` means that worker processes prepare the batches, and at the low end they cost what was measured
for [workers](#what-workers-of-a-loader-cost). If there are no free cores for them, or if the loader already has
workers, the saving at the low end is 0. The most likely value is a replay in the middle between both ends. The finding
[dataloader-bound](rules/dataloader-bound.md) uses the same figures. `--free loader` removes all time of the loader. The
interval does not cover the overhead of the profiler on the host or changing clocks. If the error exceeds 5 % of the
step, the model makes no prediction and gives bounds.

## Several ranks

    traceanalyzer whatif traces/                # what each rank costs the others
    traceanalyzer whatif traces/ --rank 2       # rank 2 like the others

The traces of the ranks of one run are replayed together, as for the [slowdown](ranks.md) in a report of ranks. With
`--rank N`, the work and the transfers of rank N take no longer than the median of all ranks at the same place of the
step; this is the most likely value, and the same number as `late_ns_per_step` of a late rank. At the other end of the
interval they take exactly the median, so the rank also loses the time by which it is faster elsewhere. Both ends are
wider by the error of the replay and the 2 % by which steps differ. Other options need the trace of one rank. In Python:
`traceanalyzer.whatif("traces/", ranks=[2])`.

## What a replay cannot know

A replay does not model kernels that slow each other down when they run at the same time, fused kernels, caches, other
processes, and control flow that depends on values. In the trace of one rank, waiting for other ranks counts as part of
its collectives.

## Errors of the replay

Written by `scripts/whatif_errors.py`, from traces of other programs, which are not part of the project. *Error* is the
difference between the replayed and the recorded typical step, *worst* the largest difference of any step; *starts* is
the difference between the starts of device events, median and 95th percentile; all are shares of the step. *Given*
counts starts that are taken from the recording because the model cannot explain them: after work from before the
recording, without a launch, after waits without a cause.

"""
EXPERIMENTS = """
## Predictions of steps that were recorded

Steps of one trace differ in their pauses: waits for the loader, synchronizations, logging. For each pair of steps
with the same calls, the host's pauses of one step (of at least 1 % of the step) are put into the other, and the replay
is compared with the recorded step. *Naive* is the other step plus the difference of the pauses.

"""
VARIATION = """
## How much steps differ

Steps of one recording that do the same work differ. *Deviation* is 1.4826 times the median distance from the median
step, divided by the mean step: an estimate of the standard deviation that single disturbed steps do not affect. The
table has recordings with three typical steps or more; several recordings of one program count as one, with their mean.
The median of these seven programs is 1.7 %, which is rounded up to 2 % for intervals of savings
(`traceanalyzer/simulation/variation.py`).

"""


WORKERS = """
## What workers of a loader cost

Workers take cores and memory bandwidth from the program. Two pairs of recordings show how much: ResNet-50 on a V100,
without workers and with four. *Loads* is the time to prepare a batch; *rest* is the step without exposed waiting for
the loader; *slowdown* is how much longer the rest gets, divided by the loading time. Each pair is predicted with the
slowdown of the other one. The means of a whole recording contain first steps and outliers, typical steps do not.
Findings use the smallest and the largest of these slowdowns (`traceanalyzer/knowledge/loader_workers.py`).

"""
WORKER_PAIRS = ("golden", "memory")
"""Names of the two pairs of recordings."""
STEPS = ("typical", "all")
PAIRS = """
## Changes that were recorded

For each pair of recordings, before and after a change of the program, the changes that the second recording shows are
applied to the first one as edits, and the predicted step is compared with the second one's step. *Kernels* applies only
the speedups of kernels, by kind of work. *All* also removes calls of operators that are gone, adds the host work of new
ones in their place, and changes the time outside of operators. The interval of *all* is between the replays with and
without the speedups of the remaining kernels, and with and without the change outside of operators; it is widened by 2
% of the step, by which two recordings of one program differ (root of the sum of squares). *Width* is the width of the
interval of the saving, divided by its middle.

"""
PAIRS_SAY = """
Speedups of kernels explain a change only where the GPU bounds the step. For both changes of Segment Anything, and from
batch size 2 to 16 and 128, the measured step lies outside of the interval of *kernels*: that interval covers only how
the speedups are divided among the kernels, and the error of the model. The host's work, which is on the critical path,
changed as well.

The parts of *all*, and the replays at the ends of its interval, were chosen after three trials on these same pairs of
Segment Anything. So it is a fit and not an independent test that their measured steps lie in the intervals; other pairs
may be further off.

* Segment Anything in half precision with torch.compile: kernel time falls by 669 ms, but the host is on the critical
  path for half of the step. New calls, nearly all of them one compiled region, take 400 ms of host work where 77 ms of
  many calls were before. The first recording does not show how much of this work runs while the GPU is busy, so the
  interval is wide.
* SAM 2 with another encoding of masks: its kernels hardly change; 15,000 of 26,000 calls disappear.
* The vision transformer runs as graphs and is bound by the GPU: its kernels predict the step within 1 %, in either
  direction.
* The transformer is bound by the host at small batches. From 2 to 128 samples its kernels take five times as long, and
  the step does not get longer, as predicted: the cost is fixed, not per sample. The host work of these recordings
  differs by up to 12 % by itself. At 512 samples one first call of `aten::conv1d` takes 630 ms of the host: such
  recordings cannot be compared.
"""
MEASURED_PAIRS = (
    ("sam_a100_fp32", "sam_a100_half_compiled"),
    ("sam2_a100_before_rle", "sam2_a100_after_rle"),
    ("vit_a100_bf16_compiled", "vit_a100_int8_compiled"),
    ("vit_a100_int8_compiled", "vit_a100_bf16_compiled"),
    ("particle_transformer_a100_bs2", "particle_transformer_a100_bs16"),
    ("particle_transformer_a100_bs2", "particle_transformer_a100_bs128"),
)


def pairs(folder: Path) -> Iterator[str]:
    """The table of pairs; *all* is shown only for Segment Anything, whose two recordings differ in their calls."""
    yield "| before | after | put in | step before | predicted | interval | measured | error | inside | width |\n"
    yield "|---|---|---|--:|--:|--:|--:|--:|---|--:|\n"
    for names in MEASURED_PAIRS:
        before, after = (whatif_pairs.context_of(folder / f"{name}.json.gz") for name in names)
        for each in whatif_pairs.predictions(before, after):
            if each.put_in == "kernels" or names[0].startswith("sam"):
                low, point, high, start, end = (
                    f"{ns / 1e6:.4g}"
                    for ns in (each.low_ns, each.point_ns, each.high_ns, each.before_ns, each.measured_ns)
                )
                told = (f"{start} ms", f"{point} ms", f"{low} to {high}", f"{end} ms", f"{each.error_share:.1%}")
                is_inside = "yes" if each.is_inside else "no"
                width = "over 200%" if each.width_share > 2 else f"{each.width_share:.0%}"
                cells = (*names, each.put_in, *told, is_inside, width)
                yield f"| {' | '.join(cells)} |\n"


@dataclass
class Errors:
    """Errors of many traces."""

    replays: list[Replay] = field(default_factory=list)
    predictions: list[StepPrediction] = field(default_factory=list)

    def add(self, found: Replay, predictions: Iterable[StepPrediction]) -> None:
        """Add the errors of one more trace."""
        self.replays.append(found)
        self.predictions += predictions

    def summary(self) -> str:
        """One line that sums up all replays."""
        shares = [found.error_share for found in self.replays]
        abstained = sum(found.abstained for found in self.replays)
        return f"{len(shares)} traces: median {np.median(shares):.2%}, largest {max(shares):.2%}, {abstained} abstain"

    def quartiles(self) -> Iterator[tuple[str, int, list[float]]]:
        """Kind of prediction, their number, and the quartiles of their errors."""
        model_errors = [each.error_share for each in self.predictions]
        naive_errors = [each.naive_error_share for each in self.predictions]
        for kind, shares in (("model", model_errors), ("naive", naive_errors)):
            if shares:
                yield kind, len(shares), [float(share) for share in np.percentile(shares, (25, 50, 75))]


def cells(found: Replay) -> tuple[str, ...]:
    """Steps, duration, errors and given starts of one trace, as text."""
    starts = [found.device_start_error_p50_share, found.device_start_error_p95_share]
    shares = [found.error_share, found.largest_step_error_share, *starts]
    inputs = f"{found.unrecorded_starts}, {found.unlinked_starts}, {found.unexplained_waits}"
    texts = ["-" if share is None else f"{share:.2%}" for share in shares]
    return str(found.steps), f"{found.recorded_ns / 1e6:.3f} ms", *texts, inputs, "abstains" if found.abstained else ""


def write_page(folder: Path) -> None:
    """Write the page for all traces of a corpus."""
    files = [*sorted((folder / "corpus").glob("*.json.gz")), *sorted((folder / "field").glob("*/*.json.gz"))]
    errors, lines, spreads = Errors(), [], []
    for file, found, predictions, share in measured([str(file) for file in files]):
        errors.add(found, predictions)
        name = file.removesuffix(".json.gz")
        lines.append(f"| {name} | {' | '.join(cells(found))} |")
        if found.steps >= variation.FEWEST:
            spreads.append(f"| {name} | {found.steps} | {share:.1%} |\n")
    heads = "| trace | steps | typical step | error | worst | starts, median | starts, 95 % | given | |\n"
    table = f"{heads}|---|--:|--:|--:|--:|--:|--:|--:|---|\n" + "\n".join(lines)
    experiments = "| by | predictions | 25 % | median | 75 % |\n|---|--:|--:|--:|--:|\n" + "".join(
        f"| {kind} | {count} | {' | '.join(f'{share:.2%}' for share in shares)} |\n"
        for kind, count, shares in errors.quartiles()
    )
    changes = f"{PAIRS}{''.join(pairs(folder / 'field' / 'pairs'))}{PAIRS_SAY}"
    differ = f"{VARIATION}| trace | steps | deviation |\n|---|--:|--:|\n{''.join(spreads)}"
    text = f"{TEXT}{errors.summary().capitalize()}.\n\n{table}\n{EXPERIMENTS}{experiments}{differ}{changes}"
    text += f"{WORKERS}{workers(folder)}"
    PAGE.write_text(text, encoding="utf-8")


def workers(folder: Path) -> str:
    """The slowdown by workers of each pair, and the error of its prediction from the other one, as a table."""
    loaded = {
        (pair, count, which): steps
        for pair in WORKER_PAIRS
        for count in (0, 4)
        for which, steps in _loaded(folder / "corpus" / f"resnet50_v100_workers{count}_{pair}.json.gz").items()
    }
    lines = [
        "| pair | steps | loads | rest, 0 workers | rest, 4 workers | slowdown | step, 4 workers | predicted | error |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for which in STEPS:
        for pair, other in zip(WORKER_PAIRS, reversed(WORKER_PAIRS), strict=True):
            alone, beside = loaded[pair, 0, which], loaded[pair, 4, which]
            share = slowdown(loaded[other, 0, which], loaded[other, 4, which])
            predicted = with_workers(alone, share, 4)
            times = [alone.full_ns, alone.rest_ns, beside.rest_ns, beside.step_ns, predicted]
            loads, rest, rest_beside, step, told = (f"{time / 1e6:.1f} ms" for time in times)
            error = f"{predicted / beside.step_ns - 1:+.1%}"
            own = f"{slowdown(alone, beside):.2f}"
            lines.append(f"| {pair} | {which} | {loads} | {rest} | {rest_beside} | {own} | {step} | {told} | {error} |")
    return "\n".join(lines) + "\n"


def _loaded(path: Path) -> dict[str, LoadedSteps]:
    """The typical step and the mean of all steps of a recording."""
    report = traceanalyzer.analyze(traceanalyzer.load(path))
    recording, breakdown = report.analyses["recording"], report.analyses["step_breakdown"]
    parts = {"typical": recording.typical.parts, "all": breakdown.average}
    return {
        which: LoadedSteps(part.duration_ns, part.dataloader_ns, part.dataloader_full_ns)
        for which, part in parts.items()
    }


def main() -> int:
    """Write the page, or print the errors of the given traces."""
    if len(sys.argv) < 2:
        folder = os.environ.get("TRACEANALYZER_CORPUS")
        if not folder:
            print(__doc__)
            return 2
        write_page(Path(folder))
        return 0
    errors = Errors()
    for name, found, predictions, _ in measured(sys.argv[1:]):
        errors.add(found, predictions)
        print(name, *cells(found), sep="  ", flush=True)
    if errors.replays:
        print(errors.summary())
    for kind, count, shares in errors.quartiles():
        told = " / ".join(f"{share:.2%}" for share in shares)
        print(f"steps predicted by the {kind}: {count}, error {told} (quartiles)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
