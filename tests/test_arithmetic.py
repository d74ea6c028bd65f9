"""Two rules about arithmetic: floats are summed exactly, and a loop over groups looks at each row once.

The same input gives the same bytes in every version of Python, but `sum` of floats compensates for rounding from Python
3.12 on: the sum that is exact is that of `math.fsum`. And a loop over threads, streams or names that looks through all
rows for each of them costs the square of their number; `structure.sums.members` and `rows_by` give each its own rows.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Set
from functools import cache

import pytest

from scripts import house

BOUNDED = {
    "readers/kineto/values.py:value": "forms of a number, which are fewer than 256",
    "structure/operator_times.py:number": "families of operators, an enumeration",
}
"""Loops over groups of which there are never many."""


@cache
def trees() -> dict[str, ast.Module]:
    """The files of the package but those that run inside of other programs."""
    return {file: tree for file, tree in house.trees().items() if not file.startswith("capture/")}


FLOATS = re.compile(r"float(?: \| None)?")
OF_FLOATS = re.compile(
    r"(?:Mapping|dict)\[\w+, float\]|(?:Sequence|Iterable|list)\[float\]|tuple\[float, (?:float|\.\.\.)\]"
)


@cache
def float_names() -> frozenset[str]:
    """Names of fields, arguments and functions that are annotated as floats, and nowhere as anything else."""
    kinds: defaultdict[str, set[bool]] = defaultdict(set)
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                kinds[node.target.id].add(_is_float(node.annotation))
            elif isinstance(node, ast.FunctionDef) and node.returns is not None:
                kinds[node.name].add(_is_float(node.returns))
            elif isinstance(node, ast.arg) and node.annotation is not None:
                kinds[node.arg].add(_is_float(node.annotation))
    return frozenset(name for name, are in kinds.items() if are == {True})


def _is_float(annotation: ast.expr) -> bool:
    text = ast.unparse(annotation)
    return bool(FLOATS.fullmatch(text) or OF_FLOATS.fullmatch(text))


def float_sums(tree: ast.AST, names: frozenset[str]) -> Iterator[int]:
    """Lines with `sum` over what is seen to be floats: by a literal, a division, or a name that is a float."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum" and node.args:
            summed = node.args[0]
            known = set(names)
            if isinstance(summed, ast.GeneratorExp | ast.ListComp):
                for each in summed.generators:
                    if _says_float(each.iter, names):  # of a mapping's items, the values
                        last = each.target.elts[-1] if isinstance(each.target, ast.Tuple) else each.target
                        known |= {last.id} if isinstance(last, ast.Name) else set()
                summed = summed.elt
            if _says_float(summed, known):
                yield node.lineno


def _says_float(node: ast.AST, names: Set[str]) -> bool:
    """Whether floats stand in an expression, outside of comparisons and of what makes integers of them."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Compare) or (isinstance(called, ast.Name) and called.id in ("round", "int", "len")):
        return False
    is_float = (
        (isinstance(node, ast.Constant) and isinstance(node.value, float))
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))
        or (isinstance(node, ast.Attribute | ast.Name) and _name(node) in names)
    )
    return is_float or any(_says_float(part, names) for part in ast.iter_child_nodes(node))


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


def test_floats_are_summed_exactly() -> None:
    found = [f"{file}:{line}" for file, tree in trees().items() for line in float_sums(tree, float_names())]
    assert found == [], "math.fsum gives the same bytes in every version of Python"


def test_loops_over_groups_look_at_each_row_once() -> None:
    found = {f"{file}:{name}" for file, tree in trees().items() for _, name in masks_in_loops(tree)}
    assert found <= BOUNDED.keys(), "structure.sums.members and rows_by give each group its rows"


@pytest.mark.parametrize(
    "code",
    [
        "sum(row.ns_per_step for row in rows)",
        "sum(gone.get(key, 0.0) for key in named)",
        "sum(one / 2 for one in rows)",
        "sum(per_step(row.ns) for row in rows)",
        "sum([row.share_of.ns_per_step for row in rows])",
        "sum(ns for key, ns in change.claims.items() if key)",
        "sum(claims.values())",
    ],
)
def test_a_sum_of_floats_is_seen(code: str) -> None:
    assert list(float_sums(ast.parse(code), frozenset({"ns_per_step", "per_step", "claims"}))) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "sum(row.total_ns for row in rows)",
        "sum(row.share > 0.5 for row in rows)",
        "math.fsum(row.ns_per_step for row in rows)",
        "times.sum() / 2",
        "sum(row.calls for row in rows if row.ns_per_step)",
    ],
)
def test_other_sums_are_left_alone(code: str) -> None:
    assert list(float_sums(ast.parse(code), frozenset({"ns_per_step"}))) == []


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
