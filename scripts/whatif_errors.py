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
from scripts import whatif_pairs, whatif_steps
from scripts.whatif_steps import StepPrediction
from scripts.whatif_words import BEFORE, EXPERIMENTS, PAIRS, PAIRS_SAY, VARIATION, WORKERS
from traceanalyzer.simulation import model, replay_error, variation
from traceanalyzer.simulation.model import ABSTAINS_ABOVE
from traceanalyzer.simulation.replay_error import Replay
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace

PAGE = Path(__file__).parents[1] / "docs" / "whatif.md"
WORKER_PAIRS = ("golden", "memory")
"""Names of the two pairs of recordings."""
STEPS = ("typical", "all")
FIELD = ("pairs", "ranks", "serving")
"""Folders of other traces on the page; the rest is kept for tests of what was chosen by these."""
MEASURED_PAIRS = (
    ("sam_a100_fp32", "sam_a100_half_compiled"),
    ("sam2_a100_before_rle", "sam2_a100_after_rle"),
    ("vit_a100_bf16_compiled", "vit_a100_int8_compiled"),
    ("vit_a100_int8_compiled", "vit_a100_bf16_compiled"),
    ("particle_transformer_a100_bs2", "particle_transformer_a100_bs16"),
    ("particle_transformer_a100_bs2", "particle_transformer_a100_bs128"),
)


def measured(paths: Sequence[str]) -> Iterator[tuple[str, Replay, tuple[StepPrediction, ...], float]]:
    """For each trace with steps: its replay error, the predictions of steps, and the deviation of steps as a share."""
    for path in paths:
        trace = traceanalyzer.load(path)
        if isinstance(trace, Trace):
            context = Context(trace)
            found = model.of(context)
            if found is not None:
                predictions = whatif_steps.predictions(context)
                share = variation.deviation(found.durations_ns(found.recorded)) / found.recorded_ns
                yield Path(path).name, replay_error.analyze(context), predictions, share


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
        shares = [found.error_share for found in self.replays if found.pinned_share <= ABSTAINS_ABOVE]
        abstained = sum(found.abstained for found in self.replays)
        errors = f"median {np.median(shares):.2%}, largest {max(shares):.2%}" if shares else "no errors"
        return f"{len(self.replays)} traces: {errors}, {abstained} abstain"

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
    texts += [inputs, f"{found.pinned_share:.1%}" if found.pinned_share else "-"]
    return str(found.steps), f"{found.recorded_ns / 1e6:.3f} ms", *texts, "abstains" if found.abstained else ""


def write_page(folder: Path) -> None:
    """Write the page for all traces of a corpus."""
    files = sorted((folder / "corpus").glob("*.json.gz"))
    for part in FIELD:
        files += sorted((folder / "field" / part).glob("*.json.gz"))
    errors, lines, spreads = Errors(), [], []
    for file, found, predictions, share in measured([str(file) for file in files]):
        errors.add(found, predictions)
        name = file.removesuffix(".json.gz")
        lines.append(f"| {name} | {' | '.join(cells(found))} |")
        if found.steps >= variation.FEWEST:
            spreads.append(f"| {name} | {found.steps} | {share:.1%} |\n")
    heads = "| trace | steps | typical step | error | worst | starts, median | starts, 95 % | given | pinned | |\n"
    table = f"{heads}|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n" + "\n".join(lines)
    experiments = "| by | predictions | 25 % | median | 75 % |\n|---|--:|--:|--:|--:|\n" + "".join(
        f"| {kind} | {count} | {' | '.join(f'{share:.2%}' for share in shares)} |\n"
        for kind, count, shares in errors.quartiles()
    )
    changes = f"{PAIRS}{''.join(pairs(folder / 'field' / 'pairs'))}{PAIRS_SAY}"
    differ = f"{VARIATION}| trace | steps | deviation |\n|---|--:|--:|\n{''.join(spreads)}"
    text = f"{BEFORE}{errors.summary().capitalize()}.\n\n{table}\n{EXPERIMENTS}{experiments}{differ}{changes}"
    text += f"{WORKERS}{workers(folder)}"
    PAGE.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class LoadedSteps:
    """Mean times of steps that wait for a loader, in ns per step."""

    step_ns: float
    exposed_ns: float
    """Exposed waiting for batches, without overlap."""
    full_ns: float
    """All waiting for batches; without workers, the time to load a batch."""

    @property
    def rest_ns(self) -> float:
        """Time of the step without exposed waiting."""
        return self.step_ns - self.exposed_ns


def slowdown(alone: LoadedSteps, beside: LoadedSteps) -> float:
    """Increase of the rest of a step with workers, per time that they load; at least 0.

    Args:
        alone: Steps without workers.
        beside: Steps with workers.
    """
    return max(0.0, beside.rest_ns - alone.rest_ns) / alone.full_ns if alone.full_ns else 0.0


def with_workers(alone: LoadedSteps, share: float, workers: int) -> float:
    """Predicted step time in ns: the longer of the slowed-down rest and the time that the workers need for a batch."""
    return max(alone.rest_ns + share * alone.full_ns, alone.full_ns / workers)


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
