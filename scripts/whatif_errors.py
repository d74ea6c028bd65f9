"""How far is the causal model from recordings? Prints a table for some traces, and what it predicts of their own steps.

python scripts/whatif_errors.py TRACE...
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import traceanalyzer
from traceanalyzer.analyzers.context import Context
from traceanalyzer.simulation import model, natural_experiments, replay_error
from traceanalyzer.simulation.natural_experiments import Prediction
from traceanalyzer.simulation.replay_error import Replay
from traceanalyzer.trace.model import Trace


def measured(paths: Sequence[str]) -> Iterator[tuple[str, Replay, tuple[Prediction, ...]]]:
    """The replay error of each trace with steps, and the predictions of its steps."""
    for path in paths:
        trace = traceanalyzer.load(path)
        if isinstance(trace, Trace):
            context = Context(trace)
            if model.of(context) is not None:
                yield Path(path).name, replay_error.analyze(context), natural_experiments.predictions(context)


def row(name: str, found: Replay) -> str:
    """One line of the table of replay errors."""
    starts = [found.device_start_error_p50_share, found.device_start_error_p95_share]
    shares = [found.error_share, found.largest_step_error_share, *starts]
    cells = ["     -" if share is None else f"{share:6.2%}" for share in shares]
    inputs = f"{found.unrecorded_starts}/{found.unlinked_starts}/{found.unexplained_waits}"
    step, steps = f"{found.recorded_ns / 1e6:10.3f} ms", f"{found.steps:3}"
    return (
        f"{name:46} {steps} {step}  {'  '.join(cells)}  {inputs:>9}  {'abstains' if found.abstained else ''}".rstrip()
    )


def main() -> int:
    """Print the tables of errors of the given traces."""
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    errors, model_errors, naive_errors, abstained = [], [], [], 0
    print(f"{'trace':46} steps  typical step    error   worst    p50     p95    inputs")
    for name, found, predictions in measured(sys.argv[1:]):
        print(row(name, found), flush=True)
        errors.append(found.error_share)
        abstained += found.abstained
        model_errors += [each.error_share for each in predictions]
        naive_errors += [each.naive_error_share for each in predictions]
    if errors:
        print(f"{len(errors)} traces, median {np.median(errors):.2%}, largest {max(errors):.2%}, {abstained} abstain")
    for kind, shares in (("model", model_errors), ("naive", naive_errors)):
        if shares:
            low, middle, high = np.percentile(shares, (25, 50, 75))
            print(
                f"steps predicted by the {kind}: {len(shares)}, error {low:.2%} / {middle:.2%} / {high:.2%} (quartiles)"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
