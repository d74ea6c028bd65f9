"""`traceanalyzer ranks`: files, folders and saved reports of a run give one report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call


def write(folder: Path, names: str = "rank{}.json.gz", **how: object) -> list[Path]:
    """Four ranks of which rank 2 is late."""
    folder.mkdir(parents=True, exist_ok=True)
    traces = run(4, [Meeting(lambda rank, step: 1000 + 400 * (rank == 2))], **how)  # type: ignore[arg-type]
    return [trace.write(folder / names.format(rank)) for rank, trace in enumerate(traces)]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write(folder, skew_ns={3: 250_000})
    return folder


def empty_folder(folder: Path) -> Path:
    (folder / "nothing in it").mkdir()
    return folder / "nothing in it"


def as_json(*arguments: str | Path) -> dict[str, object]:
    answer = call("ranks", *arguments, "-q", "--format", "json", "-o", "-")
    assert (answer.code, answer.err) == (0, "")
    found: dict[str, object] = json.loads(answer.stdout)
    return found


def test_a_folder_is_a_run(traces: Path) -> None:
    answer = call("ranks", traces, "--format", "markdown", "-o", "-")
    assert (answer.code, answer.err) == (0, "")
    assert "rank 2: it makes a step 400 us" in answer.out
    assert "for rank 2" in answer.out
    assert "16 of 16 collectives were matched: 16 by id or sequence number, 0 by order." in answer.out
    assert "| 3 | 250.0 us | 250.0 us | 250.0 us | 0 | 4 | `rank3.json.gz` |" in answer.out
    assert "Ranks of the run: 4" in answer.out


def test_files_are_the_same_run_in_any_order(traces: Path) -> None:
    files = sorted(traces.glob("*.gz"))
    whole = as_json(traces)
    assert as_json(*files) == as_json(*reversed(files))
    assert as_json(*files)["analyses"] == whole["analyses"]
    assert as_json(*files)["source"]["name"] == "rank0.json.gz ... rank3.json.gz"  # type: ignore[index]
    assert whole["source"]["name"] == traces.name  # type: ignore[index]


def test_saved_reports_are_as_good_as_traces(traces: Path, tmp_path: Path) -> None:
    for file in traces.glob("*.gz"):
        assert call("report", file, "-q", "-o", tmp_path / f"{file.stem}.report.json").code == 0
    (tmp_path / "notes.md").write_text("what we learned")
    answer = call("ranks", tmp_path, "-q", "--format", "json", "-o", "-")
    assert answer.err.splitlines()[0] == "Left out 1 of 5 files:"
    assert [line.startswith("- notes.md: ") for line in answer.err.splitlines()[1:]] == [True]
    saved, direct = json.loads(answer.stdout), as_json(traces)
    assert saved["analyses"] == direct["analyses"]
    assert saved["findings"] == direct["findings"]


def test_reports_beside_their_traces_do_not_count_twice(traces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    shutil.copytree(traces, folder)
    for file in traces.glob("*.gz"):
        assert call("report", file, "-q", "-o", folder / f"{file.name}.report.json").code == 0
    assert as_json(folder)["analyses"] == as_json(traces)["analyses"]


def test_the_screen_in_every_language(traces: Path) -> None:
    for lang in ("en", "ru", "zh"):
        answer = call("ranks", traces, "-q", "--lang", lang)
        assert (answer.code, answer.err) == (0, "")
        assert "400.0" in answer.out or "400,0" in answer.out


def test_missing_ranks_and_bad_files_are_told(traces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "some"
    shutil.copytree(traces, folder)
    (folder / "rank1.json.gz").write_bytes(b"")
    answer = call("ranks", folder, "--format", "markdown", "-o", "-", "-q")
    assert answer.code == 0
    assert "1 of 4 ranks has no trace here (1)" in answer.out
    heading, reason = answer.err.splitlines()
    assert heading == "Left out 1 of 4 files:"
    assert reason.startswith("- ")
    assert "rank1.json.gz" in reason


def test_what_was_left_out_is_summed_up(traces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "some"
    shutil.copytree(traces, folder)
    for number in range(9):
        (folder / f"empty{number}.json").write_bytes(b"")
    answer = call("ranks", folder, "-q")
    assert answer.code == 0
    heading, *reasons = answer.err.splitlines()
    assert heading == "Left out 9 of 13 files:"
    assert [reason.startswith("- ") for reason in reasons] == [True] * 6
    assert reasons[-1] == "- and 4 more"


def test_ranks_from_names_where_the_trace_does_not_tell(tmp_path: Path) -> None:
    for number, trace in enumerate(run(2, [Meeting(lambda rank, step: 1000 + 100 * rank)])):
        trace.distributed = None
        trace.write(tmp_path / f"worker_rank_{number}.json")
    found = as_json(tmp_path)["analyses"]["ranks"]  # type: ignore[index]
    assert [row["rank"] for row in found["ranks"]] == [0, 1]  # type: ignore[index]
    assert found["matching"]["matched"] == 8  # type: ignore[index]


def test_only_some_steps(traces: Path) -> None:
    found = as_json(traces, "--steps", "2:3")["analyses"]["ranks"]  # type: ignore[index]
    assert [step["name"] for step in found["steps"]] == ["2", "3"]  # type: ignore[index]


def test_fail_on(traces: Path) -> None:
    assert call("ranks", traces, "-q", "--fail-on", "high").code == 1
    assert call("ranks", traces, "-q", "--fail-on", "high", "--select", "comm-inefficient").code == 0


def test_files_are_written_and_not_overwritten(traces: Path, tmp_path: Path) -> None:
    page = tmp_path / "ranks.md"
    assert call("ranks", traces, "-q", "-o", page).code == 0
    assert call("ranks", traces, "-q", "-o", page).code == 0, "it is ours"
    page.write_text("somebody else's")
    assert_one_line(call("ranks", traces, "-q", "-o", page))


def test_several_runs_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", "rank{}.json")
    write(tmp_path / "b", "rank{}.json")
    line = assert_one_line(call("ranks", tmp_path, "-q"))
    assert "contains 2 runs (a/rank" in line or "contains 2 runs (a/" in line


def test_named_files_are_one_run_wherever_they_lie(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", "x{}.json"), write(tmp_path / "b", "other{}.json")
    found = as_json(first[0], second[1])["analyses"]["ranks"]  # type: ignore[index]
    assert [row["rank"] for row in found["ranks"]] == [0, 1]  # type: ignore[index]


def test_the_same_rank_twice_is_refused(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", "x{}.json"), write(tmp_path / "b", "other{}.json")
    assert "contains 2 runs" in assert_one_line(call("ranks", first[0], second[0], "-q"))


def test_what_is_no_rank(tmp_path: Path) -> None:
    line = assert_one_line(call("ranks", TRAINING, "-q"))
    assert "names no rank and has no collectives" in line
    assert "`traceanalyzer report` takes one trace" in line
    assert "no such file" in assert_one_line(call("ranks", tmp_path / "nothing", "-q"))
    alone = TraceBuilder()
    alone.collective("all_reduce", 50, 10, at=5, nelems=8)
    alone.write(tmp_path / "empty.json")
    assert "no rank is known" in assert_one_line(call("ranks", tmp_path / "empty.json", "-q"))
    assert "contains no trace (.json, .json.gz), no text" in assert_one_line(
        call("ranks", empty_folder(tmp_path), "-q")
    )


def test_steps_cannot_be_chosen_of_a_report(traces: Path, tmp_path: Path) -> None:
    file = tmp_path / "rank0.report.json"
    assert call("report", traces / "rank0.json.gz", "-q", "-o", file).code == 0
    assert "steps can only be chosen of a trace" in assert_one_line(call("ranks", file, "--steps", "1:2", "-q"))


def test_hostile_names_stay_one_line(tmp_path: Path) -> None:
    trace = TraceBuilder(distributed={"rank": 0, "world_size": 2})
    trace.step(1, 0, 100)
    file = tmp_path / "rank0\n\x1b[31m.json"
    trace.write(file)
    answer = call("ranks", file, "-q")
    assert answer.code == 0
    assert "\x1b" not in answer.out


def test_a_saved_report_that_was_changed_is_one_line(traces: Path, tmp_path: Path) -> None:
    saved = tmp_path / "changed.json"
    assert call("report", traces / "rank0.json.gz", "-q", "-o", saved).code == 0
    report = json.loads(saved.read_text())
    report["analyses"]["step_breakdown"]["steps"] = "none"
    saved.write_text(json.dumps(report))
    line = assert_one_line(call("ranks", saved, "-q"))
    assert "changed.json: was changed after it was written: " in line


def test_a_damaged_rank_is_named_wherever_it_is_joined(tmp_path: Path) -> None:
    for path in write(tmp_path / "run", "rank{}.json")[2:3]:
        path.write_bytes(path.read_bytes()[:-200])
    says = "1 of 4 files is damaged or cut off (rank 2): events of this rank are missing"
    direct = as_json(tmp_path / "run")
    saved = tmp_path / "saved"
    saved.mkdir()
    for rank in range(4):
        assert call("report", tmp_path / "run" / f"rank{rank}.json", "-q", "-o", saved / f"r{rank}.json").code == 0
    assert call("batch", tmp_path / "run", "-q", "-o", tmp_path / "out", "--format", "json").code == 0
    (joined,) = (tmp_path / "out").glob("*.all-ranks.report.json")
    for found in (direct, as_json(saved), json.loads(joined.read_bytes())):
        assert found["warnings"][0]["message"]["text"].startswith(says)  # type: ignore[index]


def test_tables_that_a_capture_leaves_beside_traces_are_no_ranks(tmp_path: Path) -> None:
    for path in write(tmp_path):
        tables = path.name.replace(".json.gz", ".key_averages.txt")
        shutil.copy(FIXTURES / "key_averages" / "torch213_cpu.txt", tmp_path / tables)
    assert call("ranks", tmp_path).err == ""
    assert "left out" not in call("diff", tmp_path, tmp_path).out
    for path in tmp_path.glob("*.gz"):
        path.unlink()
    assert "contains printed tables" in assert_one_line(call("ranks", tmp_path))
