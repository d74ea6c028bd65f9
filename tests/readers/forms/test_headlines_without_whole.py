"""What the headline is where a tool prints no time of the whole program: calls, ranges, figures, totals alone."""

from __future__ import annotations

from tests.readers.forms import examples
from tests.readers.forms.test_forms import headlines, report_of
from tests.readers.test_pasted_texts import told

CALLS = examples.NSYS[examples.NSYS.index(" ** CUDA API") : examples.NSYS.index(" ** CUDA GPU MemOps")]


def test_calls_alone() -> None:
    (said,) = headlines(CALLS)
    assert said == (
        "Of 2.0 s in calls of CUDA, according to Nsight Systems (calls): `cudaStreamSynchronize` 1.8 s (100 calls). "
        "Further: `cudaLaunchKernel` 200 ms (1,100 calls). How long the program takes in all is unknown."
    )


def test_calls_of_the_operating_system_are_mostly_waits() -> None:
    (said,) = headlines(CALLS.replace("cudaStreamSynchronize", "sem_wait").replace("cudaLaunchKernel", "poll"))
    assert said.startswith(
        "These are calls of the operating system, mostly waits, according to Nsight Systems (calls): "
    )


def test_calls_that_outweigh_the_work_of_the_gpu() -> None:
    (said,) = headlines(examples.NSYS.replace("cudaStreamSynchronize", "cudaMalloc").replace("1,800,0", "91,800,0"))
    assert "in calls of CUDA, according to Nsight Systems: `cudaMalloc` 92 s (100 calls)." in said
    assert said.endswith("The GPU works for 2.0 s.")


def test_ranges_alone() -> None:
    (said,) = headlines(examples.NSYS_RANGES)
    assert said.startswith("What takes most, according to Nsight Systems (NVTX ranges): ")
    assert said.endswith("How long the program takes in all is unknown.")


def test_figures_alone_are_not_judged() -> None:
    said = told(report_of(examples.DMON))
    assert "according to nvidia-smi dmon. What takes the time is not in it: record a trace" in said
    assert "Nothing was judged" in said


def test_totals_alone_say_how_much_of_the_time_the_gpu_works() -> None:
    (said,) = headlines("It prints\nSelf CPU time total: 2.314ms\nSelf CUDA time total: 23.104us\nonly.\n")
    assert said.startswith("No verdict: the GPU works 1 % of the profiled time, and 100 % of CPU time is not printed.")


def test_long_names_are_shortened_and_read() -> None:
    mangled = "_ZN2at6native18elementwise_kernelILi128ELi4EEEvi"
    (said,) = headlines(examples.NSYS.replace("ampere_sgemm_128x128_nn", mangled))
    assert "`void at::native::elementwise_kernel<128, 4>(int)` 1.5" in said


def test_copies_in_both_directions_are_findings() -> None:
    found = {finding.rule: finding.title.text for finding in report_of(examples.NVPROF).findings}
    assert found["h2d-pageable"] == "Copies to the GPU take much of its time"
    back = examples.NVPROF.replace("memcpy HtoD", "memcpy DtoH")
    found = {finding.rule: finding.title.text for finding in report_of(back).findings}
    assert found["sync-item-frequent"] == "Results are copied from the GPU again and again"
