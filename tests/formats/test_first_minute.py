"""What one reads first: one sentence of at most 20 words, the fix, and little else, in every text format."""

from __future__ import annotations

import itertools
import os
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import traceanalyzer as ta
from tests import corpus_files
from tests.builders import TraceBuilder
from tests.corpus_files import page_of, report_of
from tests.formats.html.pages import VOID
from tests.formats.samples import in_turn, spoken
from tests.rules.judging import report as judged
from tests.rules.loader import test_preprocessing_in_step as preprocessing
from traceanalyzer import sections
from traceanalyzer.analyzers.idle.gpu import GpuMetrics
from traceanalyzer.formats import cards, html, language, markdown, sarif, terminal
from traceanalyzer.formats.html.figures import rounded
from traceanalyzer.formats.html.summary import step_ns
from traceanalyzer.report import units
from traceanalyzer.rules.engine.headlines.step_bound import MOST_WORDS
from traceanalyzer.sections.outcome import first, outcome

CORPUS = os.environ.get("TRACEANALYZER_CORPUS")
FIXTURES = Path(__file__).parents[2] / "fixtures"
LANGUAGES = ("en", "ru", "zh")
OWN = sorted((FIXTURES / "synthetic").glob("*.json*"))
REAL = sorted(Path(CORPUS, "corpus").glob("*.json.gz")) if CORPUS else []
FIELD = corpus_files.field()
FULL = os.environ.get("TRACEANALYZER_FULL") == "1"
EVERY = [*OWN, *(pytest.param(path, marks=pytest.mark.corpus) for path in (*REAL, *FIELD[:: 1 if FULL else 5]))]

LARGEST = sorted((*REAL, *FIELD), key=lambda path: path.stat().st_size)[0 if FULL else -4 :]
PAGE = 1_500_000
"""Most bytes of a page, which people attach to messages."""


def ids(path: object) -> str:
    return path.name if isinstance(path, Path) else ""


@pytest.mark.parametrize("path", EVERY, ids=ids)
def test_a_headline_is_one_sentence_of_at_most_20_words(path: Path) -> None:
    said = [headline.message.text for headline in report_of(path).headlines]
    assert [text for text in said if len(text.split()) > MOST_WORDS or ". " in text] == []


@pytest.mark.corpus
@pytest.mark.parametrize("path", LARGEST, ids=ids)
def test_a_page_has_at_most_one_and_a_half_megabytes(path: Path) -> None:
    assert 0 < len(page_of(path).encode("utf-8", "replace")) <= PAGE


@pytest.mark.parametrize("path", EVERY, ids=ids)
@in_turn
def test_a_terminal_of_100_columns_shows_at_most_40_lines(path: Path, turn: int) -> None:
    assert terminal.render(report_of(path), width=100, language=spoken(path.name, turn)).count("\n") <= 40


@pytest.mark.parametrize("path", EVERY, ids=ids)
@in_turn
def test_a_terminal_shows_how_busy_the_gpu_is(path: Path, turn: int) -> None:
    report = report_of(path)
    tables = [table for section in sections.build(report, 5) if section.id == "gpu" for table in section.tables]
    metrics = report.result("gpu", GpuMetrics)
    assert len(tables) == (1 if metrics is not None and metrics.devices else 0)
    said = spoken(path.name, turn)
    for width, table in itertools.product((80, 160), tables):
        busy = next(n for n, column in enumerate(table.columns) if column.title.id == "gpu-busy")
        lines = terminal.render(report, width=width, language=said).split("\n")
        header = [re.split(r"\s{2,}", line.strip()) for line in lines]
        at = next(n for n, cells in enumerate(header) if said.text(table.columns[busy].title) in cells)
        share = said.quantity(table.rows[0][busy], "share").replace("\u00a0", " ")
        assert share in lines[at + 1]


@pytest.mark.parametrize("path", EVERY, ids=ids)
@in_turn
def test_a_comment_has_at_most_three_folds(path: Path, turn: int) -> None:
    assert markdown.render(report_of(path), language=spoken(path.name, turn)).count("<details>") <= 3


@pytest.mark.parametrize("path", EVERY, ids=ids)
@in_turn
def test_each_format_begins_with_the_same_sentence(path: Path, turn: int) -> None:
    """The terminal keeps the digits of its tables; all others have whole numbers."""
    report = report_of(path)
    if len(report.headlines) != 1:
        pytest.skip("nothing to compare: no headline, or several")
    speech = spoken(path.name, turn)
    said = "".join(speech.say(report.headlines[0].message).split())
    assert "".join(terminal.render(report, width=100, language=speech).split()).startswith(said)
    whole = "".join(rounded(speech, step_ns(report)).say(report.headlines[0].message).split())
    tab = html.render(report, language=speech).partition("<title>")[2].partition("</title>")[0]
    assert "".join(unescape(tab).split()).startswith(whole.replace("`", "")[:80])
    run = msgspec.json.decode(sarif.render(report, language=speech))["runs"][0]
    assert "".join(run["properties"]["verdicts"][0].split()) == whole
    line = markdown.render(report, language=speech).split("\n")[1]
    assert "".join(line.replace("\\", "").replace("\u200b", "").split()).endswith(whole)


@pytest.mark.parametrize("path", EVERY, ids=ids)
def test_the_first_screen_says_one_value_of_each_thing(path: Path) -> None:
    """Two sentences do not say nearly the same figure: a reader takes 168 and 170 ms for one time with two values."""
    page = FirstScreen(page_of(path))
    said = [(number, amount, text) for number, text in enumerate(page.sentences) for amount in amounts(text)]
    pairs = ((one, other) for one, other in itertools.combinations(said, 2) if one[0] != other[0])
    assert [pair for pair in pairs if pair[0][1] != pair[1][1] and near(pair[0][1], pair[1][1])] == []


class FirstScreen(HTMLParser):
    """The sentences of the first screen, without prices, code, pictures and what is folded."""

    LEFT_OUT = frozenset({"script", "style", "svg", "code", "details", "ol", "ul", "dl"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sentences: list[str] = []
        self._open: list[str] = []
        self._is_inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        self._is_inside |= dict(attrs).get("id") == "summary"
        self._open += [tag] if self._is_inside else []
        if tag in ("p", "h2", "figcaption"):
            self.sentences.append("")

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._open[-1]:
            self._open.pop()
        self._is_inside = bool(self._open)

    def handle_data(self, data: str) -> None:
        if self._is_inside and self.sentences and not self.LEFT_OUT & {*self._open}:
            self.sentences[-1] += data.replace("\u00a0", " ")


_AMOUNT = re.compile(r"(\d[\d,]*(?:\.\d+)?)(?: (?:of the|\u2192) (\d[\d,]*(?:\.\d+)?))? (ms|us|ns|s|%)(?![\w/])")
_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0, "%": 1e-2}
_NEAR = 0.02


def amounts(text: str) -> list[float]:
    """The times in ns, and the shares, of a sentence; not what a step would be with fixes."""
    found = []
    for match in _AMOUNT.finditer(text):
        numbers = [match[1]] if "\u2192" in match[0] or match[2] is None else [match[1], match[2]]
        found += [float(number.replace(",", "")) * _UNITS[match[3]] for number in numbers]
    return found


def near(one: float, other: float) -> bool:
    return (one > 1) == (other > 1) and abs(one - other) <= _NEAR * max(one, other)


def test_two_values_of_one_thing_are_found() -> None:
    page = "<main id=summary><p>Idle 168 of the 222 ms.</p><p>222 \u2192 126 ms</p><p>Idle 170\u00a0ms</p></main>"
    first, second, third = map(amounts, FirstScreen(page).sentences)
    assert (first, second, third) == ([168e6, 222e6], [222e6], [170e6])
    assert near(first[0], third[0])
    assert not near(first[0], first[1])


@pytest.mark.parametrize("path", EVERY, ids=ids)
def test_the_first_three_findings_have_their_fix(path: Path) -> None:
    report = report_of(path)
    text = "".join(terminal.render(report, width=100).split())
    for finding in first(report.findings):
        card = cards.card(finding, language.ENGLISH)
        assert "".join(card.action.split()) in text
        assert "".join(card.fix.split())[:60] in text


def test_a_cut_file_says_so_in_its_first_line(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.step(number, 1000 * number, 1000)
        trace.op("aten::mm", 1000 * number + 10, 900)
        trace.launch_kernel("gemm", 1000 * number + 40, 600, at=1000 * number + 20)
    file = tmp_path / "trace.json"
    trace.write(file)
    file.write_bytes(file.read_bytes()[:-200])
    report = ta.analyze(ta.load(file))  # type: ignore[arg-type]
    first, second, *_ = terminal.render(report, width=120).split("\n")
    assert first.startswith("Cut off: ")
    assert second.startswith("The file is cut off: only its first ")
    assert markdown.render(report).split("\n")[1].startswith("## \u23f1\ufe0f Cut off: Limited by the CPU: ")
    for code, words in (("ru", "Файл обрезан: "), ("zh", "文件被截断：")):
        line = terminal.render(report, width=120, language=language.of(code)).split("\n")[0]
        assert words in line
        assert "Cut off" not in line


def test_the_outcome_tells_fixes_that_may_save_nothing() -> None:
    """One fix alone is said at best; of several the number that may gain nothing."""
    found = judged(preprocessing.fires_on_a_cpu())
    headline = found.headlines[0]
    said = outcome(headline, found.findings)
    assert said is not None
    assert said.text == "3.0 \u2192 2.0 ms per step at best (1.5x) with the fix."
    assert headline.combined is not None
    (fix,), (finding,) = headline.combined.fixes, found.findings
    assert finding.saving is not None
    sure = replace(finding, saving=replace(finding.saving, decided_by=None))
    both = replace(headline.combined, fixes=(fix, replace(fix, finding=1)))
    said = outcome(replace(headline, combined=both), (finding, sure))
    assert said is not None
    assert said.text.endswith(" with both fixes, of which 1 may save nothing.")


def test_both_times_of_an_outcome_look_different() -> None:
    """A saving of 2.9 % of 17 ms is told as a share."""
    found = judged(preprocessing.fires_on_a_cpu())
    headline = found.headlines[0]
    assert headline.combined is not None
    combined = replace(headline.combined, step_ns=17_300_000.0, wall_ns_per_step=(200_000.0, 500_000.0))
    said = outcome(replace(headline, combined=combined), found.findings)
    assert said is not None
    assert said.text == "17 ms per step, at best 2.9 % less with the fix."


def test_shares_of_a_whole_add_up() -> None:
    assert units.adding_up([1 / 3, 1 / 3, 1 / 3]) == [0.34, 0.33, 0.33]
    assert units.adding_up([0.6615, 0.014, 0.0005, 0.0184, 0.2326, 0.0659, 0.0071]) == [
        *(0.66, 0.01, 0.0, 0.02, 0.23, 0.07),
        0.01,
    ]
    assert units.adding_up([0.25, 0.25]) == [0.25, 0.25]


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_outcome_is_said_with_the_unit_once(code: str) -> None:
    report = report_of(FIXTURES / "synthetic" / "gpu_training.json.gz")
    found = outcome(report.headlines[0], report.findings)
    assert found is not None
    said = language.of(code).say(found)
    assert "\u2192" in said
    before = said.partition(" \u2192")[0]
    assert not before.endswith(("ms", "us", "\u043c\u0441", "\u043c\u043a\u0441"))


def test_certain_findings_come_before_questions_and_these_before_what_only_informs() -> None:
    for path in OWN:
        places = []
        for finding in report_of(path).findings:
            is_last = finding.latent or finding.severity == "info"
            is_question = finding.stage == "preview" or bool(finding.saving and finding.saving.decided_by)
            places.append(3 if is_last else 1 if is_question else 0 if finding.saving else 2)
        assert [place for place in places if place != 2] == sorted(place for place in places if place != 2), path.name


def test_what_a_trace_without_steps_saves_is_not_per_step(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(400):
        trace.op("aten::add", 100 * number, 90)
        trace.launch_kernel("vectorized_elementwise_kernel", 100 * number + 60, 3, at=100 * number + 50)
    file = tmp_path / "trace.json"
    trace.write(file)
    report = ta.analyze(ta.load(file))  # type: ignore[arg-type]
    assert [finding.rule for finding in report.findings if finding.saving] != []
    priced = [line for line in terminal.render(report, width=200).split("\n") if re.search("[Ss]ave|\u2192", line)]
    assert [line for line in priced if "per step" in line] == []
    assert "in all" in priced[0]
    prices = re.findall(r'<p class="price">.*?</p>', html.render(report))
    assert [price for price in prices if "per step" in price] == []
