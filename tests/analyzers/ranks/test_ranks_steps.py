"""Which steps of the ranks count: those that all count alike, and the typical ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest
from msgspec.structs import replace

from tests.analyzers.ranks.joining import by_rank, members
from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.builders.trace import distributed_info
from traceanalyzer.analyzers.ranks import Ranks, of_typical_steps, totals
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.formats import render
from traceanalyzer.multirank import join
from traceanalyzer.report.model import Report
from traceanalyzer.structure.recording import Recording

STEP = 10_000
"""Microseconds from one optimizer step to the next."""


def rank_of_two(rank: int, *, first: int = 0, steps: int = 6) -> TraceBuilder:
    """A rank on the CPU: an optimizer step of 500 us, 1000 us of operators (rank 1: 6000), a gloo all_reduce.

    Both ranks leave the all_reduce 9000 us after the step began, so that rank 0 waits 5000 us of each step.

    Args:
        rank: 0 or 1.
        first: The first step of the run that is recorded.
        steps: Number of optimizer steps that are recorded.
    """
    trace = TraceBuilder(devices=(), distributed=distributed_info(rank, 2))
    work = 6000 if rank else 1000
    for number in range(first, first + steps):
        start = 1000 + number * STEP
        trace.annotation("Optimizer.step#SGD.step", start, 500)
        trace.op("aten::mm", start + 1000, work)
        trace.annotation("gloo:all_reduce", start + 1000 + work, 8000 - work)
        trace.op("aten::add", start + 9000, 900)
    return trace


def ranks_of(report: Report) -> Ranks:
    found = report.result("ranks", Ranks)
    assert found is not None
    return found


def test_steps_are_those_of_the_program() -> None:
    report = join(members([rank_of_two(0), rank_of_two(1)]), "run")
    found = ranks_of(report)
    # Five steps of 10 ms, and the last until its last operator ends: 9.9 ms.
    assert found.mean_step_ns == pytest.approx((5 * 10_000_000 + 9_900_000) / 6)
    assert len(found.steps) == 6
    assert found.wait_ns == 2_500_000, "5 ms on rank 0, none on rank 1"
    assert by_rank(found)[0].wait_ns == 5_000_000
    (late,) = found.stragglers[:1]
    assert (late.rank, late.steps) == (1, 6)
    assert "Rank 1 makes the others wait 5.0 of the 10.0 ms of each step" in report.headlines[0].text


def test_a_rank_that_was_cut_off_is_compared_by_its_first_steps() -> None:
    own = members([rank_of_two(0), rank_of_two(1, steps=4)])
    own[1] = replace(own[1], is_damaged=True)
    found = ranks_of(join(own, "run"))
    assert found.matching.matched == 8
    assert by_rank(found)[0].wait_ns == pytest.approx(4 * 5_000_000 / 6), "over all steps of the rank"


def test_ranks_that_count_other_steps_are_not_matched_by_order() -> None:
    # Rank 1 began to record a step later: its step 0 is step 1 of rank 0.
    found = ranks_of(join(members([rank_of_two(0), rank_of_two(1, first=1, steps=5)]), "run"))
    assert found.matching.matched == 0
    assert found.wait_ns is None
    assert by_rank(found)[1].skew is None


def late_and_once_very_late(rank: int, step: int) -> int:
    """Both compute for 1000 us, rank 1 for 300 more, and in step 4 for 4000 more."""
    return 1000 + rank * (4000 if step == 4 else 300)


def together(compute: Callable[[int, int], int] = late_and_once_very_late, *, transfer: int = 50) -> dict[int, Member]:
    return members(run(2, [Meeting(compute, transfer=transfer)], steps=4))


def recording(report: Report) -> Recording:
    found = report.result("recording", Recording)
    assert found is not None
    return found


def test_a_step_that_no_rank_keeps_is_not_judged() -> None:
    # Each step: 15 + 1300 + 5 us until rank 1 comes, 50 us of transfer, 5 us until the next: 1375 us. Step 4: 5075 us.
    report = join(together(), "run")
    found = recording(report)
    assert found.typical_step_ns == 1_375_000
    assert found.typical is not None
    assert found.typical.steps == 6, "three steps of two ranks"
    assert found.typical.resources.communication_ns == 200_000, "350 us on rank 0, 50 us on rank 1"
    (headline,) = report.headlines
    assert headline.bound == "gpu-compute"
    assert headline.resources.step_ns == 1_375_000
    assert "wait for rank 1, which costs 0.30 of the 1.4 ms of a step" in headline.text
    (finding,) = (one for one in report.findings if one.rule == "comm-straggler")
    assert "most of the waiting in 3 of 3 steps" in finding.summary.text


def test_ranks_have_the_typical_steps_and_the_table_of_steps_has_all() -> None:
    report = join(together(), "run")
    found = ranks_of(report)
    assert found.mean_step_ns == found.ranks[0].mean_step_ns == 1_375_000, "step 4 took 5075 us"
    assert [row.wait_ns for row in found.ranks] == [300_000, 0]
    assert [row.own_ns for row in found.ranks] == [1_075_000, 1_375_000]
    assert [row.steps for row in found.ranks] == [4, 4]
    assert [step.max_ns for step in found.steps] == [1_375_000] * 3 + [5_075_000]
    assert "A step takes 1.4 ms, mean over 2 ranks." in render(report, "markdown")
    assert [row.typical_step_ns for row in found.ranks] == [1_375_000] * 2
    assert [row.workload for row in found.ranks] == ["inference"] * 2


def test_where_ranks_keep_other_steps_all_are_compared() -> None:
    own = together()
    assert own[1].recording is not None
    steps = own[1].recording.steps
    other = tuple(msgspec.structs.replace(step, is_typical=step.name in "34") for step in steps)
    own[1] = msgspec.structs.replace(own[1], recording=msgspec.structs.replace(own[1].recording, steps=other))
    assert of_typical_steps(own) is None, "both keep step 3 only"


def test_collectives_of_steps_that_are_left_out_go_and_those_between_steps_stay() -> None:
    own = together()
    first = own[0].facts.collectives
    between = msgspec.structs.replace(first, step=(0, None, 2, 3))
    own[0] = msgspec.structs.replace(own[0], facts=msgspec.structs.replace(own[0].facts, collectives=between))
    kept = of_typical_steps(own)
    assert kept is not None
    assert kept[0].facts.steps.name == ("1", "2", "3")
    assert kept[0].facts.collectives.step == (0, None, 2)
    assert kept[0].facts.collectives.start_ns == first.start_ns[:3]


def test_programs_that_differ_between_ranks() -> None:
    own = list(members(run(3, [Meeting(lambda rank, step: 1000)])).values())

    def said(member: Member, workload: str, framework: str | None) -> Member:
        assert member.recording is not None
        changed = msgspec.structs.replace(member.recording, workload=workload, framework=framework)
        return msgspec.structs.replace(member, recording=changed)

    found = totals.joint_recording(
        [said(own[0], "start-up", "ddp"), said(own[1], "training", "ddp"), said(own[2], "training", None)]
    )
    assert found is not None
    assert (found.workload, found.framework) == ("training", None), "most ranks train; no framework is all ranks'"
    agreed = totals.joint_recording([said(one, "serving", "vllm") for one in own])
    assert agreed is not None
    assert (agreed.workload, agreed.framework, agreed.steps_from) == ("serving", "vllm", "ProfilerStep")


def test_idle_time_has_the_causes_of_all_ranks() -> None:
    found = recording(join(together(), "run")).typical
    assert found is not None
    idle = sum(row.ns_per_step for row in found.idle)
    assert idle == pytest.approx(found.resources.step_ns - (found.resources.gpu_ns or 0))


def test_saved_reports_of_old_versions_give_the_mean_step() -> None:
    old = {rank: msgspec.structs.replace(member, recording=None) for rank, member in together().items()}
    report = join(old, "run")
    assert report.result("recording", Recording) is None
    assert report.headlines[0].resources.step_ns == (3 * 1_375_000 + 5_075_000) / 4


def graph(rank: int) -> TraceBuilder:
    """Operators end after 20 us; a graph that is launched after them runs from 100 us to 9100 us."""
    trace = TraceBuilder(distributed=distributed_info(rank, 2))
    trace.op("aten::mm", 0, 20)
    trace.launch_kernel("ampere_sgemm_128x64_nn", 100, 4000, at=30)
    trace.launch_kernel("ampere_sgemm_128x64_nn", 4100, 5000, at=40)
    return trace


def test_without_marks_the_recording_lasts_until_the_devices_are_done() -> None:
    report = join(members([graph(0), graph(1)]), "run")
    (headline,) = report.headlines
    assert headline.bound == "gpu-compute"
    assert "9.0 of the 9.1 ms of the trace" in headline.message.text
    found = report.result("ranks", Ranks)
    assert found is not None
    assert [row.mean_step_ns for row in found.ranks] == [9_100_000] * 2
    assert [row.idle_ns for row in found.ranks] == [100_000] * 2
    assert [row.computation_ns for row in found.ranks] == [9_000_000] * 2
    skipped = {entry.id: entry.reason.text for entry in report.skipped}
    assert skipped["comm-exposed"] == "no collective was found on several ranks"


def test_ranks_that_captured_graphs_are_bound_by_nothing() -> None:
    own = members([graph(0), graph(1)])
    captured = {
        rank: msgspec.structs.replace(
            member, recording=msgspec.structs.replace(member.recording, workload="graph-capture")
        )
        for rank, member in own.items()
    }
    (headline,) = join(captured, "run").headlines
    assert (headline.bound, headline.message.id) == ("capture", "headline-capture-2")


def test_hardly_any_work_of_all_ranks() -> None:
    def little(rank: int) -> TraceBuilder:
        trace = TraceBuilder(distributed=distributed_info(rank, 2))
        trace.op("aten::mm", 0, 2000)
        trace.launch_kernel("ampere_sgemm_128x64_nn", 100, 200, at=30)
        trace.launch_kernel("ampere_sgemm_128x64_nn", 400, 200, at=40)
        return trace

    (headline,) = join(members([little(0), little(1)]), "run").headlines
    assert headline.bound == "none"
    assert "4 kernels in 800 us" in headline.text


def warned(traces: Sequence[TraceBuilder]) -> dict[str, str]:
    """The texts of the report's warnings by id."""
    return {warning.id: warning.message.text for warning in join(members(traces), "run").warnings}


def test_a_step_that_takes_memory_is_left_out_on_all_ranks_and_told_once() -> None:
    """In step 3 of five each rank spends 4 ms in cudaMalloc; the other steps take 1.225 ms."""
    traces = run(2, [Meeting(lambda r, s: 1000, pause=lambda r, s: 4000 * (s == 3))], steps=5)
    for trace in traces:
        step = next(event for event in trace.events if event["name"] == "ProfilerStep#3")
        trace.launch("cudaMalloc", int(float(str(step["ts"]))) + 1, 3990)
    found = join(members(traces), "run")
    result = found.result("ranks", Ranks)
    assert result is not None
    assert [step.counts for step in result.steps] == [True, True, False, True, True]
    assert result.steps[2].reason == "allocation"
    assert result.mean_step_ns == 1_225_000
    assert (
        "Step 3 is left out on all ranks: it takes 5.2 ms instead of 1.2 ms"
        in warned(traces)["q-ranks-step-allocation"]
    )


def test_a_long_wait_in_a_step_that_is_left_out_is_told_once() -> None:
    """In step 3 of five rank 1 computes for 5 ms longer, and rank 0 waits for it in that step alone."""
    traces = run(2, [Meeting(lambda r, s: 1000 + 5000 * (s == 3 and r == 1))], steps=5)
    said = warned(traces)
    assert "Step 3 is left out on all ranks: it takes 6.2 ms, the others 1.2 ms." in said["q-ranks-step-uneven"]
    assert "rank 0 waits for the others once, for 5.0 ms (all_reduce)" in said["q-ranks-wait-once"]
    assert "comm-straggler" not in {finding.rule for finding in join(members(traces), "run").findings}


def test_steps_alike_need_no_words() -> None:
    assert not [one for one in warned(run(2, [Meeting(lambda r, s: 1000)], steps=5)) if one.startswith("q-ranks-step")]
