"""Forty operators, recorded and repeated on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from scripts import reproduced
from traceanalyzer.reproduction import reproduce
from traceanalyzer.trace.model import Trace

pytestmark = pytest.mark.torch

NOT_RECORDED = {
    "aten::index": "a list of tensors of which some are None is recorded as nothing",
    "aten::einsum": "texts are not recorded",
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    file = tmp_path_factory.mktemp("recorded") / "trace.json"
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    assert len(reproduced.record(torch, file)) - len(NOT_RECORDED) >= 40
    found = ta.load(file)
    assert isinstance(found, Trace)
    return found


def test_each_operator_runs_again(trace: Trace) -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    failed = {}
    for name in reproduced.operators(torch):
        text = reproduce(trace, name)
        assert text.count("\n") <= 80
        try:
            times = reproduced.run(text, 0.001)
        except SystemExit as end:
            failed[name] = str(end)
            continue
        assert times["recorded on the host"]
        assert times["reproduced on cpu"], name
    assert failed.keys() == NOT_RECORDED.keys()
    assert all("cannot run with the recorded inputs" in said for said in failed.values())


def test_variants_run(trace: Trace) -> None:
    times = reproduced.run(reproduce(trace, "aten::linear"), 0.001)
    assert times["contiguous"]
    assert times["bfloat16"]
    assert reproduced.run(reproduce(trace, "aten::conv2d"), 0.001)["channels_last"]
    assert reproduced.run(reproduce(trace, "aten::scaled_dot_product_attention"), 0.001)["fused"]


def test_a_chain_runs(trace: Trace) -> None:
    text = reproduce(trace, "aten::gelu -> aten::silu -> aten::tanh")
    assert reproduced.run(text, 0.001)["reproduced on cpu"]


def test_the_program_needs_torch_alone(trace: Trace, tmp_path: Path) -> None:
    file = tmp_path / "mm.py"
    file.write_text(reproduce(trace, "aten::mm"), "utf-8")
    done = subprocess.run([sys.executable, "-I", file], capture_output=True, text=True, check=True, timeout=120)
    labels = [line[:32].strip() for line in done.stdout.splitlines()]
    assert labels == ["recorded on the host", "reproduced on cpu", "bfloat16"]
    assert "traceanalyzer" not in {
        line.split()[1] for line in file.read_text().splitlines() if line.startswith("import")
    }
