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
        ("=== Device Timing Summary ===\n\n== L0 Backend ==\n\n  Kernel, Calls, Time (ns), Time (%)\n", "unitrace"),
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


STACK = """\
Thread 101 (active): "MainThread"
Thread 102 (active): "MainThread"
    broadcast (torch/distributed/distributed_c10d.py:1191)
    train (train.py:10)
Thread 103 (idle): "MainThread"
    wait (threading.py:306)
    get (queue.py:179)
    _try_get_data (torch/utils/data/dataloader.py:1011)
Thread 104 (idle): "Thread-1"
    wait (threading.py:306)
"""
COMPARED = """\
[------------ LayerNorm ------------]
                 |  Eager  |  Compiled
1 threads: --------------------------
      (32, 128)  |   306.0  |   255.0
      (64, 128)  |   800.0  |   100.0

Times are in microseconds (us).
"""


def test_stacks_say_where_main_threads_stand() -> None:
    said = refusal(STACK)
    assert "of 3 main threads, 2 in broadcast (torch/distributed/distributed_c10d.py:1191), 1 in _try_get_data" in said
    assert "TORCH_NCCL_DUMP_ON_TIMEOUT=1" in said
    alone = refusal('Thread 0x7F1C (active): "MainThread"\n    step (train.py:10)\n')
    assert "the main thread stands in step (train.py:10)" in alone


def test_a_comparison_of_statements_says_what_differs_most() -> None:
    assert "for (64, 128), Eager takes 8.0 times as long as Compiled" in refusal(COMPARED)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("--- DeepSpeed Flops Profiler ---\nparams per gpu: 1.09 M\n", "'fwd latency:'"),
        ("+  33.25 M, 100.00% Params, 1 GMACs, 100.00% MACs, 33.25 ms, 99.80% time, 6.2 TFLOPS,\n", "'fwd latency:'"),
        ("|  [Callback]ModelSummary.on_train_end  \t|  1.7e-05  \t|  1  \t|  1.7e-05  \t|  0.0005  \t|\n", "its head"),
        (
            "Line #  Hits  Time  Per Hit  % Time  Line Contents\n====\n 194  1  50.4  50.4  4.5  x = y\n",
            "'Timer unit:'",
        ),
    ],
)
def test_what_is_missing_of_a_form_that_is_read_is_named(text: str, missing: str) -> None:
    said = refusal(text)
    assert missing in said
    assert "which this program does not read" not in said


def test_single_events_and_tables_by_module_are_named() -> None:
    event = (
        "13.1s 3.6us (1 1 1) (1024 1 1) 30 0B 8.0KB - - - - Tesla V100 2 18 - - - - void reduce<float>(int) [1086]\n"
    )
    assert "--print-gpu-trace" in refusal(event)
    assert "torchprof" in refusal("Module  | Self CPU total | CPU total | CUDA total | Occurrences\n")
