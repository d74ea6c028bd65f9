"""What optimizers do, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.training import Training
from tests.random_traces import Plan, plans
from tests.reading import read_built
from traceanalyzer.analyzers import optimizer
from traceanalyzer.analyzers.optimizer import OperatorCount, Optimizer
from traceanalyzer.structure.autograd import graph
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.idle_times import ended_earlier

US = 1000


def analyzed(trace: TraceBuilder) -> dict[str, Optimizer]:
    return {row.kind: row for row in optimizer.analyze(Context(read_built(trace))).rows}


def one_step(fills: int = 2, launches: int = 3) -> TraceBuilder:
    loop = Training()
    with loop.iteration():
        loop.zero_grad(fills)
        loop.backward(loop.forward())
        loop.step(launches)
    return loop.finish()


def test_launches_and_operators_by_range() -> None:
    rows = analyzed(one_step())
    assert (rows["zero_grad"].launches, rows["zero_grad"].fills) == (2, 2)
    assert rows["zero_grad"].operators == (OperatorCount("aten::fill_", 2), OperatorCount("aten::zero_", 2))
    assert rows["zero_grad"].host_ns == (2 * (2 + 20 + 5 + 1 + 1) + 3) * US
    step = rows["step"]
    assert (step.launches, step.list_operators, step.elementwise_launches) == (3, 3, 0)
    assert step.device_ns == 3 * 2 * US


def test_starves_from_the_start_of_the_call_only() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        with host.op("aten::mm"):
            host.launch(Work("gemm", 10), stream)
        host.work(1000)  # somebody else's idle time
        with host.annotation("Optimizer.zero_grad#SGD.zero_grad", 0, 0), host.op("aten::zero_", 50, 0):
            host.fill(64, stream, call_dur=5)
        host.wait(stream)
    row = analyzed(finish(trace))["zero_grad"]
    assert row.starved_ns == (50 + 5 + 4) * US, "until the fill starts, 4 us after its launch"
    assert row.exposed_ns == row.host_ns == 55 * US, "the idle time before the call does not end earlier"


def test_idle_time_after_the_call_counts_until_the_host_waits() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        with host.op("aten::mm"):
            host.launch(Work("gemm", 200), stream)
        with host.annotation("Optimizer.step#SGD.step", 0, 0), host.op("aten::add_", 100, 0):
            host.launch(Work("add", 1), stream)  # queued while the GPU works
        host.work(300)  # the GPU drains
        with host.op("aten::mm"):
            host.launch(Work("gemm", 10), stream)
        host.wait(stream)
        host.work(500)
        with host.op("aten::mm"):
            host.launch(Work("gemm", 10), stream)
        host.wait(stream)
    row = analyzed(finish(trace))["step"]
    assert row.starved_ns == 0
    assert row.exposed_ns == row.host_ns == 105 * US


def test_nothing_is_exposed_where_the_host_waits_first() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        with host.op("aten::mm"):
            host.launch(Work("gemm", 900), stream)
        with host.annotation("Optimizer.step#SGD.step", 0, 0), host.op("aten::add_", 100, 0):
            host.launch(Work("add", 1), stream)
        host.wait(stream)
        host.work(500)
        with host.op("aten::mm"):
            host.launch(Work("gemm", 10), stream)
        host.wait(stream)
    row = analyzed(finish(trace))["step"]
    assert (row.starved_ns, row.exposed_ns) == (0, 0)


def test_a_wrapping_optimizer_counts_once() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        outer, inner = (host.annotation(f"Optimizer.step#{name}.step") for name in ("Outer", "Inner"))
        with outer, inner, host.op("aten::add_"):
            host.launch(Work("add", 1), stream)
        host.wait(stream)
    (row,) = optimizer.analyze(Context(read_built(finish(trace)))).rows
    assert (row.name, row.calls, row.launches) == ("Optimizer.step#Outer.step", 1, 1)


def test_projections_on_streams_are_no_calls() -> None:
    trace = one_step()
    trace.gpu_annotation("Optimizer.step#SGD.step", 100, 50, external_id=3)
    assert analyzed(trace)["step"].calls == 1


def test_missing() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5)
    assert optimizer.ANALYSES[0].missing(Context(read_built(trace))) is not None


@pytest.mark.parametrize(("name", "starved_ms"), [("workers0_golden", 9.0), ("workers4_golden", 7.7)])
def test_resnet50_starves_in_front_of_fills(corpus: Path, name: str, starved_ms: float) -> None:
    found = optimizer.analyze(corpus_files.context_of(corpus / "corpus" / f"resnet50_v100_{name}.json.gz"))
    (row,) = (row for row in found.rows if row.kind == "zero_grad")
    assert (row.calls, row.fills) == (6, 6 * 161)
    assert row.starved_ns / row.calls / 1e6 == pytest.approx(starved_ms, abs=0.05)


def test_idle_time_that_ends_earlier_is_told_by_cause() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        with host.op("aten::mm"):
            host.launch(Work("gemm", 200), stream)
        with host.annotation("Optimizer.step#SGD.step", 0, 0), host.op("aten::add_", 100, 0):
            host.launch(Work("add", 1), stream)
        host.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5000)
        with host.op("aten::mm"):
            host.launch(Work("gemm", 10), stream)
        host.wait(stream)
    (row,) = optimizer.analyze(Context(read_built(finish(trace)))).rows
    assert row.exposed_ns == row.host_ns
    assert row.exposed[0].cause == "dataloader"
    assert row.exposed[0].time_ns > 0.95 * row.exposed_ns, "with a faster loader there is nothing to gain here"


@given(plans)
def test_no_call_exposes_more_than_it_takes(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    host = context.trace.host
    end = host.start_ns + host.dur_ns
    times = ended_earlier(context, host.start_ns, end, host.dur_ns)
    assert (times >= 0).all()
    assert (times.sum(axis=1) <= host.dur_ns).all()


def test_a_closure_is_the_program_not_the_optimizer() -> None:
    """LBFGS and PyTorch Lightning compute the loss and its gradients within the range of the optimizer's step."""
    loop = Training(gpu=False)
    with loop.iteration(), loop.host.annotation("Optimizer.step#LBFGS.step"):
        loop.backward(loop.forward())
    with loop.iteration():
        loop.backward(loop.forward())
        loop.step(3)
    trace = loop.finish()
    found = {row.name: row.closures for row in optimizer.analyze(Context(read_built(trace))).rows}
    assert found == {"Optimizer.step#LBFGS.step": 1, "Optimizer.step#SGD.step": 0}
    context = Context(read_built(trace))
    assert len(context.cached(graph).start_ns) == 6, "the operators of the forward pass in the closure count too"
