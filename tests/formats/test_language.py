"""Languages: codes, numbers, units, plural forms, and what happens to messages that no catalog fits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.samples import HOSTILE
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import language
from traceanalyzer.formats.language import ENGLISH, FOLDERS, CatalogEntry, Language, Symbols, TextCatalog, Translated
from traceanalyzer.report import units
from traceanalyzer.report.message import Message, Text, fields
from traceanalyzer.report.warnings import warning

RU, ZH = language.of("ru"), language.of("zh")
each_language = pytest.mark.parametrize("spoken", [ENGLISH, RU, ZH], ids=lambda spoken: spoken.code)
quantities = st.none() | st.integers(-(10**18), 10**18) | st.floats(-1e18, 1e18)


# Codes


@pytest.mark.parametrize(
    ("code", "found", "html"),
    [
        ("en", "en", "en"),
        ("en-GB", "en", "en"),
        ("en_US", "en", "en"),
        ("ru", "ru", "ru"),
        ("RU", "ru", "ru"),
        ("ru_RU", "ru", "ru"),
        ("zh", "zh", "zh-Hans"),
        ("zh-CN", "zh", "zh-Hans"),
        ("zh_CN", "zh", "zh-Hans"),
        ("zh_Hans", "zh", "zh-Hans"),
        ("zh-Hans-CN", "zh", "zh-Hans"),
        ("zh-sg", "zh", "zh-Hans"),
    ],
)
def test_codes_and_their_regions(code: str, found: str, html: str) -> None:
    spoken = language.of(code)
    assert (spoken.code, spoken.html_lang) == (found, html)


@pytest.mark.parametrize("code", ["", "de", "zh-TW", "zh_Hant", "russian", "x-pseudo", "ru-123", "e n", "../ru"])
def test_other_codes_are_refused_with_those_that_there_are(code: str) -> None:
    with pytest.raises(UsageError, match="use one of en, ru, zh, auto"):
        language.of(code)


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "ru_RU.UTF-8"}, "ru"),
        ({"LANG": "zh_CN.GB18030@x"}, "zh"),
        ({"LANG": "zh_TW.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "ru_RU", "LC_MESSAGES": "zh_CN"}, "zh"),
        ({"LANG": "ru_RU", "LC_MESSAGES": "zh_CN", "LC_ALL": "en_US"}, "en"),
        ({"LANG": "ru_RU", "LC_ALL": ""}, "ru"),
    ],
    ids=str,
)
def test_auto_is_the_language_of_the_environment(
    environment: dict[str, str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert language.of("auto").code == found


# Numbers and units


@given(quantities, st.sampled_from(sorted(units.UNITS - units.ESTIMATES - {"part"})))
def test_english_is_what_messages_say(value: float | None, unit: str) -> None:
    assert ENGLISH.quantity(value, unit) == units.render(value, unit)


@pytest.mark.parametrize(
    ("value", "unit", "ru", "zh"),
    [
        (1234.5678, "number", "1\u00a0235", "1,235"),
        (1.5, "number", "1,500", "1.500"),
        (1_234_567, "count", "1\u00a0234\u00a0567", "1,234,567"),
        (-1_234, "count", "\u22121\u00a0234", "\u22121,234"),
        (0.6782, "share", "67,82\u00a0%", "67.82%"),
        (148_736_000, "ns", "148,7\u00a0мс", "148.7 ms"),
        (3_994, "ns", "3,994\u00a0мкс", "3.994 μs"),
        (12, "ns", "12\u00a0нс", "12 ns"),
        (5_000_000_000_000, "ns", "5\u00a0000\u00a0с", "5,000 s"),
        (85_029_158_912, "bytes", "79,19\u00a0ГиБ", "79.19 GiB"),
        (100, "bytes", "100\u00a0Б", "100 B"),
        ((31_000_000, 149_000_000), "part", "31 из 149\u00a0мс", "31/149 ms"),
        ((4e8, 1e9), "part", "0,40 из 1,0\u00a0с", "0.40/1.0 s"),
        ((1.2e6, 1.7e6, 2.6e6), "estimate", "1,7\u00a0мс (1,2–2,6)", "1.7 ms（1.2–2.6）"),
        ((0, None, 2.6e6), "estimate", "до 2,6\u00a0мс", "最多 2.6 ms"),
        ((0.17, None, 0.21), "estimated_share", "17–21\u00a0%", "17–21%"),
        (None, "ns", "неизвестно", "未知"),
        (True, "bool", "да", "是"),
        (False, "bool", "нет", "否"),
        ("1,234.5 ms", "", "1,234.5 ms", "1,234.5 ms"),
        (["a", "b"], "", "a, b", "a、b"),
    ],
)
def test_quantities(value: object, unit: str, ru: str, zh: str) -> None:
    assert (RU.quantity(value, unit), ZH.quantity(value, unit)) == (ru, zh)


@each_language
def test_every_unit_has_a_name(spoken: Language) -> None:
    assert set(language._UNITS) == set(units.SYMBOLS) - {units.PERCENT}
    for symbol, text in language._UNITS.items():
        assert text.english == symbol
        assert spoken.text(text)


@given(quantities, st.sampled_from(["ns", "bytes", "share", "count", "number"]))
def test_the_digits_are_the_same_in_every_language(value: float | None, unit: str) -> None:
    digits = [[c for c in spoken.quantity(value, unit) if c.isdecimal()] for spoken in (ENGLISH, RU, ZH)]
    assert digits[0] == digits[1] == digits[2]


# Plural forms

_STEPS = Text("overview-mean", "{count:count} steps, {mean:ns}, {median:ns}", one="{count:count} step")


@pytest.mark.parametrize(
    ("count", "ru"),
    [
        (0, "0 шагов"),
        (1, "1 шаг"),
        (2, "2 шага"),
        (4, "4 шага"),
        (5, "5 шагов"),
        (11, "11 шагов"),
        (12, "12 шагов"),
        (21, "21 шаг"),
        (22, "22 шага"),
        (111, "111 шагов"),
        (1001, "1\u00a0001 шаг"),
    ],
)
def test_plural_forms(count: int, ru: str) -> None:
    message = _STEPS(count=count, mean=1_000_000, median=1_000_000)
    assert f"({ru})" in RU.say(message)
    assert f"共 {count:,} 个 step" in ZH.say(message)


def test_the_english_singular() -> None:
    said = [warning("read-lost-event", count, {"offset": 7}).message.text for count in (1, 2)]
    assert said == ["1 damaged event was lost, at byte 7.", "2 damaged events were lost, the first at byte 7."]


def test_the_first_count_decides() -> None:
    text = Text("x", "{a:count} of {b:count} rows", one="{a:count} row of {b:count}")
    assert text(a=1, b=5).text == "1 row of 5"
    assert text(a=5, b=1).text == "5 of 1 rows"


@pytest.mark.parametrize("count", [None, 1.5, "1", True, [1]])
def test_what_is_no_number_of_things_does_not_stop_a_report(count: Any) -> None:
    message = Message("overview-mean", {"count": count, "mean": 1, "median": 1}, "the English text")
    assert RU.say(message)


# Messages


def test_a_message_of_somebody_else_is_said_in_english() -> None:
    assert RU.say(Message("my-own-rule", {"x": 1}, "in English")) == "in English"


@pytest.mark.parametrize(
    "params", [{}, {"mean": "long", "median": 1, "count": 1}, {"mean": {}, "median": [], "count": 0}, {"count": 1e400}]
)
def test_a_message_that_does_not_fit_is_said_in_english(params: dict[str, Any]) -> None:
    assert RU.say(Message("overview-mean", params, "in English")) == "in English"


def test_messages_in_messages_are_translated() -> None:
    inner = Text("value-unknown", "unknown")()
    outer = Text("outcome-fixes-overlap-2", "{fixes}, which overlap")(fixes=inner)
    said = ("unknown, which overlap", "неизвестно, они пересекаются", "未知（效果有重叠）")
    assert (outer.text, RU.say(outer), ZH.say(outer)) == said
    again = msgspec.json.decode(msgspec.json.encode(outer), type=Message)
    assert again == outer
    assert RU.say(again) == RU.say(outer)


def test_messages_without_end_are_said_in_english() -> None:
    nested: dict[str, Any] = {"id": "skipped-reason", "params": {}, "text": "x"}
    for _ in range(2000):
        nested = {"id": "skipped-reason", "params": {"analysis": "a", "reason": nested}, "text": "x"}
    assert RU.quantity(nested, "").endswith("x" + "." * RU.quantity(nested, "").count("."))


@each_language
@pytest.mark.parametrize("name", [*HOSTILE, "{0}", "{x.__class__}", "{", "}", "{name!r}", "a\nb"], ids=ascii)
def test_names_are_no_formats(spoken: Language, name: str) -> None:
    assert name in spoken.text(Text("report-title", "Profile of {name}"), name=name)


@pytest.mark.parametrize("code", FOLDERS)
def test_every_translation_can_be_filled(code: str) -> None:
    """Every kind of value that a field may have."""
    spoken = language.of(code)
    samples = {
        "ns": 1_234_567,
        "rounded_ns": 1_234_567,
        "exact_ns": 1_234_567,
        "plain_ns": 1_234_567,
        "brief_ns": 1_234_567,
        "part": (31_000_000, 149_000_000),
        "estimate": (25_000_000, 28_000_000, 31_000_000),
        "estimated_share": (0.17, None, 0.21),
        "estimated_bytes": (6 * 2**30, None, 7 * 2**30),
        "bytes": 4096,
        "share": 0.25,
        "exact_share": 0.25,
        "+share": -0.25,
        "+number": 1.5,
        "factor": 2.8,
        "probability": 0.0001,
        "percent": 0.25,
        "count": 5,
        "number": 1.5,
        "bool": True,
        "": "{name}",
    }
    entries = language.read_catalog(FOLDERS[code]).entries
    assert len(entries) > 300
    for id_, entry in entries.items():
        kinds = fields(entry.forms[-1])
        for count in (1, 2, 5):
            params = {name: count if unit == "count" else samples[unit] for name, unit in kinds}
            said = spoken.say(Message(id_, params, "ENGLISH"))
            assert said != "ENGLISH"
            assert said.count("{name}") == sum(unit == "" for form in entry.forms[:1] for _, unit in fields(form))


def test_a_language_may_write_numbers_with_any_symbols() -> None:
    symbols = Symbols(",", "’", "−", "%", "; ")
    swiss = Translated("x", "x", TextCatalog("0", symbols, {"t": CatalogEntry(("<{n:count}>",))}))
    assert swiss.say(Message("t", {"n": -1_234_567}, "")) == "<−1’234’567>"
    assert swiss.list(["a", "b"]) == "a; b"


def test_a_phrase_becomes_a_sentence() -> None:
    assert ENGLISH.sentence("at most half; at least nothing") == "At most half; at least nothing."
    assert ENGLISH.sentence("50 % to all of it") == "50 % to all of it."
    assert ENGLISH.sentence("aten::mm twice") == "aten::mm twice."
    assert RU.sentence("не больше половины") == "Не больше половины."
    assert ZH.sentence("最多一半") == "最多一半。"
    assert [ENGLISH.sentence(said) for said in ("Half.", "最多。", "")] == ["Half.", "最多。", ""]
