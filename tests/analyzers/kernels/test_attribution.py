"""How much of the device's time operators, modules and names explain."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer import sections
from traceanalyzer.analyzers.kernels import attribution
from traceanalyzer.analyzers.kernels.attribution import Attribution
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.pipeline import analyze
from traceanalyzer.structure.context import Context

PRODUCT = "ampere_sgemm_128x64_nn"


def built(*, eager: int, replayed: int) -> TraceBuilder:
    """A product that an operator launches, and as many products of a graph that one launches as a whole."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20)
    trace.launch_kernel(PRODUCT, 30, eager, at=5)
    trace.op("graph_runner::replay", 500, 20)
    halves = [(PRODUCT, 600, replayed // 2, {}), ("a_kernel_of_mine", 2000, replayed // 2, {})]
    trace.graph_launch(505, 5, halves)  # type: ignore[arg-type]
    return trace


def found_in(trace: TraceBuilder) -> Attribution:
    return attribution.analyze(Context(read_built(trace)))


def test_the_operator_around_a_launch_of_a_graph_explains_nothing() -> None:
    found = found_in(built(eager=100, replayed=900))
    assert (found.device_ns, found.operator_ns, found.graph_ns) == (1_000_000, 100_000, 900_000)
    assert found.operator_share == 0.1


def test_known_names_explain() -> None:
    found = found_in(built(eager=100, replayed=900))
    assert (found.class_ns, found.class_share) == (550_000, 0.55)


def test_copies_and_fills_count() -> None:
    trace = TraceBuilder()
    trace.op("aten::copy_", 0, 20)
    trace.memcpy("HtoD", 100, 30, 40, at=5)
    trace.kernel("mine", 200, 60)
    found = found_in(trace)
    assert (found.device_ns, found.operator_ns, found.class_ns) == (100_000, 40_000, 40_000)
    assert (found.operator_share, found.module_share, found.graph_ns) == (0.4, None, 0)


def test_modules_explain_what_was_launched_in_their_calls() -> None:
    trace = TraceBuilder(options=("with_stack",))
    trace.module("Linear_0", 0, 50)
    trace.op("aten::mm", 5, 20)
    trace.launch_kernel(PRODUCT, 60, 30, at=10)
    trace.op("aten::add", 55, 20)
    trace.launch_kernel("mine", 100, 10, at=60)
    found = found_in(trace)
    assert (found.module_ns, found.module_share) == (30_000, 0.75)
    assert found.operator_share == 1


def test_without_a_device_it_says_why() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    reason = attribution.ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert reason.id == "skip-attribution-no-device"


def test_nothing_has_no_share() -> None:
    trace = TraceBuilder()
    trace.kernel("mine", 0, 0)
    found = found_in(trace)
    assert (found.device_ns, found.operator_share, found.class_share) == (0, None, None)


@pytest.mark.parametrize(("eager", "is_little"), [(4 * 900, False), (4 * 900 - 2, True)])
def test_tables_that_explain_little_say_so_and_step_back(eager: int, is_little: bool) -> None:
    report = analyze(read_built(built(eager=eager, replayed=900)))
    shown = {section.id: section for section in sections.build(report, 20)}
    order = [name for name in shown if name in ("operators", "kernel-classes", "kernels")]
    said = [message.id for message in shown["operators"].messages]
    assert (order[0] == "kernel-classes") is is_little
    assert (order == ["kernel-classes", "kernels", "operators"]) is is_little
    assert (said == ["explained-by-operators-graphs"]) is is_little
    assert shown["operators"].is_detail is is_little
    assert shown["kernel-classes"].is_detail is not is_little


def test_the_shares_are_part_of_the_trace_s_quality() -> None:
    report = analyze(read_built(built(eager=100, replayed=900)))
    (trace,) = [section for section in sections.build(report, 20) if section.id == "trace"]
    facts = {ENGLISH.text(fact.label): fact.value for fact in trace.facts}
    assert facts["Device time that operators launched"] == 0.1
    assert "Device time launched for modules" not in facts  # no modules were recorded
    assert facts["Device time of a known kind of work"] == 0.55
