"""Tests of the rule `conv-bias-before-batchnorm`: numbers worked out by hand, and edges of thresholds.

The programs: convolutions with and without a bias, in front of norms.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, finish
from tests.rules.gpu_work import ADDITION, kernel
from tests.rules.judging import findings, report, skipped, table

CONVOLUTION = "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true, false, true>"
INFERENCE = "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(float, float)"
TRAINING = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(float)"
X, BIAS = [8, 64, 56, 56], [64]


def network(
    *,
    bias_us: int | None = 500,
    norm: str = INFERENCE,
    norm_op: str = "aten::batch_norm",
    backward: bool = False,
    swapped: bool = False,
    between: str | None = None,
    gradient_us: int = 0,
) -> TraceBuilder:
    """Three steps of a convolution (3 ms), its bias, a norm (600 us) and an activation (900 us)."""
    trace = TraceBuilder(options=("record_shapes",))
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            if swapped:
                _norm(host, stream, norm_op, norm)
            _convolution(host, stream, bias_us)
            if between:
                with host.op(between, 1, 0, shapes=[X]):
                    host.launch(kernel(ADDITION, 10), stream, call_dur=2)
            if not swapped:
                _norm(host, stream, norm_op, norm)
            with host.op("aten::relu", 1, 0, shapes=[X]):
                host.launch(kernel(ADDITION, 900), stream, call_dur=2)
            if backward:
                _backward(host, stream, gradient_us)
            host.wait(stream)
    return finish(trace)


def _convolution(host: Host, stream: Stream, bias_us: int | None) -> None:
    inputs = [X, [64, 64, 3, 3], BIAS if bias_us is not None else [], [], [], [], []]
    with host.op("aten::conv2d", 1, 0, shapes=inputs), host.op("aten::_convolution", 1, 0, shapes=inputs):
        with host.op("aten::cudnn_convolution", 1, 0, shapes=inputs[:2]):
            host.launch(kernel(CONVOLUTION, 3000), stream, call_dur=2)
        if bias_us:
            with host.op("aten::add_", 1, 0, shapes=[X, [1, 64, 1, 1], []]):
                host.launch(kernel(ADDITION, bias_us), stream, call_dur=2)


def _norm(host: Host, stream: Stream, name: str, kernel_name: str) -> None:
    if kernel_name == TRAINING:
        with host.op("aten::add_", 1, 0, shapes=[[], [], []]):  # counts the batches
            host.launch(kernel(ADDITION, 2), stream, call_dur=2)
    with host.op(name, 1, 0, shapes=[X, [64], [64]]), host.op("aten::cudnn_batch_norm", 1, 0, shapes=[X, [64]]):
        host.launch(kernel(kernel_name, 600), stream, call_dur=2)


def _backward(host: Host, stream: Stream, gradient_us: int) -> None:
    with host.op("ConvolutionBackward0", 1, 0), host.op("aten::convolution_backward", 1, 0, shapes=[X, X]):
        host.launch(kernel(CONVOLUTION, 3000), stream, call_dur=2)
        if gradient_us:
            with host.op("aten::sum", 1, 0, shapes=[X]):
                host.launch(kernel("void at::native::reduce_kernel<512, 1>", gradient_us), stream, call_dur=2)


def fires() -> TraceBuilder:
    """Adding the bias takes 0.5 of 5 ms."""
    return network()


def fires_in_training() -> TraceBuilder:
    """In training its gradient is summed up as well."""
    return network(norm=TRAINING, backward=True, gradient_us=400)


def fires_in_a_table() -> str:
    """As many convolutions as batch norms and additions."""
    return printed(additions=30)


def quiet() -> TraceBuilder:
    """The convolution has no bias."""
    return network(bias_us=None)


def trap_fused_bias() -> TraceBuilder:
    """The convolution's own kernel adds the bias."""
    return network(bias_us=0)


def trap_layer_norm() -> TraceBuilder:
    """A group norm takes the mean over several channels: the bias matters."""
    return network(norm_op="aten::group_norm")


def trap_norm_before_the_convolution() -> TraceBuilder:
    """An activation follows the convolution, and the norm comes before it."""
    return network(swapped=True)


def trap_activation_in_between() -> TraceBuilder:
    """The input of the batch norm is not the convolution's result."""
    return network(between="aten::relu")


def trap_other_additions_in_a_table() -> str:
    """Residual connections also add, so the counts show nothing."""
    return printed(additions=46)


def printed(additions: int, *, norm_kernel: str = INFERENCE, norms: int = 30, backward: bool = False) -> str:
    """A table of 100 ms on the GPU: 60 ms convolutions, 20 ms batch norms, 15 ms additions in place."""
    none = "0.000us"
    rows = [
        ("aten::cudnn_convolution", "1.000ms", "60.000ms", 30),
        ("aten::batch_norm", "1.000ms", none, norms),
        ("aten::cudnn_batch_norm", "1.000ms", "20.000ms", norms),
        ("aten::add_", "1.000ms", "15.000ms", additions),
        (norm_kernel, none, "20.000ms", norms),
    ]
    if backward:
        rows.append(("CudnnConvolutionBackward", "1.000ms", none, 30))
    cells = [
        {"Name": name, "Self CPU": cpu, "CPU total": cpu, "Self CUDA": time, "# of Calls": calls}
        for name, cpu, time, calls in rows
    ]
    return table(cells, cpu="5.000ms", device="100.000ms")


RULE = "conv-bias-before-batchnorm"


def test_the_addition_of_the_bias_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.1)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((500_000, 500_000))
    assert finding.summary.params["calls"] == 1
    assert finding.evidence[0].where[0].name == "aten::conv2d"


def test_in_training_its_gradient_goes_away_too() -> None:
    (finding,) = findings(fires_in_training(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((900_000, 900_000))


def test_a_table_tells_by_equal_counts() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.15)
    assert "do not occur equally often" in (skipped(trap_other_additions_in_a_table(), RULE) or "")


def test_folding_and_leaving_out_the_bias_do_not_count_it_twice() -> None:
    # adding the bias (0.5 ms) is in both findings: together 1.1 ms, not 1.6. With the least of folding, 0.6 ms, only
    # 0.5 * 0.6 / 1.1 = 0.273 ms of the bias are gone, and leaving it out adds the other 0.227 ms
    (headline,) = report(fires()).headlines
    assert headline.combined is not None
    own = [f for f in headline.combined.fixes if f.rule in (RULE, "bn-not-folded-inference")]
    assert all(fix.scenarios_ns_per_step is not None for fix in own)
    least, _, most = (sum(ns) for ns in zip(*(fix.scenarios_ns_per_step or () for fix in own), strict=True))
    assert most == pytest.approx(1.1e6, rel=1e-5)
    assert least == pytest.approx(0.6e6 + 0.5e6 * (1 - 0.6 / 1.1), rel=1e-5)


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.1}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.1 - 1e-9})


def test_worked_number_of_document_000(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("000_*")
    (finding,) = [f for f in corpus_files.report_of(document).findings if f.rule == RULE]
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((6.03e6, 6.03e6), abs=0.005e6)
    assert finding.evidence[0].observed == pytest.approx(0.137, abs=0.0005)
    assert (finding.latent, finding.blocked_by) == (True, "loader")
