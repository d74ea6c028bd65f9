"""What a text is that is neither a trace nor has a profiler table, and what to do instead."""

from __future__ import annotations

import io

import pytest

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers import read
from traceanalyzer.readers.source import Source


def refusal(text: str) -> str:
    """Why the text cannot be read."""
    with pytest.raises(UnusableInputError) as error:
        read(Source(io.BytesIO(text.encode()), "notes.md", len(text), lambda _: None))
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" Time (%)  Total Time (ns)  Instances  Name\n", "Nsight Systems"),
        ("==12== NVPROF is profiling process 12\n", "nvprof"),
        ("ROCPROFV3 SUMMARY:\n\n| NAME | DOMAIN |\n", "rocprof"),
        ("> --- DeepSpeed Flops Profiler ---\n> Profile Summary at step 5:\n", "DeepSpeed"),
        ("FIT Profiler Report\n\n|  Action  |  Mean duration (s) |\n", "Lightning"),
        ("   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n", "cProfile"),
        ("Line #      Hits         Time  Per Hit   % Time  Line Contents\n", "line_profiler"),
        ("| NVIDIA-SMI 550.1   Driver Version: 550.1   CUDA Version: 12.4 |\n", "nvidia-smi"),
        ("step 1\n{'loss': 1.25, 'epoch': 0.1}\n", "Trainer"),
    ],
)
def test_output_of_other_tools_is_named(text: str, name: str) -> None:
    said = refusal(text)
    assert name in said
    assert "Record a trace of the same program: traceanalyzer capture" in said


def test_a_timeout_of_nccl_asks_for_dumps() -> None:
    line = (
        "[rank3]:[E1107 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL()\n"
    )
    said = refusal(line)
    assert "NCCL's watchdog" in said
    assert "TORCH_NCCL_DUMP_ON_TIMEOUT=1" in said


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[<FunctionEventAvg key=aten::mm self_cpu_time=1.000us>]\n", "as Python represents them"),
        ("      key  count  self_cpu_time_total\n0  aten::mm  3  12.5\n", "in a form of its own"),
        ("It took long:\nSelf CPU time total: 4.000ms\n", "totals of a profiler table"),
        ("| aten::mm | 4.000ms |\n", "operators with times"),
        (f"then:\n{' ' * 50}aten::mm   10.00%   4.000ms   1\n", "operators with times"),
        ("| 1 | `aten::mm` | 4.0 ms |\n", "operators with times"),
        ("-----  --------  ---------\nName   Self CPU  # of Calls\n-----  --------  ---------\n", "in line 2"),
    ],
)
def test_parts_of_a_profiler_table_are_told_from_other_texts(text: str, what: str) -> None:
    said = refusal(text)
    assert what in said
    assert "print(prof.key_averages().table())" in said


def test_of_other_texts_only_what_is_missing_is_said() -> None:
    assert "contains neither a profiler trace" in refusal("We used aten::mm and waited for 3 hours, but for what?\n")
    assert "contains neither a profiler trace" in refusal(
        "print(p.key_averages().table(sort_by='self_cpu_time_total'))\n"
    )


def test_an_unreadable_table_is_told_before_what_stands_beside_it() -> None:
    table = "-----  --------  ---------\nName   Self CPU  # of Calls\n-----  --------  ---------\nx  ?? ??\n"
    assert "none of its rows can be read" in refusal("ncalls  tottime  percall  cumtime\n" + table)
