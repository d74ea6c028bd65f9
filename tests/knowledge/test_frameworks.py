"""What each framework is known by, and that it takes nothing else for its own."""

from __future__ import annotations

import re

import pytest

from tests.knowledge.framework_examples import FRAMES, MARKS, NAMES, NO_FRAMES, NO_NAMES
from tests.patterns.counting import parsed, walk
from tests.patterns.pumping import is_unbounded
from traceanalyzer.knowledge.first_match import alternatives, required_word
from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.frameworks import FRAMEWORKS, Framework, is_step_mark

BY_ID = {known.id: known for known in FRAMEWORKS}
ROLES = ("serving", "training", "inference", "parallel", "compiler", "benchmark", "runtime")


def found(name: str, pattern: str) -> list[str]:
    """Ids of the frameworks whose `names` or `frames` are found in a name."""
    patterns = ((known, getattr(known, pattern)) for known in FRAMEWORKS)
    return [known.id for known, expression in patterns if expression and expression.compiled.search(name)]


@pytest.mark.parametrize(("framework", "name", "mark"), MARKS)
def test_marks_say_phase_requests_and_tokens(framework: str, name: str, mark: StepMark) -> None:
    reads = BY_ID[framework].step_mark
    assert reads
    assert reads(name) == mark
    assert found(name, "names") == [framework]
    assert is_step_mark(name)


@pytest.mark.parametrize(("framework", "name"), NAMES)
def test_names(framework: str, name: str) -> None:
    assert found(name, "names") == [framework]


@pytest.mark.parametrize(("framework", "name"), FRAMES)
def test_frames(framework: str, name: str) -> None:
    assert found(name, "frames") == [framework]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_only_looks_similar_is_no_evidence(name: str) -> None:
    assert found(name, "names") == []
    assert not is_step_mark(name)


@pytest.mark.parametrize("name", NO_FRAMES)
def test_frames_that_only_look_similar_are_no_evidence(name: str) -> None:
    assert found(name, "frames") == []


def test_every_framework_has_examples() -> None:
    shown = {example[0] for example in (*MARKS, *NAMES, *FRAMES)}
    assert shown == {known.id for known in FRAMEWORKS}
    marked = {framework for framework, _, _ in MARKS}
    assert marked == {known.id for known in FRAMEWORKS if known.step_mark}


@pytest.mark.parametrize("known", FRAMEWORKS, ids=lambda known: known.id)
def test_a_line_of_the_table(known: Framework) -> None:
    assert known.role in ROLES
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", known.id)
    assert known.names or known.frames
    assert known.is_named == (known.role not in ("compiler", "benchmark", "runtime"))


def test_ids_are_unique_and_what_is_never_named_comes_last() -> None:
    assert len(BY_ID) == len(FRAMEWORKS)
    named = [known.is_named for known in FRAMEWORKS]
    assert named == sorted(named, reverse=True)


@pytest.mark.parametrize("known", FRAMEWORKS, ids=lambda known: known.id)
def test_every_alternative_has_a_word_to_look_for_first(known: Framework) -> None:
    """A trace may have a million names: none may cost an expression for each framework."""
    patterns = [pattern for pattern in (known.names, known.frames) if pattern]
    assert patterns
    for pattern in patterns:
        for alternative in alternatives(pattern.pattern):
            assert len(required_word(alternative)) >= 3, alternative


@pytest.mark.parametrize("known", FRAMEWORKS, ids=lambda known: known.id)
def test_no_pattern_repeats_without_bound(known: Framework) -> None:
    """Names out of a trace may be a megabyte long."""
    patterns = [pattern for pattern in (known.names, known.frames) if pattern]
    assert patterns
    for pattern in patterns:
        assert not [node for _, node in walk(parsed(pattern.compiled)) if is_unbounded(node)]
