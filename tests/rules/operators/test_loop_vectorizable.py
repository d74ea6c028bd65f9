"""Tests of the rule `loop-vectorizable`: numbers worked out by hand, and edges of thresholds.

The programs: loops over pieces of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.reading import plain
from tests.rules.cpu_work import Call, program
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped, table


def loop(host: Host, stream: Stream, turns: int, body: Sequence[str]) -> None:
    """Some turns of a few operators; the first one launches nothing."""
    for _ in range(turns):
        host.leaf(body[0], 10)
        for name in body[1:]:
            with host.op(name):
                host.launch(Work("elementwise_kernel", 2), stream)


def iterating(turns: int, body: Sequence[str] = ("aten::select", "aten::mul", "aten::add_")) -> TraceBuilder:
    """Steps with such a loop."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 1000)
        loop(host, stream, turns, body)
        host.wait(stream)

    return looping(step)


def fires() -> TraceBuilder:
    """Sixty-four rows are scaled and added one by one."""
    return iterating(64)


def fires_over_images() -> TraceBuilder:
    """Sixteen images are normalized one by one, each channel by channel, and put together again."""
    channels = ("aten::mean", "aten::sub", "aten::std", "aten::div") * 3
    return iterating(16, ("aten::unbind", *channels, "aten::stack"))


def trap_decisions() -> TraceBuilder:
    """Each value is compared with the largest so far: what is next depends on it."""
    return iterating(64, ("aten::select", "aten::gt", "aten::is_nonzero"))


def trap_farthest_points() -> TraceBuilder:
    """Each turn takes the point that is farthest from those chosen so far."""
    turn = ("aten::copy_", "aten::index", "aten::sub", "aten::pow", "aten::sum", "aten::minimum", "aten::max")
    return iterating(64, turn)


def trap_suppressed_boxes() -> TraceBuilder:
    """Each turn takes the best box that is left, and drops those that overlap it."""
    return iterating(64, ("aten::argmin", "aten::index_select", "aten::maximum", "aten::mul", "aten::masked_fill_"))


CORNERS = ("aten::select", "aten::index", "aten::select", "aten::index")
OVERLAP = ("aten::sub", "aten::clamp", "aten::sub", "aten::clamp", "aten::mul", "aten::add", "aten::div", "aten::le")


def fires_on_overlapping_boxes() -> TraceBuilder:
    """Each of 64 turns takes the best box that is left, and drops those that overlap it, corner by corner."""
    corners = (*CORNERS, "aten::max", *CORNERS, "aten::max", *CORNERS, "aten::min", *CORNERS, "aten::min")
    return iterating(64, ("aten::select", "aten::item", "aten::slice", *corners, *OVERLAP, "aten::index"))


def fires_on_spectra() -> TraceBuilder:
    """The spectrum of each of 64 frames is found by itself, and multiplied with the same filters."""
    return iterating(64, ("aten::slice", "aten::mul", "aten::fft_rfft", "aten::abs", "aten::matmul", "aten::log"))


def trap_simulation() -> TraceBuilder:
    """Each turn transforms the state forth and back, and needs that of the one before."""
    return iterating(64, ("aten::slice", "aten::fft_rfft", "aten::mul", "aten::fft_irfft", "aten::cat"))


def trap_a_model_of_many_operators() -> TraceBuilder:
    """More operators a turn than a loop over pieces has."""
    return iterating(64, ("aten::select", *("aten::relu", "aten::mul") * 10))


def fires_on_the_largest_of_rows() -> TraceBuilder:
    """The largest value of each row is found by itself."""
    return iterating(64, ("aten::select", "aten::mul", "aten::max"))


def fires_on_sums_of_clusters() -> TraceBuilder:
    """The mean of the rows of each cluster is found by itself."""
    return iterating(16, ("aten::eq", "aten::index", "aten::mean"))


def quiet() -> TraceBuilder:
    """Four pieces are taken."""
    return iterating(4)


def trap_recurrent_layer() -> TraceBuilder:
    """Each turn needs the state of the one before."""
    return iterating(64, ("aten::select", "aten::addmm", "aten::tanh"))


def trap_inside_an_operator() -> TraceBuilder:
    """An operator of PyTorch takes the pieces itself."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::batch_norm"):
            loop(host, stream, 64, ("aten::select", "aten::mul", "aten::add_"))
        host.wait(stream)

    return looping(step)


def trap_backward() -> TraceBuilder:
    """Autograd differentiates a loop piece by piece."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("autograd::engine::evaluate_function: SelectBackward0"):
            loop(host, stream, 64, ("aten::slice", "aten::add_"))
        host.wait(stream)

    return looping(step)


def trap_many_calls_in_a_table() -> str:
    """Many calls of select within a normalization, which a table cannot distinguish from a loop."""
    rows = [
        {"Name": "aten::native_batch_norm", "Self CPU": "90.000ms", "CPU total": "100.000ms", "# of Calls": 20},
        {"Name": "aten::select", "Self CPU": "10.000ms", "CPU total": "10.000ms", "# of Calls": 12_600},
    ]
    return table(rows, cpu="100.000ms")


def on_a_cpu(each: int, *, turns: int = 64) -> TraceBuilder:
    """A loop without a GPU, each turn with three operators of so many microseconds, beside 1 ms of work."""
    turn = [Call(name, each) for name in ("aten::select", "aten::mul", "aten::add_")]
    return program([Call("aten::mm", 1000), *turn * turns])


def fires_on_a_cpu() -> TraceBuilder:
    """Operators of 4 us."""
    return on_a_cpu(4)


def fires_on_large_pieces_on_a_cpu() -> TraceBuilder:
    """Operators of 100 us."""
    return on_a_cpu(100)


def copying(each: int) -> TraceBuilder:
    """Twelve layers of a cache are reordered by an index, so many microseconds each, beside 1 ms of work."""
    return program([Call("aten::mm", 1000), *[Call("aten::index_select", each)] * 12])


def fires_on_small_copies_on_a_cpu() -> TraceBuilder:
    """Copies of 15 us, most of which is their call."""
    return copying(15)


def trap_large_copies_on_a_cpu() -> TraceBuilder:
    """One call would copy the same bytes as twelve of 4 ms do."""
    return copying(4_000)


def quiet_on_a_cpu() -> TraceBuilder:
    """A loop of a few iterations."""
    return on_a_cpu(4, turns=4)


RULE = "loop-vectorizable"


def test_all_turns_but_one_go_away() -> None:
    (finding,) = findings(fires(), RULE)
    (row,) = plain(report(fires(), RULE))["repeats"]["rows"]
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high == pytest.approx(row["host_ns"] / 4 * 63 / 64)
    assert low == high / 2
    assert finding.saving.wall_ns_per_step[1] < high, "the GPU works while the loop begins"


def test_a_program_without_a_backward_pass_is_not_told_of_one() -> None:
    (forward,) = findings(fires(), RULE)
    assert "backward" not in forward.summary.text
    assert forward.saving is not None
    assert "backward" not in forward.saving.basis.text


def test_a_table_does_not_tell_who_calls() -> None:
    assert "does not show whether" in (skipped(trap_many_calls_in_a_table(), RULE) or "")


def test_edge_turns() -> None:
    assert findings(iterating(10), RULE)
    assert findings(iterating(9), RULE) == []
    assert findings(iterating(64), RULE, {"turns": 64})
    assert findings(iterating(64), RULE, {"turns": 65}) == []


def test_edge_host_share() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    share = finding.saving.direct_ns_per_step[1] / report(fires(), RULE).headlines[0].resources.step_ns
    assert findings(fires(), RULE, {"host_share": share * (1 + 1e-9)}) == []
    assert findings(fires(), RULE, {"host_share": share * (1 - 1e-9)})


def test_on_a_cpu_small_operators_cost_their_calls() -> None:
    (finding,) = findings(on_a_cpu(4), RULE)
    assert finding.saving is not None
    removed = 63 * 3 * 4_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.65 * removed, 1.1 * removed))


def test_on_a_cpu_gradients_of_small_pieces_are_added_up() -> None:
    """Twelve turns of two operators of 4 us, each with an evaluation of 5 us in the backward pass."""
    trace, engine = TraceBuilder(devices=()), 4297
    trace.step(2, 0, 1000)
    for turn in range(12):
        trace.op("aten::select", 8 * turn, 4)
        trace.op("aten::mul", 8 * turn + 4, 4, sequence=turn)
    for number, sequence in enumerate(range(11, -1, -1)):
        name = "autograd::engine::evaluate_function: MulBackward0"
        trace.op(name, 300 + 10 * number, 5, sequence=sequence, fwd_thread=1, tid=engine)
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    removed = 11 * (8_000 + 5_000)
    assert "including the backward pass" in finding.summary.text
    assert finding.saving.direct_ns_per_step == pytest.approx((removed, 1.6 * removed))


def test_on_a_cpu_large_pieces_still_have_to_be_computed() -> None:
    (finding,) = findings(on_a_cpu(100), RULE)
    assert finding.saving is not None
    removed = 63 * 3 * 100_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * removed, removed))


def test_random_numbers_are_drawn_whoever_draws_them() -> None:
    """Of twelve turns of 2,000 us, 1,890 are numbers that one call draws as well; a call of its own costs 10."""
    turn = [Call("aten::select", 5), Call("aten::normal_", 1900, within=["aten::randn"]), Call("aten::mul", 95)]
    (finding,) = findings(program([*turn * 12, Call("aten::addmm", 500)]), RULE)
    assert finding.saving is not None
    removed = 11 * 110_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * removed, removed))


def test_on_a_cpu_a_loop_that_only_copies_saves_its_calls() -> None:
    (finding,) = findings(copying(100), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((11 * 5_000, 11 * 10_000))
    assert "as many bytes" in finding.saving.basis.text


def test_sums_of_clusters_are_one_index_add() -> None:
    (finding,) = findings(fires_on_sums_of_clusters(), "loop-vectorizable")
    assert "index_add_" in finding.advice.text
    assert "index_add_" in (finding.code or "")
    assert "vmap" not in finding.advice.text


def test_a_call_of_a_library_is_named_for_boxes_and_spectra() -> None:
    (boxes,) = findings(fires_on_overlapping_boxes(), RULE)
    assert "overlap" in boxes.summary.text
    assert "batched_nms" in (boxes.code or "")
    (spectra,) = findings(fires_on_spectra(), RULE)
    assert "spectrum" in spectra.summary.text
    assert "torch.stft" in (spectra.code or "")
