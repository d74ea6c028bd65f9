"""Questions about changes: what each kind of change becomes, and answers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.analyzers.ranks.joining import members
from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.builders.situations import mtia
from tests.reading import read_built
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.what_if import FORMATS, answer
from traceanalyzer.multirank import MeasuredRun
from traceanalyzer.prediction import whatif
from traceanalyzer.simulation.what_if import ChangeAsked, WhatIf, ask
from traceanalyzer.structure.context import Context


def waiting() -> Context:
    """Three steps of 200: 100 of work are launched at 10, a call waits for it from 20 to 118, 80 of the host follow."""
    trace = TraceBuilder()
    for number in range(3):
        start = 200 * number
        trace.step(number, start, 200)
        trace.op("aten::item", start + 5, 115)
        trace.launch_kernel("kernel", start + 15, 100, at=start + 10, call_dur=5)
        trace.launch("cudaStreamSynchronize", start + 20, 98)
        trace.op("aten::add", start + 120, 80)
    return Context(read_built(trace))


@pytest.mark.parametrize(
    ("change", "saved"),
    [
        (ChangeAsked("speedup", "kernel:kernel", 2), 50),
        (ChangeAsked("speedup", "gpu", 4), 75),
        (ChangeAsked("speedup", "operator:aten::add", 2), 40),
        (ChangeAsked("speedup", "operator:aten::add", 0.5), -80),
        (ChangeAsked("free", "operator:aten::add", 0), 80),
    ],
    ids=lambda value: f"{value.selector}={value.factor}" if isinstance(value, ChangeAsked) else None,
)
def test_savings_are_those_of_the_critical_path(change: ChangeAsked, saved: int) -> None:
    found = ask(waiting(), [change])
    assert found.replay.abstained is False
    assert found.step_ns == pytest.approx(200_000)
    low, point, high = found.saving_ns
    assert point == pytest.approx(saved * 1000, rel=0.02)
    assert low <= point <= high
    assert found.predicted_ns == (found.step_ns - high, found.step_ns - point, found.step_ns - low)
    assert found.helps == ()


def test_it_says_that_start_up_is_saved_once() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 5_000)
    trace.op("aten::mm", 5, 4_900)
    trace.launch("cuModuleLoadData", 10, 4_000)
    for number in range(20):
        trace.launch_kernel("kernel", 4_020 + 40 * number, 20, at=4_015 + 40 * number, call_dur=4)
    found = ask(Context(read_built(trace)))
    assert found.startup_ns == 4_000_000
    assert "happens only once" in " ".join(answer(found).render("terminal").split())
    assert ask(waiting()).startup_ns is None
    assert "happens only once" not in answer(ask(waiting())).render("terminal")


def test_it_says_that_the_model_knows_no_other_devices() -> None:
    found = ask(Context(read_built(mtia())))
    assert found.startup_ns is None
    assert "Devices without recorded kernels are not part of the model" in " ".join(
        answer(found).render("terminal").split()
    )
    assert not ask(waiting()).other_devices


def test_what_passes_between_two_steps_is_no_part_of_a_saving() -> None:
    """On a CPU, steps of 200 begin every 206: a free host saves no more than the step."""
    trace = TraceBuilder()
    for number in range(5):
        trace.step(number, 206 * number, 200)
        trace.op("aten::add", 206 * number + 5, 190)
    context = Context(read_built(trace))
    for found in (ask(context, [ChangeAsked("free", "host", 0)]), ask(context)):
        best = found.saving_ns if found.edits else found.helps[0].free_ns
        assert best[1] == found.step_ns == 200_000
        assert best[0] <= best[1] <= best[2]
    assert ask(context, [ChangeAsked("free", "host", 0)]).predicted_ns[1] == 0


def test_an_answer_says_what_each_change_is_about() -> None:
    found = ask(waiting(), [ChangeAsked("no-sync", "*"), ChangeAsked("speedup", "gpu", 2)])
    told = [(change.kind, change.selector, change.factor, change.found) for change in found.edits]
    assert told == [("no-sync", "*", None, "synchronization"), ("speedup", "gpu", 2, "gpu")]
    assert [(change.device_events, change.calls) for change in found.edits] == [(None, 3), (3, None)]


def test_changes_together_do_not_depend_on_their_order() -> None:
    changes = [ChangeAsked("speedup", "gpu", 2), ChangeAsked("free", "aten::add", 0), ChangeAsked("no-sync", "*")]
    one, other = ask(waiting(), changes), ask(waiting(), changes[::-1])
    assert one.saving_ns == other.saving_ns
    assert one.edits == other.edits[::-1]


def test_without_a_change_it_says_what_helps_the_most_first() -> None:
    helps = ask(waiting()).helps
    free = {row.selector: row.free_ns[1] for row in helps}
    assert free["operator:aten::add"] == pytest.approx(80_000, rel=0.02)
    points = [row.free_ns[1] or 0.0 for row in helps]
    assert points == sorted(points, reverse=True)
    assert all((row.half_ns is None) == (row.gone_ns is None) == (row.kind == "change") for row in helps)


def test_what_is_free_keeps_its_launches_and_what_is_gone_does_not() -> None:
    """The host launches 30 kernels of 10 in 40 each, so the device waits for it."""
    trace = TraceBuilder()
    for number in range(3):
        start = 1300 * number
        trace.step(number, start, 1300)
        for call in range(30):
            begin = start + 10 + 40 * call
            trace.op("aten::add", begin, 35)
            trace.launch_kernel("kernel", begin + 30, 10, at=begin + 10, call_dur=20)
    rows = {row.selector: row for row in ask(Context(read_built(trace))).helps}
    add, gpu = rows["operator:aten::add"], rows["gpu"]
    assert add.free_ns[1] == gpu.free_ns[1] == pytest.approx(0, abs=20_000)
    assert add.gone_ns is not None
    assert add.gone_ns[1] == pytest.approx(30 * 35_000, rel=0.05)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ChangeAsked("speedup", "gpu", -1.0), "gpu=-1: must be 0"),
        (ChangeAsked("loader", "", float("nan")), "loader=nan: must be 0"),
        (ChangeAsked("overlap"), "no kernels that communicate"),
        (ChangeAsked("speedup", "nothing", 2), "nothing: nothing in the trace has this name"),
    ],
)
def test_what_cannot_be_asked_is_refused(change: ChangeAsked, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask(waiting(), [change])
    assert said in str(refused.value)


def test_a_trace_without_steps_cannot_be_asked() -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 0)
    with pytest.raises(UsageError, match="no step longer than 0"):
        ask(Context(read_built(trace)))


# What a step would take if some ranks were like the others: runs whose slow ranks are known by construction.
#
# A step of the builder: 15 us of the host, the computation, 5 us until the rank has come, waiting, 200 us of transfer,
# and 5 us until the step ends.


OWN = 15 + 5 + 5
TRANSFER = 200
US = 1000


def slow() -> tuple[TraceBuilder, ...]:
    """The usual computation is 1200 us; rank 2 takes 1400, rank 3 takes 1300."""
    return run(4, [Meeting(lambda rank, step: 1000 + {1: 100, 2: 400, 3: 300}.get(rank, 0))])


def about(saved: int) -> Any:
    """An interval with 2 % on both sides, by which steps differ."""
    return pytest.approx((0.98 * saved * US, saved * US, 1.02 * saved * US))


def asked(traces: Sequence[TraceBuilder], *ranks: int) -> WhatIf:
    return whatif(MeasuredRun("run", members(traces), ()), ranks=ranks)


@pytest.mark.parametrize(("ranks", "saved"), [((2,), 100), ((3,), 0), ((2, 3), 200), ((2, 3, 2), 200), ((0, 1), 0)])
def test_without_a_slow_rank_the_step_waits_for_the_next_one(ranks: tuple[int, ...], saved: int) -> None:
    found = asked(slow(), *ranks)
    step = OWN + 1400 + TRANSFER
    assert found.step_ns == step * US
    assert found.saving_ns == about(saved)
    assert found.predicted_ns == pytest.approx([step * US - ns for ns in reversed(found.saving_ns)])
    assert found.predicted_ns[1] == (step - saved) * US
    assert [(edit.kind, edit.selector) for edit in found.edits] == [("rank", str(rank)) for rank in sorted(set(ranks))]
    assert found.helps == ()
    assert found.replay.error_share == 0


def test_each_rank_is_tried_where_none_is_asked_about() -> None:
    found = asked(slow())
    assert found.saving_ns == (0, 0, 0)
    told = [(row.kind, row.selector, row.free_ns[1]) for row in found.helps]
    assert told == [("rank", f"--rank {rank}", ns) for rank, ns in ((2, 100 * US), (0, 0), (1, 0), (3, 0))]


def test_the_report_of_the_ranks_shows_the_same_number() -> None:
    measured = MeasuredRun("run", members(slow()), ())
    stragglers = measured.report().result("stragglers", Stragglers)
    assert stragglers is not None
    assert stragglers.late_rank == 2
    assert whatif(measured, ranks=[2]).saving_ns[1] == stragglers.late_ns_per_step


def test_a_rank_that_loses_what_it_is_faster_at_may_make_the_step_longer() -> None:
    """Rank 1 is late at the first meeting of its pair. Rank 0 makes up for some of that: it needs 300 us from there to
    the meeting of all, where the median is 400 us."""
    pairs = Meeting(lambda rank, step: 1000 + 600 * (rank == 1), groups=[(0, 1), (2, 3)], name="pair", transfer=10)
    traces = run(4, [pairs, Meeting(lambda rank, step: (300, 100, 500, 500)[rank])])
    assert asked(traces, 0).saving_ns == (-100 * US, 0, 0)
    # without what rank 1 is late by, the step waits for ranks 2 and 3, which need 200 us more than rank 0
    assert asked(traces, 1).saving_ns == about(400)


def test_ranks_that_do_nothing_of_a_kind_get_the_usual_time_of_it() -> None:
    """Three ranks wait 500 us for their loaders; rank 1 does not, but computes for 600 us longer."""
    waits = Meeting(lambda rank, step: 1000 + 600 * (rank == 1), loader=lambda rank, step: 500 * (rank != 1))
    # it comes after 1600 us, and the others after 1500 us
    assert asked(run(4, [waits]), 1).saving_ns == about(100)


def test_the_interval_is_no_narrower_than_the_error_of_the_replay() -> None:
    """Transfers end 40 us later on rank 0, which no rank waits for: the replay is off by 10 us per step."""
    late = Meeting(lambda rank, step: 1000 + 300 * rank, lag=lambda rank, step: 40 * (rank == 0))
    found = asked(run(2, [late], steps=2), 1)
    assert abs(found.replay.modelled_ns - found.replay.recorded_ns) == 10 * US
    # together with 2 % of 300 us, by which steps differ
    assert found.saving_ns == pytest.approx((300 * US - (off := hypot(10, 6) * US), 300 * US, 300 * US + off))


@pytest.mark.parametrize(
    ("traces", "ranks", "says"),
    [
        (run(4, [Meeting(lambda rank, step: 1000)]), (4,), "--rank 4: no trace of this rank; .* those of ranks 0 to 3"),
        (run(5, [Meeting(lambda rank, step: 1000)])[:2], (1,), "run: the ranks cannot be replayed together: fewer"),
        (run(1, [Meeting(lambda rank, step: 1000)]), (0,), "one rank has no peers"),
    ],
)
def test_what_cannot_be_answered_says_why(traces: list[TraceBuilder], ranks: tuple[int, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        asked(traces, *ranks)


def test_files_of_ranks_are_read(tmp_path: Path) -> None:
    for rank, trace in enumerate(slow()):
        trace.write(tmp_path / f"rank{rank}.json")
    assert whatif(tmp_path, ranks=[2]).saving_ns == about(100)
    with pytest.raises(UsageError, match="--loader: only --rank applies to several ranks"):
        whatif(tmp_path, ranks=[2], loader=0)
    one = ta.load(tmp_path / "rank2.json")
    assert isinstance(one, ta.Trace)
    with pytest.raises(UsageError, match="--rank 2: needs the traces of several ranks"):
        whatif(one, ranks=[2])


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_names_the_ranks(form: str) -> None:
    assert "rank 2" in answer(asked(slow())).render(form)
    text = answer(asked(slow(), 2)).render(form)
    assert "unknown" not in text
    assert ("100 us" in text.replace("\u00a0", " ")) == (form != "json")
