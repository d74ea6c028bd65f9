"""Damaged and odd files give what can be saved, and say what cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.generated import in_every_layout, oversized
from tests.builders.malformed import MALFORMED, Malformed
from tests.reading import lost_events, rows_read
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.pipeline import analyze, load
from traceanalyzer.trace.model import Trace

USABLE = [file for file in MALFORMED if file.usable]
UNUSABLE = [file for file in MALFORMED if not file.usable]
ROOT = Path(__file__).parents[3]


def name_of(file: Malformed) -> str:
    return file.name


def loaded(file: Malformed, folder: Path) -> Trace:
    path = folder / file.name
    path.write_bytes(file.data)
    trace = load(path)
    assert isinstance(trace, Trace)
    return trace


@pytest.mark.parametrize("file", [*USABLE, *in_every_layout()], ids=name_of)
def test_what_can_be_saved_is_read_and_the_rest_is_counted(file: Malformed, tmp_path: Path) -> None:
    trace = loaded(file, tmp_path)
    assert rows_read(trace, "flows") == file.readable
    assert lost_events(trace) == file.lost


@pytest.mark.parametrize("file", USABLE, ids=name_of)
def test_a_report_of_it_can_be_made(file: Malformed, tmp_path: Path) -> None:
    trace = loaded(file, tmp_path)
    report = analyze(trace)
    assert report.trace is not None
    assert report.trace.events >= file.readable
    assert [(warning.id, warning.count) for warning in report.warnings][: len(trace.losses)] == [
        (loss.id, loss.count) for loss in trace.losses
    ]


@pytest.mark.parametrize("file", UNUSABLE, ids=name_of)
def test_where_nothing_can_be_saved_one_line_says_why(file: Malformed, tmp_path: Path) -> None:
    with pytest.raises(UnusableInputError) as error:
        loaded(file, tmp_path)
    text = str(error.value)
    assert text.startswith(f"{file.name}: ")
    assert "\n" not in text
    assert str(tmp_path) not in text
    assert len(text) > len(file.name) + 10


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.json", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(UnusableInputError, match=reason):
            load(path)


MEASURE = """
import json, resource, sys
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.pipeline import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    trace = load(sys.argv[1])
    rows = sum(len(t) for n, t in vars(trace).items() if hasattr(t, "start_ns") and n != "flows")
    lost = [[loss.id, loss.count, dict(loss.params)] for loss in trace.losses]
except UnusableInputError as error:
    rows, lost = 0, str(error)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([rows, lost, (after - before) * 1024]))
"""


@pytest.mark.parametrize("file", oversized(), ids=name_of)
def test_oversized_damage_stays_small_in_memory(file: Malformed, tmp_path: Path) -> None:
    path = tmp_path / file.name
    path.write_bytes(file.data)
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    rows, lost, grown = json.loads(run.stdout)
    assert rows == file.readable
    assert grown < 100e6 + 10 * len(file.data)
    if not file.usable:
        assert lost.startswith(f"{file.name}: ")
    else:
        assert sum(count for loss, count, params in lost if loss != "read-truncated" or params["bytes"]) == file.lost
