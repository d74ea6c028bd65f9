"""Runs with a planted fault: the verdict and the ranks that it names, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analyzers.hangs.faults import (
    FAULTS,
    asleep,
    begun,
    chained,
    send_without_partner,
    slow,
    without_partner,
    wrong_order,
)
from tests.builders.flight_recorder import EVERY, FlightRun
from traceanalyzer import pipeline
from traceanalyzer.analyzers.hangs import Hangs, analyze
from traceanalyzer.inputs.opening import open_source
from traceanalyzer.readers import flight_recorder
from traceanalyzer.readers.flight_recorder import values
from traceanalyzer.sections import hangs as hangs_section
from traceanalyzer.trace.flight_recorder import FlightDump

SIZES = (2, 4, 8, 16, 64)


def dumps_of(folder: Path, named: str = "*") -> dict[int, FlightDump]:
    dumps = {}
    for file in sorted(path for path in folder.glob(named) if path.suffix != ".log"):
        with open_source(file) as source:
            dump = flight_recorder.read(source)
        assert dump.rank is not None
        dumps[dump.rank] = dump
    return dumps


def judged(run: FlightRun, folder: Path, missing: tuple[int, ...] = (), rings: dict[int, int] | None = None) -> Hangs:
    return analyze(dumps_of(run.write(folder / "dumps", missing=missing, rings=rings)))


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_planted_ranks_and_no_others(fault: str, ranks: int, tmp_path: Path) -> None:
    plant, verdict = FAULTS[fault]
    run, named = plant(ranks)
    found = judged(run, tmp_path)
    assert (found.verdict, found.ranks) == (verdict, named)


@pytest.mark.parametrize("fault", ["a rank sleeps", "a device stops", "another type", "a healthy run"])
def test_1024_ranks(fault: str, tmp_path: Path) -> None:
    plant, verdict = FAULTS[fault]
    run, named = plant(1024)
    found = judged(run, tmp_path)
    assert (found.verdict, found.ranks, found.world_size) == (verdict, named, 1024)


@pytest.mark.parametrize("ranks", [3, 8, 64])
def test_a_killed_rank_has_no_dump(ranks: int, tmp_path: Path) -> None:
    run, _ = asleep(ranks)
    found = judged(run, tmp_path, missing=(ranks - 1,))
    assert (found.verdict, found.ranks, found.without_dump) == ("no-dump", (ranks - 1,), (ranks - 1,))


def test_a_dump_that_is_missing_besides_is_not_the_cause(tmp_path: Path) -> None:
    run, named = asleep(8)
    found = judged(run, tmp_path, missing=(2, 3))
    assert (found.verdict, found.ranks, found.without_dump) == ("missing", named, (2, 3))


def test_a_healthy_run_of_which_dumps_are_missing(tmp_path: Path) -> None:
    found = judged(begun(8), tmp_path, missing=(1,))
    assert (found.verdict, found.ranks, found.without_dump) == ("none", (), (1,))


@pytest.mark.parametrize("fault", ["a rank sleeps", "a device stops", "another type", "nobody finishes"])
def test_rings_that_overlap_only_in_part(fault: str, tmp_path: Path) -> None:
    plant, verdict = FAULTS[fault]
    run, named = plant(8)
    found = judged(run, tmp_path, rings={0: 3, 4: 5, 7: 40})
    assert (found.verdict, found.ranks) == (verdict, named)


def test_a_ring_without_entries_counts_by_its_status(tmp_path: Path) -> None:
    run = begun(4)
    run.collective(absent=(3,))
    for entry in run.ranks[3].entries:
        entry.clear()
    run.ranks[3].entries.clear()
    found = judged(run, tmp_path)
    assert (found.verdict, found.ranks) == ("missing", (3,))
    assert found.per_rank[3].last is None


def test_who_waits_for_whom_and_what_they_did_last(tmp_path: Path) -> None:
    run, named = chained(4)
    found = judged(run, tmp_path)
    assert named == (3,)
    assert [(row.rank, row.role, row.waits_for) for row in found.per_rank] == [
        (0, "waits", (2,)),
        (1, "waits", (3,)),
        (2, "waits", (3,)),
        (3, "never-came", ()),
    ]
    assert found.decisive is not None
    assert found.decisive.absent == (3,)
    last = found.per_rank[2].last
    assert last is not None
    assert (last.operation, last.group, last.description, last.sequence) == ("all_reduce", "12", "TENSOR", 1006)
    assert found.timeout_ms == 600000


def test_what_ranks_called_where_they_disagree(tmp_path: Path) -> None:
    run, _ = wrong_order(4)
    found = judged(run, tmp_path)
    assert [(row.ranks, row.called.operation) for row in found.disagreements] == [
        ((1, 2, 3), "all_reduce"),
        ((0,), "broadcast"),
    ]
    two = begun(2)
    two.collective(stuck=(0, 1), other={1: {"input_sizes": [[7]]}})
    assert judged(two, tmp_path / "two").ranks == (0, 1)  # nobody can say which is right


def test_clocks_that_differ_are_no_slow_rank(tmp_path: Path) -> None:
    run = begun(4)
    for entry in run.ranks[2].entries:
        entry["time_created_ns"] += 50_000_000
        entry["time_discovered_completed_ns"] += 50_000_000
    assert judged(run, tmp_path).verdict == "none"


@pytest.mark.parametrize(("late_ns", "verdict"), [(900_000, "none"), (1_100_000, "slow")])
def test_processes_that_start_in_the_same_order_again_and_again_are_no_slow_rank(
    late_ns: int, verdict: str, tmp_path: Path
) -> None:
    """The ranks of one machine take turns on its cores, so that one may come last each time, by less than 1 ms."""
    run = FlightRun(4)
    for _ in range(30):
        run.collective(late_ns={1: late_ns})
    assert judged(run, tmp_path).verdict == verdict


def test_how_late_a_slow_rank_is(tmp_path: Path) -> None:
    run, _ = slow(4)
    late = judged(run, tmp_path).late
    assert late is not None
    assert (late.rank, late.collectives, late.last, late.late_ns, late.has_ends) == (1, 30, 30, 4_000_000, True)
    assert late.interval_ns == 4_000_000 + 2_500_000 + 10_000_000


def test_groups_of_which_members_differ_come_first(tmp_path: Path) -> None:
    run, _ = chained(4)
    groups = judged(run, tmp_path).groups
    assert [(row.group, row.last) for row in groups[:3]] == [("5", (2,)), ("6", (3,)), ("12", (3,))]
    assert groups[-1].last == ()


@pytest.mark.parametrize(
    ("name", "verdict", "ranks"), [("gpu_error_1st", "stopped", (12, 14)), ("lock_gil_1st", "missing", (9, 14))]
)
def test_both_runs_of_field(corpus: Path, name: str, verdict: str, ranks: tuple[int, ...]) -> None:
    found = analyze(dumps_of(corpus / "field" / "flight_recorder" / name))
    assert (found.verdict, found.ranks, found.dumps) == (verdict, ranks, 16)


def test_the_first_group_is_all_ranks() -> None:
    assert FlightRun(3).groups[EVERY][1] == (0, 1, 2)


def test_the_operation_is_the_one_that_waits_for_the_named_ranks_alone(tmp_path: Path) -> None:
    run = begun(4)
    run.group("8", "TENSOR", (2, 3))
    run.collective(group="8")
    run.collective(group="8", absent=(2,))
    run.collective(absent=(2, 3))
    found = judged(run, tmp_path)
    assert (found.verdict, found.ranks) == ("missing", (2,))
    assert found.decisive is not None
    assert found.decisive.called.description == "TENSOR"


def test_the_chain_of_waits_is_told() -> None:
    run, _ = chained(4)
    report = pipeline.analyze_dumps(run.dumps(), "run")
    (section,) = hangs_section.build(report, 10)
    assert section.messages[0].text == "The chain of waits: 0 > 1, 2 > 3."


def without_members(run: FlightRun) -> dict[int, FlightDump]:
    """The dumps as gloo writes them: groups have no members, and the other ones no name that people gave."""
    dumps = {}
    for rank in range(len(run.ranks)):
        if rank not in run.without:
            content = run.dump(rank) | {"pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}}}
            for entry in content["entries"]:
                name, described = entry["process_group"]
                entry["process_group"] = (name, described if name == EVERY else "undefined")
            dump = values.dump_of(content, "x", rank, 1)
            assert dump is not None
            dumps[rank] = dump
    return dumps


def of_gloo(run: FlightRun, **more: object) -> dict[int, FlightDump]:
    """The dumps as gloo writes them since torch 2.10: the last group made has members and no name."""
    dumps = {}
    for rank in range(len(run.ranks)):
        if rank not in run.without:
            every = {"": {"name": "", "desc": "", "ranks": str(list(range(len(run.ranks))))}}
            content = run.dump(rank) | {"pg_config": every} | more
            for entry in content["entries"]:
                entry["profiling_name"] = entry["profiling_name"].replace("nccl:", "gloo:")
            dump = values.dump_of(content, "x", rank, 1)
            assert dump is not None
            dumps[rank] = dump
    return dumps


def test_gloo_records_no_sends_so_that_who_has_not_come_may_wait() -> None:
    run, named = asleep(4)
    report = pipeline.analyze_dumps(of_gloo(run), "run")
    found = report.result("hangs", Hangs)
    assert found is not None
    assert (found.verdict, found.ranks, found.hides_p2p) == ("missing", named, True)
    assert report.headlines[0].message.id == "headline-hang-missing-hidden"
    (finding,) = report.findings
    assert (finding.rule, finding.confidence, finding.summary.id) == (
        "hang-rank-missing",
        "C",
        "hang-rank-missing-hidden",
    )
    report = pipeline.analyze_dumps(of_gloo(begun(4)), "run")
    assert report.headlines[0].message.id == "headline-hang-none-hidden"
    assert not report.findings


@pytest.mark.parametrize(
    ("plant", "way", "named"), [(without_partner, "recv 3<-0", 0), (send_without_partner, "send 0->3", 3)]
)
def test_a_send_or_recv_without_its_other_side(
    plant: Callable[[int], tuple[FlightRun, tuple[int, ...]]], way: str, named: int
) -> None:
    report = pipeline.analyze_dumps(plant(4)[0].dumps(), "run")
    assert report.headlines[0].message.text == (
        f"1 rank waits in {way} of default_pg (0); the other side never came: {named}."
    )
    assert report.findings[0].summary.id == "hang-rank-missing-peer"


@pytest.mark.parametrize("killed", [1, 3])
def test_the_members_of_a_group_of_gloo_say_who_has_no_dump(killed: int) -> None:
    run = begun(4)
    run.collective(absent=(killed,))
    found = analyze(of_gloo(run.killed(killed)))
    assert (found.verdict, found.ranks, found.world_size) == ("no-dump", (killed,), 4)


def test_what_communicators_say_of_aborts_and_errors() -> None:
    run, _ = asleep(4)
    state = {"0x1": {"commHash": "1", "rank": "0", "abortFlag": "1", "asyncError": "ncclSuccess", "surprise": "7"}}
    dumps = of_gloo(run, nccl_comm_state=state)
    report = pipeline.analyze_dumps(dumps, "run")
    found = report.result("hangs", Hangs)
    assert found is not None
    assert [(fault.rank, fault.what, fault.value) for fault in found.faults] == [
        (rank, "abortFlag", "1") for rank in range(4)
    ]
    assert [loss.id for loss in dumps[0].losses] == ["read-flight-state"]
    (section,) = hangs_section.build(report, 10)
    assert section.messages[0].text == (
        "The communicators of 4 ranks were aborted or failed: 0-3 (first abortFlag = 1)."
    )
    assert not analyze(of_gloo(run, nccl_comm_state={"0x1": {"abortFlag": "0"}})).faults


def test_groups_without_members() -> None:
    run, named = asleep(4)
    found = analyze(without_members(run))
    assert (found.verdict, found.ranks) == ("missing", named)
    assert [group.group for group in found.groups] == ["0"]
    run = begun(4)
    run.collective(absent=(1,))
    found = analyze(without_members(run.killed(1)))
    assert (found.verdict, found.ranks) == ("no-dump", (1,))


def test_who_belongs_to_a_group_without_members_is_unknown() -> None:
    run = begun(4)
    run.group("1", "", (0, 1, 2, 3))
    run.group("2", "", (0, 1, 2, 3))
    run.collective(group="1", absent=(2, 3))
    run.collective(group="2", absent=(0, 1))
    dumps = without_members(run)
    found = analyze(dumps)
    assert (found.verdict, found.ranks, found.waits[0].called.title) == ("unknown", (), "group 1")
    report = pipeline.analyze_dumps(dumps, "run")
    assert report.headlines[0].text == (
        "4 ranks wait, 0, 1 of them in all_reduce of group 1; the dumps name no others."
    )
    (finding,) = report.findings
    assert (finding.rule, finding.confidence, finding.summary.id) == (
        "hang-all-waiting",
        "C",
        "hang-all-waiting-unknown",
    )
