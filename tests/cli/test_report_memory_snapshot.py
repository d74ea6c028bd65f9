"""`report` takes memory snapshots in all formats and languages."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from pathlib import Path

import pytest

from tests.builders.damage import Runs
from tests.builders.memory_snapshot import FORWARD, MIB, MemoryRecorder, OutOfMemoryError
from tests.cli.running import assert_one_line, call
from tests.rules.memory.programs import Training


def exhausted() -> MemoryRecorder:
    memory = MemoryRecorder(limit=100 * MIB)
    with contextlib.suppress(OutOfMemoryError):
        for _ in range(10):
            memory.alloc(15 * MIB, FORWARD)
    return memory


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_the_headline_says_what_was_asked_and_by_which_line(form: str, tmp_path: Path) -> None:
    run = call("report", exhausted().write(tmp_path / f"snapshot.{form}", form))
    assert run.code == 0
    said = " ".join(run.out.split())
    assert "Out of memory: me/model.py:30 asked for 15 MiB; 4.0 MiB were free, 0 B reserved but unused." in said


def test_every_format_and_language(tmp_path: Path) -> None:
    file = exhausted().write(tmp_path / "snapshot.pickle")
    outputs = [tmp_path / f"report.{suffix}" for suffix in ("md", "html", "json", "xlsx", "sarif")]
    for lang, words in (("en", "Out of memory"), ("ru", "Не хватило памяти"), ("zh", "显存不足")):
        run = call("report", file, "--lang", lang, "--force", *(part for path in outputs for part in ("-o", path)))
        assert run.code == 0, run.err
        assert words in outputs[0].read_text("utf-8")
        assert words in outputs[1].read_text("utf-8")
    saved = json.loads(outputs[2].read_bytes())
    assert saved["source"]["format"] == "memory_snapshot"
    assert saved["headlines"][0]["bound"] == "memory"
    assert saved["analyses"]["memory_snapshot"]["devices"][0]["failure"]["asked_bytes"] == 15 * MIB
    again = call("render", outputs[2], "--format", "markdown", "-o", "-")
    assert "Out of memory" in again.out


def test_the_page_draws_the_curve(tmp_path: Path) -> None:
    call("report", exhausted().write(tmp_path / "snapshot.pickle"), "-o", tmp_path / "report.html")
    assert "chart-memory-gpu0" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("lang", "card", "sentence", "together"),
    [
        ("en", "less at the peak", "Lowers the peak by 24-33 MiB (39-54 %).", "would leave"),
        ("ru", "меньше на пике", "Снижает пик на 24–33 МиБ (39–54 %).", "оставили бы на пике"),
        ("zh", "峰值减少", "峰值降低 24–33 MiB（39–54%）。", "峰值将剩"),
    ],
)
def test_cards_are_worth_bytes(lang: str, card: str, sentence: str, together: str, tmp_path: Path) -> None:
    file = Training().run().write(tmp_path / "snapshot.pickle")
    text = " ".join(call("report", file, "--lang", lang).out.split())
    assert sentence in text.replace("\u00a0", " ")
    assert together in text
    call("report", file, "--lang", lang, "-o", tmp_path / "r.html", "-o", tmp_path / "r.md")
    page = (tmp_path / "r.html").read_text("utf-8")
    cards = page[page.index('class="price"') : page.index('id="finding-')]
    assert "24–33" in cards.replace("-", "–")
    assert card in cards
    table = next(line for line in (tmp_path / "r.md").read_text("utf-8").splitlines() if line.startswith("| 1 |"))
    assert table.replace("-", "–").count("24–33") == 1


@pytest.mark.parametrize(
    ("lang", "said", "unsaid"),
    [
        ("en", ("Who holds memory at the dump", "Requested at the dump"), ("peak", "From before")),
        ("ru", ("Кто держит память при снимке", "Запрошено при снимке"), ("пик",)),
        ("zh", ("转储时谁占用显存", "转储时已申请"), ("峰值",)),
    ],
)
def test_without_a_history_there_is_no_peak(
    lang: str, said: tuple[str, ...], unsaid: tuple[str, ...], tmp_path: Path
) -> None:
    """Only what is held at the dump is known, in every format."""
    memory = MemoryRecorder(ring=0)
    memory.alloc(5 * MIB)
    file, page = memory.write(tmp_path / "snapshot.pickle"), tmp_path / "report.html"
    terminal = call("report", file, "--lang", lang).out
    markdown = call("report", file, "--lang", lang, "--format", "markdown", "-o", "-").out
    call("report", file, "--lang", lang, "-o", page)
    shown = page.read_text("utf-8").partition("<script")[0].partition('id="definitions"')[0]
    for text in (terminal, markdown, shown):
        assert [words for words in said if words not in text] == []
        assert [words for words in unsaid if words in text.lower() or words in text] == []


def test_a_history_that_only_frees_has_a_peak(tmp_path: Path) -> None:
    """The level is highest before the first entry, which is no missing history."""
    memory = MemoryRecorder()
    memory.is_recording = False
    weights = [memory.alloc(40 * MIB) for _ in range(2)]
    memory.is_recording = True
    memory.free(weights.pop())
    memory.alloc(MIB)
    said = " ".join(call("report", memory.write(tmp_path / "snapshot.pickle")).out.split())
    assert "80 MiB are held at the peak" in said
    assert "no history" not in said


def test_several_devices(tmp_path: Path) -> None:
    content, other = exhausted().content(), MemoryRecorder(device=1)
    other.alloc(5 * MIB)
    both = content | {
        "segments": content["segments"] + other.content()["segments"],
        "device_traces": [content["device_traces"][0], other.content()["device_traces"][1]],
    }
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(both))
    run = call("report", file, "--format", "markdown", "-o", "-")
    assert "GPU0" in run.out
    assert "GPU1" in run.out


def test_fail_on_counts_a_failure(tmp_path: Path) -> None:
    assert call("report", exhausted().write(tmp_path / "s.pickle"), "--fail-on", "critical").code == 1


def test_a_folder_with_one_snapshot(tmp_path: Path) -> None:
    exhausted().write(tmp_path / "snapshot.pickle")
    (tmp_path / "other.pickle").write_bytes(pickle.dumps({"a": 1}))
    run = call("report", tmp_path)
    assert run.code == 0
    assert "Out of memory" in run.out


def test_a_hostile_snapshot_is_one_line_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps({"segments": Runs(os.system, "touch hacked")}))
    run = call("report", file)
    assert run.code == 2
    assert_one_line(run)
    assert not (tmp_path / "hacked").exists()


def test_batch_reports_on_snapshots(tmp_path: Path) -> None:
    exhausted().write(tmp_path / "snapshot.pickle")
    run = call("batch", tmp_path, "-o", tmp_path / "reports")
    assert run.code == 0, run.err
    assert (tmp_path / "reports" / "snapshot.pickle.report.html").exists()
    index = (tmp_path / "reports" / "index.md").read_text("utf-8")
    assert "| Peak of memory |" in index
    assert "| 90.00 MiB |" in index
    assert ",94371840," in (tmp_path / "reports" / "summary.csv").read_text("utf-8")


@pytest.mark.parametrize("command", ["whatif", "export", "ranks"])
def test_commands_that_need_events_say_so(command: str, tmp_path: Path) -> None:
    file = exhausted().write(tmp_path / "snapshot.pickle")
    arguments: dict[str, tuple[str | Path, ...]] = {
        "whatif": (file, "--speedup", "kernel:x=2"),
        "export": (file, "-o", tmp_path / "x.collapsed"),
        "ranks": (file,),
    }
    run = call(command, *arguments[command])
    assert run.code == 2
    assert_one_line(run)
    assert "memory snapshot" in run.err


def test_recordings_of_others(corpus: Path) -> None:
    files = sorted((corpus / "field" / "memory").glob("*.pickle"))
    assert files
    for file in files:
        run = call("report", file)
        assert run.code == 0
        assert "held at the" in run.out
