"""Tests of the rule `attention-unfused`: numbers worked out by hand, and edges of thresholds.

The programs: attention in pieces, fused, and products that only look like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.cpu_work import AROUND, program
from tests.rules.cpu_work import Call as Operator
from tests.rules.gpu_work import gpu_alone
from tests.rules.judging import findings, skipped, table
from tests.rules.loader.test_dataloader_bound import fires as without_shapes

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_nn"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 11, false, false>"
HALF = "c10::BFloat16"

Call = tuple[str, str, Sequence[Sequence[int]], int]
"""Operator, kernel, shapes, duration in microseconds."""


def model(calls: Sequence[Call], *, layers: int = 4, kinds: Mapping[str, str | None] | str = HALF) -> TraceBuilder:
    """Steps of a model whose layers make these calls, beside a product that takes 400 us.

    Args:
        calls: Of each layer.
        layers: How many.
        kinds: Element type of all tensors, or of those of each operator or kernel; None where it is not recorded.
    """
    trace = TraceBuilder(options=("record_shapes",))
    host, stream = Host(trace, at=10), Stream()
    dense: Call = ("aten::mm", GEMM, ([4096, 1024], [1024, 4096]), 400)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for name, kernel, shapes, dur in [*calls, dense] * layers:
                kind = kinds if isinstance(kinds, str) else kinds.get(kernel, kinds.get(name, HALF))
                types = None if kind is None else [kind] * len(shapes)
                with host.op(name, shapes=[list(s) for s in shapes], types=types):
                    host.launch(Work(kernel, dur), stream)
            host.wait(stream)
    return finish(trace)


def attention(heads: int, queries: int, keys: int, depth: int, *, normal: Sequence[int] | None = None) -> list[Call]:
    """Product, scale, softmax, product; `normal`: the shape that the softmax is over, if not the scores'."""
    scores = [heads, queries, keys]
    return [
        ("aten::bmm", GEMM, ([heads, queries, depth], [heads, depth, keys]), 300),
        ("aten::mul", "void at::native::vectorized_elementwise_kernel<4, MulFunctor>", (scores, []), 200),
        ("aten::_softmax", SOFTMAX, (normal or scores, [], []), 300),
        ("aten::bmm", GEMM, (scores, [heads, keys, depth]), 200),
    ]


def alone(softmax: str, *, products: int = 4, fused: bool = False) -> TraceBuilder:
    """Layers of products, and a softmax between them; only the GPU was recorded."""
    calls: list[Call] = [("aten::mm", GEMM, ([8, 8], [8, 8]), 100)] * (products - 1)
    calls.append(("aten::_softmax", softmax, ([8, 8],), 100))
    if fused:
        calls.append(("aten::_flash_attention_forward", "flash_fwd_kernel<Flash_fwd_kernel_traits>", ([8, 8],), 100))
    return gpu_alone(model(calls))


def fires_where_only_kernels_were_recorded() -> TraceBuilder:
    """Softmax between products, and no kernel of fused attention."""
    return alone(SOFTMAX)


def fires_without_shapes() -> TraceBuilder:
    """Two batched products and what is between them; nothing was recorded of their inputs."""
    named = {"aten::mul": "aten::div"}
    trace = model([(named.get(call[0], call[0]), *call[1:]) for call in attention(16, 2048, 2048, 64)])
    for event in trace.events:
        for key in ("Input Dims", "Input type"):
            args = event.get("args")
            if isinstance(args, dict):
                args.pop(key, None)
    trace.options = ()
    return trace


def trap_softmax_beside_fused_attention() -> TraceBuilder:
    """Attention is fused; the softmax is of something else."""
    return alone(SOFTMAX, fused=True)


def trap_logarithms_of_losses() -> TraceBuilder:
    """A loss takes the logarithm."""
    return alone(SOFTMAX.replace("false, false", "true, false"))


def trap_softmax_of_routers() -> TraceBuilder:
    """With two products each, the softmax is no part of attention, which has two of its own."""
    return alone(SOFTMAX, products=2)


def fires() -> TraceBuilder:
    """Scores of 2048 by 2048 for 16 heads, in four operators of 1000 us, beside 400 us of other products."""
    return model(attention(16, 2048, 2048, 64))


def fires_with_heads_apart() -> TraceBuilder:
    """The softmax sees batch and heads as two axes."""
    return model(attention(16, 2048, 2048, 64, normal=[2, 8, 2048, 2048]))


def fires_with_weights(*, normal: Sequence[int] | None = None) -> TraceBuilder:
    """The mean over the heads follows, as in nn.MultiheadAttention with need_weights=True."""
    mean: Call = ("aten::mean", "reduce_kernel", ([2, 8, 2048, 2048], [], [], []), 100)
    return model([*attention(16, 2048, 2048, 64, normal=normal), mean])


def fires_in_a_table() -> str:
    """Rows grouped by shape."""
    return printed([16, 2048, 2048])


def quiet() -> TraceBuilder:
    """Attention as one fused operator."""
    shapes = [[2, 8, 2048, 64]] * 3
    return model([("aten::_flash_attention_forward", "flash_fwd_kernel", shapes, 300)])


def quiet_in_a_table() -> str:
    """Products without a softmax over their result."""
    return printed([16, 64, 2048])


def trap_softmax_elsewhere() -> TraceBuilder:
    """Two products like those of attention, and a softmax over something else."""
    return model(attention(16, 2048, 2048, 64, normal=[16, 64, 2048]))


def trap_small_scores() -> TraceBuilder:
    """Scores that are not larger than queries and keys, so that a fused kernel saves nothing."""
    return model(attention(8, 128, 984, 128))


def trap_decoding() -> TraceBuilder:
    """One query at a time: the scores are a row."""
    return model(attention(16, 1, 2048, 64))


def trap_classifier() -> TraceBuilder:
    """A softmax at the end of a model, without a product after it."""
    return model(attention(16, 2048, 2048, 64)[:3])


def printed(normal: list[int]) -> str:
    """A table of one second of device time, half of it in what may be attention."""

    def row(name: str, time: str, shapes: list[list[int]]) -> dict[str, object]:
        cells = {"Name": name, "Self CPU": "1.000ms", "CPU total": "1.000ms", "Self CUDA": time, "CUDA total": time}
        return {**cells, "# of Calls": 10, "Input Shapes": str(shapes)}

    rows = [
        row("aten::bmm", "150.000ms", [[16, 2048, 64], [16, 64, 2048]]),
        row("aten::_softmax", "200.000ms", [normal, [], []]),
        row("aten::bmm", "150.000ms", [[16, 2048, 2048], [16, 2048, 64]]),
        row("aten::mm", "500.000ms", [[8192, 4096], [4096, 4096]]),
    ]
    return table(rows, cpu="100.000ms", device="1.000s")


def on_a_cpu(
    *, others: tuple[int, int] = (800, 1200), products: int = 1000, dense: int = 500, within: Sequence[str] = ()
) -> TraceBuilder:
    """Attention over 512 tokens of 8 heads, beside a product as large as one of its own that takes half as long."""
    scores, left, right = [8, 512, 512], [8, 512, 64], [8, 64, 512]
    kinds = ["float", "float"]
    calls = [
        Operator("aten::bmm", products, [left, right], kinds, within),
        Operator("aten::div", others[0], [scores, []], ["float", "Scalar"], within),
        Operator("aten::_softmax", others[1], [scores, [], []], ["float", "Scalar", "Scalar"], within),
        Operator("aten::bmm", products, [scores, left], kinds, within),
        Operator("aten::mm", dense, [[512, 512], [512, 512]], kinds),
    ]
    return program(calls)


def fires_on_a_cpu() -> TraceBuilder:
    """2 ms of products, and 2 ms of operators between them."""
    return on_a_cpu()


def quiet_on_a_cpu() -> TraceBuilder:
    """Attention by the fused operator, on a CPU."""
    heads = [[1, 8, 512, 64]] * 3
    return program([Operator("aten::_scaled_dot_product_flash_attention_for_cpu", 3000, heads, ["float"] * 3)])


def trap_fused_call_on_a_cpu() -> TraceBuilder:
    """The program calls the fused operator, which takes the long way because of what it was given."""
    return on_a_cpu(within=("aten::_scaled_dot_product_attention_math",))


RULE = "attention-unfused"
FLOPS = 2 * 16 * 2048 * 2048 * 64
"""Floating-point operations of one product of the scores."""
BEST = 2 * 4096 * 1024 * 4096 / 400_000
"""Rate of the dense product in operations per nanosecond."""


def test_the_chain_less_its_products_at_the_best_rate() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    products = 4 * 2 * FLOPS / BEST
    assert high == pytest.approx(4_000_000 - products)
    assert low == pytest.approx(4_000_000 - min(2_000_000, 3 * products) - 4 * 5_000), "one fused kernel in each layer"
    assert finding.evidence[0].observed == pytest.approx(1000 / 1400)
    assert finding.evidence[0].where[0].name in ("aten::_softmax", "aten::bmm")


def test_weights_that_are_averaged_keep_the_fused_kernel_away() -> None:
    (finding,) = findings(fires_with_weights(), RULE)
    assert "need_weights=False" in finding.advice.text
    assert "need_weights=False" in (finding.code or "")
    (own,) = findings(fires_with_weights(normal=[2, 8, 2048, 2048]), RULE)
    assert "need_weights" not in own.advice.text, "the softmax of nn.MultiheadAttention is over [16, 2048, 2048]"


def test_work_that_takes_next_to_nothing_of_a_step_is_no_severe_finding() -> None:
    """Replacing it makes fewer launches, too, but what the launches cost is another finding."""
    shapes, trace = [[16, 64, 64]], TraceBuilder(options=("record_shapes",))
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        for _ in range(20):
            for name in ("aten::bmm", "aten::mul", "aten::_softmax", "aten::bmm"):
                with host.op(name, 50, 50, shapes=[*shapes * 2] if name == "aten::bmm" else shapes, types=[HALF] * 2):
                    host.launch(Work(GEMM, 1), stream)
        host.work(20_000)
        host.wait(stream)
    (finding,) = findings(finish(trace), RULE, {"score_ratio": 1})
    assert finding.saving is not None
    assert finding.saving.wall_share[1] > 0.1, "its launches"
    assert finding.saving.direct_ns_per_step[1] < 0.01 * 30_000_000
    assert finding.severity == "low"


def test_a_table_by_shape_tells_the_same() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.5)
    assert finding.saving is not None
    best = 10 * 2 * 8192 * 4096 * 4096 / 500_000_000
    least = 10 * 2 * FLOPS / best
    assert finding.saving.direct_ns_per_step == pytest.approx(
        (500_000_000 - 3 * least - 10 * 5_000, 500_000_000 - least)
    )


def least(kinds: Mapping[str, str | None] | str) -> float:
    """Lower end of the saving of attention in pieces whose tensors have these types."""
    (finding,) = findings(model(attention(16, 2048, 2048, 64), kinds=kinds), RULE)
    assert finding.saving is not None
    return finding.saving.direct_ns_per_step[0]


def test_in_single_precision_the_fused_kernel_is_slower_than_the_products() -> None:
    """The products take 2 ms, less than three times their time at the best rate."""
    assert least(HALF) == pytest.approx(4_000_000 - 2_000_000 - 4 * 5_000)
    assert least("float") == pytest.approx(4_000_000 - 1.2 * 2_000_000 - 4 * 5_000)


def test_single_precision_is_that_of_all_products_where_it_is_known() -> None:
    assert least({"aten::bmm": "float"}) == pytest.approx(least("float")), "whatever the softmax computes in"
    assert least({"aten::bmm": HALF, "aten::mul": "float", "aten::_softmax": "float"}) == pytest.approx(least(HALF))
    assert least({"aten::bmm": None}) == pytest.approx(least(HALF)), "unknown"
    assert least("c10::Half") == pytest.approx(least(HALF))


def test_products_of_two_types_are_not_of_single_precision() -> None:
    """The values are multiplied by another operator."""
    *pieces, (_, kernel, shapes, dur) = attention(16, 2048, 2048, 64)
    calls: list[Call] = [*pieces, ("aten::baddbmm", kernel, ([16, 2048, 64], *shapes), dur)]
    ends = []
    for kinds in ({"aten::bmm": "float", "aten::baddbmm": "float"}, {"aten::bmm": "float", "aten::baddbmm": HALF}):
        (finding,) = findings(model(calls, kinds=kinds), RULE)
        assert finding.saving is not None
        ends.append(finding.saving.direct_ns_per_step[0])
    assert ends == pytest.approx([least("float"), least(HALF)])


def test_in_single_precision_the_upper_end_is_the_same() -> None:
    ends = [findings(model(attention(16, 2048, 2048, 64), kinds=kinds), RULE)[0].saving for kinds in (HALF, "float")]
    half, full = (end.direct_ns_per_step[1] for end in ends if end is not None)
    assert half == full == pytest.approx(4_000_000 - 4 * 2 * FLOPS / BEST)


BACKWARD: list[Call] = [
    ("aten::_softmax_backward_data", "softmax_warp_backward", ([16, 2048, 2048], [16, 2048, 2048], [], []), 400),
    ("aten::bmm", "gemm", ([16, 64, 2048], [16, 2048, 2048]), 300),
]
"""A part of the backward pass of attention, 700 us."""


def test_the_backward_pass_counts_with_it() -> None:
    (forward,) = findings(fires(), RULE)
    (both,) = findings(model([*attention(16, 2048, 2048, 64), *BACKWARD]), RULE)
    assert both.summary.params["time"] == pytest.approx(forward.summary.params["time"] + 4 * 700_000)


def test_fused_backward_passes_compute_the_scores_again() -> None:
    """Seven products in place of six, at both ends; without a backward pass as many as in pieces."""
    (both,) = findings(model([*attention(16, 2048, 2048, 64), *BACKWARD]), RULE)
    assert both.saving is not None
    low, high = both.saving.direct_ns_per_step
    total, taken, products = 4 * 1_700_000, 4 * 800_000, 4 * 3 * FLOPS / BEST
    assert taken < 3 * products
    assert high == pytest.approx(total - 7 / 6 * products)
    assert low == pytest.approx(total - 7 / 6 * taken - 8 * 5_000), "fused kernels, forward and backward"
    (full,) = findings(model([*attention(16, 2048, 2048, 64), *BACKWARD], kinds="float"), RULE)
    assert full.saving is not None
    assert full.saving.direct_ns_per_step == pytest.approx((total - 1.2 * 7 / 6 * taken - 8 * 5_000, high))


def test_without_shapes_names_show_what_is_between_two_products() -> None:
    (finding,) = findings(fires_without_shapes(), RULE)
    assert finding.evidence[0].observed == pytest.approx(1000 / 1400)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * 2_000_000, 2_000_000)), "half of what is between"
    assert finding.confidence == "C"


def test_without_shapes_and_softmax_nobody_can_tell() -> None:
    assert "shapes" in (skipped(without_shapes(), RULE) or "")


def test_edge_score_ratio() -> None:
    assert findings(model(attention(16, 127, 512, 64)), RULE) == []
    assert findings(model(attention(16, 128, 512, 64)), RULE)


def test_on_a_cpu_what_is_no_product_and_a_part_of_the_products() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(4_000_000 / (4_500_000 + AROUND))
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.direct_ns_per_step == pytest.approx((0.4 * 2_000_000, 0.55 * 2_000_000 + 0.1 * 2_000_000))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_on_a_cpu_products_take_no_less_than_at_the_best_rate() -> None:
    """The product beside attention has as many operations as each of its two, and takes as long."""
    (finding,) = findings(on_a_cpu(others=(200, 300), products=2000, dense=2000), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(500_000), "not 0.55 * 0.5 and 0.1 * 4 ms"


def test_calls_with_the_same_shapes_count_together_whatever_their_types_are() -> None:
    """The scores are scaled twice, the second time in single precision."""
    twice = [*attention(16, 2048, 2048, 64), ("aten::mul", "MulFunctor<float>", ([16, 2048, 2048], []), 200)]
    (alike,) = findings(model(twice), "attention-unfused")
    (mixed,) = findings(model(twice, kinds={"MulFunctor<float>": "float"}), "attention-unfused")
    assert mixed.saving == alike.saving


def test_kernels_show_the_softmax_where_nothing_else_was_recorded() -> None:
    # four of 100 us in each of the passes, which waits tell apart, beside products of 300 and 400
    (finding,) = findings(fires_where_only_kernels_were_recorded(), RULE)
    assert finding.evidence[0].observed == pytest.approx(1 / 8)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 400_000), rel=0.01)
    assert finding.confidence == "C"
