"""What watchdogs wrote into logs, in the words of each version: who waits in which operation, and who is missing."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest

from tests.builders import watchdog as text
from traceanalyzer import multirank, readers
from traceanalyzer.analyzers import hangs
from traceanalyzer.analyzers.hangs import Hangs, watchdog_logs
from traceanalyzer.inputs import sniffing
from traceanalyzer.readers.flight_recorder import watchdog
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import GroupCounters, LoggedHang

CAPTURED = Path(__file__).parents[2] / "fixtures" / "captured"
TRAINER = "[2024-11-07 02:58:01,114] INFO train.py:210 - step 18400 loss 2.114 12.1k tok/s\n" * 30


def read(written: str) -> object:
    data = (TRAINER + written).encode()
    return readers.read(Source(io.BytesIO(data), "job.log", len(data), lambda _: None))


def judged(*written: str) -> Hangs:
    found = [read(one) for one in written]
    logs = [log for log in found if isinstance(log, LoggedHang)]
    assert len(logs) == len(found)
    return hangs.analyze(watchdog_logs.dumps_of(logs))


def every(ranks: int, version: str, *, without: tuple[int, ...] = ()) -> str:
    return "".join(text.caught(rank, 77, version=version) for rank in range(ranks) if rank not in without)


@pytest.mark.parametrize("version", text.VERSIONS)
def test_one_rank_says_where_it_waits(version: str) -> None:
    found = judged(text.caught(5, 77, version=version))
    (wait,) = found.waits
    assert (wait.waiting, wait.called.operation, wait.called.shape) == ((5,), "all_reduce", "[1024]")
    assert wait.called.sequence == (77 if version in text.NUMBERED else None)
    assert (found.verdict, found.dumps, found.timeout_ms, found.is_logged) == ("all-waiting", 1, 600_000, True)


def wrapped(line: str, columns: int, *, words: bool, prefix: str = "") -> str:
    """Lines as a terminal, a viewer of logs or a logger with a width breaks them."""
    lines = []
    for each in line.split("\n"):
        parts = textwrap.wrap(each, columns, break_long_words=not words, break_on_hyphens=False) if words else []
        lines += parts or [each[at : at + columns] for at in range(0, max(len(each), 1), columns)]
    return "\n".join(prefix + part for part in lines) + "\n"


@pytest.mark.parametrize("version", text.VERSIONS)
@pytest.mark.parametrize("columns", [100, 120, 160])
@pytest.mark.parametrize("words", [True, False])
def test_lines_that_a_log_breaks(version: str, columns: int, words: bool) -> None:
    lines = [wrapped(text.caught(rank, 77, version=version), columns, words=words) for rank in (0, 1, 3)]
    found = judged("".join(lines))
    if not words and not found.waits:
        pytest.fail("nothing was read")
    assert (found.verdict, found.ranks, found.dumps) == ("no-dump", (2,), 3)
    assert {(wait.waiting, wait.called.operation) for wait in found.waits} == {((0, 1, 3), "all_reduce")}
    assert found.timeout_ms == 600_000


def test_parts_of_a_line_have_the_number_of_their_rank() -> None:
    lines = [wrapped(text.caught(rank, 77), 100, words=True, prefix=f"{rank}: ") for rank in (0, 1, 3)]
    assert judged("".join(lines)).ranks == (2,)


@pytest.mark.parametrize("version", text.VERSIONS)
def test_a_rank_without_a_line_may_be_missing(version: str) -> None:
    found = judged(every(8, version, without=(3,)))
    assert (found.verdict, found.ranks, found.waiting) == ("no-dump", (3,), 7)


@pytest.mark.parametrize("version", text.VERSIONS)
def test_the_last_rank_is_missing_if_the_log_says_how_many_there_are(version: str) -> None:
    lines = every(7, version)
    assert judged(lines).verdict == "all-waiting"
    assert judged("world_size: 8\n" + lines).ranks == (7,)


@pytest.mark.parametrize("version", text.NUMBERED)
def test_a_rank_that_did_not_finish_what_others_finished(version: str) -> None:
    found = judged(every(8, version, without=(3,)) + text.caught(3, 76, "_ALLGATHER_BASE", version=version))
    assert (found.verdict, found.ranks, found.waiting) == ("stopped", (3,), 7)
    assert found.decisive is not None
    assert (found.decisive.called.operation, found.decisive.called.sequence) == ("_all_gather_base", 76)
    assert found.per_rank[3].role == "unfinished"


@pytest.mark.parametrize("version", text.NUMBERED)
@pytest.mark.parametrize("other", [{"operation": "BROADCAST"}, {"elements": 7}])
def test_a_rank_that_called_something_else(version: str, other: dict[str, object]) -> None:
    found = judged(every(4, version, without=(1,)) + text.caught(1, 77, version=version, **other))  # type: ignore[arg-type]
    assert (found.verdict, found.ranks) == ("mismatch", (1,))


@pytest.mark.parametrize("version", text.WITH_STATUS)
def test_a_rank_that_never_came(version: str) -> None:
    found = judged(every(4, version, without=(2,)) + text.idle(2, 76, version=version))
    assert (found.verdict, found.ranks, found.waiting) == ("missing", (2,), 3)


@pytest.mark.parametrize("version", text.WITH_STATUS[1:])
def test_a_rank_that_came_when_the_limit_was_nearly_over(version: str) -> None:
    late = text.caught(2, 77, version=version, second=600, ran_ms=20_000)
    found = judged(every(4, version, without=(2,)) + late)
    assert (found.verdict, found.ranks) == ("timeout", (2,))
    assert found.near_limit is not None
    assert found.near_limit.taken_ns == 1_180_041_000_000
    assert found.since == "11-07 03:03:59"


def test_logs_of_each_rank_are_one_run() -> None:
    found = judged(*(text.caught(rank, 77) for rank in (0, 1, 3)), text.idle(2, 76))
    assert (found.verdict, found.ranks, found.world_size) == ("missing", (2,), 4)


def test_groups_are_kept_apart() -> None:
    lines = text.caught(0, 9, group=(3, "TENSOR"), completed=8) + text.caught(1, 40)
    found = read(lines)
    assert isinstance(found, LoggedHang)
    assert [(group.name, group.description) for group in found.dumps[0].groups] == [("3", "TENSOR")]
    assert found.dumps[0].counters == {"3": GroupCounters(9, 8)}
    assert found.dumps[1].groups[0].description == "default_pg"


def test_what_gloo_says() -> None:
    found = judged(text.barrier([1, 3]))
    assert (found.verdict, found.ranks, found.waits[0].waiting) == ("missing", (1, 3), (0,))
    found = judged(text.gloo(0) + text.gloo(2))
    assert (found.verdict, found.ranks, found.timeout_ms) == ("no-dump", (1,), 1_800_000)


def test_point_to_point_operations_name_no_peer() -> None:
    found = judged(text.caught(0, 5, "SEND") + text.caught(1, 5, "RECV"))
    assert [(wait.waiting, wait.called.sequence) for wait in found.waits] == [((0,), None), ((1,), None)]
    assert found.verdict == "all-waiting"


def test_a_number_before_each_line_is_the_rank() -> None:
    line = "Last enqueued NCCL work: 5, last completed NCCL work: 4\n"
    found = read(f"12: {line}")
    assert isinstance(found, LoggedHang)
    assert list(found.dumps) == [12]
    assert watchdog.read(line, "x") is None  # nobody says of which rank


@pytest.mark.parametrize(
    "damaged",
    [
        "Watchdog caught collective operation timeout: WorkNCCL(",
        "[Rank 1] Watchdog caught collective operation timeout: " + "x" * 100_000,
        "[Rank 99999999999999] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1) ran for 1 milliseconds",
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum="
        + "9" * 40
        + ") ran for 1 milliseconds",
        "[E1399 99:99:99 x] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1) ran for 1 ms",
    ],
)
def test_damaged_lines_are_no_error(damaged: str) -> None:
    found = watchdog.read(damaged, "x")
    verdict = "unread" if found is None else hangs.analyze(watchdog_logs.dumps_of([found])).verdict
    assert verdict not in {"", "none"}


def test_a_log_with_tables_is_read_for_its_tables() -> None:
    tables = (CAPTURED / "inference_flops.key_averages.txt").read_text()
    found = read(tables + "\n" + text.caught(0, 7))
    assert isinstance(found, TableDocument)
    assert [loss.id for loss in found.losses] == ["read-hang-beside"]


def test_a_folder_of_logs(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        folder = tmp_path / str(rank)
        folder.mkdir()
        (folder / "stderr.log").write_text(TRAINER * 2000 + text.caught(rank, 77))
    (tmp_path / "launcher.log").write_text(TRAINER)
    run = multirank.find([str(tmp_path)])
    assert isinstance(run, multirank.DumpedRun)
    assert len(run.logs) == 3
    report = run.report()
    assert report.source.format == "watchdog"
    found = report.result("hangs", Hangs)
    assert found is not None
    assert (found.verdict, found.ranks) == ("no-dump", (2,))


def test_a_named_log_is_a_log_of_a_hang(tmp_path: Path) -> None:
    file = tmp_path / "job.log"
    file.write_text(TRAINER + text.caught(0, 7))
    with file.open("rb") as opened:
        seen = sniffing.peek(opened, "job.log", file.stat().st_size, is_named=True)
    assert seen.kind is sniffing.FileKind.HANG_LOG
