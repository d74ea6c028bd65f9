"""The page as a file: whole, self-contained, of bounded size, and the same for the same report."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tests.builders import TraceBuilder
from tests.formats.html.advised import advised, finding, saving
from tests.formats.html.pages import Page, unpacked
from tests.formats.pseudo import pseudo
from tests.formats.samples import EVERY, NO_GPU, TRAINING, report_of
from tests.reading import read_built
from traceanalyzer.formats import html
from traceanalyzer.formats.html import GROUPS
from traceanalyzer.formats.html.cells import LIMIT, stages
from traceanalyzer.formats.json import render as to_json
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Topic

each_fixture = pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)


def page_of(report: Report, top: int | None = 5) -> Page:
    return Page(html.render(report, top))


@cache
def text_of(path: Path) -> str:
    """The page of a fixture, with findings of all kinds."""
    return html.render(advised(report_of(path)), 5)


# Structure


@each_fixture
def test_it_is_one_balanced_document(path: Path) -> None:
    text = text_of(path)
    page = Page(text)
    assert text.startswith("<!doctype html>\n<html lang=")
    assert not page.unbalanced
    assert len(page.ids) == len(set(page.ids))
    links = {str(a["href"])[1:] for a in page.all("a") if str(a["href"]).startswith("#")}
    assert {link for link in links if not re.match(r"(step|time|at)=", link)} <= set(page.ids)
    labels = {name for _, a in page.elements for name in str(a.get("aria-labelledby") or "").split()}
    assert labels <= set(page.ids)
    assert [tag for tag, _ in page.elements if tag == "main"] == ["main"]


def test_it_carries_our_mark_and_title() -> None:
    page = page_of(report_of(TRAINING))
    marks = [meta["content"] for meta in page.all("meta") if meta.get("name") == "generator"]
    assert len(marks) == 1
    assert str(marks[0]).startswith("traceanalyzer ")
    assert f"Profile of {TRAINING.name}" in page.text


@each_fixture
def test_nothing_refers_outside(path: Path) -> None:
    page = Page(text_of(path))
    assert page.elements
    for tag, attributes in page.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert "style" not in attributes, "the policy blocks style attributes"
        assert not {name for name in attributes if name.startswith("on")}
        assert "src" not in attributes
        if tag == "a":
            assert re.match(r"#|https?://", str(attributes["href"]))
        elif "href" in attributes:
            assert str(attributes["href"]).startswith("#")


def test_the_policy_allows_this_style_and_this_script_only() -> None:
    text = html.render(report_of(TRAINING), 5)
    page = Page(text)
    policy = next(str(m["content"]) for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (source,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


# The same bytes


@each_fixture
def test_the_same_report_gives_the_same_bytes_also_after_it_was_saved(path: Path) -> None:
    saved = msgspec.json.decode(to_json(advised(report_of(path))).encode(), type=Report)
    assert html.render(saved, 5) == text_of(path)


# Size


def huge_trace() -> TraceBuilder:
    trace = TraceBuilder(options=("record_shapes",))
    for number in range(400):
        trace.step(number, number * 10_000, 9_000)
    for number in range(6000):
        start = number * 600
        name = f"very::long_operator_{number}_" + "x<&\"'" * 300
        trace.op(name, start, 500, shapes=[[number, 8]] * 20)
        trace.launch_kernel(f"kernel_{number}", start + 100, 90, at=start + 20)
    return trace


def test_a_huge_trace_fits_and_says_what_it_leaves_out() -> None:
    text = html.render(advised(analyze(read_built(huge_trace()))))
    assert len(text.encode()) <= LIMIT
    page = Page(text)
    assert not page.unbalanced
    assert re.search(r"\d+ of 6,000 rows\. All of them: traceanalyzer report TRACE -o report\.json", page.text)


def test_it_takes_the_most_detail_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(TRAINING)
    sizes = [len(html.assemble(report, pseudo(), detail).encode()) for detail in (stages(None)[0], stages(None)[-1])]
    assert sizes[0] > sizes[1]
    whole = html.render(report)
    monkeypatch.setattr(html, "LIMIT", len(whole.encode()) - 1)
    assert len(html.render(report).encode()) < len(whole.encode())


def test_rows_are_limited_and_counted() -> None:
    trace = TraceBuilder()
    for number in range(250):
        trace.op(f"aten::op_{number}", number * 100, 50)
    report = analyze(read_built(trace))
    full = page_of(report, None)
    assert "200 of 250 rows. All of them:" in full.text
    assert "3 of 250 rows. All of them:" in page_of(report, 3).text


# What is shown


@pytest.mark.parametrize("name", NO_GPU)
def test_without_a_gpu_there_is_no_section_of_zeros(name: str) -> None:
    page = page_of(report_of(next(path for path in EVERY if path.name == name)))
    assert {"gpu", "kernels"}.isdisjoint(page.ids)
    assert "GPU utilization" not in page.text
    assert {"summary", "operators", "definitions"} <= set(page.ids)


def test_every_topic_has_a_place_on_the_page() -> None:
    assert set(Topic) - {Topic.SUMMARY} <= set(GROUPS)


def test_the_first_screen_has_step_gpu_and_findings() -> None:
    page = page_of(advised(report_of(TRAINING)))
    for words in ("Waiting for data: Plain words", "Where the step goes", "In use, of the step"):
        assert words in page.text
    begin = page.text.index("What to fix first")
    assert "100-130 ms per step" in page.text[begin:]
    assert begin < page.text.index("Where the step goes")


def test_no_resource_is_in_use_for_more_than_the_step() -> None:
    """The CPU of a server launches ahead: its work within a mark is not that of the step alone."""
    report = report_of(TRAINING)
    (headline,) = report.headlines
    assert headline.resources is not None
    step = headline.resources.step_ns
    for host, is_shown in ((0.5 * step, True), (9.0 * step, False)):
        resources = msgspec.structs.replace(headline.resources, host_ns=host)
        changed = msgspec.structs.replace(headline, resources=resources)
        text = html.render(msgspec.structs.replace(report, headlines=(changed,)))
        assert ('data-concept="resource-host-share"' in text) is is_shown


@pytest.mark.parametrize("kernel_us", [650, 850])
def test_two_shares_of_one_loader_have_two_names(kernel_us: int) -> None:
    """A loader that waits beside a kernel: the part in which only it runs is told from all of it."""
    trace = TraceBuilder()
    for number in range(4):
        start = 1000 * number
        trace.step(number, start, 1000)
        trace.op("aten::mm", start, 80)
        trace.launch_kernel("gemm", start + 50, kernel_us, at=start + 20)
        trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start + 700, 290)
    labels = re.findall(r'<span class="label">(.*?)</span>', html.render(analyze(read_built(trace))))
    assert labels.count("DataLoader") == (2 if kernel_us == 650 else 1)
    assert labels.count("DataLoader alone") == (0 if kernel_us == 650 else 1)


def test_a_finding_says_everything() -> None:
    page = page_of(advised(report_of(TRAINING)))
    for words in (
        "Title: Plain words",
        "Summary: Plain words",
        "Advice: Plain words",
        "Not when: Plain words",
        "DataLoader(dataset, num_workers=4) # Plain words",
        "Measured: Plain words 75.00 % 5.00 %",
        "174.76 ms \u2212 max(44.05 ms GPU, 6.14 ms host) = 130.71 ms",
        "up to 5.0 ms per step",
        "Critical",
        "No gain yet:",
        "docs.pytorch.org/docs/stable/data.html",
        "What limits the step after that: GPU",
    ):
        assert words in page.text, words
    assert "inferred" in [span.get("data-tip") for span in page.all("span")]


def test_a_latent_finding_says_on_its_first_card_what_it_saves_later() -> None:
    small = finding("fp32-matmul", latent=True, blocked_by="loader", saving=saving(0, 40_000, "gpu", arithmetic=False))
    small = msgspec.structs.replace(small, after_fixes_ns_per_step=(0.0, 66e6, 130e6))
    text = html.render(msgspec.structs.replace(report_of(TRAINING), findings=(small,)))
    (price,) = re.findall(r'<p class="price">(.*?)</p>', text)
    assert "after earlier fixes 66 ms (0-130) per step" in re.sub("<.*?>", "", price).replace("\N{NO-BREAK SPACE}", " ")


def test_a_latent_finding_says_that_it_saves_nothing_yet_and_no_time_beside_that() -> None:
    small = finding("fp32-matmul", latent=True, blocked_by="loader", saving=saving(0, 40_000, "gpu", arithmetic=False))
    page = page_of(msgspec.structs.replace(report_of(TRAINING), findings=(small,)))
    assert page.text.count("No gain yet: the DataLoader is the limit") == 2, "on the card of the first screen, too"
    assert "up to 40.00 us" not in page.text


def test_a_latent_finding_that_saves_a_little_says_how_little() -> None:
    worth = msgspec.structs.replace(saving(1_000_000, 1_040_000, "gpu", arithmetic=False), point_ns_per_step=1_010_000)
    later = {"latent": True, "blocked_by": "loader", "saving": worth}
    page = page_of(msgspec.structs.replace(report_of(TRAINING), findings=(finding("fp32-matmul", **later),)))
    assert "1.0 ms per step (0.57-0.60 %) Little gain yet: the DataLoader is the limit" in page.text
    assert "No gain yet" not in page.text
    assert "after earlier fixes" not in page.text  # they make it worth no more
    more = finding("fp32-matmul", **later, after_fixes_ns_per_step=(5_000_000, 7_000_000, 8_000_000))
    page = page_of(msgspec.structs.replace(report_of(TRAINING), findings=(more,)))
    assert "Little gain yet: the DataLoader is the limit; after earlier fixes 7.0 ms (5.0-8.0) per step" in page.text


def test_findings_have_addresses_of_their_own() -> None:
    page = page_of(advised(report_of(TRAINING)))
    addresses = [id_ for id_ in page.ids if id_.startswith("finding-") and not id_.endswith("-title")]
    assert addresses == [
        "finding-dataloader-bound",
        "finding-fp32-matmul",
        "finding-small-kernels",
        "finding-pageable-copies",
        "finding-memory-near-limit",
        "finding-small-kernels-2",
    ]


@each_fixture
def test_skipped_analyses_and_warnings_are_on_the_page(path: Path) -> None:
    report = report_of(path)
    text = Page(text_of(path)).text
    assert report.skipped
    for item in report.skipped:
        option = re.search(r"(record_shapes|profile_memory|with_stack|with_flops)=True", item.reason.text)
        if option and report.trace and getattr(report.trace.options, option[1]):
            option = None  # it was on: something else is missing, which the rest of the reason says
        assert (f"Record with {option[0]}: " if option else "not apply to this trace; the JSON report has") in text
        assert "_" not in item.id or f"{item.id}: " not in text
    for warning in report.warnings[:5]:
        assert " ".join(warning.message.text.split())[:60] in text


@each_fixture
def test_no_word_escapes_translation(path: Path) -> None:
    """In the pseudo-locale every text of ours is in brackets; what is outside is a name, a number or a command."""
    text = html.render(advised(report_of(path)), 2, language=pseudo())
    for label in ("Contents", "Findings", "Zoom in", "Copy as CSV", "Filter", "Evidence", "How every metric", "Median"):
        assert f">{label}" not in text


def test_the_data_of_the_script_is_json() -> None:
    page = page_of(report_of(TRAINING))
    data = json.loads(page.data["waterfall-data"])
    assert data["times"]
    for time in data["times"]:
        for lane in time["lanes"]:
            columns = {key: unpacked(lane[key]) for key in ("start", "length", "row", "name")}
            assert len({len(column) for column in columns.values()}) == 1
            assert len(unpacked(lane["count"])) in (0, len(columns["start"]))
            assert max(columns["name"]) < len(data["names"])
            assert max(columns["row"]) == lane["rows"] - 1
            assert 0 <= sum(columns["start"]) + columns["length"][-1] <= time["duration"]
    assert all(max(unpacked(tones)) < len(data["tones"]) for tones in data["toneOf"].values())
    assert set(json.loads(page.data["words"])) >= {"copied", "found", "slice"}


def test_bars_fill_from_the_left() -> None:
    style = text_of(TRAINING).partition("<style")[2].partition("</style>")[0]
    assert "td.n .meter" in style
    assert "scaleX" not in style


def test_code_in_a_sentence_is_an_element_of_its_own() -> None:
    report = advised(report_of(TRAINING), "in `a.py: <b>`, not ``c``")
    text = html.render(report, 5)
    page = Page(text)
    assert not page.unbalanced
    assert text.count("Title: in <code>a.py: &lt;b&gt;</code>, not ``c``</a>") >= 1
    assert "<p>Summary: in <code>a.py: &lt;b&gt;</code>, not ``c``</p>" in text
    assert '<p class="sentence">Waiting for data: in <code>a.py: &lt;b&gt;</code>, not ``c``</p>' in text
    labels = [str(a["aria-label"]) for a in page.all("a") if "aria-label" in a]
    assert any(label.endswith("Title: in a.py: <b>, not ``c``") for label in labels)
