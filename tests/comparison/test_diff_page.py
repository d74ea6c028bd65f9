"""The page of a difference: both sides on one scale, the same for a saved difference, and silent about nothing."""

from __future__ import annotations

import json
from functools import cache
from html.parser import HTMLParser

import msgspec
import pytest
from sides import QUIET, report, training

from tests.formats.samples import HOSTILE
from traceanalyzer.comparison import diff
from traceanalyzer.formats import before_after, language
from traceanalyzer.formats.before_after import UnitOfTimes
from traceanalyzer.formats.difference import FORMATS, answer
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.difference import Difference

WAITS = [us + 40_000 for us in QUIET]


@cache
def fed(name: str = "gemm") -> Difference:
    """A loader that takes 41 ms of a step, and then 1 ms."""
    kernels = {f"{name}_kernel": 5000}
    base = training(WAITS, loader_us=41_000, kernels=kernels, operators={f"{name}_op": 200})
    return diff(report(base), report(training(kernels=kernels, operators={f"{name}_op": 200})))


@cache
def unrelated() -> Difference:
    one, two = ({"operators": {f"{n}::op": 200}, "kernels": {f"{n}_kernel": 5000}} for n in ("a", "b"))
    base = training(options=(), batch=3, **one)  # type: ignore[arg-type]
    head = training(options=(), batch=77, **two)  # type: ignore[arg-type]
    for trace in (base, head):
        for event in trace.events:
            if event.get("name") == "aten::mm":
                event["name"] = f"{id(trace)}::mm"
    return diff(report(base), report(head))


class Tags(HTMLParser):
    """Counts of elements by tag and first class."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append(f"{tag}.{(dict(attrs).get('class') or '').partition(' ')[0]}")


def test_bars_are_on_one_scale_and_add_up_to_the_steps() -> None:
    base, head = before_after.stacks(fed(), ENGLISH)
    widths = [sum(piece.width for piece in stack.pieces) for stack in (base, head)]
    assert widths == pytest.approx([1.0, 100_025 / 140_025], rel=1e-3)
    assert (base.total, head.total) == ("140\u00a0ms", "100\u00a0ms")
    assert [piece.value for piece in base.pieces if piece.tone == "dataloader"] == ["41\u00a0ms"]


def test_strips_show_where_the_loader_is_waited_for() -> None:
    waits = [
        [band.spans for band in strip.lanes[0].bands if band.tone == "dataloader"]
        for strip in before_after.strips(fed())
    ]
    assert waits == [[((10_000, 41_000_000),)], [((10_000, 1_000_000),)]]
    base, head = before_after.steps(fed(), ENGLISH)
    assert [side.lanes[-1][0] for side in (base, head)] == ["GPU 0", "GPU 0"]
    (path,) = [path for tone, path in base.lanes[0][1] if tone == "dataloader"]
    assert path.endswith(f"H{-(-41_010 * before_after.GRID // 140_000)}V1H0Z")


def test_the_page_has_the_answer_the_parts_and_the_findings() -> None:
    page = answer(fed()).render("html")
    tags = Tags(page).found
    assert tags.count("svg.stack") == 2
    assert tags.count("script.") == 2
    assert "nav.contents" in tags
    title = "Faster: 140 \u2192 100 ms per step (\u221229 %), as predicted (27-41 ms)"
    assert f"<title>{title}</title>" in page.replace("\u00a0", " ")
    assert "Fixed: 1" in page
    assert page.index("Fixed: 1") < page.index("Steps wait for the DataLoader") < page.index('-title">Step time')
    assert '<td class="n better">\u221240.00 ms</td><td>more than noise</td>' in page


def test_where_no_noise_is_known_one_sentence_says_so_instead_of_a_column() -> None:
    base, head = report(training(WAITS[:2], loader_us=41_000)), report(training(WAITS[:2]))
    page = answer(diff(base, head)).render("html")
    assert page.count("more than noise is unknown") == 1
    assert "noise unknown" not in page


def test_a_slower_part_is_marked_and_noise_is_not() -> None:
    back = diff(report(training()), report(training(WAITS, loader_us=41_000)))
    senses = {part.id: before_after.sense(part, back) for part in back.parts}
    assert senses["dataloader"] == "worse"
    assert senses["kernel"] == ""


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("code", language.CODES)
def test_a_saved_difference_renders_the_same(form: str, code: str) -> None:
    saved = msgspec.json.decode(answer(fed()).render("json"), type=Difference)
    assert answer(saved, language.of(code)).render(form) == answer(fed(), language.of(code)).render(form)


def test_a_difference_of_an_old_version_has_a_page_without_strips() -> None:
    data = json.loads(answer(fed()).render("json"))
    for field in ("base_view", "head_view"):
        del data[field]
    for change in data["findings"]:
        del change["summary"], change["advice"]
    old = msgspec.convert(data, Difference)
    page = answer(old).render("html")
    assert "div.lane" not in Tags(page).found
    assert "Fixed: 1" in page


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_different_programs_get_one_sentence(form: str) -> None:
    found = unrelated()
    assert found.comparability.is_unrelated
    text = answer(found).render(form)
    assert "they are different programs" in " ".join(text.split())
    main = text.partition("<main")[2].partition("</main")[0].replace("programs", "")
    assert "ms" not in main if form == "html" else "100." not in text
    assert (found.base_view, found.head_view) == (None, None)


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:20])
def test_hostile_names_add_no_element(name: str) -> None:
    assert Tags(answer(fed(name)).render("html")).found == Tags(answer(fed()).render("html")).found


@pytest.mark.parametrize(
    ("value", "largest", "shown"),
    [
        (152e6, 152e6, "152\u00a0ms"),
        (20e6, 54.9e6, "20.0\u00a0ms"),
        (1.128e9, 1.358e9, "1.13\u00a0s"),
        (0, 35e6, "0\u00a0ms"),
        (16_750, 35.47e6, "0\u00a0ms"),
        (512, 900, "512\u00a0ns"),
    ],
)
def test_times_have_one_unit(value: float, largest: float, shown: str) -> None:
    assert UnitOfTimes.of((value, largest), ENGLISH).text(value) == shown


def test_changes_have_a_real_minus_sign() -> None:
    times = UnitOfTimes.of((20e6,), ENGLISH)
    assert [times.signed(value) for value in (-2e6, 2e6, 1.0)] == ["\u22122.0\u00a0ms", "+2.0\u00a0ms", "0\u00a0ms"]


def test_ticks_are_round_and_within_the_picture() -> None:
    assert [label for _, label in before_after.ticks(152e6, ENGLISH)] == ["0", "50 ms", "100 ms", "150 ms"]
    assert all(0 <= place <= 1 for ns in (1, 999, 1e5, 3.3e9, 7.2e12) for place, _ in before_after.ticks(ns, ENGLISH))
