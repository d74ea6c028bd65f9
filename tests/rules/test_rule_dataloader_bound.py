"""dataloader-bound."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, finish
from tests.rules.host_work import compute
from tests.rules.judging import findings, report
from tests.rules.situations.dataloader_bound import LOADER, WORKERS, fires, fires_in_a_table, on_the_host, training

RULE = "dataloader-bound"


def test_the_wait_is_bounded_by_what_one_worker_could_hide() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert high == pytest.approx(4_000_000, rel=0.01)
    assert low == pytest.approx(0.8 * 4_000_000, rel=0.01)
    assert finding.severity == "critical"
    assert report(fires(), RULE).headlines[0].bound == "input"


def test_a_loader_slower_than_the_rest_is_not_hidden_by_one_worker() -> None:
    (finding,) = findings(training(9000, 3000), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert high == pytest.approx(9_000_000, rel=0.01)
    assert low == pytest.approx(0.8 * 3_000_000, rel=0.02)


def test_without_a_gpu_there_is_nothing_to_pin_for() -> None:
    (finding,) = findings(on_the_host(), RULE)
    assert finding.advice.id == "dataloader-bound-advice-host"
    assert finding.code is not None
    assert "num_workers" in finding.code
    assert "pin_memory" not in finding.code
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_a_table_tells_at_least_what_nothing_else_can_hide() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_share == pytest.approx((0.8, 0.8))
    arithmetic = finding.saving.arithmetic
    assert arithmetic is not None
    assert arithmetic.result_ns == arithmetic.minuend.ns - max(o.ns for o in arithmetic.subtrahends)
    assert report(fires_in_a_table(), RULE).headlines[0].bound == "input"


def test_edge_exposed_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"exposed_share": share}) == []
    assert findings(fires(), RULE, {"exposed_share": share - 1e-9})


def test_edge_host_share() -> None:
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.9}) == []
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.899})


def test_workers_that_exist_promise_nothing() -> None:
    (finding,) = findings(training(4000, 6000, name=WORKERS), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0
    assert finding.advice.id == "dataloader-bound-advice-some-workers"
    assert "pin_memory" not in (finding.code or "")


def test_that_the_program_prepares_batches_itself_is_evidence() -> None:
    (finding,) = findings(fires(), RULE)
    wait, own = finding.evidence
    assert own.observed == pytest.approx(wait.observed)
    assert own.subject.id == "dataloader-bound-subject-own"


def test_waits_of_less_than_a_millisecond_promise_nothing() -> None:
    (finding,) = findings(training(900, 1000), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0


def test_a_loader_that_a_library_makes_has_no_code_to_change() -> None:
    trace = TraceBuilder(options=("with_stack",))
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.frame("transformers/pipelines/pt_utils.py(117): __next__"):
                host.range(LOADER, 4000)
            compute(host, stream, 6000)
            host.wait(stream)
    (finding,) = findings(finish(trace), RULE)
    assert finding.advice.params["library"] == "transformers.pipeline"
    assert finding.code is None
