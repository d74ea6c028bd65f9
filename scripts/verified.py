"""What `verify` says of the pairs of the lab whose traces are kept, beside what was measured without the profiler.

python -m scripts.verified            a table, and how often they agree
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.lab import keeping, results
from examples.lab.score import NOISE, Score, score
from traceanalyzer.comparison.verification import verify

DECIDED = ("confirmed", "better", "worse", "refuted")
GAINED = ("confirmed", "better")
"""Both are told a gate as 0."""


def pairs(run: str) -> Iterator[tuple[Score, Path, Path]]:
    """The pairs of a run whose fault got a price, with their traces."""
    for each in score(results.read(results.FOLDER / f"{run}.json"), keeping.KEPT[run]):
        before, after = (
            keeping.KEPT[run] / f"{each.fault.name}.{each.row.size}.{side}.json.gz" for side in ("before", "after")
        )
        if each.predicted_shares is not None and before.exists() and after.exists():
            yield each, before, after


def measured(each: Score) -> str:
    """What the lab measured of the first finding that it expected: by how much the step got shorter, without traces."""
    low, high = each.predicted_shares or (0.0, 0.0)
    share = each.measured_shares[1]
    if low - NOISE <= share <= high + NOISE:
        return "confirmed"
    if share > high:
        return "better"
    return "worse" if share > NOISE else "refuted"


def said(each: Score, before: Path, after: Path) -> str:
    """What `verify` says of it, from the traces; `none` without such a finding in them."""
    found = [finding.outcome for finding in verify(before, after).findings if finding.rule in each.fault.rules]
    return found[0] if found else "none"


def main() -> int:
    """Print the table; 1 if an outcome is reversed."""
    counts: Counter[tuple[str, str]] = Counter()
    for run in keeping.KEPT:
        for each, before, after in pairs(run):
            outcome = measured(each), said(each, before, after)
            counts[outcome] += 1
            print(f"{run:8} {each.fault.name:28} {each.row.size:6} measured {outcome[0]:10} verify {outcome[1]}")
    print()
    for (truth, outcome), count in sorted(counts.items()):
        print(f"measured {truth:10} verify {outcome:12} {count}")
    decided = {pair: count for pair, count in counts.items() if pair[1] in DECIDED}
    agreed = sum(count for pair, count in decided.items() if pair[0] == pair[1] or {*pair} <= {*GAINED})
    turned = sum(count for pair, count in counts.items() if is_reversed(*pair))
    print(f"{sum(counts.values())} pairs, {sum(decided.values())} decided, {agreed} as measured, {turned} reversed")
    return 1 if turned else 0


def is_reversed(truth: str, outcome: str) -> bool:
    """Whether one says that a fix gained something, and the other that it did not."""
    return (truth in GAINED and outcome == "refuted") or (truth == "refuted" and outcome in GAINED)


if __name__ == "__main__":
    sys.exit(main())
