"""The history of batches: one row a run, however often it is added, and the first run that got slower."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.batching.making import TABLE, batch, write
from tests.builders import TraceBuilder
from tests.cli.running import call
from traceanalyzer import output
from traceanalyzer.batching import history, summary, trends
from traceanalyzer.batching.history import HistoryRow
from traceanalyzer.errors import TraceAnalyzerError, UsageError

DAY = 86_400 * 10**9
FIRST = 1_790_000_000 * 10**9
FORMATS = [".csv", ".parquet"]


def recording(step_us: int, day: int) -> bytes:
    """Eight steps that differ a little, each with a kernel of half of it."""
    built = TraceBuilder(base_ns=FIRST + day * DAY)
    for number in range(8):
        start = number * 1000
        length = step_us + number % 3
        built.step(number, start, length)
        built.op("aten::mm", start + 5, 10)
        built.launch_kernel("ampere_sgemm_128x64_nn", start + 20, length // 2, at=start + 8)
    return built.to_bytes()


def row(name: str, day: int | None, *steps: int, **changed: object) -> HistoryRow:
    values = dict.fromkeys(HistoryRow.__struct_fields__) | {
        "name": name,
        "recorded_ns": None if day is None else FIRST + day * DAY,
        "step_ns": sum(steps) / len(steps) if steps else None,
        "step_durations_ns": steps,
        "device": "NVIDIA A100",
        "devices": 1,
        "ranks": 1,
        "version": "0",
    }
    return HistoryRow(**{**values, **changed})  # type: ignore[arg-type]


def even(name: str, day: int, step_us: int) -> HistoryRow:
    return row(name, day, *(1000 * (step_us + number % 3) for number in range(8)))


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_same_run_twice_is_one_row(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    file = tmp_path / f"steps{suffix}"
    for day, step in enumerate((400, 401, 500)):
        write(tmp_path / f"day{day}" / "train.json", recording(step, day))
        for _ in range(2):
            batch(tmp_path / f"day{day}", tmp_path / f"out{day}", history=str(file))
    rows = history.read(file)
    assert [found.name for found in rows] == ["train.json"] * 3
    assert [found.recorded_ns for found in rows] == [FIRST, FIRST + DAY, FIRST + 2 * DAY]
    assert rows[2].step_durations_ns == (500_000, 501_000, 502_000, 500_000, 501_000, 502_000, 500_000, 501_000)
    assert rows[0].busy_share == pytest.approx(0.5, abs=0.01)
    for page in trends.PAGES:
        text = (tmp_path / "out2" / page).read_text("utf-8")
        assert "2026-09-23" in text
        assert re.search(r"step is 25\W%\Wslower", re.sub("</?data[^>]*>", "", text))


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_is_written_reads_back(tmp_path: Path, suffix: str) -> None:
    rows = [
        row("=1+1", None),
        row('a, "b"\nc.json', 1, 3, 4, bound="host", framework="ddp", busy_share=0.25, saving_low_ns=1.5),
        row("ünïcode", 2, 7, device=None, devices=None),
    ]
    file = tmp_path / f"x{suffix}"
    assert history.append(file, rows) == rows
    assert history.append(file, []) == [history.read(file)[0], *rows[1:]]
    assert [found.step_durations_ns for found in history.read(file)] == [(), (3, 4), (7,)]


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.csv"
    history.append(file, [row("a", 1, 5)])
    before = file.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        history.append(file, [row("b", 2, 5)])
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    assert output.is_ours(b"<!-- traceanalyzer history ")


@pytest.mark.parametrize(
    ("name", "content"), [("x.csv", b"a,b\n1,2\n"), ("x.parquet", b"PAR1"), ("x.csv", b"\xff\xfe")], ids=repr
)
def test_a_foreign_file_is_refused_before_work(tmp_path: Path, name: str, content: bytes) -> None:
    write(tmp_path / "in" / "train.json", recording(400, 0))
    (tmp_path / name).write_bytes(content)
    run = call("batch", tmp_path / "in", "-q", "-o", tmp_path / "out", "--history", tmp_path / name)
    assert run.code == 2
    assert "is no history of this program" in run.err
    assert len(run.err.splitlines()) == 1
    assert (tmp_path / name).read_bytes() == content
    assert not (tmp_path / "out").exists()


def test_other_suffixes_and_missing_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"ends in \.parquet or \.csv"):
        history.read(tmp_path / "x.json")

    def missing(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(summary, "import_module", missing)
    with pytest.raises(TraceAnalyzerError, match=r"pip install 'torch-traceanalyzer\[history\]'"):
        history.read(tmp_path / "x.parquet")
    assert history.read(tmp_path / "x.csv") == []


def test_a_time_that_is_given(tmp_path: Path) -> None:
    write(tmp_path / "in" / "train.json", recording(400, 0).replace(b"baseTimeNanoseconds", b"other"))
    file = tmp_path / "x.csv"
    again = ["batch", tmp_path / "in", "-q", "-o", tmp_path / "out", "--jobs", "1", "--history", file]
    assert call(*again).code == 0
    assert [found.recorded_ns for found in history.read(file)] == [None]
    assert call(*again, "--recorded", "2026-11-23T08:00+01:00").code == 0
    assert [trends.when(found) for found in history.read(file)] == [None, "2026-11-23 07:00"]
    assert "is no time" in call(*again, "--recorded", "yesterday").err


def test_the_first_slower_run() -> None:
    rows = [even(f"2026-09-{day:02}/train.json", day, step) for day, step in enumerate((400, 400, 402, 460, 460, 400))]
    ((key, runs),) = trends.series(rows).items()
    assert key == ("*-*-*/train.json", "NVIDIA A100", 1)
    assert [run.verdict and run.verdict.outcome for run in runs] == [
        None,
        "no-change",
        "no-change",
        "slower",
        "no-change",
        "faster",
    ]


def test_one_slow_run_is_no_change() -> None:
    rows = [even("train.json", day, step) for day, step in enumerate((400, 400, 460, 400, 400, 600))]
    (runs,) = trends.series(rows).values()
    assert [run.is_slower for run in runs] == [False, False, False, False, False, True], "nothing follows the last one"
    assert str(runs[2].outcome) != str(runs[5].outcome)


def test_noise_and_few_steps_are_no_change() -> None:
    noisy = [row("a", day, *(1000 * (400 + (number * 37 + day * 11) % 90) for number in range(8))) for day in range(4)]
    few = [row("b", 0, 400, 401), row("b", 1, 400, 401)]
    found = trends.series([*noisy, *few])
    assert [[run.is_slower for run in runs] for runs in found.values()] == [[False] * 4, [False] * 2]


def test_other_programs_are_other_series() -> None:
    rows = [
        even("resnet50/run1.json", 0, 400),
        even("resnet18/run1.json", 1, 500),
        even("resnet50_7.json", 2, 400),
        even("resnet50_8.json", 3, 400),
        row("resnet50_9.json", 4, 1, device="NVIDIA H100"),
    ]
    assert [len(runs) for runs in trends.series(rows).values()] == [1, 1, 2, 1]
    assert {key[0] for key in trends.series(rows)} == {"resnet50/run1.json", "resnet18/run1.json", "resnet50_*.json"}


def test_a_run_without_steps_has_a_row(tmp_path: Path) -> None:
    write(tmp_path / "in" / "table.txt", TABLE.encode())
    file = tmp_path / "x.csv"
    assert call("batch", tmp_path / "in", "-q", "-o", tmp_path / "out", "--jobs", "1", "--history", file).code == 0
    assert [(found.name, found.step_durations_ns) for found in history.read(file)] == [("table.txt", ())]
    assert "table.txt" in (tmp_path / "out" / trends.MARKDOWN).read_text("utf-8")
