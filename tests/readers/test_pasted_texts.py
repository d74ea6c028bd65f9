"""What people paste: each text of the corpus with the answer that it should give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests import corpus_files
from traceanalyzer.report.model import Report
from traceanalyzer.trace.document import TableDocument

CORPUS = os.environ.get("TRACEANALYZER_CORPUS")
pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not CORPUS, reason="TRACEANALYZER_CORPUS is not set")]

RANKS = "19_two_ranks_interleaved.log"
ANSWERS: dict[str, tuple[str, ...]] = {
    "01_pipes_without_outer_bars.md": (
        "CPU 2.0 s, device 1.9 s",
        "Limited by GPU compute",
        "computes in fp32 for 1.5 s",
        "-No verdict",
    ),
    "02_bold_totals.md": ("CPU 1,235 s, device 1,200 s", "at most 97 % of it", "-does not show the CPU"),
    "03_loader_with_operators_inside.txt": (
        "Waiting for data: at least 6.0 of 10 ms per step (60 %)",
        "6.0 of 10 ms per step",
    ),
    "04_step_row_counted_as_gpu_work.txt": (
        "Typical step: 400.0 ms",
        "400 ms per step (",
        "subtracted",
    ),
    "05_two_runs_merged.md": (
        "run-1: No verdict",
        "run-2",
        "1.000 s",
        "-CPU 1.0 s, device 10.0",
    ),
    "07_own_kernel_left_out.txt": (
        "my_gather_backward 100 700.0 ms 70.00 %",
        "Device time in rows that are not printed: 0 ns",
    ),
    "08_gpu_96_percent_busy_but_unknown.txt": ("9.6 s of the run (96 %)", "72.92 %", "-No verdict"),
    "09_event_times_far_above_host_times.txt": ("9.8 s of the run (", "-has none of its events"),
    "10_gpu_program_cpu_columns_only.txt": (
        "The GPU was not recorded",
        "cudaMemcpyAsync",
        "ProfilerActivity.CUDA",
    ),
    "11_five_percent_of_rows_bound_by_cpu.txt": (
        "No verdict",
        "95 % of the time is in rows",
        "-Limited by",
    ),
    "12_bottleneck_events_become_a_story.md": (
        "`prepare.py:10(tokenize)` 100 s",
        "`prepare.py:10(tokenize)` 120 s",
        "not a step",
        "-Where it began",
        "-After the change",
        "-times as long",
    ),
    "14_torch_1_0_header.txt": ("IndexBackward 1 40.00 ms 40.00 ms matmul",),
    "15_step_longer_than_its_row.txt": ("Typical step: 2.000 s", "on other threads, per step: 500.0 ms"),
    "16_notebook_one_line.ipynb": ("CPU 2.0 s, device 1.9 s", "ampere_sgemm_128x128_nn", "aten::mm"),
    "17_deepspeed_wall_clock.log": (
        "Of 600 ms",
        "update (`step_microstep`) 300 ms, backward (`bwd_microstep`) 200 ms",
        "communication (`bwd_allreduce_microstep`) 50 ms of it, forward (`fwd_microstep`) 100 ms",
    ),
    "17b_nvidia_smi_dmon.txt": ("nvidia-smi dmon", "sm (gpu 0) %", "mclk (gpu 0) MHz", "record a trace"),
    RANKS: ("rank-0: Limited by GPU compute", "rank-1: Limited by GPU compute"),
    "20_eager_attention_silent.txt": (
        "Use fused attention",
        "scaled_dot_product_attention",
        "100 % of the GPU's time",
    ),
    "21_index_backward_silent.txt": (
        "Replace x[index] by index_select or embedding",
        "18 ms in each",
        "index_select",
    ),
    "25_totals_with_one_row_in_prose.md": ("Waiting for data", "630 of 900 ms", "that is little"),
}
"""Parts of the report on each text, and after a minus what it must not say."""


def told(report: Report, form: str = "terminal") -> str:
    """The report as a format shows it, in one line."""
    return " ".join(ta.render(report, form).split())


def pasted(name: str) -> Report:
    """The report on a text of the corpus."""
    return corpus_files.report_of(Path(CORPUS or "", "pasted", name))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_pasted_text_gives_its_answer(name: str) -> None:
    said = told(pasted(name))
    wanted = {part for part in ANSWERS[name] if not part.startswith("-")}
    unwanted = {part[1:] for part in ANSWERS[name] if part.startswith("-")}
    assert {part for part in wanted | unwanted if part in said} == wanted


def test_each_pasted_text_has_its_answer() -> None:
    files = {path.name for path in Path(CORPUS or "", "pasted").iterdir()} - {"README.md"}
    assert files == set(ANSWERS)


@pytest.mark.parametrize(
    "name", ["01_pipes_without_outer_bars.md", "16_notebook_one_line.ipynb", "19_two_ranks_interleaved.log"]
)
def test_all_rows_are_read(name: str) -> None:
    document = corpus_files.content_of(Path(CORPUS or "", "pasted", name))
    assert isinstance(document, TableDocument)
    assert [len(table.rows) for table in document.tables] == [3] * (2 if name == RANKS else 1)


def test_the_story_of_a_write_up_goes_to_its_last_measurement() -> None:
    (path,) = Path(CORPUS or "", "documents").glob("002_*.txt")
    said = told(corpus_files.report_of(path), "markdown")
    for part in (
        "After “Настройка даталоадера” (batch\\_size: 1024; num\\_workers: 2; pin\\_memory: True;",
        "the text gives 964.4 samples per second",
        "After “torch.compile” the text gives 1,327 samples per second",
        "4.9 became 1,327 samples per second: 271 times as many",
    ):
        assert part in said
