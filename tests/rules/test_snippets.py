"""Code that findings show runs in the program that was recorded: by kind, version and settings."""

from __future__ import annotations

import ast

import pytest

from tests.builders import TraceBuilder
from tests.builders.dialects import OLD
from tests.rules.gpu_work import MATRIX_UNITS
from tests.rules.judging import findings, functions, report, situations
from tests.structure.recording.test_longer_phase import rollouts
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.report.model import Report
from traceanalyzer.rules.engine import snippets
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.facts.sources import of_trace as facts
from traceanalyzer.rules.engine.selection import builtin

LOOP = ("optimizer", "DataLoader(", "loss", "checkpoint(", "DistributedDataParallel(", "torch.compile(")


def facts_of(whole: Report) -> Facts:
    assert whole.trace is not None
    (found,) = facts(whole.trace, whole.analyses, {})
    return found


def program(mark: str | None = None, *, graphs: bool = False, compiled: bool = False, update: bool = False) -> Facts:
    """Two steps of 1 ms of one kernel each."""
    trace = TraceBuilder()
    for number in range(2):
        start = 1000 * number
        trace.annotation(mark or f"ProfilerStep#{number}", start, 990)
        if graphs:
            trace.graph_launch(start + 10, 15, [(MATRIX_UNITS, start + 30, 900, {})])
        else:
            trace.launch_kernel(MATRIX_UNITS, start + 30, 900, at=start + 10)
        if compiled:
            trace.op("Torch-Compiled Region: 0/0", start + 5, 20)
        if update:
            trace.op("Optimizer.step#SGD.step", start + 950, 10)
    return facts_of(report(trace))


def shown(known: Facts) -> list[str]:
    """Code of all rules that would be shown."""
    return [code for rule in builtin() if (code := snippets.fitting(known, rule.code))]


def test_every_snippet_compiles() -> None:
    codes = [rule.code for rule in builtin() if rule.code]
    assert len(codes) > 30
    for code in codes:
        ast.parse(code)


def test_a_server_gets_no_code_of_a_training_loop() -> None:
    codes = shown(program("step[DECODE bs=8]"))
    assert not [code for code in codes for word in LOOP if word in code]
    assert codes, "other code fits"


def test_inference_has_no_gradients() -> None:
    codes = shown(program())
    assert not [code for code in codes for word in ("optimizer.", "loss", "checkpoint(") if word in code]
    assert [code for code in codes if "torch.compile(" in code]
    assert [code for code in shown(program(update=True)) if "loss" in code]


@pytest.mark.parametrize("kind", ["graphs", "compiled"])
def test_what_is_compiled_or_replayed_is_not_told_to_compile(kind: str) -> None:
    codes = shown(program(graphs=kind == "graphs", compiled=kind == "compiled"))
    again = [code for code in codes if "torch.compile(" in code]
    assert all("fullgraph" in code or "max-autotune" in code for code in again)
    assert "torch.compile(model, fullgraph=True)  # raises at the first graph break and names it" in codes


def test_an_evaluation_beside_a_training_gets_no_code_of_a_training_loop() -> None:
    """Most steps compute without gradients; a few updates follow."""
    loss = "loss = criterion(model(x), y)"
    assert snippets.fitting(facts_of(report(rollouts(60, 4))), loss) is None
    assert snippets.fitting(facts_of(report(rollouts(4, 30))), loss) == loss


def test_without_a_loader_or_garbage_collection_nothing_is_said_of_them() -> None:
    assert not [code for code in shown(program(update=True)) if "DataLoader(" in code or "gc." in code]


def test_an_old_torch_gets_a_version_instead_of_code_that_it_has_not() -> None:
    build = functions(situations("launch-bound-small-kernels"), "fires")["fires"]
    trace = build()
    assert isinstance(trace, TraceBuilder)
    trace.metadata["traceanalyzer"] = {"version": 1, "versions": {"torch": "1.13.1"}}
    (finding,) = findings(trace, "launch-bound-small-kernels")
    assert finding.code is None
    assert "PyTorch 2.0 or newer" in finding.advice.text
    trace.metadata["traceanalyzer"] = {"version": 1, "versions": {"torch": "2.7.0+cu126"}}
    (finding,) = findings(trace, "launch-bound-small-kernels")
    assert "torch.compile(" in (finding.code or "")


def test_old_categories_tell_an_old_torch() -> None:
    trace = TraceBuilder(OLD)
    trace.op("aten::mm", 0, 100)
    found = report(trace).trace
    assert found is not None
    assert found.torch_version == "<1.12"
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 100)
    found = report(trace).trace
    assert found is not None
    assert found.torch_version is None


def test_every_role_of_the_frameworks_is_known_here() -> None:
    """Whether a program trains and serves is told by roles; a new role needs a decision."""
    known = {"serving", "training", "inference", "parallel", "compiler", "benchmark", "runtime"}
    assert {framework.role for framework in FRAMEWORKS} <= known
