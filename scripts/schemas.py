"""JSON Schemas of the program's output: the docstring of each field describes its property."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import msgspec

from traceanalyzer import analyzers, simulation
from traceanalyzer.analyzers import tables
from traceanalyzer.analyzers.hangs import Hangs
from traceanalyzer.analyzers.memory.snapshot_changes import MemorySnapshotChange
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.report.brief import Brief, WholeFinding
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Report
from traceanalyzer.report.verification import Verification
from traceanalyzer.simulation.memory_replay import MemoryReplay
from traceanalyzer.trace.capture_facts import CaptureFacts

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def report() -> str:
    """Schema of a report, with the result of every analysis of traces, printed tables and ranks under its key."""
    of_model = {analyzer.key: analyzer.result for analyzer in simulation.ANALYSES}
    of_runs = {"ranks": Ranks, "stragglers": Stragglers, "hangs": Hangs}
    of_snapshots = {
        "memory_snapshot": MemorySnapshotUse,
        "memory_replay": MemoryReplay,
        "memory_change": MemorySnapshotChange,
    }
    results = analyzers.RESULTS | of_model | tables.RESULTS | of_runs | of_snapshots
    (whole, *parts), components = described([Report, *results.values()])
    keys = {key: part | {"description": question(key, results[key])} for key, part in zip(results, parts, strict=True)}
    keys["stragglers"] = _or_null(keys["stragglers"])  # null for ranks that cannot be replayed together
    body = components[whole["$ref"].rsplit("/", 1)[1]]
    body["properties"]["analyses"] |= {"properties": keys, "additionalProperties": False}
    return _document("traceanalyzer report", whole, components)


def _or_null(key: dict[str, Any]) -> dict[str, Any]:
    """The property, with null as a further value."""
    return {"anyOf": [{"$ref": key["$ref"]}, {"type": "null"}], "description": key["description"]}


def difference() -> str:
    """Schema of a difference between two measurements."""
    (whole,), components = described([Difference])
    return _document("traceanalyzer difference", whole, components)


def verification() -> str:
    """Schema of what became of the findings of a measurement."""
    (whole,), components = described([Verification])
    return _document("traceanalyzer verification", whole, components)


def brief() -> str:
    """Schema of a report in brief."""
    (whole,), components = described([Brief])
    return _document("traceanalyzer report in brief", whole, components)


def finding() -> str:
    """Schema of one finding."""
    (whole,), components = described([WholeFinding])
    return _document("traceanalyzer finding", whole, components)


def capture() -> str:
    """Schema of the facts that a capture records in the trace."""
    (whole,), components = described([CaptureFacts])
    return _document("traceanalyzer capture facts", whole, components)


def described(types: list[type[msgspec.Struct]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """References to the types, and the definitions that they need, with a description of every property.

    Raises:
        ValueError: A field has no docstring.
    """
    wholes, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for struct in _structs(types):
        definition = components[struct.__name__]
        if "description" in definition:  # older versions of msgspec leave the docstring indented
            definition["description"] = inspect.cleandoc(definition["description"])
        texts = field_docstrings(struct)
        for name, value in definition.get("properties", {}).items():
            if name not in texts:
                raise ValueError(f"{struct.__module__}.{struct.__name__}.{name}: write a docstring under the field")
            definition["properties"][name] = value | {"description": texts[name]}
    return list(wholes), components


def _structs(types: Iterable[type[msgspec.Struct]]) -> Iterator[type[msgspec.Struct]]:
    """The structs, and those in their fields, each once."""
    seen: set[type] = set()
    waiting: list[Any] = list(types)
    while waiting:
        one = waiting.pop()
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            if one not in seen:
                seen.add(one)
                yield one
                waiting += [field.type for field in msgspec.structs.fields(one)]
        else:
            waiting += getattr(one, "__args__", ())


def field_docstrings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The string literals below the fields of a struct and of its bases, by encoded name."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base is object or base.__module__.startswith("msgspec"):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in pairwise(definition.body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                found[field.target.id] = " ".join(text.value.value.split())
    encoded = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    return {encoded[name]: text for name, text in found.items() if name in encoded}


def question(key: str, result: Any) -> str:
    """The question that an analysis answers: its own, or that of the docstring of its module, or the first sentence."""
    told = next((one.question for one in analyzers.ANALYSES if one.key == key), "")
    if told:
        return told
    struct = next(_structs([result]))
    first = (sys.modules[struct.__module__].__doc__ or "").partition("\n\n")[0]
    question, mark, _ = " ".join(first.split()).partition("?")
    return question + mark


def _document(title: str, whole: dict[str, Any], components: dict[str, Any]) -> str:
    """The text of a schema file."""
    document = {"$schema": _DIALECT, "title": title, **whole, "$defs": dict(sorted(components.items()))}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
