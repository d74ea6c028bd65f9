"""Tests of the rule `dataloader-single-process`: numbers worked out by hand, and edges of thresholds.

The programs: loaders without workers, waited for and not.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.copies.test_h2d_pageable import fires as without_loader
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped, table
from tests.rules.loader.test_dataloader_bound import WORKERS, on_the_host, training

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def fires() -> TraceBuilder:
    """Each step prepares its batch for 4 ms and computes for 6 ms."""
    return training(4000, 6000, name=LOADER)


def fires_in_a_table() -> str:
    """Most host time is in the loader's row; its name is cut."""
    return printed("enumerate(DataLoader)#_SingleProcessDataLoaderIter....")


def quiet() -> TraceBuilder:
    """Workers prepare the batches, too slowly: that is dataloader-bound alone."""
    return training(4000, 6000, name=WORKERS)


def quiet_in_a_table() -> str:
    """The same program in a printed table."""
    return printed(WORKERS)


def trap_tiny_data() -> TraceBuilder:
    """The data lies in memory: a batch takes 20 us of a step of 6 ms."""
    return training(20, 6000, name=LOADER)


def trap_hidden_preparation() -> TraceBuilder:
    """The program prepares the next batch while the GPU computes."""
    return training(4000, 6000, wait_first=False, name=LOADER)


def printed(loader: str) -> str:
    """A table in which the loader takes nine tenths of the host time."""
    rows = [
        {"Name": loader, "Self CPU": "900.000ms", "CPU total": "900.000ms", "Self CUDA": "0.000us", "# of Calls": 10},
        {
            "Name": "aten::mm",
            "Self CPU": "100.000ms",
            "CPU total": "100.000ms",
            "Self CUDA": "200.000ms",
            "# of Calls": 10,
        },
    ]
    return table(rows, cpu="1.000s", device="200.000ms")


RULE = "dataloader-single-process"


def test_it_is_deprecated_because_dataloader_bound_says_it() -> None:
    assert RULE not in {finding.rule for finding in report(fires()).findings}
    (single,), (bound,) = findings(fires(), RULE), findings(fires(), "dataloader-bound")
    assert single.stage == "deprecated"
    assert single.saving is not None
    assert bound.saving is not None
    assert single.saving.wall_ns_per_step == bound.saving.wall_ns_per_step
    assert single.saving.wall_ns_per_step == pytest.approx(
        (4_000_000 - 1_500_000 - 0.31 * 4_000_000, 4_000_000), rel=0.01
    )


def test_only_the_waits_for_loaders_without_workers_count() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        host.range(WORKERS, 3000)
        host.range(LOADER, 1000)
        compute(host, stream, 6000)
        host.wait(stream)

    (finding,) = findings(looping(step), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.1, rel=0.01)
    assert {place.name for place in finding.evidence[0].where} == {LOADER}


def test_without_a_gpu_there_is_nothing_to_pin_for() -> None:
    (finding,) = findings(on_the_host(LOADER), RULE)
    assert finding.code == "DataLoader(dataset, num_workers=2, persistent_workers=True)"


def test_without_a_loader_nothing_can_be_said() -> None:
    assert "no wait for a DataLoader" in (skipped(without_loader(), RULE) or "")


def test_edge_host_share() -> None:
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.9}) == []
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.899})
