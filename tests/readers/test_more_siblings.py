"""Invented siblings of further kinds of what people paste, three of each: steps, runs, notebooks, ranks, tools."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.readers.forms.test_forms import report_of
from tests.readers.test_pasted_texts import told
from tests.readers.test_siblings_of_pasted import gemm, printed, row
from tests.rules.judging import table


def shares(rows: list[dict[str, str | int]], cpu: str | None = None, device: str | None = None) -> str:
    """A table with shares; without totals if none is given."""
    text = table([dict(one) for one in rows], cpu=cpu or "0.000us", device=device)
    return text if cpu else text[: text.index("Self CPU time total")]


def both(name: str, own: tuple[float, str], device: tuple[float, str], calls: int) -> dict[str, str | int]:
    """A row with times in ms and shares of host and device."""
    return {
        "Name": name,
        "Self CPU %": own[1],
        "Self CPU": f"{own[0]:.3f}ms",
        "CPU total": f"{own[0]:.3f}ms",
        "Self CUDA": f"{device[0]:.3f}ms",
        "Self CUDA %": device[1],
        "CUDA total": f"{device[0]:.3f}ms",
        "# of Calls": calls,
    }


def step_counted(step: float) -> str:
    """The row of the step on the device is as long as the steps, and counts in the total."""
    return shares(
        [
            both("ProfilerStep*", (0, "0.00%"), (10 * step, "50.00%"), 10),
            {**both("ProfilerStep*", (3 * step, "30.00%"), (0, "0.00%"), 10), "CPU total": f"{10 * step:.3f}ms"},
            both("aten::mm", (step, "10.00%"), (4.5 * step, "22.50%"), 3000),
        ]
    )


def two_runs(scale: float) -> str:
    """Two tables whose shares contradict each other, under one heading."""
    first = [both("nccl:all_reduce", (50 * scale, "0.04%"), (90_000 * scale, "90.00%"), 100)]
    second = [
        {**both("ProfilerStep*", (5000 * scale, "50.00%"), (0, "0.00%"), 10), "CPU total": f"{10_000 * scale:.3f}ms"},
        both("aten::to", (20 * scale, "0.20%"), (0, "0.00%"), 10_000),
    ]
    return (
        f"# slow on two nodes\n\nfirst two nodes:\n```\n{shares(first)}```\nand one node:\n```\n{shares(second)}```\n"
    )


def own_kernel(part: float) -> str:
    return shares(
        [
            both("aten::copy_", (300, "30.00%"), (1000 - part, f"{100 - part / 10:.2f}%"), 1000),
            both("my_gather_backward", (0, "0.00%"), (part, f"{part / 10:.2f}%"), 100),
            both("cudaLaunchKernel", (700, "70.00%"), (0, "0.00%"), 50_000),
        ],
        "1000.000ms",
        "1000.000ms",
    )


def event_times(scale: float) -> str:
    """Spans between events, far longer than the host's time of the same operators."""
    return shares(
        [
            both("aten::conv2d", (10 * scale, "0.10%"), (20 * scale, "0.20%"), 100),
            both("aten::cudnn_convolution", (90 * scale, "0.86%"), (8000 * scale, "80.00%"), 100),
            both("aten::relu", (50 * scale, "0.48%"), (1980 * scale, "19.80%"), 100),
        ],
        f"{10_500 * scale:.3f}ms",
        f"{10_000 * scale:.3f}ms",
    )


def bottleneck(seconds: float) -> str:
    """The output of torch.utils.bottleneck on one machine."""
    columns = ["Name", "Self CPU total %", "Self CPU total", "CPU total %", "CPU total", "CPU time avg"]
    columns += ["CUDA total %", "CUDA total", "CUDA time avg", "Number of Calls"]
    rows = [("to", "60.00%", "6.000ms"), ("matmul", "40.00%", "4.000ms")]
    cells = [dict(zip(columns, (n, s, t, s, t, t, s, t, t, 1), strict=True)) for n, s, t in rows]
    events = table([dict(one) for one in cells], cpu="10.000ms").replace("Self CUDA", "CUDA")
    head = "-" * 80
    return (
        f"{head}\n  cProfile output\n{head}\n         1000 function calls in {seconds:.3f} seconds\n\n"
        "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n"
        f"      100   {seconds:.3f}    1.000  {seconds:.3f}    1.000 prepare.py:10(tokenize)\n\n"
        f"{head}\n  autograd profiler output (CUDA mode)\n{head}\n"
        f"        top 15 events sorted by cpu_time_total\n\n{events}"
    )


def of_torch_1_0(time: float) -> str:
    names = ["Name", "CPU time", "CUDA time", "Calls", "CPU total", "CUDA total"]
    rows = [("IndexBackward", time), ("matmul", time / 80)]
    cells = [dict(zip(names, (n, f"{t}us", f"{t}us", 1, f"{t}us", f"{t}us"), strict=True)) for n, t in rows]
    text = table([dict(one) for one in cells], cpu="0.000us")
    return text[: text.index("Self CPU time total")]


def longer_than_its_row(step: float) -> str:
    """A quarter more than the steps lies outside of them, or on other threads."""
    rows = [
        row("ProfilerStep*", 7 * step / 2, calls=4, total=4 * step),
        row("Optimizer.step#Adam.step", step / 2, calls=4),
        row("aten::mm", step, calls=1000),
    ]
    return printed(rows, 5 * step)


def notebook(scale: float) -> str:
    """A notebook in one line."""
    text = printed(gemm(scale), 90 * scale, 85 * scale)
    output = {"name": "stdout", "output_type": "stream", "text": text}
    cell = {"cell_type": "code", "source": "print(t)", "metadata": {}, "execution_count": 1, "outputs": [output]}
    return json.dumps({"metadata": {}, "nbformat": 4, "nbformat_minor": 4, "cells": [cell]})


def deepspeed(update: float) -> str:
    timers = (
        f"fwd_microstep: 100.00 | bwd_microstep: 200.00 | bwd_inner_microstep: 150.00 | step_microstep: {update:.2f}"
    )
    return f"[2024-01-02 03:04:05,678] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | {timers}\n"


def dmon(use: float) -> str:
    head = (
        "# gpu   pwr  temp    sm   mem   enc   dec  mclk  pclk\n# Idx     W     C     %     %     %     %   MHz   MHz\n"
    )
    return f"{head}    0   100    60    {use:.0f}     5     0     0  5000  1500\n"


def ranks(scale: float) -> str:
    """Two ranks, line by line."""
    lines = printed(gemm(scale), 90 * scale, 85 * scale).splitlines()
    return "".join(f"[rank0]: {line}\n[rank1]: {line}\n" for line in lines)


KINDS: dict[str, tuple[Callable[[float], str], tuple[float, float, float], tuple[str, ...], tuple[str, ...]]] = {
    "the step counted as work of the GPU": (
        step_counted,
        (40, 100, 400),
        ("Limited by GPU compute", "per step (100 %).", "subtracted"),
        ("200 %",),
    ),
    "two runs under one heading": (
        two_runs,
        (0.1, 1, 3),
        ("run-1: No verdict", "run-2"),
        (),
    ),
    "a kernel with a plain name": (
        own_kernel,
        (550, 700, 900),
        ("my_gather_backward 100", "Device time in rows that are not printed: 0 ns"),
        (),
    ),
    "event times far above the host's": (
        event_times,
        (0.1, 1, 4),
        ("Limited by GPU compute: mostly convolutions, ", " of the run (94 %)."),
        ("has none of its events", "per step"),
    ),
    "bottleneck": (
        bottleneck,
        (10, 100, 1000),
        ("according to cProfile: `prepare.py:10(tokenize)`", "no step"),
        ("After the change",),
    ),
    "torch 1.0": (of_torch_1_0, (400, 4000, 40_000), ("IndexBackward 1",), ()),
    "a step longer than its row": (
        longer_than_its_row,
        (200, 800, 2000),
        ("on other threads, per step", "code in no operator"),
        ("aten::mm 250 ms, Opt",),
    ),
    "a notebook in one line": (notebook, (1, 10, 37), ("Limited by GPU compute", "ampere_sgemm_128x64_tn"), ()),
    "DeepSpeed's timers": (
        deepspeed,
        (250, 300, 600),
        ("update (`step_microstep`)", "backward (`bwd_microstep`) 200 ms. ", "forward (`fwd_microstep`) 100 ms. "),
        (),
    ),
    "nvidia-smi dmon": (
        dmon,
        (3, 20, 97),
        ("sm (gpu 0)", "according to nvidia-smi dmon", "record a trace"),
        ("No rule found",),
    ),
    "two ranks, line by line": (
        ranks,
        (1, 10, 37),
        ("rank-0: Limited by GPU compute", "rank-1: Limited by GPU compute"),
        (),
    ),
}
CASES = [(kind, figure) for kind, (_, figures, _, _) in KINDS.items() for figure in figures]


@pytest.mark.parametrize(("kind", "figure"), CASES, ids=[f"{kind}: {figure}" for kind, figure in CASES])
def test_a_sibling_gives_the_same_answer(kind: str, figure: float) -> None:
    build, _, wanted, unwanted = KINDS[kind]
    said = told(report_of(build(figure)))
    assert {part for part in (*wanted, *unwanted) if part in said} == set(wanted), said


def test_parts_of_a_step_fit_into_it() -> None:
    said = told(report_of(longer_than_its_row(1000)))
    assert "What takes most of it: code in no operator 875 ms, Optimizer.step#Adam.step 125 ms." in said


def test_a_thread_that_waits_for_the_whole_profile_is_no_work() -> None:
    rows = [row("threading.py(359): wait", 500, calls=1), row("aten::linear", 400), row("aten::add", 100)]
    said = told(report_of(printed(rows, 1000)))
    assert "Limited by the CPU: mostly matrix multiplications, 400 of the 500 ms of the run." in said
    assert "What takes most of it: aten::linear 400 ms, aten::add 100 ms." in said
