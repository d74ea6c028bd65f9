"""Tests of the rule `optimizer-expensive`: numbers worked out by hand.

The programs: a step of work on the host, followed by an optimizer.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.host_work import Body, compute, looping
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table
from tests.rules.optimizer import test_optimizer_not_fused as optimizer_not_fused


def model(host_us: int, *, name: str = "Optimizer.step#Shampoo.step", busy_us: int = 0) -> TraceBuilder:
    """A product of 1000 us that is waited for, then an optimizer that launches one kernel of `busy_us` first."""

    def body(host: Host, stream: Stream, _: int) -> None:
        compute(host, stream, 1000)
        host.wait(stream)
        with host.annotation(name, 0, 0):
            with host.op("aten::linalg_eigh", 5, 5):
                host.launch(Work("void syevd_kernel<float>", 10 + busy_us), stream)
            host.work(host_us - 20)
            compute(host, stream, 10)

    return looping(_with_wait(body))


def _with_wait(body: Body) -> Body:
    def waiting(host: Host, stream: Stream, number: int) -> None:
        body(host, stream, number)
        host.wait(stream)

    return waiting


def fires() -> TraceBuilder:
    """Preconditioners are computed on the host in each step."""
    return model(1000)


def on_lists(passes: int, operator: str = "aten::_foreach_addcmul_") -> TraceBuilder:
    """Products of 10 ms, then an update of so many passes of 500 us over all parameters."""

    def body(host: Host, stream: Stream, _: int) -> None:
        compute(host, stream, 10_000)
        with host.annotation("Optimizer.step#AdamW.step", 0, 0):
            for _ in range(passes):
                with host.op(operator, 5, 5):
                    host.launch(Work("multi_tensor_apply_kernel<Adam>", 500), stream)

    return looping(_with_wait(body))


def fires_on_lists() -> TraceBuilder:
    """Operators on lists pass over all parameters eight times."""
    return on_lists(8)


def quiet_fused_on_lists() -> TraceBuilder:
    """The fused form, of a large model."""
    return on_lists(8, "aten::_fused_adamw_")


def quiet() -> TraceBuilder:
    """The optimizer takes little."""
    return model(60)


def trap_hidden_by_the_device() -> TraceBuilder:
    """The device works all the while."""
    return model(1000, busy_us=2000)


RULE = "optimizer-expensive"


def test_preconditioners_are_computed_less_often() -> None:
    (finding,) = findings(fires(), RULE)
    assert "ten or hundred steps" in finding.advice.text
    assert (finding.severity, finding.saving, finding.code) == ("low", None, None)


def test_others_have_a_fused_form() -> None:
    (finding,) = findings(model(1000, name="Optimizer.step#AdamW.step"), RULE)
    assert "fused" in finding.advice.text
    assert "fused=True" in (finding.code or "")


def test_a_loop_over_parameters_is_told_by_its_own_rule() -> None:
    assert findings(optimizer_not_fused.fires(), RULE) == []
    assert findings(optimizer_not_fused.fires_on_a_cpu(), RULE) == []
    assert findings(optimizer_not_fused.fires_on_few_huge_parameters_on_a_cpu(), RULE) == []
    assert findings(optimizer_not_fused.trap_few_long_calls_on_a_cpu(), RULE)


def test_a_table_does_not_tell() -> None:
    assert "hides" in (skipped(fires_in_a_table(), RULE) or "")


def on_the_cpu(update_us: int = 300) -> TraceBuilder:
    """A product of 1000 us that is waited for, then ten updates on the CPU, of `update_us` each."""

    def body(host: Host, stream: Stream, _: int) -> None:
        compute(host, stream, 1000)
        host.wait(stream)
        with host.annotation("Optimizer.step#Adam.step", 0, 0):
            for _ in range(10):
                host.leaf("aten::addcdiv_", update_us)

    return looping(_with_wait(body))


def fires_on_the_cpu() -> TraceBuilder:
    """The parameters are on the CPU, although the GPU computes the rest."""
    return on_the_cpu()


def test_an_optimizer_on_the_cpu_moves_to_the_gpu() -> None:
    """Ten updates of 300 us: at most all, at least four fifths of it."""
    (finding,) = findings(fires_on_the_cpu(), RULE)
    assert "its parameters are on the CPU" in finding.summary.text
    assert "Keep the parameters and the state" in finding.advice.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((2_400_000, 3_000_000), rel=0.02)
    assert finding.saving.wall_ns_per_step[1] > 2_900_000
    assert (finding.severity, finding.code) == ("critical", None)
    rules = {each.rule for each in report(fires_on_the_cpu()).findings}
    assert not rules & {"operators-on-cpu", "host-python-gap", "gpu-underutilized"}


def in_a_cpu_program(update_us: int, name: str = "NAdam", products: int = 0) -> TraceBuilder:
    """Steps of 1000 us on a CPU, of which one call of an optimizer takes a part, with so many products of matrices."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(4):
        with host.annotation(f"ProfilerStep#{number}", 0, 0):
            host.leaf("aten::mkldnn_convolution", 1000 - update_us)
            with host.annotation(f"Optimizer.step#{name}.step", 0, 0):
                for _ in range(products):
                    host.leaf("aten::mm", update_us // (products + 1))
                host.leaf("aten::addcdiv_", update_us - products * (update_us // (products + 1)))
    return finish(trace)


def quiet_on_a_cpu() -> TraceBuilder:
    """A third of a step on a CPU is nothing unusual, and nobody measured what a fused form would save of it."""
    return in_a_cpu_program(300)


def fires_on_a_cpu() -> TraceBuilder:
    """Six tenths are."""
    return in_a_cpu_program(600)


def fires_with_preconditioners_on_a_cpu() -> TraceBuilder:
    """A third of a step is worth a word where the matrices of Shampoo need not be new each time."""
    return in_a_cpu_program(300, "Shampoo")


def test_operators_on_lists_pass_over_the_parameters_more_often_than_the_fused_form() -> None:
    (finding,) = findings(fires_on_lists(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.3 * 4e6, 0.65 * 4e6))
    assert finding.saving.resource == "gpu"
    assert "fused=True" in (finding.code or "")


@pytest.mark.parametrize(("passes", "found"), [(2, 0), (3, 1)])
def test_edge_gpu_share(passes: int, found: int) -> None:
    """One or one and a half of 11 or 11.5 ms."""
    assert len(findings(on_lists(passes), RULE)) == found


@pytest.mark.parametrize(("name", "products"), [("Muon", 0), ("Dion", 0), ("MyOrthogonal", 0), ("Mine", 15)])
def test_an_orthogonal_update_cannot_be_an_old_one(name: str, products: int) -> None:
    (finding,) = findings(in_a_cpu_program(300, name, products), RULE)
    assert "bf16" in finding.advice.text
    assert "hundred steps" not in finding.advice.text
    assert "ranks" not in finding.advice.text


@pytest.mark.parametrize(
    ("update_us", "name", "severity"), [(300, "Muon", "low"), (600, "Muon", "high"), (600, "NAdam", "medium")]
)
def test_severity_follows_the_part_of_the_step(update_us: int, name: str, severity: str) -> None:
    """Half of the step or more is what to look at, most of all where the method can change."""
    (finding,) = findings(in_a_cpu_program(update_us, name), RULE)
    assert finding.severity == severity


def test_an_optimizer_for_sparse_gradients_has_no_fused_form() -> None:
    (finding,) = findings(in_a_cpu_program(800, "SparseAdam"), RULE)
    assert finding.action is not None
    assert finding.action.text == "Update the used rows alone"
    assert "fused" not in finding.advice.text
    assert not finding.code
