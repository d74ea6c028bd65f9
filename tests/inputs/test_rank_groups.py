"""Which files are the ranks of one run: names as torch and its users write them."""

from __future__ import annotations

import random

import pytest

from traceanalyzer.inputs.rank_groups import RankFile, RankGroup, folder_of, group


def grouped(*members: RankFile | str) -> dict[str, list[tuple[int | None, str]]]:
    """The runs of the groups, by name."""
    made = [member if isinstance(member, RankFile) else RankFile(member) for member in members]
    runs = group(made)
    shuffled = list(made)
    random.Random(1).shuffle(shuffled)
    assert group(shuffled) == runs, "the order of the files does not matter"
    assert len({run.name for run in runs}) == len(runs)
    assert sorted(name for run in runs for _, name in run.ranks) == sorted(member.name for member in made)
    return {run.name: list(run.ranks) for run in runs}


def sizes(*members: RankFile | str) -> list[int]:
    return sorted(len(ranks) for ranks in grouped(*members).values())


@pytest.mark.parametrize(
    "pattern",
    [
        "rank{}.json",
        "rank_{}.json.gz",
        "trace_rank-{}_step_10.json",
        "run/rank{}/trace.json",
        "run/rank_{}/profile/x.json",
        "trace.rank={}.json",
        "global_rank{}.json",
        "sampled_rank{}_of_128.json.gz",
        "17000.5-TP-{}.trace.json.gz",
    ],
)
def test_ranks_in_names(pattern: str) -> None:
    assert [rank for ranks in grouped(*map(pattern.format, range(12))).values() for rank, _ in ranks] == [*range(12)]
    assert len(grouped(*map(pattern.format, range(12)))) == 1


@pytest.mark.parametrize(
    "names",
    [
        ("a.json", "b.json"),
        ("step_1.json", "step_2.json"),
        ("host_1.1700000000000.pt.trace.json", "host_2.1700000000001.pt.trace.json"),
        ("train_rank0.json", "eval_rank1.json"),
        ("run1/rank0.json", "run2/rank1.json"),
        ("local_rank0.json", "local_rank1.json"),
        ("x-TP-0-DP-0.json", "x-TP-1-DP-0.json"),
        ("frank1.json", "frank2.json"),
    ],
)
def test_files_of_their_own(names: tuple[str, ...]) -> None:
    assert sizes(*names) == [1, 1]


def handler(host: str, pid: int, stamp: int, rank: int, world: int = 4) -> RankFile:
    return RankFile(f"logs/{host}_{pid}.{stamp}.pt.trace.json", rank, world)


def test_torchs_handler() -> None:
    runs = grouped(*(handler(f"node{rank // 2}", 100 + rank, 1700000000000 + rank, rank) for rank in range(4)))
    assert list(runs) == ["logs/*"]
    assert [rank for rank, _ in runs["logs/*"]] == [0, 1, 2, 3]


def test_a_schedule_that_repeats() -> None:
    """Every rank writes several files; a rank that misses one does not shift the others."""
    members = [
        handler("node", 100 + rank, 1700000000000 + 60_000 * cycle + 7 * rank, rank)
        for cycle in range(3)
        for rank in range(4)
        if (cycle, rank) != (1, 2)
    ]
    runs = grouped(*members)
    assert [len(ranks) for ranks in runs.values()] == [4, 3, 4]
    assert list(runs) == ["logs/* #1", "logs/* #2", "logs/* #3"]


def test_repeats_without_times() -> None:
    members = [RankFile(f"p/iter{step}_{rank}.json", rank, 2) for step in (2, 10) for rank in range(2)]
    runs = grouped(*members)
    assert [[name for _, name in ranks] for ranks in runs.values()] == [
        ["p/iter2_0.json", "p/iter2_1.json"],
        ["p/iter10_0.json", "p/iter10_1.json"],
    ]


def test_hosts_with_names() -> None:
    """Letters of the host differ between the ranks of one run, and are the same in two."""
    world = [RankFile(f"logs/{host}_5-rank-{rank}.170000000000{rank}.pt.trace.json.gz", rank, 4)
             for rank, host in enumerate(("amber", "amber", "birch", "birch"))]  # fmt: skip
    assert sizes(*world) == [4]
    twice = [RankFile(f"logs/{what}_rank{rank}.170000000000{rank}.pt.trace.json", rank, 2)
             for what in ("train", "eval") for rank in range(2)]  # fmt: skip
    assert sizes(*twice) == [2, 2]


def test_folders_that_are_ranks() -> None:
    assert sizes(*(RankFile(f"p/{rank}/trace.json", rank, 3) for rank in range(3))) == [3]


def test_what_the_file_says_outweighs_its_name() -> None:
    (run,) = group([RankFile("rank7.json", 1, 2), RankFile("rank8.json", 0, 2)])
    assert [rank for rank, _ in run.ranks] == [0, 1]


def test_a_world_of_one_is_alone() -> None:
    assert sizes(RankFile("a_1.json", 0, 1), RankFile("a_2.json", 0, 1)) == [1, 1]


def test_missing_ranks() -> None:
    def missing(*ranks: int, world: int) -> tuple[tuple[int, int], ...]:
        return RankGroup("x", tuple((rank, str(rank)) for rank in ranks), world).missing

    assert missing(0, 1, 2, world=3) == ()
    assert missing(1, 4, world=8) == ((0, 0), (2, 3), (5, 7))
    assert missing(0, world=10**12) == ((1, 10**12 - 1),)
    assert RankGroup("x", ((None, "x"),), None).missing == ()


def test_a_folder_at_a_time_is_enough() -> None:
    """Files of one run have the same folder, so that a batch can group folder by folder."""
    members = [RankFile(f"run/rank{rank}/x.json") for rank in range(4)] + [RankFile("run/x.json")]
    assert {folder_of(member) for member in members[:4]} == {"run/*"}
    assert folder_of(members[4]) is None


def test_the_corpus_of_one_run() -> None:
    runs = grouped(
        "sampled_rank0_of_128.json.gz", "sampled_rank1_of_128.json.gz", "ddp_rank0.json.gz", "cpu_rank34.json"
    )
    assert sorted(map(len, runs.values())) == [1, 1, 2]
