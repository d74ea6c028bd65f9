"""Two rules about arithmetic: floats are summed exactly, and a loop over groups looks at each row once.

The first is kept by a plugin of mypy, `scripts/exact_sums.py`, which knows what is a float. And a loop over threads,
streams or names that looks through all rows for each of them costs the square of their number; `structure.sums.members`
and `rows_by` give each its own rows.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts import house

BOUNDED = {
    "rules/engine/claim_edits.py:number": "devices of a process, which are a few",
    "readers/kineto/values.py:form": "forms of a number, which are fewer than 256",
    "readers/kineto/details.py:code": "kinds of copies and fills, a few directions of a few memories",
    "analyzers/kernels/clocks.py:code": "counters of a device, a dozen",
    "analyzers/kernels/clocks.py:thread": "devices that have counters",
    "analyzers/memory/snapshots.py:pool": "private pools, of graphs mostly",
    "structure/operator_times.py:number": "families of operators, an enumeration",
}
"""Loops over groups of which there are never many."""


@cache
def trees() -> dict[str, ast.Module]:
    """The files of the package but those that run inside of other programs."""
    return {file: tree for file, tree in house.trees().items() if not file.startswith("capture/")}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def masks_in_loops(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and variable of loops over groups that compare a whole column with the group."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For):
            turns = [(loop.target, loop.iter)]
        elif isinstance(loop, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            turns = [(each.target, each.iter) for each in loop.generators]
        else:
            continue
        for target, over in turns:
            if _is_over_groups(over):
                groups = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
                for node in ast.walk(loop):
                    if (
                        isinstance(node, ast.Compare)
                        and (named := _compared(node) & groups)
                        and _is_mask(node, parents)
                    ):
                        yield node.lineno, named.pop()


def _is_over_groups(over: ast.expr) -> bool:
    called = {node.func for node in ast.walk(over) if isinstance(node, ast.Call)}
    names = set(map(_name, called))
    return bool(names & {"distinct", "members", "unique", "tolist", "intersect1d"})


def _compared(node: ast.Compare) -> set[str]:
    both = (node.left, node.comparators[0])
    is_column = isinstance(node.ops[0], ast.Eq) and not any(isinstance(each, ast.Call) for each in both)
    return {each.id for each in both if isinstance(each, ast.Name)} if is_column else set()


def _is_mask(node: ast.Compare, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a comparison selects rows: in brackets, combined with others, given a name, or turned into rows."""
    around = parents[node]
    if isinstance(around, ast.Call):
        return getattr(around.func, "attr", "") == "flatnonzero"
    return isinstance(around, ast.Subscript | ast.BinOp | ast.Assign) or (
        isinstance(around, ast.Tuple) and isinstance(parents[around], ast.Assign)
    )


def test_loops_over_groups_look_at_each_row_once() -> None:
    found = {f"{file}:{name}" for file, tree in trees().items() for _, name in masks_in_loops(tree)}
    assert found <= BOUNDED.keys(), "structure.sums.members and rows_by give each group its rows"


SUMS = """\
from collections.abc import Iterable, Mapping
from math import fsum, prod
from typing import Any

class Row:
    ns: int
    share: float
    known_ns: float | None

def sums(rows: list[Row], claims: Mapping[str, float], pair: tuple[float, float], values: Any) -> Iterable[object]:
    yield sum(row.ns for row in rows)
    yield sum(row.share > 0.5 for row in rows)
    yield sum(map(prod, [[1, 2]]))
    yield sum(map(len, ["a"])) + fsum(claims.values())
    yield sum(row.share for row in rows)  # refused
    yield sum(row.known_ns or 0 for row in rows)  # refused
    yield sum(row.ns / 2 for row in rows)  # refused
    yield sum(claims.values())  # refused
    yield sum(pair)  # refused
    yield sum((row.share for row in rows), start=0.0)  # refused
    yield max(0.0, sum(ns for key, ns in claims.items() if key))  # refused
    yield sum(values)  # refused
    yield sum(getattr(row, "ns") for row in rows)  # refused
"""


def test_mypy_refuses_sums_of_floats(tmp_path: Path) -> None:
    """It does so in the whole package, with each check of types; here in a few lines."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    settings = tomllib.loads((house.ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    assert settings["plugins"] == ["scripts/exact_sums.py"]
    (tmp_path / "sums.py").write_text(SUMS, "utf-8")
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nplugins = {house.ROOT / settings['plugins'][0]}\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", ".", "sums.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    seen = {int(line) for line in re.findall(r":(\d+): error: sum of ", told)}
    assert seen == {number for number, line in enumerate(SUMS.splitlines(), 1) if line.endswith("# refused")}, told


@pytest.mark.parametrize(
    "code",
    [
        "for one in distinct(thread).tolist():\n    rows = np.flatnonzero(thread == one)",
        "for one in distinct(thread).tolist():\n    own = times[thread == one]",
        "for one, rows in members(thread):\n    own = (host.thread == one) & wanted",
        "found = {one: start[thread == one] for one in np.unique(thread).tolist()}",
        "for one in codes.tolist():\n    own, here = names == one, other == one",
    ],
)
def test_a_mask_for_each_group_is_seen(code: str) -> None:
    assert [name for _, name in masks_in_loops(ast.parse(code))][:1] == ["one"]


@pytest.mark.parametrize(
    "code",
    [
        "for one, rows in members(thread):\n    own = times[rows]",
        "for one in distinct(thread).tolist():\n    if one == main:\n        pass",
        "for one in devices:\n    own = device == one",
    ],
)
def test_other_loops_are_left_alone(code: str) -> None:
    assert list(masks_in_loops(ast.parse(code))) == []
