"""A program of torch.compile, recorded here with its compile log, and logs that others recorded."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import traceanalyzer as ta
from traceanalyzer.analyzers.compilation import CompiledCode, of_logs
from traceanalyzer.inputs import opening
from traceanalyzer.report.model import Report
from traceanalyzer.trace.model import Trace

PROGRAM = Path(__file__).parent / "compiled_program.py"
PATIENCE_S = 300


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Report:
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    folder = tmp_path_factory.mktemp("compiled")
    environment = {**os.environ, "TORCH_TRACE": str(folder / "logs")}
    subprocess.run(
        [sys.executable, str(PROGRAM), str(folder / "trace.json")],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment,
    )
    trace = ta.load(folder / "trace.json")
    assert isinstance(trace, Trace)
    return ta.analyze(trace, compile_logs=opening.read_compile_logs([folder / "logs"]))


def compiled(report: Report) -> CompiledCode:
    found = report.result("compilation", CompiledCode)
    assert found is not None
    return found


def line_of(text: str) -> int:
    lines = PROGRAM.read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@pytest.mark.torch
def test_both_graph_breaks_are_found_with_line_and_reason(recorded: Report) -> None:
    found = compiled(recorded)
    assert found.breaks_per_step == 2.0
    places = [(Path(b.file or "").name, b.line) for b in found.breaks]
    assert set(places) == {(PROGRAM.name, line_of('print("a line")')), (PROGRAM.name, line_of("if y.sum() > 0"))}
    assert {b.reason for b in found.breaks} >= {"Data-dependent branching"}
    assert all(b.reason for b in found.breaks)


@pytest.mark.torch
def test_the_recompilation_is_in_its_step_and_has_its_reason(recorded: Report) -> None:
    again = [c for c in compiled(recorded).compilations if c.is_again and not c.is_backward and c.function == "loss_of"]
    assert [(c.step, c.compilation) for c in again] == [("5", "0/1")]
    assert "expected 8, actual 12" in again[0].reasons[0]


@pytest.mark.torch
def test_the_findings_say_it(recorded: Report) -> None:
    said = {finding.rule: finding.summary.text for finding in recorded.findings}
    assert "expected 8, actual 12" in said["compile-or-load-in-step"]


@pytest.mark.parametrize(
    ("name", "entries", "compilations", "guards"),
    [
        ("tlparse_simple.log", 22, 1, 0),
        ("tlparse_comp_failure.log", 11, 1, 0),
        ("tlparse_export_guard_added.log", 39, 0, 1),
        ("tlparse_cache_hit_miss.log.gz", 345, 6, 0),
    ],
)
def test_logs_that_others_recorded_are_read_without_loss(
    corpus: Path, name: str, entries: int, compilations: int, guards: int
) -> None:
    """Entries and starts of compilations as counted by the lines of the files."""
    (log,) = opening.read_compile_logs([corpus / "field" / "compile" / name])
    assert (log.entries, len(log.compilations), len(log.guards), log.losses) == (entries, compilations, guards, ())


def test_frames_and_breaks_of_a_log_that_somebody_edited(corpus: Path) -> None:
    """The texts of the breaks name lines 10440 and 10442; the functions that continue, stacks and graphs the others."""
    code = of_logs(opening.read_compile_logs([corpus / "field" / "second" / "comp_metrics.log"]))
    assert [(row.caller_line, row.time_ns) for row in code.compilations] == [
        (9559, 12_439_489),
        (9551, 7_198_095),
        (9553, 3_393_888),
    ]
    assert [(row.line, row.code) for row in code.logged_breaks] == [
        (9551, "torch._dynamo.graph_break()"),
        (9553, "torch._dynamo.graph_break()"),
    ]


def test_phases_and_caches_are_those_of_the_lines(corpus: Path) -> None:
    """Sums of the figures in the file, read here line by line."""
    path = corpus / "field" / "compile" / "tlparse_cache_hit_miss.log.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        lines = [line.split("] ", 1)[1] for line in stream if '{"compilation_metrics"' in line]
    figures = [json.loads(line)["compilation_metrics"] for line in lines]
    names = ("entire_frame_compile_time_s", "inductor_compile_time_s")
    wanted = [1e9 * sum(one[name] or 0 for one in figures) for name in names]
    code = of_logs(opening.read_compile_logs([path]))
    assert code.log is not None
    parts = code.log.dynamo_ns, code.log.aot_ns, code.log.inductor_ns, code.log.other_backend_ns
    assert sum(part or 0 for part in parts) == code.log.compiling_ns
    assert [code.log.compiling_ns, code.log.inductor_ns] == pytest.approx(wanted, abs=6)
    assert [(use.hits, use.misses, use.missed_ns) for use in code.caches] == [(1, 2, 6_372_999_079 + 6_500_727_742)]
    assert [row.caller_line for row in code.compilations] == [380, 395, 380, 405, 386, 414]


def test_a_failed_compilation_is_told(corpus: Path) -> None:
    (log,) = opening.read_compile_logs([corpus / "field" / "compile" / "tlparse_comp_failure.log"])
    assert [c.failure for c in log.compilations] == ["backend='broken_backend' raised: RuntimeError: broken backend"]
