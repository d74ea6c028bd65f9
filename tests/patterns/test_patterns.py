"""No pattern takes more than linear time, because names from a trace may be hostile and a megabyte long.

The work is counted, not timed (`counting`), on texts that repeat what the pattern repeats (`pumping`). A text of double
length may cost twice as much; a pattern that backtracks over everything once per character costs four times as much.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.patterns import found
from tests.patterns.counting import Counter, TooMuchError, parsed, walk
from tests.patterns.found import Found
from tests.patterns.pumping import is_unbounded, pumped
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.knowledge.kernel_names import READ, uses_tensor_cores

GROWTH = 2.8
"""Between 2, which is linear, and 4; the counts of short texts hold a constant part, which makes it less."""
LEAST = 150
"""Number of steps below which a count does not show growth."""
MOST = 60_000
"""Steps at which counting ends: no linear pattern of ours takes a tenth of it on these texts."""

CUT = (
    "traceanalyzer.knowledge.kernel_names",
    "traceanalyzer.rules.engine.snippets",
    "traceanalyzer.readers.key_averages.quoted",
)
"""Modules whose patterns see no more than the first `READ` characters of a name, the beginning of a line, or our own
pages."""
KNOWN: set[tuple[str, str]] = set()
"""Patterns that do take quadratic time. Who mends one takes it out of here."""
LATE = {
    "traceanalyzer.capture.agent.tracefile.__init__",  # the folders of this machine, escaped
    "traceanalyzer.readers.key_averages.cells._sequence",  # numbers of bounded length, one per column
    "traceanalyzer.readers.key_averages.lines._counting",  # a prefix, escaped
    "traceanalyzer.knowledge.first_match._compiled",  # lines of tables, kept; they see only READ characters of a name
    "traceanalyzer.knowledge.first_match.patterns",  # likewise
    "traceanalyzer.knowledge.first_match.finds",  # when a module is imported; `found` sees them
    "traceanalyzer.knowledge.first_match.compiled",  # tables again; `found` sees them
    "traceanalyzer.readers.forms.descriptions._column",  # the forms, once
    "traceanalyzer.readers.forms.descriptions._form",  # likewise
    "traceanalyzer.readers.forms.descriptions.marks",  # likewise
    "traceanalyzer.readers.plain_data._learn",  # one for each length of a list of numbers
    "traceanalyzer.knowledge.gpus._rows",  # the table of data sheets, when the module is imported
}
"""Functions that compile patterns from their arguments."""

PARTS = sorted({name.split(".")[1] for name in found.modules()})
"""Packages of the package and modules beside them."""


@cache
def repeating() -> list[Found]:
    """Patterns that repeat something without a bound; to find them imports and reads the whole package."""
    return [each for each in found.every() if any(is_unbounded(node) for _, node in walk(parsed(each.pattern)))]


@pytest.fixture(autouse=True)
def deep_recursion() -> Iterator[None]:
    """The counting engine calls itself once per character."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    yield
    sys.setrecursionlimit(before)


def steps(pattern: re.Pattern[str], text: str, method: str) -> int:
    counter = Counter(pattern, text, MOST)
    try:
        counter.run(method)
    except TooMuchError:
        return MOST
    return counter.steps


def quadratic(pattern: re.Pattern[str], method: str) -> list[str]:
    """Texts on which the work grows faster than the text."""
    slow = []
    for short, long in zip(pumped(pattern, 1), pumped(pattern, 2), strict=True):
        most = steps(pattern, long, method)
        if most == MOST or (most > LEAST and most > GROWTH * steps(pattern, short, method)):
            slow.append(long)
    return slow


@pytest.mark.parametrize("part", PARTS)
def test_no_pattern_takes_more_than_linear_time(part: str) -> None:
    own = [each for each in repeating() if each.module.split(".")[1] == part and each.module not in CUT]
    assert all(each.methods for each in own)
    slow = {each: texts for each in own for method in each.methods if (texts := quadratic(each.pattern, method))}
    known = {name for name in KNOWN if name[0].split(".")[1] == part}
    assert {(each.module, each.name) for each in slow} == known, {each.id: texts for each, texts in slow.items()}


def test_patterns_of_all_parts_are_looked_at() -> None:
    parts = {each.module.split(".")[1] for each in repeating()}
    assert {"readers", "knowledge", "analyzers", "formats", "inputs", "output"} < parts <= set(PARTS)


@pytest.mark.parametrize(
    ("name", "expected"), [("x" * READ + "gemm", "other"), ("gemm" + "x" * READ, "gemm")], ids=["beyond", "before"]
)
def test_kernels_are_known_by_the_beginning_of_their_names(name: str, expected: str) -> None:
    assert kernel_class(name).value == expected
    assert uses_tensor_cores("x" * READ + "tensorop") is None


def test_patterns_are_compiled_once() -> None:
    late = {function for name in found.modules() for function in found.compiled_late(name)}
    assert late <= LATE


@pytest.mark.parametrize(
    ("source", "method"),
    [
        (r"\w+::\w", "search"),
        (r"\s*,?\s*\]", "match"),
        (r"a.*b.*c$", "search"),
        (r"(\w+\s?)*!", "match"),
        (r'"name": "(.*?)"}', "sub"),
    ],
)
def test_the_check_would_see_it(source: str, method: str) -> None:
    assert quadratic(re.compile(source), method)


@pytest.mark.parametrize(
    ("source", "method"), [(r"\w+::\w", "match"), (r"(?<!\w)\w++::\w", "search"), (r"[^x]*+x", "match"), ("a|b", "sub")]
)
def test_the_check_finds_nothing_where_nothing_is(source: str, method: str) -> None:
    assert not quadratic(re.compile(source), method)


@given(st.data())
def test_the_engine_finds_what_python_finds(data: st.DataObject) -> None:
    each = data.draw(st.sampled_from(repeating()))
    texts = list(pumped(each.pattern, 1))
    text = data.draw(st.sampled_from(texts))
    subject = text if isinstance(each.pattern.pattern, str) else text.encode("latin-1", "replace")
    text = subject if isinstance(subject, str) else subject.decode("latin-1")
    for method in ("search", "match", "fullmatch"):
        ours = Counter(each.pattern, text, 10**7).run(method)
        theirs = getattr(each.pattern, method)(subject)
        assert ours == ([] if theirs is None else [theirs.span()]), (method, text)
