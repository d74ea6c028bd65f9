"""Code that rules show runs: every piece that a CPU can run is run, with the shapes of the trace where it has any."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import corpus_files
from tests.capture.capturing import PATIENCE_S, needs_torch
from tests.rules.judging import functions, report, situations
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.rules.engine.selection import builtin

NOT_ON_A_CPU = {
    "sync-device-wide",
    "h2d-pageable",
    "preprocessing-in-step",
    "fp8-eligible",
    "logits-materialized",
    "optimizer-state-large",
}
"""Rules whose code needs events of a GPU, pinned memory, or a library beside torch."""
WITH_SHAPES = ("einsum(", "(b, a)")
"""Code about two operands, whose sizes the trace has."""

Piece = tuple[str, list[list[int]] | None]


def pieces(found: Report) -> Iterator[Piece]:
    """Code of findings, with the sizes of its operands where it is about those."""
    for finding in found.findings:
        if finding.code and finding.rule not in NOT_ON_A_CPU:
            yield finding.code, _sizes(finding)


def _sizes(finding: Finding) -> list[list[int]] | None:
    if not any(part in (finding.code or "") for part in WITH_SHAPES):
        return None
    shapes = next((place.shapes for evidence in finding.evidence for place in evidence.where if place.shapes), None)
    known = [list(shape) for shape in Inputs(shapes).shapes or ()]
    return known if len(known) >= 2 else None


def failures(tried: list[Piece], folder: Path) -> dict[str, str]:
    """What failed, by code."""
    file = folder / "codes.json"
    unique = {json.dumps(piece): piece for piece in tried}
    file.write_text(json.dumps([list(piece) for piece in unique.values()]), "utf-8")
    program = Path(__file__).with_name("snippet_program.py")
    command = [sys.executable, str(program), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    failed: dict[str, str] = json.loads(done.stdout)
    return failed


@pytest.mark.torch
def test_code_of_every_rule_runs(tmp_path: Path) -> None:
    needs_torch()
    tried: list[Piece] = [(rule.code, None) for rule in builtin() if rule.code and rule.id not in NOT_ON_A_CPU]
    for rule in builtin():
        for build in functions(situations(rule.id), "fires").values():
            tried += pieces(report(build(), rule.id))
    assert len(tried) > 60
    assert any(shapes for _, shapes in tried)
    assert failures(tried, tmp_path) == {}


@pytest.mark.torch
def test_a_mistake_is_seen(tmp_path: Path) -> None:
    needs_torch()
    wrong: list[Piece] = [("y = torch.einsum('...c,...c->...', a, b)", [[2, 3], [2, 4]]), ("modle.train()", None)]
    assert len(failures(wrong, tmp_path)) == 2


@pytest.mark.torch
@pytest.mark.corpus
def test_code_for_the_corpus_runs_with_its_shapes(corpus: Path, tmp_path: Path) -> None:
    needs_torch()
    (document,) = (corpus / "documents").glob("002_*")
    tried = list(pieces(corpus_files.report_of(document)))
    assert any(shapes for _, shapes in tried)
    assert failures(tried, tmp_path) == {}
