"""Reports and differences as a later version, or somebody else, may write them: ours, changed at a few places."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.builders.ranks import Meeting, run
from tests.formats.samples import FIXTURES, report_of
from tests.reading import read_built
from traceanalyzer.analyzers.ranks.member import Member, of_report
from traceanalyzer.comparison import diff
from traceanalyzer.formats import difference as difference_formats
from traceanalyzer.formats import render
from traceanalyzer.multirank import join
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report

UNHEARD = "of-a-later-version"
_FILES = ("planted_faults.json.gz", "gpu_training.json.gz", "ddp_nccl.json.gz", "serving_graphs.json.gz")
_STRANGE = ("", "</script><b>|`\x1b[31m\u202e\n", "=1+1", "\t", "javascript:alert(1)")
_SAMPLE = 3
"""Elements of a list that are worth a change: the others are like them."""

Path = tuple[str | int, ...]


@cache
def reports() -> tuple[dict[str, Any], ...]:
    """Saved reports of traces, of printed tables, and of several ranks."""
    ours = [report_of(FIXTURES / "synthetic" / name) for name in _FILES]
    ours += [report_of(FIXTURES / "key_averages" / "article.md"), _of_ranks()]
    ours += [report_of(path) for path in sorted(FIXTURES.glob("captured/*.json.gz"))[:3]]
    return tuple(json.loads(render(report, "json")) for report in ours)


@cache
def differences() -> tuple[dict[str, Any], ...]:
    """Saved differences of traces and of printed tables."""
    sides = [report_of(FIXTURES / "synthetic" / f"gpu_training{name}.json.gz") for name in ("", "_fed")]
    found = diff(sides[0], sides[1], limit=0.03), diff(sides[1], sides[1])
    return tuple(json.loads(difference_formats.answer(each).render("json")) for each in found)


def _of_ranks() -> Report:
    traces = run(4, [Meeting(lambda rank, step: 1000 + 400 * (rank == 2))])
    members: dict[int, Member] = {}
    for rank, trace in enumerate(traces):
        member = of_report(analyze(read_built(trace)))
        assert member is not None
        members[rank] = member
    return join(members, "run")


def changed(document: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy with another value at a place; `...` for none at all."""
    document = copy.deepcopy(document)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return document


@st.composite
def mutants(draw: st.DrawFn, documents: Callable[[], tuple[dict[str, Any], ...]]) -> dict[str, Any]:
    """One of the documents, with one to three changes."""
    document = draw(st.sampled_from(documents()))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(document)))
        document = changed(document, path, draw(_values(_at(document, path))))
    return document


def places(document: Any) -> list[Path]:
    """Everything below the root; of like things, one."""
    found: dict[tuple[str, ...], Path] = {}
    for path, node in _walk(document, ()):
        kind = tuple("*" if isinstance(key, int) else key for key in path)
        found.setdefault((*kind, type(node).__name__), path)
    return list(found.values())


def _walk(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    children: list[tuple[str | int, Any]] = []
    if isinstance(node, dict):
        children = list(node.items())
    elif isinstance(node, list):
        children = list(enumerate(node[:_SAMPLE]))
    for key, child in children:
        yield (*path, key), child
        yield from _walk(child, (*path, key))


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _values(value: Any) -> st.SearchStrategy[Any]:
    """Replacements of a value: null, a missing key, a word of a later version, another number."""
    others: list[Any] = [None, ...]
    if isinstance(value, str):
        others += [UNHEARD, *_STRANGE]
    elif isinstance(value, list | dict):
        others.append(type(value)())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        others += [0, -1, 10**15, -0.5]
    return st.sampled_from(others)
