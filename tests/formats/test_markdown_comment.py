"""What a comment shows before anything is folded."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import traceanalyzer as ta
from tests.builders import TraceBuilder
from tests.formats import readback
from tests.formats.samples import EVERY, FIXTURES, TRAINING, in_turn, report_of, spoken
from tests.reading import read_built
from traceanalyzer.analyzers.steps import Lane, Slice, Timeline
from traceanalyzer.formats import code_comments, difference, language, markdown, render
from traceanalyzer.formats.markdown import comment
from traceanalyzer.formats.markdown.page import DocumentPicture
from traceanalyzer.knowledge import marks
from traceanalyzer.pipeline import analyze
from traceanalyzer.rules.engine.rule import page
from traceanalyzer.sections.outcome import FIRST

LANGUAGES = ("en", "ru", "zh")
MOST = 25
FED = FIXTURES / "synthetic" / "gpu_training_fed.json.gz"


def opening(text: str) -> list[str]:
    return text.partition("<details>")[0].rstrip("\n").split("\n")


def check(text: str) -> None:
    shown = opening(text)
    assert len(shown) - 1 <= MOST, "the first line, a mark, is not shown"
    blocks = readback.tokens("\n".join(shown))
    assert {token.tag for token in blocks if token.type == "heading_open"} == {"h2"}
    assert sum(child.type == "strong_open" for token in blocks for child in token.children or ()) <= FIRST
    heads = [token for token in blocks if token.type == "table_open"]
    assert len(heads) <= 1
    for table in (table for part in readback.parts(text).values() for table in part.tables):
        assert any(cell.strip() for cell in table[0]), "a head without titles"
    assert all(len(line) <= 100 for token in blocks if token.type == "fence" for line in token.content.split("\n"))


@in_turn
@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_a_report_shows_at_most_25_lines(path: Path, turn: int) -> None:
    check(render(report_of(path), "markdown", None, spoken(path.name, turn)))


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_difference_shows_at_most_25_lines_and_both_steps(code: str) -> None:
    found = ta.diff(report_of(TRAINING), report_of(FED))
    text = difference.answer(found, language.of(code)).render("markdown")
    check(text)
    assert text.count("<details>") <= 3
    before, after, *_ = [line for line in opening(text) if "\u2588" in line]
    assert before.count("\u2591") > 10 * after.count("\u2591"), "the DataLoader"
    assert before.count("\u2588") == after.count("\u2588"), "kernels take as long"
    assert "\u2212" in "".join(opening(text)), "a minus sign"


def test_a_difference_says_what_was_predicted_and_what_to_do_next() -> None:
    found = ta.diff(report_of(TRAINING), report_of(FED))
    text = difference.answer(found).render("markdown").replace("\u00a0", " ")
    shown = opening(text)
    assert shown[1] == "## \u26a1 Faster: 7.1 \u2192 3.7 ms per step (\u221248 %), as predicted (up to 3.5 ms)"
    assert "7.1 ms" in shown[8], "the strip is of the same steps"
    assert "Fixed: Steps wait for the DataLoader (\u22123.4 ms)." in shown[3]
    cards = [number for number, line in enumerate(shown) if line[:3] in ("1. ", "2. ", "3. ")]
    assert 1 <= len(cards) <= FIRST
    assert shown[cards[0]].startswith("1. **Pin the input memory: pin\\_memory=True** Saves ")
    assert "pin_memory=True" in shown[cards[0] + 1]
    assert shown[cards[0] + 2].strip().startswith("still there: Copies to the GPU come from pageable memory")


def test_a_median_against_the_mean_is_what_the_verdict_says() -> None:
    found = ta.diff(report_of(TRAINING), report_of(FED))
    times = found.step_time
    assert times is not None
    against = replace(found, step_time=replace(times, mean=replace(times.mean, change_ns=1e5)))
    shown = opening(difference.answer(against).render("markdown").replace("\u00a0", " "))
    assert shown[1] == "## \u26a1 Faster: 7.1 \u2192 3.6 ms per step (\u221249 %)"
    assert shown[3].startswith("The median step is 49 % faster")
    assert "\u2588" not in "".join(shown), "the pictures are of the means"


def test_the_best_findings_have_their_saving_and_their_place() -> None:
    text = render(report_of(TRAINING), "markdown")
    shown = [line for line in opening(text) if line[:3] in ("1. ", "2. ", "3. ")]
    assert 1 <= len(shown) <= FIRST
    assert shown[0].startswith("1. **Pin the input memory: pin\\_memory=True** Saves ")
    assert "pin_memory=True" in text.partition(shown[0])[2].split("\n")[1]
    assert shown[2].startswith("3. **Add workers, or make a batch cheaper to load** May save up to "), (
        "a question after prices"
    )
    assert "workers" in text.partition(shown[2])[2].split("\n")[1]


def test_a_chart_with_a_public_address_takes_the_place_of_the_blocks() -> None:
    report = report_of(TRAINING)
    chart = DocumentPicture("steps", "Time of each step", "https://example.org/steps.svg")
    text = markdown.render(report, pictures=(chart,))
    assert "![Time of each step](https://example.org/steps.svg)" in opening(text)
    assert "\u2588" not in "".join(opening(text))


def timeline(*lanes: Lane) -> Timeline:
    return Timeline(
        "7", 0, 60_000, 60, ("aten::mm", "enumerate(DataLoader)#x.__next__", "gemm", "Memcpy HtoD"), lanes, 0
    )


def test_each_block_shows_what_takes_most_of_it() -> None:
    assert marks.is_dataloader("enumerate(DataLoader)#x.__next__")
    host = Lane("host", "1/1", (Slice(0, 15_000, 0, 1, 1), Slice(15_000, 30_000, 0, 0, 1)))
    device = Lane("device", "0/7", (Slice(20_000, 4_000, 0, 3, 1), Slice(24_000, 36_000, 0, 2, 1)))
    fence, cpu, gpu, _, legend, said, _ = comment.of_step(timeline(host, device), language.ENGLISH).split("\n")
    assert fence == "```text"
    assert cpu == "CPU " + 15 * "\u2591" + 30 * "\u2588" + 15 * "\u00b7"
    assert gpu == "GPU " + 20 * "\u00b7" + 4 * "\u2592" + 36 * "\u2588"
    assert legend == "\u2591 waits for the DataLoader  \u2592 copies  \u2588 works  \u00b7 idle"
    assert said == "Step 7, 60 us; a block is 1.0 us."


def test_a_cpu_that_waits_for_the_gpu_is_idle_in_blocks() -> None:
    trace = TraceBuilder()
    for number in range(3):
        start = 6000 * number
        trace.step(number, start, 6000)
        trace.op("aten::mm", start, 5990)
        trace.launch_kernel("gemm", start + 100, 5000, at=start + 50)
        trace.launch("cudaDeviceSynchronize", start + 2000, 3100)
    (cpu,) = (line for line in markdown.render(analyze(read_built(trace))).split("\n") if line.startswith("CPU "))
    assert cpu == "CPU " + 20 * "\u2588" + 31 * "\u00b7" + 9 * "\u2588"


def test_comments_of_code_are_translated_and_the_code_is_not() -> None:
    code = page("broadcast-blowup").code or ""
    said = code_comments.translated(code, language.of("ru"))
    assert said.startswith(code.partition("  # ")[0])
    assert "вместо (a * b).sum(-1)" in said
    assert code_comments.translated(code, language.ENGLISH) == code
    assert code_comments.translated("x = 1  # of another package", language.of("zh")) == "x = 1  # of another package"
