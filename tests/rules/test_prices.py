"""What changes are worth by replays: alone, together, without the profiler. Times in microseconds unless named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.formats.samples import TRAINING, report_of
from tests.random_traces import Plan, plans
from tests.rules.judging import varied
from tests.rules.kinds_of_change import KINDS
from tests.simulation.replaying import model_of, modelled
from traceanalyzer import analyze
from traceanalyzer.knowledge.profiler_overhead import overheads
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Combined, Saving
from traceanalyzer.rules.engine.budget import Budget
from traceanalyzer.rules.engine.change import Fix, StepChange, WaitsGone
from traceanalyzer.rules.engine.prices import Prices
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import COMMUNICATION, ITS_OWN, LOADER, WAITS, EventSet, Occurrences, event_set

BASIS = Message("basis", {}, "because")
OPERATOR = 1000 * mean(each.operator.median_ns for each in overheads()) / 1e6
"""What recording an operator costs in microseconds."""


def prices(trace: TraceBuilder, plain: float | None = None) -> Prices:
    return Prices(model_of(trace), None if plain is None else plain * 1000)


def budget(step: float) -> Budget:
    return Budget(step * 1000, 0.0, step * 1000, 0.0, 0.0, is_estimate=False)


MM, ADDMM, ADD = map(EventSet.operator, ("aten::mm", "aten::addmm", "aten::add_"))


def takes(resource: str, low: float, high: float, *claims: EventSet, **details: object) -> StepChange:
    kind = WaitsGone if resource == "host" and WAITS in claims else KINDS[resource]
    direct = low * 1000, high * 1000
    return kind(direct, BASIS, None, dict.fromkeys(claims, high * 1000), **details)  # type: ignore[arg-type]


def wall(saving: Saving | Combined | None) -> tuple[float, ...]:
    assert saving is not None
    low, high = saving.wall_ns_per_step
    assert saving.point_ns_per_step is not None
    return low / 1000, saving.point_ns_per_step / 1000, high / 1000


def with_steps(low: float, point: float, high: float) -> object:
    """What replays save, with 2 % of the point for steps that differ, but no more than goes away; to 3 thousandths."""
    least, most = varied(low, high, point)
    return pytest.approx((least, point, most), rel=3e-3)


def on_cpu() -> TraceBuilder:
    """A step of 1000: an operator of 400, autograd's thread for 300 while the program waits, and an operator of 100."""
    trace = TraceBuilder()
    trace.step(1, 0, 1000)
    trace.op("aten::addmm", 0, 400, sequence=7)
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 500, 300, sequence=7, fwd_thread=1, tid=4202)
    trace.op("AddmmBackward0", 500, 300, sequence=7, fwd_thread=1, tid=4202)
    trace.op("aten::mm", 550, 200, tid=4202)
    trace.op("aten::add_", 850, 100)
    return trace


def test_host_time_of_an_operator_shortens_a_step_on_a_cpu() -> None:
    saving = prices(on_cpu()).saving(takes("host", 100, 200, ADDMM), budget(1000))
    assert wall(saving) == with_steps(100, 150, 200)
    assert saving.wall_share == pytest.approx((0.1, 0.2), rel=1e-3)
    assert (saving.estimated_by, saving.step_ns) == ("model", None)


def test_the_thread_of_autograd_stands_in_for_the_one_that_waits() -> None:
    found = prices(on_cpu())
    assert wall(found.saving(takes("host", 50, 100, MM), budget(1000))) == with_steps(50, 75, 100)
    # half of both: 200 of the program's thread and 100 of autograd's
    both = takes("host", 300, 300, ADDMM, MM)
    assert wall(found.saving(both, budget(1000))) == with_steps(300, 300, 300)


def test_what_is_not_named_or_not_found_is_taken_off_all_host_time() -> None:
    found = prices(on_cpu())
    for claims in ((), (EventSet.operator("aten::unheard_of"),), (EventSet.other("at all"),)):
        assert wall(found.saving(takes("host", 100, 250, *claims), budget(1000))) == with_steps(100, 175, 250)


def test_time_beyond_what_is_named_is_around_it() -> None:
    """The operator takes 100; of the other 900, 200 go away as well."""
    assert wall(prices(on_cpu()).saving(takes("host", 300, 300, ADD), budget(1000))) == with_steps(300, 300, 300)


def test_steps_that_differ_save_no_more_than_goes_away() -> None:
    """The operator takes 50 to 200 of steps that are else alike, 125 on average: no saving of a step can be greater."""
    trace = TraceBuilder()
    start = 0
    for number, own in enumerate((50, 200, 75, 175, 125)):
        trace.step(number, start, 800 + own)
        trace.op("aten::mm", start, own)
        trace.op("aten::add", start + own, 800)
        start += 800 + own
    low, point, high = wall(prices(trace).saving(takes("host", 125, 125, MM), budget(925)))
    assert (point, high) == (pytest.approx(125), pytest.approx(125))
    assert 60 < low < 100, "what differs makes the least saving less"


def test_two_changes_of_one_operator_share_it() -> None:
    """Each takes 300 of 400 away, together no more than 400: the second one takes only the rest."""
    found = prices(on_cpu())
    one, other = (takes("host", 300, 300, ADDMM) for _ in range(2))
    combined = found.combine(budget(1000), [Fix("a", 0, one), Fix("b", 1, other)])
    assert combined is not None
    assert wall(combined) == with_steps(300, 300, 300)
    assert [fix.rule for fix in combined.fixes] == ["a"], "the other one adds nothing"


def test_what_adds_nothing_is_no_row_and_rows_come_by_what_they_save_alone() -> None:
    found = prices(on_cpu())
    fixes = [
        Fix("small", 0, takes("host", 50, 50, ADD)),
        Fix("large", 1, takes("host", 200, 200, ADDMM)),
        Fix("nothing", 2, takes("gpu", 10, 20)),
    ]
    combined = found.combine(budget(1000), fixes)
    assert combined is not None
    assert [(fix.rule, fix.point_ns_per_step) for fix in combined.fixes] == [("large", 200_000), ("small", 50_000)]
    assert combined.next_bottleneck == "host"
    assert found.combine(budget(1000), fixes[2:]) is None


def test_kernels_that_go_away_take_their_launches_along() -> None:
    """The host launches two kernels of 10 in operators of 100, and a step takes 250: only the host's time matters."""
    trace = TraceBuilder()
    trace.step(1, 0, 250)
    for start in (10, 120):
        trace.op("aten::gelu", start, 100)
        trace.launch_kernel("gelu_kernel", start + 70, 10, at=start + 50, call_dur=10)
    found = prices(trace)
    assert wall(found.saving(takes("gpu", 10, 10, EventSet.operator("aten::gelu")), budget(250))) == (0, 0, 0)
    removed = takes("gpu", 10, 10, EventSet.operator("aten::gelu"), host=ITS_OWN)
    assert wall(found.saving(removed, budget(250))) == with_steps(100, 100, 100), (
        "half of the operators, as half of the kernels"
    )


@event_set
def within(context: Context, start: int, end: int) -> Iterator[Occurrences]:
    """The place of a change: a time of the program's thread, which is the one that launches."""
    span = np.array([start], np.int64) * 1000, np.array([end], np.int64) * 1000
    yield Occurrences("host", "reading", context.trace.launches.thread[:1].astype(np.int64), *span)


def reading() -> TraceBuilder:
    """A step of 1000: an operator of 200 launches a kernel of 400, and the next one a kernel of 500 that runs after it.

    That one starts at 421, and the program waits for it.
    """
    trace = TraceBuilder()
    trace.step(1, 0, 1000)
    trace.op("aten::item", 0, 200)
    trace.launch_kernel("of_item", 20, 400, at=10, call_dur=5)
    trace.op("aten::mm", 200, 100)
    trace.launch_kernel("gemm", 421, 500, at=250, call_dur=5)
    trace.launch("cudaStreamSynchronize", 300, 624)
    return trace


def test_what_is_launched_in_host_time_that_goes_away_goes_with_it() -> None:
    """Without the operator the second kernel starts 5 after its launch, which then ends at 55: 361 earlier.

    With half of it its kernel starts at 15, 5 after its launch as well, and takes 200: the second one starts at 216.
    """
    found, at = prices(reading()), within(0, 200)
    only_host = takes("host", 200, 200, within=at)
    _, saved, _ = wall(found.saving(only_host, budget(1000)))
    assert saved == pytest.approx(10), "the first launch is at 0, not at 10"
    assert found.resolver.removed_device_ns(only_host) == 0
    for gone, starts in ((200, 60), (100, 216)):
        change = takes("host", gone, gone, within=at, device=ITS_OWN)
        saved = 421 - starts
        assert wall(found.saving(change, budget(1000))) == with_steps(saved, saved, saved)
        assert found.resolver.removed_device_ns(change) == 400_000, "so more than the 100 without work may be saved"


def test_host_time_beyond_the_place_of_a_change_is_around_it() -> None:
    """50 of the other 176 go away as well, of which nothing hides 126: 50 before the second launch, 76 at the end."""
    change = takes("host", 250, 250, within=within(0, 200), device=ITS_OWN)
    saved = 361 + 126 * 50 / 176
    assert wall(prices(reading()).saving(change, budget(1000))) == with_steps(saved, saved, saved)


def test_nothing_waits_in_host_time_that_goes_away() -> None:
    """An operator of 200 waits for a kernel that ends at 210; what comes after it needs nothing of that."""
    trace = TraceBuilder()
    trace.step(1, 0, 600)
    trace.launch_kernel("gemm", 10, 200, at=3, call_dur=3)
    trace.op("aten::item", 20, 200)
    trace.launch("cudaStreamSynchronize", 25, 187)
    trace.op("aten::mm", 220, 300)
    trace.launch_kernel("gemm", 510, 50, at=500, call_dur=5)
    trace.launch("cudaStreamSynchronize", 530, 32)
    found, at = prices(trace), within(20, 220)
    kept = takes("host", 200, 200, within=at)
    removed = takes("host", 200, 200, within=at, device=ITS_OWN)
    _, of_kept, _ = wall(found.saving(kept, budget(600)))
    _, of_removed, _ = wall(found.saving(removed, budget(600)))
    assert of_kept == pytest.approx(8), "the next operator begins at 212, not at 220"
    assert of_removed == pytest.approx(200), "it begins at 20"
    assert found.resolver.removed_device_ns(removed) == 0, "the kernel was launched before"


def doubtful() -> TraceBuilder:
    """Kernels whose starts nothing explains: every other one is late by 400 of a step of 500."""
    trace = TraceBuilder()
    for number in range(8):
        start = 500 * number
        trace.step(number, start, 500)
        trace.op("aten::mm", start + 5, 480)
        late = 400 if number % 2 else 0
        trace.launch_kernel("sgemm", start + 20 + late, 50, at=start + 10, call_dur=5)
        trace.launch("cudaStreamSynchronize", start + 20, 55 + late)
    return trace


def test_where_the_model_abstains_bounds_say_so() -> None:
    built = model_of(doubtful())
    assert built.abstains
    report = analyze(built.context.trace)
    savings = [finding.saving for finding in report.findings if finding.saving is not None]
    assert savings
    for saving in savings:
        assert (saving.estimated_by, saving.point_ns_per_step) == ("budget", None)
        assert saving.basis.id == "saving-model-abstains"
    assert all(h.combined is None or h.combined.estimated_by == "budget" for h in report.headlines)


def adds_up(combined: Combined) -> None:
    rows = [fix.scenarios_ns_per_step for fix in combined.fixes]
    total = combined.scenarios_ns_per_step
    assert total is not None
    for number, whole in enumerate(total):
        assert sum(row[number] for row in rows if row is not None) == pytest.approx(whole, abs=1e-3)
    assert sum(fix.point_ns_per_step or 0.0 for fix in combined.fixes) == pytest.approx(total[1], abs=1e-3)
    assert combined.point_ns_per_step == total[1]
    low, high = combined.wall_ns_per_step
    assert low - 1e-6 <= min(total) <= max(total) <= high + 1e-6


KEYS = [
    EventSet.operator("aten::a"),
    EventSet.operator("aten::b"),
    LOADER,
    COMMUNICATION,
    EventSet.idle("launch_bound"),
    WAITS,
]
changes = st.builds(
    lambda resource, low, more, keys, goes_along: takes(
        resource, low, low + more, *keys, **({"host": ITS_OWN} if goes_along and resource == "gpu" else {})
    ),
    st.sampled_from(["loader", "host", "gpu", "communication"]),
    st.integers(0, 20),
    st.integers(0, 20),
    st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
    st.booleans(),
)


@given(plans, st.lists(changes, max_size=4), st.sampled_from([None, 10.0]))
def test_rows_add_up_in_every_scenario(plan: Plan, wanted: list[StepChange], plain: float | None) -> None:
    found = Prices(modelled(plan), None if plain is None else plain * 1000)
    for change in wanted:
        low, point, high = wall(found.saving(change, budget(100)))
        assert 0 <= low <= point <= high
    combined = found.combine(budget(100), [Fix(str(n), n, change) for n, change in enumerate(wanted)])
    if combined is not None:
        adds_up(combined)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(plans, changes)
def test_one_fix_together_is_worth_what_it_is_alone(plan: Plan, change: StepChange) -> None:
    found = Prices(modelled(plan))
    alone, combined = found.saving(change, budget(100)), found.combine(budget(100), [Fix("only", 0, change)])
    assume((alone.point_ns_per_step or 0.0) > 0)
    assert combined is not None
    assert combined.wall_ns_per_step == alone.wall_ns_per_step
    assert combined.point_ns_per_step == alone.point_ns_per_step


@pytest.mark.corpus
def test_rows_add_up_on_real_traces(corpus: Path) -> None:
    combined = list(_combined(corpus))
    assert len(combined) >= 12
    for found in combined:
        adds_up(found)


def _combined(corpus: Path) -> Iterator[Combined]:
    for path in sorted((corpus / "corpus").glob("*.json.gz")):
        for headline in corpus_files.report_of(path).headlines:
            if headline.combined is not None and headline.combined.estimated_by == "model":
                yield headline.combined


def test_a_host_that_gets_ahead_of_its_device_does_not_make_savings_vary() -> None:
    """Each of four steps waits for its kernel of 300 and works for 100: without the wait the kernels follow each other.

    Every step then ends 300 after the one before, although the host starts it 200 earlier each time.
    """
    trace = TraceBuilder()
    for number in range(4):
        start = 410 * number
        trace.step(number, start, 410)
        trace.op("aten::item", start, 310)
        trace.launch_kernel("gemm", start + 5, 300, at=start + 2, call_dur=2)
        trace.launch("cudaStreamSynchronize", start + 5, 303)
    change = takes("host", 100, 100, EventSet.operator("aten::item"), WAITS)
    low, point, high = wall(prices(trace).saving(change, budget(410)))
    assert point == pytest.approx(100, abs=15)
    assert (low, high) == (pytest.approx(point, rel=0.05), pytest.approx(point, rel=0.05))


def test_waits_that_may_all_be_necessary_are_most_likely_worth_half_of_what_a_replay_without_them_saves() -> None:
    """A step of 400: an item waits for a kernel of 100, so that the next kernel starts 100 later than it could.

    Another change takes 60 of an operator of 150 on the host away, which counts wholly beside it.
    """
    trace = TraceBuilder()
    trace.step(1, 0, 400)
    trace.op("aten::item", 0, 110)
    trace.launch_kernel("gemm", 5, 100, at=2, call_dur=2)
    trace.launch("cudaStreamSynchronize", 5, 103)
    trace.op("aten::mm", 150, 150)
    trace.launch_kernel("sgemm", 305, 95, at=300, call_dur=3)
    found = prices(trace)
    wait = takes("host", 0, 100, EventSet.operator("aten::item"), WAITS)
    _, all_of_it, _ = wall(found.saving(takes("host", 100, 100, *wait.claims), budget(400)))
    low, point, high = wall(found.saving(wait, budget(400)))
    assert all_of_it == pytest.approx(100, abs=5)
    assert (low, point, high) == (0, pytest.approx(all_of_it / 2, rel=0.05), pytest.approx(all_of_it, rel=0.05))
    operator = takes("host", 60, 60, MM)
    combined = found.combine(budget(400), [Fix("wait", 0, wait), Fix("operator", 1, operator)])
    assert combined is not None
    assert combined.point_ns_per_step == pytest.approx(1000 * (60 + all_of_it / 2), rel=0.02)


def test_a_wait_is_worth_no_more_than_the_time_for_which_its_stream_does_nothing() -> None:
    """A graph's stream and its caller's take turns, so that together they leave 100 of a step of 1000."""
    trace = TraceBuilder()
    for number in range(4):
        start = 1000 * number
        trace.step(number, start, 1000)
        for turn in range(2):
            at = start + 500 * turn
            trace.launch_kernel("own", at + 10, 230, at=at + 2, call_dur=3, stream=7)
            trace.launch("cudaStreamSynchronize", at + 6, 236)
            trace.launch_kernel("of_a_graph", at + 250, 220, at=at + 244, call_dur=3, stream=8)
            trace.launch("cudaStreamSynchronize", at + 248, 225)
    found = prices(trace).saving(takes("host", 0, 900, WAITS), budget(1000))
    assert max(wall(found)) <= 100
    assert found.basis.id == "saving-no-more" or max(wall(found)) < 100


def test_a_saving_between_nothing_and_much_says_what_decides_it() -> None:
    found = {finding.rule: finding.saving for finding in report_of(TRAINING).findings if finding.saving is not None}
    question = found["dataloader-bound"]
    assert (question.wall_ns_per_step[0], question.wall_share[1] > 0.05) == (0, True)
    assert question.decided_by is not None
    assert question.decided_by.id == "saving-decided-by-workers"
    certain = [saving for saving in found.values() if saving.wall_ns_per_step[0] > 0]
    assert certain
    assert all(saving.decided_by is None for saving in certain)
