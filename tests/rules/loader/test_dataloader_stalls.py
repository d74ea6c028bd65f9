"""Tests of the rule `dataloader-stalls`: numbers worked out by hand, and edges of thresholds.

The programs: waits for batches of which some are far longer.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import LOADER, fires_in_a_table


def waiting(waits: Sequence[int], *, hidden: bool = False, loader: str = LOADER) -> TraceBuilder:
    """One step of 5 ms of computing for each wait, in us; waits come before the work, or run beside it."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if not hidden:
            host.range(loader, waits[number])
        compute(host, stream, 5000)
        if hidden:
            host.range(loader, waits[number])
        host.wait(stream)

    return looping(step, steps=len(waits))


def fires() -> TraceBuilder:
    """Every fifth batch takes 4 ms instead of 100 us."""
    return waiting([4000 if number % 5 == 4 else 100 for number in range(20)])


def fires_at_the_start_of_an_epoch() -> TraceBuilder:
    """Starting the workers takes 20 ms."""
    return waiting([20_000] + [100] * 19)


def quiet() -> TraceBuilder:
    """Batches take from 80 to 250 us."""
    return waiting([80 + 17 * (number % 11) for number in range(20)])


def trap_handful_of_steps() -> TraceBuilder:
    """Four waits, one of them long: too few to know the usual length."""
    return waiting([100, 100, 4000, 100])


def trap_cold_cache() -> TraceBuilder:
    """The first batches come from the disk, the others from its cache."""
    return waiting([900, 600, 400, 300, *[200] * 16])


def trap_hidden_stalls() -> TraceBuilder:
    """Some batches are late, but the GPU is busy all the while."""
    return waiting([4000 if number % 5 == 4 else 100 for number in range(20)], hidden=True)


RULE = "dataloader-stalls"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def test_what_is_beyond_the_median_is_divided_by_the_steps() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx(
        (0, 4 * 3_900_000 / 20), rel=1e-3
    )  # 4 of 20 are 3.9 ms late
    assert finding.evidence[0].observed == 40
    assert finding.evidence[0].where[0].value == 4_000_000


def test_a_late_first_batch_is_told_as_such() -> None:
    (finding,) = findings(fires_at_the_start_of_an_epoch(), RULE)
    assert (finding.saving, finding.severity) == (None, "low"), "a typical step has no first batch"
    assert [e.observed for e in finding.evidence] == [200]


def test_a_handful_is_not_judged() -> None:
    assert skipped(trap_handful_of_steps(), RULE) == "only 4 waits for batches were recorded: record 10 or more"
    assert "no timeline" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_calls() -> None:
    assert findings(fires(), RULE, {"calls": 20})
    assert findings(fires(), RULE, {"calls": 21}) == []


def test_edge_p95_medians() -> None:
    assert findings(fires(), RULE, {"p95_medians": 40}) == []
    assert findings(fires(), RULE, {"p95_medians": 39.9})


def test_edge_first_medians() -> None:
    assert findings(fires_at_the_start_of_an_epoch(), RULE, {"first_medians": 200}) == []
    assert findings(fires_at_the_start_of_an_epoch(), RULE, {"first_medians": 199.9})


def test_edge_gain_share() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    share = finding.saving.direct_ns_per_step[1] / report(fires(), RULE).headlines[0].resources.step_ns
    assert findings(fires(), RULE, {"gain_share": share - 1e-6})
    assert findings(fires(), RULE, {"gain_share": share + 1e-6}) == []


def test_one_cause_has_one_finding() -> None:
    """Workers are so slow that every fourth step waits for 20 ms: more of them, and no second card about the queue."""
    slow = waiting([20_000 if number % 4 == 0 else 100 for number in range(20)], loader=WORKERS)
    found = {finding.rule: finding for finding in report(slow).findings}
    assert RULE not in found
    assert "most of it in 5 of 20 waits" in found["dataloader-bound"].summary.text
    assert RULE in {finding.rule for finding in report(slow, RULE).findings}
