"""The strip of the first screen, and the timeline: what they show, and how findings and times lead to each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import corpus_files
from tests.browser.opened import Opened
from tests.builders import TraceBuilder
from tests.formats.html.advised import advised
from tests.formats.samples import SOUND, TRAINING, report_of
from tests.reading import read_built
from traceanalyzer.analyzers.steps.slices import OF_EVENTS, RecordedSlices
from traceanalyzer.formats import html
from traceanalyzer.formats.html.cells import LIMIT, stages
from traceanalyzer.formats.html.timeline_data import times
from traceanalyzer.formats.html.waterfall import LONGEST, bare_name
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, shorten

pytestmark = pytest.mark.browser

PLANTED = next(path for path in SOUND if path.name == "planted_faults.json.gz")
SIZES = ({"width": 1440, "height": 900}, {"width": 1920, "height": 1080}, {"width": 500, "height": 900})


@pytest.fixture(scope="module")
def text() -> str:
    return html.render(report_of(PLANTED))


VIEW = "(({from, to, time, marked}) => [from, to, time.start, marked?.length])(shownTimeline.state())"
"""Start and end of what is shown, the start of its time, and the number of marked parts."""
COUNTS = """shownTimeline.data.times.map((time, index) => {
  shownTimeline.go(index, 0, time.duration);
  const lanes = shownTimeline.state().time.lanes
    .filter((lane) => ["host", "launches", "device", "accelerator"].includes(lane.kind));
  return lanes.reduce((sum, lane) => sum + lane.start.reduce((own, _, item) => own + (lane.count[item] ?? 1), 0), 0);
})"""
"""Number of events of each time."""
KERNELS = """(() => {
  shownTimeline.go(0, 0, 1e9);
  return shownTimeline.state().time.lanes.filter((lane) => lane.kind === "device")
    .flatMap((lane) => lane.name.map((name) => shownTimeline.data.names[name]));
})()"""
"""Names of all kernels of the first time."""
IDLE = """(() => {
  const { time, from, to } = shownTimeline.state(), lane = time.lanes.find((one) => one.kind === "idle");
  const item = lane.finding.findIndex((one, i) => one >= 0 && lane.length[i] > (to - from) / 50);
  const box = document.querySelector("#waterfall canvas");
  box.scrollIntoView({ block: "start", behavior: "instant" });
  document.querySelector("#waterfall .stage").scrollTop = 1e6;
  const at = box.getBoundingClientRect(), middle = (lane.start[item] + lane.length[item] / 2) / time.duration;
  return [at.x + middle * at.width, at.y + shownTimeline.laid("idle").top + 8, lane.finding[item]];
})()"""
"""Where the middle of an idle time with a finding is, and that finding."""


def view(shown: Opened) -> str:
    return shown.find("#waterfall .view").inner_text()


def chosen(shown: Opened) -> str:
    return shown.find("#waterfall .chosen").inner_text()


def in_view(shown: Opened, selector: str) -> bool:
    box = f"document.querySelector('{selector}').getBoundingClientRect()"
    return bool(shown.ask(f"{box}.top < innerHeight && {box}.bottom > 0"))


# The strip


@pytest.mark.parametrize(("scheme", "size"), list(zip(("light", "dark", "light"), SIZES, strict=True)))
def test_the_strip_is_on_the_first_screen(
    size: dict[str, int], scheme: str, text: str, opened: Callable[..., Opened], axe: str
) -> None:
    shown = opened(text, viewport=size, color_scheme=scheme)
    box = shown.find(".step-strip").bounding_box()
    assert box is not None
    assert shown.overflow() == 0
    if size["width"] >= 1440:
        assert box["y"] + box["height"] <= 900
        cards = shown.find(".first-cards").bounding_box()
        assert cards is not None
        assert cards["y"] + cards["height"] <= box["y"]
    assert shown.violations(axe, "color-contrast", "svg-img-alt", "link-name", "label", "select-name") == []


def test_the_strip_says_in_words_what_it_shows(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, java_script_enabled=False)
    assert shown.find(".step-strip").is_visible()
    said = shown.find("#strip-says").inner_text()
    assert shown.find(".strip-lanes").get_attribute("aria-labelledby") == "strip-says"
    labels = [item.inner_text() for item in shown.find(".strip-legend a:visible").all()]
    assert labels
    assert "typical steps" in said
    assert shown.find(".strip-legend li").first.inner_text() == "The GPU is idle per step, on average:"
    assert shown.find(".strip-lane path").count() > 5


def test_idle_time_of_the_strip_is_that_of_the_step(text: str, opened: Callable[..., Opened]) -> None:
    slices = report_of(PLANTED).result("slices", RecordedSlices)
    assert slices is not None
    shown = opened(text)
    areas = shown.find(".strip-lane .idle-area").all()
    assert sum(int(area.get_attribute("data-ns") or 0) for area in areas) == sum(slices.times[0].idle_duration)


@pytest.mark.corpus
def test_waiting_for_the_loader_is_what_the_headline_says(corpus: Path, opened: Callable[..., Opened]) -> None:
    report = corpus_files.report_of(corpus / "corpus" / "resnet50_v100_workers0_golden.json.gz")
    shown = opened(html.render(report))
    areas = shown.find(".idle-area[data-cause=dataloader]").all()
    drawn = sum(int(area.get_attribute("data-ns") or 0) for area in areas)
    part = report.headlines[0].message.params["part"][0]
    assert abs(drawn - part) <= 1_000_000
    box = shown.find(".step-strip").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 900


def test_idle_time_of_the_strip_leads_to_its_finding(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    area = shown.find(".idle-area[data-finding]").first
    finding = area.get_attribute("data-finding")
    area.dispatch_event("click")
    shown.wait_until(f"document.activeElement.id === '{finding}'")


# Findings and times


def test_a_finding_shows_its_times_and_back_returns(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    whole, top = view(shown), shown.ask("scrollY")
    link = shown.find(".best .shows").first
    address = link.get_attribute("href")
    assert address is not None
    shown.find(".best > li[data-shows] .saving").first.click()
    shown.wait_until("location.hash !== ''")
    assert shown.page.url.endswith(address)
    shown.wait_until(f"document.querySelector('#waterfall .view').textContent !== {whole!r}")
    assert in_view(shown, "#waterfall .stage")
    state = shown.ask(VIEW)
    start, end = (float(part) * 1e6 for part in address.partition("&t=")[2].partition("&")[0].split("-"))
    assert state[0] <= start < end <= state[1]
    assert state[3] >= 1
    shown.page.go_back()
    shown.wait_until(f"document.querySelector('#waterfall .view').textContent === {whole!r}")
    shown.wait_until(f"Math.abs(scrollY - {top}) < 5")


def test_an_address_opens_the_timeline_where_it_says(text: str, opened: Callable[..., Opened]) -> None:
    first = opened(text)
    address = first.find("article .shows").first.get_attribute("href")
    first.ask(f"location.hash = '{address}'")
    first.wait_until("shownTimeline.state().marked")
    second = opened(text, address)
    assert view(second) == view(first)
    assert in_view(second, "#waterfall .stage")


def test_every_time_of_evidence_is_a_link_to_that_time(opened: Callable[..., Opened]) -> None:
    shown = opened(html.render(advised(report_of(TRAINING))))
    links = shown.find(".evidence a.moment")
    assert links.count() > 0
    cells = "[...document.querySelectorAll('.evidence td')]"
    words = shown.ask(f"{cells}.filter((cell) => / at \\d/.test(cell.textContent)).length")
    assert shown.ask("[...document.querySelectorAll('.evidence td:has(a.moment)')].length") == words
    at = float(str(links.first.get_attribute("href")).removeprefix("#at=")) * 1e6
    shown.unfold()
    links.first.click()
    shown.wait_until("location.hash.startsWith('#at=')")
    found = shown.ask(VIEW)
    assert found[0] <= at - found[2] <= found[1]


def test_zooming_is_in_the_address(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#waterfall [data-do=in]").click()
    shown.wait_until("location.hash.startsWith('#step=')")
    again = opened(text, shown.ask("location.hash"))
    assert view(again) == view(shown)


def test_idle_time_names_and_opens_its_finding(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    place = shown.ask(IDLE)
    shown.page.mouse.click(place[0], place[1])
    box = shown.find("#waterfall .its-finding")
    assert box.is_visible()
    link = box.locator("a")
    assert link.inner_text() == shown.ask(f"shownTimeline.data.findings[{place[2]}].title")
    target = str(link.get_attribute("href"))
    link.click()
    shown.wait_until(f"document.activeElement.id === '{target[1:]}'")


# All slices


def test_every_slice_has_its_name_and_counts_sum_to_the_trace(text: str, opened: Callable[..., Opened]) -> None:
    slices = report_of(PLANTED).result("slices", RecordedSlices)
    assert slices is not None
    shown = opened(text)
    counts = shown.ask(COUNTS)
    assert counts == [time.events - time.hidden_events for time in slices.times]
    names = shown.ask(KERNELS)
    wanted = [
        shorten(clean(bare_name(slices.names[name])), LONGEST)
        for lane in slices.times[0].lanes
        if lane.kind == "device"
        for name in lane.name
    ]
    assert names == wanted


def test_after_zooming_all_the_way_a_slice_has_its_own_name(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#waterfall .search").fill("sgemm")
    shown.find("#waterfall .search").press("Enter")
    shown.find("#waterfall .stage").focus()
    shown.page.keyboard.press("f")
    assert "sgemm" in chosen(shown)
    begin, end, *_ = shown.ask(VIEW)
    assert end - begin == 2 * shown.ask("(({at}) => at.lane.length[at.item])(shownTimeline.state())")


def test_merged_slices_say_how_many_they_are_and_split_on_zoom(opened: Callable[..., Opened]) -> None:
    shown = opened(html.render(crowded()))
    stage = shown.find("#waterfall .stage")
    stage.scroll_into_view_if_needed()
    lane = shown.ask("(() => { const own = shownTimeline.laid('launches'); return own.top; })()")
    shown.ask(f"document.querySelector('#waterfall .stage').scrollTop = {lane} - 100")
    box = shown.find("#waterfall canvas").bounding_box()
    assert box is not None
    shown.page.mouse.click(box["x"] + 500, box["y"] + lane + 8)
    first = chosen(shown)
    count = int(first.partition(" events, the longest cudaLaunchKernel")[0])
    assert count > 1
    for _ in range(30):
        shown.page.keyboard.press("w")
    stage.focus()
    shown.page.keyboard.press("ArrowRight")
    assert chosen(shown).startswith("cudaLaunchKernel: ")


def crowded() -> Report:
    """One step of 15,000 events."""
    trace = TraceBuilder()
    trace.step(1, 0, 100_100)
    for number in range(5000):
        start = 20 * number
        trace.op("aten::add", start, 15)
        trace.launch_kernel("add_kernel", start + 10, 8, at=start + 1, call_dur=5)
    return analyze(read_built(trace))


@pytest.mark.corpus
def test_a_step_of_many_events_is_drawn_as_blocks_that_sum_to_it(corpus: Path, opened: Callable[..., Opened]) -> None:
    report = corpus_files.report_of(corpus / "corpus" / "owlv2_h100_inference.json.gz")
    pages = ((detail, html.assemble(report, ENGLISH, detail)) for detail in stages(None))
    detail, text = next((detail, text) for detail, text in pages if len(text.encode()) <= LIMIT)
    assert text == html.render(report)
    shown_times = times(report, (), detail)
    assert shown_times is not None
    shown = opened(text)
    notes = shown.find("#waterfall .notes").inner_text()
    typical = shown_times.slices.times[0]
    blocks = sum(n for lane in typical.lanes if lane.kind in OF_EVENTS for n in lane.count if n > 1)
    assert f"{blocks:,} events" in notes


# Keys, search, arrows, touch


def test_keys_as_in_perfetto(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    whole = view(shown)
    shown.find("#waterfall .stage").focus()
    seen = [whole]
    for key in ("w", "d", "a", "s"):
        shown.page.keyboard.press(key)
        seen.append(view(shown))
    assert seen[1] != seen[0]
    assert seen[2] != seen[1]
    assert seen[3] == seen[1]
    assert seen[4] == whole


def test_search_finds_a_kernel_and_walks_through_all(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#waterfall .search").fill("SGEMM")
    hits = shown.find("#waterfall .hits")
    found = hits.inner_text().partition(" of ")[2]
    count, _, time = found.partition(", ")
    total = int(count)
    assert total > 1
    assert time.endswith("s")
    shown.find("#waterfall [data-do=next]").click()
    first = chosen(shown)
    assert "sgemm" in first
    shown.find("#waterfall [data-do=next]").click()
    assert hits.inner_text() == f"2 of {total}, {time}"
    assert chosen(shown) != first
    shown.find("#waterfall [data-do=previous]").click()
    assert chosen(shown) == first
    shown.find("#waterfall .search").fill("no such kernel")
    assert hits.inner_text() == "0 of 0, 0 ns"


def test_a_kernel_leads_to_its_launch_and_back(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#waterfall .search").fill("sgemm")
    shown.find("#waterfall [data-do=next]").click()
    shown.find("#waterfall .stage").focus()
    kernel = chosen(shown)
    shown.page.keyboard.press("g")
    assert "calls" in chosen(shown)
    shown.page.keyboard.press("g")
    assert chosen(shown) == kernel


def test_other_times_can_be_chosen(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    options = shown.find("#waterfall .which option").all_inner_texts()
    assert options[0].startswith("Typical step: ")
    assert options[-1].startswith("The whole trace, ")
    shown.find("#waterfall .which").select_option(str(len(options) - 1))
    span = report_of(PLANTED).trace
    assert span is not None
    assert shown.ask("shownTimeline.state().to") == span.span_ns


def test_lanes_have_names_for_people(text: str, opened: Callable[..., Opened]) -> None:
    labels = opened(text).ask("shownTimeline.state().time.lanes.map((lane) => lane.label)")
    assert {"Main", "Autograd", "Main: calls", "Main: phases"} <= set(labels)
    assert any(label.startswith("Stream ") for label in labels)


RANGE = "shownTimeline.range()"
EXPECTED = """(([from, to]) => {
  const sum = (lanes) => lanes.reduce((all, lane) => all + lane.start.reduce((own, start, item) =>
    own + Math.max(0, Math.min(start + lane.length[item], to) - Math.max(start, from)), 0), 0);
  return sum(shownTimeline.state().time.lanes.filter((lane) => lane.kind === "device"));
})(shownTimeline.range().range)"""
"""Time of kernels within the range, added up."""


def test_dragging_selects_a_range_and_says_what_is_in_it(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    whole = view(shown)
    shown.find("#waterfall .stage").scroll_into_view_if_needed()
    box = shown.find("#waterfall canvas").bounding_box()
    assert box is not None
    shown.page.mouse.move(box["x"] + 200, box["y"] + 50)
    shown.page.mouse.down()
    shown.page.mouse.move(box["x"] + 700, box["y"] + 50, steps=4)
    shown.page.mouse.up()
    assert view(shown) == whole
    found = shown.ask(RANGE)
    begin, end, *_ = shown.ask(VIEW)
    width = shown.ask("document.querySelector('#waterfall canvas').clientWidth")
    assert found["range"] == pytest.approx([200 / width * (end - begin), 700 / width * (end - begin)], rel=0.02)
    device = shown.ask("shownTimeline.data.toneLabels")
    classes = [row for row in found["byClass"] if row["label"] in device]
    assert sum(row["ns"] for row in classes) == pytest.approx(shown.ask(EXPECTED))
    said = shown.find("#waterfall .range")
    assert said.is_visible()
    assert said.locator("table").count() == 3
    shown.find("#waterfall .stage").focus()
    shown.page.keyboard.press("Escape")
    assert not said.is_visible()


def test_keys_select_a_range(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#waterfall .search").fill("sgemm")
    shown.find("#waterfall .search").press("Enter")
    shown.find("#waterfall .stage").focus()
    shown.page.keyboard.press("m")
    slice_ = "(({at}) => [at.lane.start[at.item], at.lane.start[at.item] + at.lane.length[at.item]])"
    first = shown.ask(f"{slice_}(shownTimeline.state())")
    assert shown.ask(RANGE)["range"] == first
    shown.page.keyboard.press("n")
    shown.page.keyboard.press("]")
    last = shown.ask(f"{slice_}(shownTimeline.state())")
    assert shown.ask(RANGE)["range"] == [first[0], last[1]]


def test_lanes_without_anything_in_view_fold(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    empty = "document.querySelector('#waterfall canvas').clientHeight"
    full = shown.ask(empty)
    shown.ask("shownTimeline.go(0, 0, 20)")
    assert shown.ask(empty) < full


def test_a_finding_is_named_where_it_is_shown_and_leads_back(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    assert not shown.find("#waterfall .from-finding").is_visible()
    shown.find("article .shows:visible").first.click()
    shown.wait_until("!document.querySelector('#waterfall .from-finding').hidden")
    back = shown.find("#waterfall .from-finding a")
    assert any(back.inner_text() in title for title in shown.find("article h3").all_inner_texts())
    back.click()
    shown.wait_until("document.activeElement.classList.contains('finding')")


def test_two_fingers_zoom(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, has_touch=True)
    whole = view(shown)
    shown.find("#waterfall .stage").scroll_into_view_if_needed()
    box = shown.find("#waterfall canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + 400, box["y"] + 60
    session = shown.page.context.new_cdp_session(shown.page)

    def touch(kind: str, *points: float) -> None:
        given = [{"x": point, "y": y, "id": number} for number, point in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": given})

    touch("touchStart", x, x + 100)
    for step in range(1, 6):
        touch("touchMove", x - 10 * step, x + 100 + 20 * step)
    touch("touchEnd")
    shown.wait_until(f"document.querySelector('#waterfall .view').textContent !== {whole!r}")
