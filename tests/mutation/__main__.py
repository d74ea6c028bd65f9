"""Command line of the campaign."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import operator
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from tests.mutation import bases, child
from tests.mutation.campaign import Campaign, Result

_WORST = 8


def main() -> None:
    """Run the cases that are asked for; the exit code is 1 if something went wrong."""
    options = _options()
    folder = os.environ.get("TRACEANALYZER_CORPUS")
    found = [*bases.fixtures(), *(bases.shared(Path(folder)) if folder else [])]
    campaign = Campaign(options.seed, found, options.folder.resolve(), not options.without_costs)
    numbers = options.only or range(options.first, options.first + options.cases)
    began = time.monotonic()
    child.warm(bases.FIXTURES / "synthetic" / "gpu_training.json.gz")
    context = multiprocessing.get_context("fork")
    needed = {campaign.base_of(number).name for number in numbers}
    with ProcessPoolExecutor(
        options.jobs, context
    ) as pool:  # its processes are not those that run the cases: they grow
        list(pool.map(partial(_prepare, campaign), [base for base in found if base.name in needed]))
    results: list[Result] = []
    with ProcessPoolExecutor(options.jobs, context) as pool:
        for done in as_completed([pool.submit(_run, campaign, number) for number in numbers]):
            results.append(result := done.result())
            if result.problems:
                print(_line(result), flush=True)
            if len(results) % 500 == 0:
                print(f"... {len(results)} cases, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    summary = _summary(results, options.seed, time.monotonic() - began)
    print(summary)
    sys.exit(1 if any(result.problems for result in results) else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description="Damage inputs, run the tool on them."
    )
    parser.add_argument("--cases", type=int, default=300, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default: %(default)s)")
    parser.add_argument("--only", type=int, nargs="+", help="only the cases of these numbers")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other cases (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/mutation"), help="of what fails (default: %(default)s)"
    )
    parser.add_argument("--without-costs", action="store_true", help="compare no time and memory")
    return parser.parse_args()


def _prepare(campaign: Campaign, base: bases.Base) -> None:
    campaign.prepare(base)


def _run(campaign: Campaign, number: int) -> Result:
    return campaign.run(number)


def _line(result: Result) -> str:
    return f"{_told(result)}: {'; '.join(result.problems)}"


def _told(result: Result) -> str:
    return f"case {result.number}, {result.base}, {', '.join(result.damages)}: {' '.join(result.arguments)}"


def _summary(results: Sequence[Result], seed: int, seconds: float) -> str:
    codes = collections.Counter(result.code for result in results)
    failed = [result for result in results if result.problems]
    kinds = collections.Counter(problem[:100] for result in failed for problem in result.problems)
    lines = [
        f"{len(results)} cases of seed {seed} on {len({r.base for r in results})} files in {seconds:.0f} s; exit codes "
        + ", ".join(f"{code}: {count}" for code, count in sorted(codes.items())),
        f"{len(failed)} with problems",
        *(f"  {count} x {what}" for what, count in kinds.most_common(40)),
    ]
    for what, ratio in (("CPU time", "cpu_ratio"), ("Memory", "memory_ratio")):
        lines += _worst(what, ratio, [r for r in results if getattr(r, ratio) is not None])
    return "\n".join(lines)


def _worst(what: str, ratio: str, compared: Sequence[Result]) -> Iterator[str]:
    if compared:
        yield f"{what} over that of the undamaged file, the worst of those that take long:"
    for r in sorted(compared, key=operator.attrgetter(ratio), reverse=True)[:_WORST]:
        yield f"  {getattr(r, ratio):.1f} ({r.cpu_s:.2f} s, {r.memory / 1e6:.0f} MB)  {_told(r)}"


if __name__ == "__main__":
    main()
