"""The published schemas: every property is described, and what the program writes keeps to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import traceanalyzer as ta
from scripts import schemas
from scripts.docs import SCHEMAS
from tests.formats.samples import FIXTURES, SOUND, report_of
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.multirank import join, measure_rank
from traceanalyzer.report.model import Report
from traceanalyzer.trace.capture_facts import CaptureFacts

DOCS = Path(__file__).parents[1] / "docs"
TABLES = sorted(FIXTURES.glob("captured/*.txt"))
each_schema = pytest.mark.parametrize("name", SCHEMAS)


class Described(msgspec.Struct):
    """A result whose fields all have a docstring."""

    calls: int
    """How often the operator
    was called."""
    time_ns: int = msgspec.field(name="time", default=0)
    """Time of the calls in ns."""


class Inherited(Described):
    """A result that adds a field to its base."""

    share: float = 0.0
    """Share of the whole time."""


class Forgotten(msgspec.Struct):
    """A result that contains another one, of which a field has no description."""

    rows: tuple[NoWords, ...] = ()
    """The rows of the result."""


class NoWords(msgspec.Struct):
    """A row with a field without a description."""

    calls: int = 0
    total: int = 0
    """The total of the row."""


@cache
def published(name: str) -> Any:
    return json.loads((DOCS / f"{name}.schema.json").read_text("utf-8"))


def validate(value: Any, name: str) -> None:
    jsonschema.Draft202012Validator(published(name)).validate(json.loads(msgspec.json.encode(value)))


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    """Each property of a schema by its path."""
    for title, definition in schema["$defs"].items():
        for name, value in definition.get("properties", {}).items():
            yield f"{title}.{name}", value
            for key, nested in value.get("properties", {}).items():
                yield f"{title}.{name}.{key}", nested


# Descriptions


@each_schema
def test_every_property_is_described(name: str) -> None:
    found = dict(properties(published(name)))
    assert len(found) > 30
    short = [path for path, value in found.items() if len(value.get("description", "").split()) < 3]
    assert short == []


@each_schema
def test_every_type_is_described(name: str) -> None:
    definitions = published(name)["$defs"]
    assert [title for title, one in definitions.items() if len(one.get("description", "").split()) < 4] == []


@each_schema
def test_the_published_schema_is_that_of_the_structs(name: str) -> None:
    assert SCHEMAS[name]() == (DOCS / f"{name}.schema.json").read_text("utf-8"), "run: make format"


def test_a_description_is_the_docstring_of_the_field() -> None:
    expected = {"calls": "How often the operator was called.", "time": "Time of the calls in ns."}
    assert schemas.field_docstrings(Described) == expected
    assert schemas.field_docstrings(Inherited) == expected | {"share": "Share of the whole time."}


def test_a_field_without_a_docstring_is_refused() -> None:
    with pytest.raises(ValueError, match=r"NoWords\.calls: write a docstring under the field"):
        schemas.described([Forgotten])


def test_the_facts_of_a_capture_are_described_where_they_nest() -> None:
    assert published("capture")["$ref"] == "#/$defs/CaptureFacts"
    assert set(published("capture")["$defs"]["CaptureFacts"]["properties"]) == set(CaptureFacts.__struct_fields__)


# What the program writes


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_reports_of_printed_tables_keep_to_the_schema(path: Path) -> None:
    validate(report_of(path), "report")


def ranks() -> Report:
    found: dict[int, Member] = {}
    for rank in (0, 1):
        trace = ta.load(FIXTURES / "captured" / f"command_rank{rank}.json.gz")
        assert isinstance(trace, ta.Trace)
        member = measure_rank(trace)
        assert member is not None
        found[rank] = member
    return join(found, "run")


def test_a_report_of_ranks_keeps_to_the_schema() -> None:
    report = ranks()
    assert set(report.analyses) == {"ranks", "recording", "stragglers"}
    validate(report, "report")


@pytest.mark.parametrize(("base", "head"), [*pairwise(SOUND), *pairwise(TABLES)], ids=lambda path: path.name)
def test_differences_keep_to_the_schema(base: Path, head: Path) -> None:
    one, two = map(report_of, (base, head))
    validate(ta.diff(one, two), "difference")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda found: found.pop("verdict"),
        lambda found: found["base"].update(steps=1.5),
        lambda found: found["verdict"].update(reason="slower"),
        lambda found: found.update(rankings=None),
    ],
)
def test_the_schema_of_differences_would_notice(spoil: Any) -> None:
    difference = ta.diff(report_of(SOUND[0]), report_of(SOUND[0]))
    found = json.loads(msgspec.json.encode(difference))
    validator = jsonschema.Draft202012Validator(published("difference"))
    assert validator.is_valid(found)
    spoil(found)
    assert not validator.is_valid(found)
