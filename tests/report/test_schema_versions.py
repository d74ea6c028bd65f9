"""Within one version of the schema, fields are only added: nothing is removed, narrowed, or newly required."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.saved import SCHEMAS, SavedFile
from tests.report.narrowing import narrowed
from traceanalyzer.report import difference, model

DOCS = Path(__file__).parents[2] / "docs"
each_schema = pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: file.id)


def saved(file: SavedFile) -> Any:
    return json.loads(gzip.decompress(file.path.read_bytes()))


@each_schema
def test_nothing_was_removed_or_narrowed(file: SavedFile) -> None:
    assert (model.SCHEMA_VERSION, difference.SCHEMA_VERSION) == (1, 1), "keep the schemas of the new version beside"
    today = json.loads((DOCS / file.name.removesuffix(".gz")).read_text("utf-8"))
    assert narrowed(saved(file), today) == []


@each_schema
def test_a_schema_is_no_narrower_than_itself(file: SavedFile) -> None:
    assert narrowed(saved(file), saved(file)) == []


OLD: dict[str, Any] = {
    "$ref": "#/$defs/Report",
    "$defs": {
        "Report": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "share": {"type": "number", "default": 0.5},
                "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
                "pair": {"type": "array", "minItems": 1, "maxItems": 2, "prefixItems": [{"type": "number"}]},
                "more": {"type": "object", "additionalProperties": {"type": "number"}},
                "any": {},
            },
            "required": ["name"],
        },
        "Row": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
            "required": [],
        },
    },
}


def changed(change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Any:
    """A copy of the schema, with a change to its report and its row."""
    new = copy.deepcopy(OLD)
    change(new["$defs"]["Report"]["properties"], new["$defs"])
    return new


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda fields, _: fields.pop("name"), "/name: was removed"),
        (lambda _, parts: parts["Report"]["required"].append("size"), "/size: is required, and was not"),
        (lambda fields, _: fields.update(size={"type": "integer"}), "/size: was null, is integer"),
        (lambda fields, _: fields.update(share={"type": "integer"}), "/share: was number, is integer"),
        (lambda fields, _: fields["share"].update(default=0.0), "/share: without a value it was 0.5, is 0.0"),
        (lambda fields, _: fields.update(any={"type": "string"}), "/any: was anything, is string"),
        (lambda _, parts: parts["Row"]["properties"].pop("id"), "/rows/*/id: was removed"),
        (lambda fields, _: fields["pair"].update(minItems=2), "/pair: has at least 2 items, not 1"),
        (lambda fields, _: fields["pair"].update(maxItems=1), "/pair: has at most 1 items"),
        (lambda fields, _: fields["pair"]["prefixItems"].append({}), "/pair: had 1 places, has 2"),
        (lambda fields, _: fields["pair"]["prefixItems"][0].update(type="integer"), "/pair/0: was number, is integer"),
        (lambda fields, _: fields["more"].update(additionalProperties=False), "/more/*: what else there may be was"),
        (lambda fields, _: fields["more"].update(additionalProperties={"type": "null"}), "/more/*: was number, is"),
        (lambda fields, _: fields["name"].update(pattern="x"), "/name: nothing here compares pattern"),
    ],
)
def test_what_is_narrower_is_found(change: Any, found: str) -> None:
    (only,) = narrowed(OLD, changed(change))
    assert only.startswith(found)


def _renamed(_: dict[str, Any], parts: dict[str, Any]) -> None:
    parts["Line"] = parts.pop("Row")
    for owner in ("Report", "Line"):
        parts[owner]["properties"]["rows"]["items"]["$ref"] = "#/$defs/Line"


@pytest.mark.parametrize(
    "change",
    [
        _renamed,
        lambda fields, _: fields.update(new={"type": "string"}),
        lambda fields, _: fields.update(name={"anyOf": [{"type": "null"}, {"type": "string"}]}),
        lambda fields, _: fields["size"]["anyOf"].reverse(),
        lambda fields, _: fields["size"]["anyOf"].append({"type": "string"}),
        lambda fields, _: fields["pair"].update(minItems=0, maxItems=3),
        lambda _, parts: parts["Report"]["required"].clear(),
        lambda _, parts: parts["Row"]["properties"]["id"].update(type="number", description="Number of the row."),
        lambda fields, _: fields["more"].pop("additionalProperties"),
    ],
)
def test_what_only_adds_is_fine(change: Any) -> None:
    assert narrowed(OLD, changed(change)) == []
