"""Chains of kernels, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given

from tests.builders import TraceBuilder
from tests.random_traces import Plan, plans
from tests.reading import read_built
from tests.rules.kernels.test_elementwise_fusion_chain import ELEMENTWISE, GEMM, NORM, WHOLE, Call, model
from traceanalyzer.analyzers.kernels import elementwise_chains
from traceanalyzer.analyzers.kernels.elementwise_chains import Chains
from traceanalyzer.structure.context import Context

US = 1000


def analyzed(trace: TraceBuilder) -> Chains:
    return elementwise_chains.analyze(Context(read_built(trace)))


def links(calls: Sequence[Call], **options: bool) -> list[list[str]]:
    return [[link.name for link in row.links] for row in analyzed(model(calls, layers=1, **options)).rows]  # type: ignore[arg-type]


def test_repetitions_are_one_row() -> None:
    (row,) = analyzed(model(NORM, layers=5)).rows
    assert (row.caller, row.repetitions, row.kernels) == ("Norm", 15, 5)
    assert row.device_ns == 15 * 162 * US
    assert (row.least_pass_ns, row.greatest_pass_ns) == (15 * 30 * US, 15 * 50 * US), "the short kernel is no pass"
    assert row.elements == 16 * 512 * 1024
    assert [link.device_ns for link in row.links] == [15 * dur * US for dur in (40, 30, 2, 50, 40)]
    assert not row.is_saved


def test_a_product_divides_chains() -> None:
    product: Call = ("aten::mm", GEMM, WHOLE, 50)
    assert len(links([*NORM, product, *NORM])) == 1, "the same sequence twice"
    assert links([*NORM[:2], product, *NORM[2:]]) == []


def test_other_elements_divide_chains() -> None:
    other: Call = ("aten::add", ELEMENTWISE, (7, 7), 5)
    assert links([*NORM[:2], other, *NORM[3:]]) == []


def test_fills_and_small_kernels_of_products_are_no_links() -> None:
    fill: Call = ("aten::fill_", "void vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", WHOLE, 5)
    layout: Call = ("aten::cudnn_convolution", "void cudnn::nchwToNhwcKernel<float>", WHOLE, 5)
    assert links([NORM[0], fill, NORM[0], layout, NORM[0]]) == []


def test_long_chains_are_cut_in_the_result() -> None:
    (row,) = analyzed(model([("aten::mul", ELEMENTWISE, WHOLE, 10)] * 40, layers=1)).rows
    assert (row.kernels, len(row.links)) == (40, 16)


def test_missing_without_shapes() -> None:
    trace = TraceBuilder()
    trace.op("aten::mul", 0, 20)
    trace.launch_kernel(ELEMENTWISE, 30, 5, at=5)
    assert elementwise_chains.ANALYSES[0].missing(Context(read_built(trace))) is not None


@given(plans)
def test_chains_take_no_more_than_all_kernels(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    assume(elementwise_chains.ANALYSES[0].missing(context) is None)
    found = elementwise_chains.analyze(context)
    assert sum(row.device_ns for row in found.rows) <= found.device_ns <= int(context.trace.device.dur_ns.sum())


def test_more_elements_than_64_bits_count_are_no_error() -> None:
    beyond = [(name, kernel, (2**40, 2**40), dur) for name, kernel, _, dur in NORM]
    (row,) = analyzed(model(beyond, layers=1)).rows
    assert row.elements >= 2**62
