"""Torch's own rules as a referee: what they find is a warning of the report, or known to be none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts import torch_referee
from tests.builders import TraceBuilder

CAUSALITY = "_check_gpu_kernel_causality"
EARLY = "GPU kernel 'gemm' (External id=1, correlation=7) starts 1.0us before its launch (External id=1, correlation=7)"
OTHER = EARLY.replace("correlation=7) starts", "correlation=6) starts")


def asked(tmp_path: Path, violations: list[tuple[str, str]], *warnings: str) -> list[str]:
    trace = TraceBuilder().write(tmp_path / "trace.json")
    report: dict[str, Any] = {"warnings": [{"id": warning} for warning in warnings]}
    return list(torch_referee.disagreements(lambda _: violations, [trace], lambda _: report))


def test_what_torch_finds_is_a_warning(tmp_path: Path) -> None:
    assert asked(tmp_path, [(CAUSALITY, EARLY)], "q-clock-anomaly") == []
    assert asked(tmp_path, [(CAUSALITY, EARLY)]) == [f"trace.json: {CAUSALITY}: no warning q-clock-anomaly"]


def test_a_kernel_of_another_launch_of_the_operator_is_not_early(tmp_path: Path) -> None:
    assert asked(tmp_path, [(CAUSALITY, OTHER)]) == []


def test_rules_without_a_warning_have_a_reason_and_new_ones_are_told(tmp_path: Path) -> None:
    assert asked(tmp_path, [(rule, "") for rule in torch_referee.UNMATCHED]) == []
    assert len(asked(tmp_path, [("_check_something_new", "")])) == 1


def test_files_that_are_no_trace_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("no", "utf-8")

    def refused(_: Path) -> list[tuple[str, str]]:
        raise ValueError

    assert list(torch_referee.disagreements(refused, [tmp_path / "no.json"], lambda _: {})) == []


@pytest.mark.torch
def test_all_rules_of_torch_are_known(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    violations = torch_referee.validator()
    assert violations is not None
    trace = TraceBuilder()
    trace.op("aten::mm", 20, 60)
    trace.launch_kernel("gemm", 5, 30, at=30)  # before its launch
    file = trace.write(tmp_path / "trace.json")
    assert {rule for rule, _ in violations(file)} == {CAUSALITY}
    assert list(torch_referee.disagreements(violations, [file], torch_referee.report_of)) == []
