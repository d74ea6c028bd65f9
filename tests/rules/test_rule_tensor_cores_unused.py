"""Tests of the rule `tensor-cores-unused`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.hardware import A100, V100
from tests.builders.timeline import Host, Stream, Work
from tests.rules.gpu_work import TF32_CONVOLUTION, Call, addition, kernel, product, training
from tests.rules.host_work import looping
from tests.rules.judging import findings, report, skipped, table
from tests.rules.situations import tensor_cores_unused as situations
from tests.rules.situations.tensor_cores_unused import (
    SGEMM,
    fires,
    fires_in_a_table,
    fires_on_ampere,
    printed,
    trap_amd,
)
from traceanalyzer import analyze, load

RULE = "tensor-cores-unused"


def test_a_third_remains_at_the_ratio_of_the_peaks_and_a_little_is_saved_for_sure() -> None:
    # 6 ms of products: at most 6 * (1 - 1/3), at least 6 * (1 - 1/1.3)
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((6e6 * 3 / 13, 4e6), rel=0.001)
    assert finding.evidence[0].observed == pytest.approx(0.75)
    assert finding.evidence[0].where[0].name == "aten::mm"
    assert finding.code is not None
    assert "float16" in finding.code


def test_work_from_before_the_recording_is_of_no_step() -> None:
    trace = training([product(SGEMM, 6000), addition(2000)], shapes=False)
    trace.kernel(SGEMM, 20, 3000, stream=9)
    (finding,) = findings(trace, RULE)
    assert finding.summary.params["time"] == pytest.approx(6e6, rel=0.001), "not 7 ms, a third of 3 * 6 + 3"
    assert finding.evidence[0].observed == pytest.approx(0.75)


def test_products_beside_a_collective_count_in_full() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("nccl:all_reduce"):
            host.launch(Work("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5000), beside)
        with host.op("aten::mm"):
            host.launch(Work(SGEMM, 6000), stream)
        host.wait(stream, beside)

    beside = Stream(9)
    (finding,) = findings(looping(step), RULE)
    assert finding.summary.params["time"] == pytest.approx(6e6, rel=0.001), "not 6 of 11 parts of the 6 ms"


def test_memory_bounds_what_is_saved() -> None:
    # 10 operations per byte: 2 * 500_000 * 64 * 32 in 4 * (500_000 * (64 + 32) + 64 * 32) bytes are 10.7.
    # A V100 moves half of these 192 MB at 900 GB/s in 107 us, so that of 200 us at most 93 are saved.
    thin = product(SGEMM, 200, [[500_000, 64], [64, 32]])
    (finding,) = findings(training([thin]), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(200e3 - 96.004e6 / 900, rel=0.01)


def test_on_ampere_the_card_has_two_steps_and_is_the_only_one() -> None:
    (finding,) = findings(fires_on_ampere(), RULE)
    assert finding.code == 'torch.set_float32_matmul_precision("high")'
    assert "bfloat16" in finding.advice.text
    rules = {entry.rule for entry in report(fires_on_ampere()).findings}
    assert RULE in rules
    assert "tf32-disabled" not in rules


def test_where_no_name_tells_the_generation_the_finding_says_so() -> None:
    (finding,) = findings(
        printed([("sgemm_128x64_nn_kernel", "60.000ms"), ("elementwise_kernel<1>", "40.000ms")]), RULE
    )
    assert finding.confidence == "C"
    assert "is unknown" in finding.summary.text


def test_mixed_precision_with_a_part_left_in_fp32() -> None:
    half = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
    (finding,) = findings(training([product(half, 4000), product(SGEMM, 4000)]), RULE)
    assert "Some products use Tensor Cores" in finding.summary.text
    assert "autocast switched off" in finding.advice.text


def test_a_table_that_waits_for_its_loader_has_it_for_later() -> None:
    loader = {"Name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "Self CPU": "900.000ms"}
    rows = [
        loader | {"CPU total": "900.000ms", "Self CUDA": "0.000us", "# of Calls": 10},
        {"Name": SGEMM, "Self CPU": "0.000us", "CPU total": "0.000us", "Self CUDA": "100.000ms", "# of Calls": 10},
    ]
    (finding,) = findings(table(rows, cpu="900.000ms", device="100.000ms"), RULE)
    assert finding.latent
    assert finding.blocked_by == "loader"
    assert finding.saving is not None
    assert finding.saving.wall_share == (0, 0)


def test_products_of_a_table_with_shapes_that_memory_bounds_do_not_count() -> None:
    outer = {"Name": "aten::mm", "Self CPU": "1.000ms", "CPU total": "1.000ms", "Self CUDA": "60.000ms"}
    rows = [
        outer | {"# of Calls": 10, "Input Shapes": "[[1000000, 1], [1, 128]]"},
        outer | {"Self CUDA": "30.000ms", "# of Calls": 10, "Input Shapes": "[[2048, 2048], [2048, 2048]]"},
        {
            "Name": SGEMM,
            "Self CPU": "0.000us",
            "CPU total": "0.000us",
            "Self CUDA": "90.000ms",
            "# of Calls": 20,
            "Input Shapes": "[]",
        },
    ]
    (finding,) = findings(table(rows, cpu="2.000ms", device="100.000ms"), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.3)


def test_names_of_other_vendors_are_skipped_with_the_reason() -> None:
    assert "NVIDIA" in (skipped(trap_amd(), RULE) or "")


def test_edge_product_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"product_share": share}) == []
    assert findings(fires(), RULE, {"product_share": share - 1e-9})


def test_edge_flops_per_byte() -> None:
    # 2048^3 products: 2 * 2048^3 operations in 3 * 4 * 2048^2 bytes
    assert findings(fires(), RULE, {"flops_per_byte": 2048 / 6})
    assert findings(fires(), RULE, {"flops_per_byte": 2048 / 6 + 1e-6}) == []


def test_edge_kernel_ns() -> None:
    assert findings(fires(), RULE, {"kernel_ns": 6_000_000})
    assert findings(fires(), RULE, {"kernel_ns": 6_000_001}) == []


def test_edge_kernel_ns_in_a_table() -> None:
    assert findings(fires_in_a_table(), RULE, {"kernel_ns": 6_000_000})
    assert findings(fires_in_a_table(), RULE, {"kernel_ns": 6_000_001}) == []


@pytest.mark.parametrize("device", [V100, A100])
def test_exactly_one_rule_speaks_of_fp32_products(device: object) -> None:
    gemm = product("ampere_sgemm_128x64_nn", 6000)
    mixed = [Call("aten::cudnn_convolution", [kernel(TF32_CONVOLUTION, 3000)]), gemm]
    for calls in ([gemm, addition(1000)], mixed):
        built: TraceBuilder = training(calls, device=device)  # type: ignore[arg-type]
        speaking = [f.rule for f in report(built).findings if f.rule in (RULE, "tf32-disabled")]
        assert len(speaking) == 1


def test_situations_cover_what_names_can_say() -> None:
    assert skipped(situations.trap_generated_kernels(), RULE) is None


def test_worked_numbers_of_the_documents(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("000_*")
    (finding,) = [f for f in analyze(load(document)).findings if f.rule == RULE]
    assert (finding.latent, finding.blocked_by) == (True, "loader")
    assert finding.evidence[0].observed == pytest.approx(1.756 / 4.405, abs=0.001)
    (document,) = (corpus / "documents").glob("002_*")
    runs = [f.run for f in analyze(load(document)).findings if f.rule == RULE]
    assert runs == ["run-2"], "the products of the first run have a side of 1, so that memory bounds them"


def test_a_real_training_in_fp32(corpus: Path) -> None:
    measured = corpus_files.report_of(corpus / "corpus" / "train_v100_ns_timestamps.json.gz")
    (finding,) = [f for f in measured.findings if f.rule == RULE]
    assert finding.severity == "critical"
    assert finding.evidence[0].observed == pytest.approx(0.63, abs=0.01)
