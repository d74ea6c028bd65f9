"""pipeline-bubble."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.judging import findings, report
from tests.rules.situations.pipeline_bubble import (
    BETWEEN,
    LAST,
    fires,
    fires_between_others,
    fires_in_turns,
    fires_on_a_gpu,
    fires_on_the_first_stage,
    gpipe,
)
from traceanalyzer.analyzers.optimizer import exchanges
from traceanalyzer.analyzers.optimizer.exchanges import Pipeline
from traceanalyzer.structure.context import Context

RULE = "pipeline-bubble"


def stage(trace: TraceBuilder) -> Pipeline:
    found = exchanges.pipeline(Context(read_built(trace)))
    assert found is not None
    return found


def test_the_last_stage_waits_for_the_first_activations() -> None:
    """900 us before the first of four micro-batches, 5 before each other one."""
    found = stage(fires())
    assert (found.steps, found.updates, found.micro_batches) == (3, 3, 4)
    assert (found.is_between, found.is_on_host) == (False, True)
    assert (found.waiting_ns, found.other_ns) == (3 * 900_000, 3 * 3 * 5_000)
    assert [(wait.place, wait.time_ns) for wait in found.examples] == [("first-forward", 900_000)] * 3


@pytest.mark.parametrize(
    ("build", "places", "waiting", "is_between"),
    [
        (fires_on_the_first_stage, {"first-backward"}, 900_000, False),
        (fires_between_others, {"first-forward", "first-backward"}, 1_800_000, True),
        (fires_in_turns, {"first-forward", "first-backward", "last-backwards"}, 1_400_000, True),
    ],
)
def test_where_a_stage_waits(build, places: set[str], waiting: int, is_between: bool) -> None:  # type: ignore[no-untyped-def]
    found = stage(build())
    assert found.waiting_ns == 3 * waiting
    assert found.is_between == is_between
    assert {wait.place for wait in found.examples} <= places
    assert found.micro_batches == 4


def test_kernels_wait_on_a_gpu() -> None:
    found = stage(fires_on_a_gpu())
    assert not found.is_on_host
    assert found.waiting_ns == pytest.approx(3 * 1_800_000, rel=0.02)
    (finding,) = findings(fires_on_a_gpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(1_800_000, rel=0.05)
    assert "comm-exposed" not in [each.rule for each in report(fires_on_a_gpu()).findings]


def test_from_half_the_waiting_of_few_stages_to_all_of_it() -> None:
    """Of four micro-batches, a fifth of the step would be the bubble of two stages, and a third that of three."""
    (finding,) = findings(gpipe(LAST, 4, gpu=True), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((450_000, 900_000), rel=0.02)
    for place, part in ((LAST, 1 / 5), (BETWEEN, 1 / 3)):
        (longer,) = findings(gpipe(place, 4, fill=5000, turn=5000, gpu=True), RULE)
        assert longer.saving is not None
        assert longer.saving.direct_ns_per_step[0] == pytest.approx(longer.summary.params["step"] * part / 2)


def test_on_a_cpu_nothing_is_sure() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, 900_000)
    assert finding.summary.params["micro_batches"] == 4
    assert "n_microbatches=8" in (finding.code or "")


def test_a_framework_that_schedules_stages_gets_no_code() -> None:
    trace = fires()
    trace.python_function("megatron/core/pipeline_parallel/schedules.py(300): forward_step", 0, 5)
    (finding,) = findings(trace, RULE)
    assert not finding.code


def test_edge_waiting_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"waiting_share": share}) == []
    assert findings(fires(), RULE, {"waiting_share": share - 1e-9})
