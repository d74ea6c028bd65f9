"""Findings and headlines: those of many tables are shown once, and savings have one price."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from tests.builders import TraceBuilder
from tests.formats.html.advised import advised, saving, say
from tests.formats.html.pages import as_read
from tests.formats.samples import TRAINING, report_of
from tests.rules.judging import report, table
from traceanalyzer.formats import language, render
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Relief, Report
from traceanalyzer.rules.engine.selection import builtin
from traceanalyzer.sections import several_runs
from traceanalyzer.sections.outcome import outcome

ROW = {"Name": "aten::mm", "Self CPU": "98.000ms", "Self CUDA": "10.000ms", "# of Calls": 100}
RULE = "gpu-underutilized"


def tables(devices: tuple[int, ...]) -> Report:
    """One table for each number of milliseconds that the device works beside 100 ms of host time."""
    texts = [
        table([ROW | {"Self CUDA": f"{device}.000ms"}], cpu=f"{100 + n}.000ms", device=f"{device}.000ms")
        for n, device in enumerate(devices)
    ]
    return report("\n\n".join(texts))


SIX = (10, 20, 30, 40, 50, 60)


def test_equal_findings_are_said_once_with_count_and_range() -> None:
    found = tables(SIX)
    assert [finding.run for finding in found.findings if finding.rule == RULE] == [f"table-{n}" for n in range(1, 7)]
    (shown,) = (finding for finding in several_runs.findings(found).findings if finding.rule == RULE)
    assert shown.run is None
    assert shown.title.text.endswith(", in 6 tables")
    # 10 of 100 ms in the first table, 60 of 105 ms in the last
    assert "In 6 tables (table-1, table-2, table-3 and 3 more)" in shown.summary.text
    assert "10 % to 57 %. In table-1: " in shown.summary.text


def test_the_json_has_every_finding_and_the_runs_that_share_it() -> None:
    found = json.loads(render(tables(SIX), "json"))
    own = [finding for finding in found["findings"] if finding["rule"] == RULE]
    assert len(own) == 6
    assert all(finding["runs"] == [f"table-{n}" for n in range(1, 7)] for finding in own)


def test_a_few_tables_stay_side_by_side() -> None:
    found = tables(SIX[:4])
    assert several_runs.findings(found).findings == found.findings
    assert several_runs.headlines(found) == found.headlines


def test_headlines_of_many_tables_are_summed_up() -> None:
    found = tables((*SIX, 400))
    shown = several_runs.headlines(found)
    assert len(found.headlines) == 7
    assert len(shown) == 2, "six tables that the host bounds, one that the GPU bounds"
    assert shown[0].qualifier is not None
    assert shown[0].qualifier.text.startswith("6 of 7 tables are limited alike (table-1, table-2, table-3 and 3 more)")
    assert shown[1] == found.headlines[6]


@pytest.mark.parametrize("form", ["terminal", "markdown", "html", "sarif"])
@pytest.mark.parametrize("code", ["en", "ru", "zh"])
def test_every_format_says_it_once(form: str, code: str) -> None:
    found, words = tables(SIX), language.of(code)
    text = "".join(render(found, form, language=words).split())
    advice = "".join(words.say(found.findings[0].advice).split())[:30]
    assert 1 <= text.count(advice) <= 2, "SARIF describes the rule, too; six tables said it six times"


def test_every_finding_knows_its_place() -> None:
    found = tables(SIX)
    once = several_runs.findings(found)
    assert len(once.position) == len(found.findings)
    assert [once.findings[place].rule for place in once.position] == [finding.rule for finding in found.findings]


def quiet() -> Report:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 5)
    return report(trace)


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
@pytest.mark.parametrize(
    ("code", "says"), [("en", "rules could not be applied"), ("ru", "применить не удалось"), ("zh", "条规则无法应用")]
)
def test_rules_that_could_not_judge_are_counted(form: str, code: str, says: str) -> None:
    found = quiet()
    assert not found.findings
    text = " ".join(render(found, form, language=language.of(code)).split())
    assert says in text
    assert "No rule found anything to change" not in text


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_without_a_finding_there_is_what_to_do_next(form: str) -> None:
    """What another recording would bring, and no other reason: who reads it can change nothing of these."""
    found = quiet()
    modules = {rule.id for rule in builtin()}
    unable = [entry for entry in found.skipped if entry.id in modules]
    text = opening(found, form)
    assert f"but {len(unable)} rules could not be applied to this trace." in text
    assert "What to do next" in text
    assert re.search(r"Record with (?:record_shapes|with_stack|profile_memory)=True: \d+ more checks\.", text)
    assert "nothing ran on a GPU, or it was not recorded" not in text


def test_where_nothing_is_missing_a_comparison_is_next() -> None:
    found = replace(quiet(), skipped=())
    assert "No rule found anything to change." in opening(found, "terminal")
    assert "another version of the program: traceanalyzer diff trace.json OTHER." in opening(found, "terminal")


def opening(found: Report, form: str) -> str:
    """What a format shows at first, without its marks."""
    begin, end = {
        "html": ('id="summary"', "</section>"),
        "markdown": ("#", "<details>"),
        "terminal": ("", "\nStep time"),
    }[form]
    text = render(found, form)
    text = re.sub("<[^>]*>", "", text[text.index(begin) :].partition(end)[0]).replace("\\", "")
    return " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_of_one_rank_the_next_step_is_to_compare_all(form: str) -> None:
    found = quiet()
    qualifier = Message("detail-one-rank", {}, "The trace of one rank does not show how much of that is waiting.")
    found = replace(found, headlines=(replace(found.headlines[0], qualifier=qualifier),))
    assert "compare them: traceanalyzer ranks FOLDER" in opening(found, form)


def counted(extra: int) -> Report:
    """A report whose fixes are the three of its cards and some more, the last of which saves nothing yet."""
    found = advised(report_of(TRAINING))
    sure, latent = found.findings[0], found.findings[1]
    more = [replace(sure, action=say(f"Fix {number}"), saving=saving(2e6, 4e6)) for number in range(extra)]
    last = replace(latent, action=say("Fix later"), after_fixes_ns_per_step=(1e6, 3e6, 4e6))
    findings = (*(replace(sure, title=say(f"Card {number}")) for number in range(3)), *more, last)
    fixes = tuple(Relief(finding.rule, number, (0, 30e6)) for number, finding in enumerate(findings))
    (headline,) = found.headlines
    assert headline.combined is not None
    combined = replace(headline.combined, fixes=fixes, point_ns_per_step=110e6)
    return replace(found, findings=findings, headlines=(replace(headline, combined=combined),))


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_fixes_that_are_counted_and_have_no_card_are_named_with_their_price(form: str) -> None:
    text = opening(counted(2), form).replace("4.0 ms", "4 ms").replace("3.0 ms", "3 ms")
    assert "with all 6 fixes" in text
    assert "Counted, too: Fix 0 (up to 4 ms), Fix 1 (up to 4 ms), Fix later (3 ms after these)." in text


def test_all_fixes_with_cards_need_no_further_line() -> None:
    report = advised(report_of(TRAINING))
    assert "Counted, too" not in render(report, "html")


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ((100e6, 40e6), "with both fixes, which overlap"),
        ((109e6, 40e6), "with both fixes, nearly all by the first"),
        ((70e6, 40e6), "with both fixes."),
    ],
)
def test_what_the_first_of_both_fixes_saves_is_said_where_it_is_nearly_all(
    points: tuple[float, float], says: str
) -> None:
    found = counted(0)
    (headline,) = found.headlines
    assert headline.combined is not None
    findings = tuple(
        replace(finding, saving=replace(saving(1e6, 130e6), point_ns_per_step=point))
        for finding, point in zip(found.findings, points, strict=False)
    )
    combined = replace(headline.combined, fixes=headline.combined.fixes[:2], next_bottleneck="loader")
    said = outcome(replace(headline, combined=combined), findings)
    assert said is not None
    assert says in said.text


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ((0,), "with the first fix."),
        ((0, 1), "with the first 2 fixes."),
        ((0, 2), "with 2 of these fixes."),
        ((0, 1, 2), "with all 3 fixes."),
        ((0, 1, 2, 3), "with all 4 fixes."),
        ((0, 3), "with 2 fixes."),
    ],
)
def test_fixes_are_counted_as_cards_are(places: tuple[int, ...], says: str) -> None:
    """Beside three cards, of which some add nothing to the others, or only ask for another recording."""
    found = counted(0)
    (headline,) = found.headlines
    assert headline.combined is not None
    fixes = tuple(Relief("x", place, (0, 30e6)) for place in places)
    combined = replace(headline.combined, fixes=fixes, next_bottleneck="loader", point_ns_per_step=120e6)
    findings = tuple(replace(finding, saving=saving(1e6, 40e6)) for finding in found.findings)
    said = outcome(replace(headline, combined=combined), findings)
    assert said is not None
    assert said.text.endswith(says)


def test_another_recording_before_all_fixes_is_no_fix() -> None:
    found = counted(0)
    (headline,) = found.headlines
    assert headline.combined is not None
    findings = (replace(found.findings[0], saving=None), *found.findings[1:3])
    combined = replace(headline.combined, fixes=headline.combined.fixes[1:3], next_bottleneck="loader")
    said = outcome(replace(headline, combined=combined), findings)
    assert said is not None
    assert "with both fixes" in said.text


def test_two_times_that_round_to_one_have_more_digits() -> None:
    found = counted(0)
    (headline,) = found.headlines
    assert headline.combined is not None
    combined = replace(headline.combined, fixes=headline.combined.fixes[:1], step_ns=1003e6, point_ns_per_step=48e6)
    said = outcome(replace(headline, combined=combined), found.findings)
    assert said is not None
    assert said.text.startswith("1.003 s \u2192 955.0 ms per step (1.05x)")


def bounded(now: str, after: str) -> Report:
    report = advised(report_of(TRAINING))
    (headline,) = report.headlines
    assert headline.combined is not None
    combined = replace(headline.combined, next_bottleneck=after)
    return replace(report, headlines=(replace(headline, bound=now, combined=combined),))


@pytest.mark.parametrize(
    ("now", "after"),
    [("host", "host"), ("input", "loader"), ("gpu-memory", "gpu"), ("gpu", "gpu"), ("communication", "communication")],
)
def test_the_same_bottleneck_is_not_the_next(now: str, after: str) -> None:
    report = bounded(now, after)
    screen = " ".join(render(report, "terminal").split())
    assert " with the first fix." in screen
    assert " is the limit." not in screen
    assert "What limits the step after that" not in render(report, "html")


@pytest.mark.parametrize(
    ("now", "after", "limit", "name"), [("input", "host", "CPU", "CPU"), ("none", "gpu", "GPU", "GPU")]
)
def test_another_one_is_named(now: str, after: str, limit: str, name: str) -> None:
    report = bounded(now, after)
    assert f"then the {limit} is the limit." in " ".join(render(report, "terminal").split())
    assert f"What limits the step after that: {name}" in as_read(render(report, "html"))


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_what_a_fix_adds_to_the_fixes_before_it_is_no_price(form: str) -> None:
    report = advised(report_of(TRAINING))
    (headline,) = report.headlines
    assert headline.combined is not None
    fix = headline.combined.fixes[1]
    saving = report.findings[fix.finding].saving
    assert saving is not None
    assert (fix.wall_ns_per_step[1], saving.wall_ns_per_step[1]) == (900_000, 5_000_000)
    text = render(report, form)
    assert {"terminal": "5 ms"}.get(form, "5.0 ms") in text.replace("\N{NO-BREAK SPACE}", " ")
    assert not re.search(r"\b900(?:\.0)?.us", text)
