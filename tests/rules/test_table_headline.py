"""What bounds a run of which only a printed table is known."""

from __future__ import annotations

import pytest

from tests.rules.judging import report, table
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Headline
from traceanalyzer.rules.engine.headlines.step_bound import is_short
from traceanalyzer.rules.engine.headlines.whole_runs import OF_RUN


@pytest.mark.parametrize("row", ["cudaLaunchKernel", "nccl:all_reduce", "aten::_mps_convolution", "aten::_lstm_mps"])
def test_a_table_without_device_times_may_be_of_a_gpu(row: str) -> None:
    rows = [
        {"Name": name, "Self CPU": "50.000ms", "CPU total": "50.000ms", "# of Calls": 1} for name in ("aten::mm", row)
    ]
    (found,) = report(table(rows, cpu="100.000ms")).headlines
    assert found.bound == "none"
    assert f"{row} shows an accelerator" in found.text


def printed(*rows: tuple[str, str, str], cpu: str = "40.000ms", device: str = "100.000ms") -> Headline:
    """The headline of a table of names, self CPU times and self CUDA times."""
    cells = [
        {"Name": name, "Self CPU": host, "CPU total": host, "Self CUDA": own, "CUDA total": own, "# of Calls": 1}
        for name, host, own in rows
    ]
    (found,) = report(table(cells, cpu=cpu, device=device)).headlines
    return found


def test_in_a_table_without_kernels_operators_tell_what_the_gpu_does() -> None:
    assert printed(("aten::mm", "5.000ms", "80.000ms"), ("aten::mul", "5.000ms", "9.000ms")).bound == "gpu-compute"
    assert printed(("aten::mm", "5.000ms", "9.000ms"), ("aten::copy_", "5.000ms", "80.000ms")).bound == "gpu-memory"


def test_a_table_whose_gpu_mostly_runs_collectives_is_bound_by_communication() -> None:
    nccl = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "0.000us", "80.000ms")
    found = printed(("c10d::allreduce_", "2.000ms", "80.000ms"), nccl, ("aten::mm", "5.000ms", "20.000ms"))
    assert (found.bound, found.share) == ("communication", 0.8)
    nccl = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "0.000us", "30.000ms")
    assert printed(nccl, ("sgemm", "0.000us", "70.000ms")).bound == "gpu-compute"


def test_a_few_printed_kernels_do_not_tell_what_most_of_the_time_is_spent_on() -> None:
    found = printed(("aten::mm", "5.000ms", "30.000ms"), ("gemm_kernel", "0.000us", "30.000ms"))
    assert found.message.id == "headline-run-gpu-not-printed"
    found = printed(("aten::mm", "5.000ms", "30.000ms"), ("mine::own", "5.000ms", "60.000ms"))
    assert found.message.id == "headline-run-gpu"


def test_a_table_of_one_small_kernel_is_too_little_to_say() -> None:
    found = printed(("aten::mm", "5.000ms", "0.900ms"), ("gemm_kernel", "0.000us", "0.900ms"), device="0.900ms")
    assert (found.bound, found.message.id) == ("none", "headline-hardly-any-work-3")
    assert "one kernel in 900 us" in found.text
    many = printed(("aten::mm", "38.000ms", "9.000ms"), ("gemm_kernel", "0.000us", "8.000ms"), device="9.000ms")
    assert many.message.id == "headline-run-host"


def test_host_time_that_is_not_printed_may_be_waits_for_the_device() -> None:
    """Of 100 ms, 10 ms are printed; the host may wait for longer than the recorded work of the device."""
    found = printed(("aten::mm", "10.000ms", "40.000ms"), cpu="100.000ms", device="40.000ms")
    assert (found.bound, found.message.id) == ("none", "headline-table-unseen-2")
    found = printed(("aten::mm", "60.000ms", "40.000ms"), cpu="100.000ms", device="40.000ms")
    assert (found.bound, found.message.id, found.share) == ("host", "headline-run-host-at-least", 0.6)
    found = printed(("aten::mm", "10.000ms", "60.000ms"), cpu="100.000ms", device="60.000ms")
    assert (found.bound, found.message.id) == ("none", "headline-table-unseen-2")
    assert "the GPU works 60 % of the profiled time, and 90 % of CPU time" in found.text
    found = printed(("aten::mm", "96.000ms", "60.000ms"), cpu="100.000ms", device="60.000ms")
    assert (found.message.id, found.share) == ("headline-run-host", 1)


def test_of_host_time_that_is_not_printed_printed_waits_leave_less() -> None:
    """Of 100 ms, 30 are waits and 50 work in printed rows; the other 20 may be either."""
    wait = ("cudaDeviceSynchronize", "30.000ms", "0.000us")
    found = printed(wait, ("aten::mm", "50.000ms", "40.000ms"), cpu="100.000ms", device="40.000ms")
    assert (found.message.id, found.share) == ("headline-run-host-at-least", 0.5)


def test_communication_of_any_library_is_named_where_it_is_not_most() -> None:
    """Kernels of DeepEP take 40 of the GPU's 100 ms, products 35 ms; 25 ms are not printed."""
    found = printed(
        ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 7...", "0.000us", "40.000ms"),
        ("void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, ...", "0.000us", "35.000ms"),
    )
    assert (found.bound, found.message.id) == ("gpu-compute", "headline-run-gpu-mixed")
    assert "Communication takes at least 40 ms (40 %)" in found.text
    assert "25 % of it is in rows that are not printed" in found.text


def test_a_loader_that_certainly_takes_longest_bounds_a_table_with_hidden_rows() -> None:
    """The loader takes 40 ms; of the other 60 ms of the host 50 are hidden, and the device works for 30."""
    loader = ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "40.000ms", "0.000us")
    found = printed(loader, ("aten::mm", "10.000ms", "30.000ms"), cpu="100.000ms", device="30.000ms")
    assert (found.bound, found.share) == ("input", 0.4)


def test_a_table_that_is_mostly_loading_is_start_up() -> None:
    found = printed(("cudaFree", "30.000ms", "0.000us"), ("aten::mm", "5.000ms", "9.000ms"), device="9.000ms")
    assert found.bound == "start-up"
    assert "mostly start-up: 30 of the 40 ms" in found.text


def test_a_table_of_waits_without_device_times_says_what_is_waited_in() -> None:
    cells = [
        {"Name": name, "Self CPU": host, "CPU total": host, "# of Calls": 1}
        for name, host in (
            ("aten::mm", "5.000ms"),
            ("cudaLaunchKernel", "1.000ms"),
            ("cudaDeviceSynchronize", "34.000ms"),
        )
    ]
    (found,) = report(table(cells, cpu="40.000ms")).headlines
    assert (found.bound, found.message.id) == ("none", "headline-table-cpu-only-waits-3")
    assert "not recorded: the CPU waits for it 34 of the 40 ms of the run in cudaDevice" in found.text


def test_columns_of_old_torch_show_that_there_was_a_device() -> None:
    """They are spans between events, about as long as the host's time, so the device's own time is unknown."""
    cells = [
        {
            "Name": "addmm",
            "Self CPU total": "9.000ms",
            "CPU total": "9.000ms",
            "CUDA total": "8.000ms",
            "Number of Calls": 1,
        }
    ]
    (found,) = report(table(cells, cpu="10.000ms")).headlines
    assert (found.bound, found.message.id) == ("none", "headline-table-event-spans-2")
    assert "the times of CUDA are spans" in found.text


def test_without_a_gpu_a_range_is_named_if_what_it_does_outside_of_operators_takes_most() -> None:
    """Code of NumPy in a marked range has no rows of its own: it is self time of the range."""
    cells = [
        {"Name": name, "Self CPU": host, "CPU total": host, "# of Calls": 1}
        for name, host in (("find indices", "80.000ms"), ("aten::cat", "15.000ms"), ("aten::add", "5.000ms"))
    ]
    (found,) = report(table(cells, cpu="100.000ms")).headlines
    assert found.text.endswith("What takes most of it: find indices 80 ms, aten::cat 15 ms.")


def test_without_times_of_the_host_it_is_unknown_what_bounds_a_step() -> None:

    def said(name: str) -> str:
        cells = [{"Name": name, "Self CUDA": "40.000ms", "CUDA total": "40.000ms", "# of Calls": 90}]
        text = table(cells, cpu="1.000ms", device="50.000ms").replace("Self CPU time total: 1.000ms\n", "")
        (found,) = report(text).headlines
        assert found.bound == "none"
        return found.text

    assert "the GPU works 50 ms per step" in said("aten::mm")
    assert "collectives take 40 ms of the GPU's 50 ms per step" in said("c10d::allreduce_")


def test_most_of_the_gpu_s_time_in_rows_that_are_not_printed_is_said() -> None:
    found = printed(
        ("cudaDeviceSynchronize", "80.000ms", "0.000us"), ("aten::mul", "5.000ms", "3.000ms"), cpu="90.000ms"
    )
    assert (found.bound, found.message.id) == ("gpu-compute", "headline-run-gpu-not-printed")
    assert "sort_by='self_cuda_time_total'" in found.text


CUT = [
    {"Name": "cudaDeviceSynchronize", "Self CPU": "90.000ms", "CPU total": "90.000ms"},
    {"Name": "aten::mm", "Self CPU": "5.000ms", "CPU total": "5.000ms"},
]


def test_a_table_whose_columns_of_the_gpu_are_cut_has_no_hidden_rows() -> None:
    whole = report(table(CUT, cpu="95.000ms", device="100.000ms"))
    (found,) = whole.headlines
    assert found.message.id == "headline-run-gpu-no-columns"
    assert {warning.message.id for warning in whole.warnings} == {"q-device-columns-missing", "q-no-steps-in-table"}
    reasons = {entry.reason.id for entry in whole.skipped}
    assert "rule-no-printed-kernels" in reasons
    assert "rule-no-kernels" not in reasons


@pytest.mark.parametrize("text", OF_RUN.values(), ids=lambda text: text.id)
def test_a_headline_of_a_whole_run_is_short(text: Text) -> None:
    said = text(time=84_000_000_000, step=100_000_000_000, share=0.84, work="matrix multiplications and attention")
    assert is_short(said), said.text


def test_without_a_gpu_a_table_without_steps_is_of_the_run() -> None:
    cells = [{"Name": "aten::mm", "Self CPU": "50.000ms", "CPU total": "50.000ms", "# of Calls": 1}]
    (found,) = report(table(cells, cpu="50.000ms")).headlines
    assert found.message.text == "Limited by the CPU: mostly matrix multiplications, all 50 ms of the run."
