"""Tables, timers and figures that other tools print: invented ones in each form, and what a report says of them."""

from __future__ import annotations

import cProfile
import io
import pstats
import re

import pytest

import traceanalyzer as ta
from tests.readers.forms import examples
from traceanalyzer.analyzers.tables.parts import PrintedFigures
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.readers import read
from traceanalyzer.readers.forms import descriptions
from traceanalyzer.readers.source import Source
from traceanalyzer.report.model import Report
from traceanalyzer.rules.engine.headlines.step_bound import is_short
from traceanalyzer.trace.document import TableDocument

WAIT = "{method 'item' of 'torch._C.TensorBase' objects}"


def document_of(text: str) -> TableDocument:
    """The text as it is read."""
    found = read(Source(io.BytesIO(text.encode()), "notes.md", len(text), lambda _: None))
    assert isinstance(found, TableDocument)
    return found


def report_of(text: str) -> Report:
    """The report on a text."""
    return ta.analyze(document_of(text))


def headlines(text: str) -> list[str]:
    """What is said to bound the runs of a text."""
    return [headline.text for headline in report_of(text).headlines]


def run_of(text: str) -> PrintedRun:
    """The only run of a text."""
    (run,) = report_of(text).result("runs", tuple[PrintedRun, ...]) or ()
    return run


def figures_of(text: str) -> dict[str, tuple[str, int, float]]:
    """Unit, number of values and mean of each figure of a text."""
    found = report_of(text).result("printed_figures", tuple[PrintedFigures, ...]) or ()
    return {figure.name: (figure.unit, figure.values, figure.mean) for figure in found}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (examples.NSYS, "Of 2.0 s on the GPU, according to Nsight Systems: `ampere_sgemm_128x128_nn` 1.5 s"),
        (examples.NVPROF, "Of 4.0 s on the GPU, according to nvprof: `void cudnn::detail::implicit_convolve_sgemm"),
        (examples.LIGHTNING, "Waiting for data: 84 of the 100 s, according to Lightning's Simple"),
        (examples.ADVANCED, "Of 12 s, according to Lightning's AdvancedProfiler: `train.py:7(augment)` 9.0 s"),
        (examples.CPROFILE, "Of 10 s, according to cProfile: `prepare.py:10(tokenize)` 8.0 s, `{method 'acquire'"),
        (examples.CPROFILE_LOADER, "Waiting for data: 7.5 of the 10.0 s, according to cProfile."),
        (examples.LINES, "Waiting for data: 8.0 of the 10.0 s, according to line_profiler."),
        (examples.ASCEND, "Of 100 ms on the GPU, according to Ascend's profiler (op_statistic.csv): `MatMulV2` 60"),
        (examples.BY_HAND, "Of 2.0 s on the GPU, according to a table made by a person: `ampere_sgemm_128x128_nn` 1.5"),
        (examples.BY_HAND_OF_STAGES, "Waiting for data: 0.84 of the 1.0 s, according to a table"),
        (examples.DEEPSPEED_FLOPS, "Of 600 ms, according to DeepSpeed's flops profiler: update (`step`) 300 ms, back"),
        (examples.DEEPSPEED_TIMERS, "Of 600 ms per step, according to DeepSpeed's wall clock breakdown: update"),
        (examples.MEGATRON, "Of 1.5 s, according to Megatron's timers: `forward-backward` 1.2 s, backward"),
        (examples.PADDLE_EVENTS, "Of 20 ms, according to Paddle's profiler: `conv2d` 12 ms, `fill_constant` 4.0 ms."),
        (examples.LIGHTNING_OLD, "Waiting for data: 6.0 of the 10.0 s, according to Lightning's Sim"),
        (examples.DATA_TIME, "Waiting for data: 3.6 of the 4.0 s, according to a log with times of steps and of the"),
        (examples.PROGRAM_TIMES, "Of 3.0 s, according to times that a program prints, taken as seconds: backward (`Ba"),
        (examples.MEGATRON_LINE, "Of 1.3 s, according to Megatron's timers: backward (`backward-compute`) 700 ms"),
    ],
    ids=lambda value: value.strip()[:30],
)
def test_what_takes_most_is_said(text: str, start: str) -> None:
    (said,) = headlines(text)
    assert said.startswith(start)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (examples.LINES.replace("for x in loader:", "total += loss.item()"), "`11: total += loss.item()`"),
        (examples.CPROFILE.replace("prepare.py:10(tokenize)", WAIT), f"`{WAIT}`"),
    ],
)
def test_waits_for_results_are_no_work_of_the_line(text: str, name: str) -> None:
    (said,) = headlines(text)
    assert said.startswith("Waiting for the device: 8.0 of the 10.0 s until results are read, according to ")
    assert f"They are read in {name}: " in said


def test_copies_and_collectives_on_the_gpu_are_named() -> None:
    copies = examples.NVPROF.replace("3.20000s", "800.00ms").replace("800.00ms       200", "3.20000s       200")
    copies = copies.replace("80.00%  800", "20.00%  800").replace("20.00%  3.2", "80.00%  3.2")
    (said,) = headlines(copies)
    assert said == (
        "3.2 of the 4.0 s on the GPU are copies, according to nvprof. What takes most: `[CUDA memcpy HtoD]` 3.2 s, "
        "`void cudnn::detail::implicit_convolve_sgemm<float>(int, int)` 800 ms. How long the program takes in all is "
        "unknown."
    )
    collectives = examples.NSYS.replace("ampere_sgemm_128x128_nn", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)")
    (said,) = headlines(collectives)
    assert said.startswith(
        "1.5 of the 2.0 s on the GPU are collectives, waits included, according to Nsight Systems. "
        "What takes most: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)` 1.5"
    )


def test_the_headline_of_each_example_is_short() -> None:
    texts = [text for name, text in vars(examples).items() if name.isupper()]
    found = [headline.message for text in texts for headline in report_of(text).headlines]
    assert len(found) > 20
    assert [message.text for message in found if not is_short(message)] == []


def test_each_form_has_an_example() -> None:
    known = {form.id for forms in descriptions.forms().values() for form in forms}
    texts = [text for name, text in vars(examples).items() if name.isupper()]
    read_ = {name.form for text in texts for name in (*document_of(text).tables, *document_of(text).figures)}
    assert known <= read_


def test_kernels_calls_and_copies_of_nsight_systems_are_one_run() -> None:
    run = run_of(examples.NSYS)
    assert (run.tool, run.device_ns, run.cpu_ns, run.sync_ns) == ("Nsight Systems", 2_010_000_000, None, 1_800_000_000)
    assert [kernel.calls for kernel in run.kernels] == [100, 1000]
    assert [part.name for part in run.parts] == ["cudaStreamSynchronize", "cudaLaunchKernel"]
    assert [copy.device_ns for copy in run.copies] == [10_000_000]


def test_ranges_contain_each_other_and_have_no_sum() -> None:
    run = run_of(examples.NSYS_RANGES)
    assert (run.cpu_ns, run.dataloader_ns) == (None, 600_000_000)
    assert [(part.name, part.part) for part in run.parts] == [
        (":train step", None),
        (":data loading", "loader"),
        (":backward", "backward"),
    ]


def test_rules_about_kernels_apply_to_kernels_of_other_tools() -> None:
    assert "mixed-precision-unused" in {finding.rule for finding in report_of(examples.NSYS).findings}
    assert "dataloader-bound" in {finding.rule for finding in report_of(examples.LIGHTNING).findings}


def test_paddle_prints_totals_that_contain_each_other() -> None:
    run = run_of(examples.PADDLE)
    assert [(row.name, row.host_total_ns, row.device_total_ns, row.calls) for row in run.operators] == [
        ("conv2d dygraph", 50_000_000, 80_000_000, 100),
        ("matmul dygraph", 10_000_000, 20_000_000, 100),
    ]
    assert headlines(examples.PADDLE) == []


def test_timers_of_several_steps_are_a_mean() -> None:
    run = run_of(examples.DEEPSPEED_TIMERS)
    assert (run.steps, run.wall_estimate_ns_per_step) == (2, 600_000_000)


def test_figures_over_time_are_told_with_their_units() -> None:
    assert figures_of(examples.DMON)["sm (gpu 0)"] == ("%", 2, 30.0)
    assert figures_of(examples.DMON)["mclk (gpu 1)"] == ("MHz", 1, 5000.0)
    assert figures_of(examples.SMI)["GPU utilization"] == ("%", 1, 37.0)
    assert figures_of(examples.QUERY) == {"utilization.gpu": ("%", 2, 40.0), "memory.used": ("MiB", 2, 12500.0)}
    assert figures_of(examples.TRAINER)["train_samples_per_second"] == ("samples/s", 1, 81.0)
    assert figures_of(examples.TITAN)["mfu"] == ("%", 2, 11.0)
    assert figures_of(examples.DEEPSPEED_LOG)["MemAllocated"] == ("GB", 1, 2.1)
    assert figures_of(examples.MEGATRON)["throughput per GPU"] == ("TFLOP/s/GPU", 1, 123.4)


def test_unknown_columns_are_counted_and_left_out() -> None:
    text = examples.ASCEND.replace("Core Type,", "Core Type,Mood,")
    text = re.sub(r"(,AI_\w+),", r"\1,fine,", text)
    document = document_of(text)
    assert [(loss.id, loss.count) for loss in document.losses] == [("read-form-column-unknown", 1)]
    assert run_of(text).device_ns == run_of(examples.ASCEND).device_ns


@pytest.mark.parametrize(
    "text",
    [
        "| Option | Time (ms) |\n|---|---|\n| verbose | 3 |\n",
        "| Kernel | Speed |\n|---|---|\n| gemm | fast |\n",
        "| Stage | Status | Owner |\n|---|---|---|\n| forward | done | me |\n",
        "the run took 10 s in forward: 3 ms\n",
        "time (ms) | nothing: 5.0\n",
    ],
)
def test_other_texts_are_no_tables(text: str) -> None:
    with pytest.raises(TraceAnalyzerError):
        document_of(text)


def test_a_table_that_a_person_made_is_a_summary_beside_those_of_the_profiler() -> None:
    printed = "-----  --------  ---------\nName   Self CPU  # of Calls\n-----  --------  ---------\nmm  5.000ms  1\n"
    assert [table.form for table in document_of(printed + "\n" + examples.BY_HAND).tables] == [None]


def busy(number: int) -> int:
    """Some work for a profiler."""
    return sum(value * value for value in range(number))


@pytest.mark.parametrize("order", ["cumulative", "tottime", "ncalls"])
def test_what_cprofile_prints_now_is_read(order: str) -> None:
    profile = cProfile.Profile()
    profile.runcall(busy, 20_000)
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats(order).print_stats()
    run = run_of(out.getvalue())
    assert run.tool == "cProfile"
    assert {"busy", "genexpr", "sum"} <= {word for part in run.parts for word in re.findall(r"\w+", part.name)}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
        lambda text: f"It is slow:\n\n```\n{text}\n```\nWhy?\n",
        lambda text: text.replace("  ", "   "),
        lambda text: "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()),
    ],
    ids=["crlf", "mail", "code", "wider", "colours"],
)
@pytest.mark.parametrize("text", [examples.LIGHTNING, examples.BY_HAND, examples.DEEPSPEED_TIMERS])
def test_what_copying_does_changes_nothing(text: str, change: object) -> None:
    assert callable(change)
    assert headlines(change(text)) == headlines(text)


def test_tables_of_nsys_stats_may_be_csv() -> None:
    columns = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    row = '75.0,1500000000,100,15000000.0,15000000.0,14000000,16000000,1000.0,"void gemm<(int)4, float>(int, T2)"\n'
    (kernel,) = run_of(columns + row).kernels
    assert (kernel.name, kernel.calls, kernel.device_self_ns) == ("void gemm<(int)4, float>(int, T2)", 100, 1500000000)


def test_a_saving_of_a_whole_run_is_not_per_step() -> None:
    found = report_of(examples.LIGHTNING)
    said = " ".join(ta.render(found, "terminal").split())
    assert "in all (" in said
    assert "84 of 100 s in all" in said
    assert "per step" not in said.partition("Parts of the program")[0]


def test_files_of_a_folder_are_found_by_the_marks_of_forms() -> None:
    """Figures, and tables that a person made, have none: too many files would have it."""
    unmarked = {"BY_HAND", "BY_HAND_OF_STAGES", "SMI", "QUERY", "TRAINER", "TITAN", "DEEPSPEED_LOG", "DMON", "WAIT"}
    unmarked.add("PROGRAM_TIMES")
    texts = {name: text for name, text in vars(examples).items() if name.isupper() and name not in unmarked}
    assert [name for name, text in texts.items() if not descriptions.marks().search(text.encode())] == []
    assert not descriptions.marks().search(b"forward takes 3 ms, the loader 10 s")
