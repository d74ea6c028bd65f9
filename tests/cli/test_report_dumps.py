"""`report` and `ranks` take dumps of the flight recorder: one file, a folder, in all formats and languages."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path

import pytest

from tests.builders.damage import Runs
from tests.builders.flight_recorder import FlightRun
from tests.cli.running import assert_one_line, call


def hung(ranks: int = 4) -> FlightRun:
    run = FlightRun(ranks, first=100)
    for _ in range(12):
        run.collective()
    run.collective("all_to_all", absent=(2,))
    return run


@pytest.mark.parametrize("command", ["report", "ranks"])
@pytest.mark.parametrize("form", ["torch", "pickle", "json"])
def test_a_folder_names_who_holds_up_the_run(command: str, form: str, tmp_path: Path) -> None:
    run = call(command, hung().write(tmp_path / "dumps", form=form))
    assert run.code == 0
    assert "1 rank never came to all_to_all of default_pg (0): 2; ranks that wait: 3." in run.out


def test_files_one_by_one_and_compressed(tmp_path: Path) -> None:
    folder = hung().write(tmp_path / "dumps", prefix="comm_lib_trace_rank_")
    files = sorted(folder.iterdir())
    packed = files[0].with_name(f"{files[0].name}.gz")
    packed.write_bytes(gzip.compress(files[0].read_bytes()))
    run = call("ranks", packed, *files[1:])
    assert "never came to all_to_all" in run.out


def test_one_dump_says_what_it_cannot_tell(tmp_path: Path) -> None:
    folder = hung().write(tmp_path / "dumps")
    run = call("report", folder / "nccl_trace_rank_0")
    assert "only the dumps of the other ranks show for whom" in " ".join(run.out.split())
    assert run.code == 0


def test_every_format_and_language(tmp_path: Path) -> None:
    folder = hung().write(tmp_path / "dumps")
    outputs = [tmp_path / f"report.{suffix}" for suffix in ("md", "html", "json", "xlsx", "sarif")]
    for lang, words in (("en", "never came"), ("ru", "так и не вызвал"), ("zh", "始终没有到达")):
        run = call("ranks", folder, "--lang", lang, "--force", *(part for file in outputs for part in ("-o", file)))
        assert run.code == 0, run.err
        assert words in outputs[0].read_text("utf-8")
        assert words in outputs[1].read_text("utf-8")
    saved = json.loads(outputs[2].read_bytes())
    assert saved["source"]["format"] == "flight_recorder"
    assert saved["headlines"][0]["bound"] == "hang"
    assert saved["analyses"]["hangs"]["ranks"] == [2]
    again = call("render", outputs[2], "--format", "markdown", "-o", "-")
    assert "1 rank never came to all" in again.out


def test_the_chain_of_waits_in_words(tmp_path: Path) -> None:
    run = FlightRun(4)
    run.group("5", "TENSOR", (2, 3))
    run.group("6", "DATA", (0, 2))
    run.group("7", "DATA", (1, 3))
    for group in ("5", "6", "7"):
        run.collective(group=group)
    run.collective(group="5", absent=(3,))
    run.collective(group="6", absent=(2,))
    run.collective(group="7", absent=(3,))
    lines = call("ranks", run.write(tmp_path / "dumps")).out
    assert "TENSOR: 2 wait for 3." in lines
    assert "DATA: 0, 1 wait for 2, 3." in lines


def test_fail_on_counts_a_hang(tmp_path: Path) -> None:
    folder = hung().write(tmp_path / "dumps")
    assert call("ranks", folder, "--fail-on", "critical").code == 1


def test_names_of_hosts_in_file_names_are_not_shown(tmp_path: Path) -> None:
    folder = hung().write(tmp_path / "dumps", prefix="secret-host-7_dump_")
    files = sorted(folder.iterdir())
    for run in (call("ranks", folder), call("ranks", *files), call("report", files[0])):
        assert run.code == 0
        assert "secret-host" not in run.out


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        hung().write(tmp_path / "runs" / name)
    for command in ("report", "ranks"):
        run = call(command, tmp_path / "runs")
        assert run.code == 2
        assert_one_line(run)


def test_a_hostile_dump_is_one_line_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(pickle.dumps({"pg_config": Runs(os.system, "touch hacked")}))
    for command in ("report", "ranks"):
        run = call(command, file)
        assert run.code == 2
        assert_one_line(run)
    assert not (tmp_path / "hacked").exists()


def test_a_damaged_dump_is_left_out_and_said(tmp_path: Path) -> None:
    folder = hung().write(tmp_path / "dumps")
    whole = (folder / "nccl_trace_rank_1").read_bytes()
    (folder / "nccl_trace_rank_1").write_bytes(whole[: len(whole) // 2])
    run = call("ranks", folder)
    assert run.code == 0
    assert "nccl_trace_rank_1" in run.err
    assert "never came to all_to_all of default_pg (0): 2" in run.out


@pytest.mark.parametrize("command", ["whatif", "export", "diff"])
def test_commands_that_need_events_say_so(command: str, tmp_path: Path) -> None:
    file = hung().write(tmp_path / "dumps") / "nccl_trace_rank_0"
    arguments: dict[str, tuple[str | Path, ...]] = {
        "whatif": (file, "--speedup", "kernel:x=2"),
        "export": (file, "-o", tmp_path / "x.collapsed"),
        "diff": (file, file),
    }
    run = call(command, *arguments[command])
    assert run.code == 2
    assert_one_line(run)
    assert "flight recorder" in run.err


def test_both_runs_of_field(corpus: Path) -> None:
    folder = corpus / "field" / "flight_recorder"
    assert "2 ranks never came to all_to_all" in call("ranks", folder / "lock_gil_1st").out
    assert "The devices of 2 ranks stopped: 12, 14; 14 other ranks wait." in call("ranks", folder / "gpu_error_1st").out
