"""Tests of the rule `zero-grad-fill`: numbers worked out by hand, and edges of thresholds.

The programs: gradients that are filled with zeros, or dropped.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Work
from tests.builders.training import Training
from tests.builders.values import Time
from tests.rules.judging import findings, report, skipped, table
from tests.rules.loader.test_dataloader_bound import fires as inference


def training(
    fills: int, *, each: Time = 20, steps: int = 3, graph: bool = False, adds: int = 0, kernel: Time = 0
) -> TraceBuilder:
    """Steps that fill so many gradients, then compute for a millisecond and wait.

    They add to `adds` gradients, 30 us of the host each, with a kernel of so many us if asked.
    """
    loop = Training()
    for _ in range(steps):
        with loop.iteration():
            loop.zero_grad(fills, each=each)
            if graph:
                loop.host.graph([Work("ampere_sgemm_128x64_nn", 500)] * 2, loop.stream)
            else:
                loop.backward(loop.forward())
                accumulate(loop, adds, kernel)
                loop.step()
    return loop.finish()


def accumulate(loop: Training, adds: int, kernel: Time = 0) -> None:
    """Autograd adds so many gradients to those that are there, in 30 us each, at the end of its pass."""
    if not adds:
        return
    loop.engine.now = loop.host.now
    for _ in range(adds):
        with loop.engine.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 0, 0):
            if kernel:
                with loop.engine.op("aten::add_", 20, 5):
                    loop.engine.launch(Work("void at::native::vectorized_elementwise_kernel", kernel), loop.stream)
            else:
                loop.engine.leaf("aten::add_", 30)
    loop.host.now = loop.engine.now


def fires() -> TraceBuilder:
    """100 fills, 25 us of host time each, and the GPU has nothing else to do."""
    return training(100)


def fires_in_a_table() -> str:
    """zero_grad calls operators that take a tenth of the host time."""
    return printed(inside="100.000ms", fills=1610)


def quiet() -> TraceBuilder:
    """Gradients are dropped, so the range contains no operator."""
    return training(0)


def quiet_in_a_table() -> str:
    """zero_grad takes time, but calls nothing that fills."""
    return printed(inside="0.000us", fills=0)


def trap_fills_elsewhere() -> TraceBuilder:
    """Memory is filled a hundred times, but not by zero_grad."""
    loop = Training()
    with loop.iteration():
        loop.zero_grad(0)
        for _ in range(100):
            with loop.host.op("aten::zero_"):
                loop.host.fill(4, loop.stream)
        loop.backward(loop.forward())
        loop.step()
    return loop.finish()


def trap_gpu_projection() -> TraceBuilder:
    """The range lies on the stream too, which must not make it a range of the host."""
    trace = training(0)
    trace.gpu_annotation("Optimizer.zero_grad#SGD.zero_grad", 100, 900, external_id=9)
    return trace


def trap_graph() -> TraceBuilder:
    """A captured graph needs gradients that stay where they are."""
    return training(100, graph=True)


def printed(*, inside: str, fills: int) -> str:
    """A table of ten steps."""

    def row(name: str, own: str, total: str, calls: int) -> dict[str, object]:
        return {"Name": name, "Self CPU": own, "CPU total": total, "# of Calls": calls}

    whole = {"100.000ms": "110.000ms"}.get(inside, "10.000ms")
    rows = [
        row("Optimizer.zero_grad#SGD.zero_grad", "10.000ms", whole, 10),
        row("aten::mm", "890.000ms", "890.000ms", 100),
    ]
    rows += [row("aten::zero_", inside, inside, fills)] if fills else []
    return table([*rows, row("ProfilerStep*", "0.000us", "1.000s", 10)], cpu="1.000s")


def on_a_cpu(fills: int, *, adds: bool = True) -> TraceBuilder:
    """Steps without a GPU that fill so many gradients, and add to three of them in 30 us each."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(3):
        with loop.iteration():
            loop.zero_grad(fills, each=20)
            numbers = loop.forward()
            loop.backward(numbers)
            accumulate(loop, 3 if adds else 0)
            loop.step()
    return loop.finish()


def fires_on_a_cpu() -> TraceBuilder:
    """A printed table with 100 fills."""
    return on_a_cpu(100)


def quiet_on_a_cpu() -> TraceBuilder:
    """Gradients are dropped."""
    return on_a_cpu(0)


RULE = "zero-grad-fill"
CALL = 2_903_000
"""100 fills of 2 + 20 + 5 + 1 + 1 us, and 3 us of the range."""


def test_scores_what_the_gpu_waits_not_what_it_fills() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.8 * CALL, CALL))
    low, high = finding.saving.wall_ns_per_step
    # the GPU waits for each launch, and has nothing of the fills to do: only its gap before each of them is left
    assert high == pytest.approx(CALL - 100 * 900, rel=0.03)
    assert low == pytest.approx(0.8 * CALL, rel=0.03), "without residuals launches take their usual time"
    assert finding.summary.params["fills"] == 100


def test_half_of_adding_to_the_zeros_may_go_away_as_well() -> None:
    (finding,) = findings(training(100, adds=40), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.8 * CALL, CALL + 0.5 * 40 * 30_000))
    assert finding.summary.params["host"] == pytest.approx(CALL), "the additions are no part of the calls"


def test_additions_that_take_the_gpu_longer_than_the_host_go_away_with_the_zeros() -> None:
    """Twenty fills of 2 us and twenty additions of 100 us on the GPU: with the fills, half to all of the additions."""
    (finding,) = findings(training(20, adds=20, kernel=100), RULE)
    assert "without zeros there is nothing to add to" in finding.summary.text
    assert finding.summary.params["added"] == pytest.approx(2_000_000, rel=0.02)
    assert finding.summary.params["cleared"] == pytest.approx(40_000, rel=0.02)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] > 2_000_000
    assert finding.saving.wall_ns_per_step[0] > 1_000_000


def test_costs_nothing_while_the_gpu_is_busy() -> None:
    (finding,) = findings(hidden(), RULE)
    assert finding.latent
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] < 0.01 * report(hidden()).headlines[0].resources.step_ns


def hidden():  # type: ignore[no-untyped-def]
    """The fills follow a long forward pass that still runs when the last of them is launched."""
    from tests.builders.training import Training  # noqa: PLC0415 - of this situation only

    loop = Training()
    for _ in range(3):
        with loop.iteration():
            numbers = loop.forward(dur=5000)
            loop.zero_grad(30)
            loop.backward(numbers)
            loop.step()
    return loop.finish()


def test_a_table_tells_the_host_time_of_what_is_called() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((8_000_000, 10_000_000))


def test_without_an_optimizer_nobody_can_tell() -> None:
    assert "optimizer" in (skipped(inference(), RULE) or "")


def test_edge_host_share_in_a_table() -> None:
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.1}) == []
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.0999})


def test_what_is_dropped_is_not_filled() -> None:
    assert findings(training(0), RULE, {"host_share": 0.0}) == []


def test_on_a_cpu_adding_to_the_zeros_goes_away_as_well() -> None:
    (finding,) = findings(on_a_cpu(100), RULE)
    (without,) = findings(on_a_cpu(100, adds=False), RULE)
    assert finding.saving is not None
    assert without.saving is not None
    low, high = finding.saving.direct_ns_per_step
    host = finding.summary.params["host"]
    assert finding.summary.params["added"] == pytest.approx(3 * 30_000)
    assert (low, high) == pytest.approx((0.8 * (host + 90_000), 1.4 * (host + 90_000)))
    assert without.saving.direct_ns_per_step == pytest.approx((0.8 * host, 1.4 * host))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text
