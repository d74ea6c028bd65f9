"""Every test can fail: it asserts on every path, ends nowhere before it has, and not only of what may be nothing."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
GIVEN = {"raises", "warns", "fail", "skip", "assume", "validate", "check_schema"}
"""Functions of libraries that fail or end a test, or end an example in favour of another one."""

CONDITION = "asserts only under a condition, or of what may be nothing"
FILES = sorted(TESTS.rglob("test_*.py"))


def called(call: ast.Call) -> str:
    """The name of the called function, without its object."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def checks(node: ast.AST, asserting: frozenset[str] | set[str]) -> bool:
    """Whether there is an assertion somewhere within."""
    return any(
        isinstance(part, ast.Assert) or (isinstance(part, ast.Call) and called(part) in asserting)
        for part in ast.walk(node)
    )


def has_something(iterable: ast.expr) -> bool:
    """Whether what is looped over surely has an element: it is written out there, or a constant of the module."""
    match iterable:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(not isinstance(part, ast.Starred) or has_something(part.value) for part in parts)
        case ast.Dict(keys=parts):
            return bool(parts)
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper()
        case ast.BinOp(left=left, right=right):
            return has_something(left) or has_something(right)
        case ast.Call(func=ast.Attribute(attr="items" | "values" | "keys", value=owner)):
            return has_something(owner)
        case ast.Call(func=ast.Name(id="range"), args=parts):
            return all(isinstance(part, ast.Constant) or has_something(part) for part in parts)
        case ast.Call(func=ast.Name(id="enumerate" | "sorted" | "reversed" | "product" | "zip"), args=parts):
            return all(map(has_something, parts))
    return False


def surely(body: list[ast.stmt], asserting: frozenset[str]) -> bool:
    """Whether statements assert whichever way they go; what is done with no element of a loop is not done."""
    return any(_surely(statement, asserting) for statement in body)


def _surely(statement: ast.stmt, asserting: frozenset[str]) -> bool:
    match statement:
        case ast.If(test=test, body=body, orelse=other):
            return checks(test, asserting) or (surely(body, asserting) and surely(other, asserting))
        case ast.For(iter=iterable, body=body):
            return checks(iterable, asserting) or (has_something(iterable) and surely(body, asserting))
        case ast.While(test=test, body=body):
            return checks(test, asserting) or surely(body, asserting)
        case ast.With(items=items, body=body):
            return any(checks(item, asserting) for item in items) or surely(body, asserting)
        case ast.Try(body=body, orelse=other, finalbody=last):
            return surely([*body, *other, *last], asserting)
        case ast.FunctionDef() | ast.ClassDef():
            return False
    return checks(statement, asserting)


def silent(body: list[ast.stmt], asserting: frozenset[str]) -> bool:
    """Whether a test may return before it has asserted anything."""
    for number, statement in enumerate(body):
        if surely(body[:number], asserting):
            return False
        if isinstance(statement, ast.Return):
            return True
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef) and any(
            silent(part, asserting) for part in _parts(statement)
        ):
            return True
    return False


def _parts(statement: ast.stmt) -> list[list[ast.stmt]]:
    inner = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
    return [*inner, *(handler.body for handler in getattr(statement, "handlers", []))]


def wrong(function: ast.FunctionDef, asserting: frozenset[str]) -> str | None:
    """Why a test cannot be relied on; None: it can."""
    if not checks(function, asserting):
        return "asserts nothing"
    # Among the examples that hypothesis makes, some have nothing in them.
    is_given = any(isinstance(each, ast.Call) and called(each) == "given" for each in function.decorator_list)
    if not is_given and not surely(function.body, asserting):
        return CONDITION
    return "returns before it asserts" if silent(function.body, asserting) else None


@cache
def helpers() -> frozenset[str]:
    """Functions of the tests that assert, directly or through others, wherever one of that name is defined."""
    functions: dict[str, list[ast.FunctionDef]] = {}
    for file in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
                functions.setdefault(node.name, []).append(node)
    found = set(GIVEN)
    while new := {
        name for name in functions.keys() - found if all(checks(function, found) for function in functions[name])
    }:
        found |= new
    return frozenset(found)


def found_in(text: str) -> list[ast.FunctionDef]:
    return [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_files_have_names_of_their_own() -> None:
    """Two test modules of one name outside of packages cannot be collected in one run."""
    names = [file.name for file in FILES if not (file.parent / "__init__.py").exists()]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_no_file_is_large() -> None:
    """Each is of one subject; the package keeps to the same limit."""
    lines = {file.relative_to(TESTS).as_posix(): file.read_bytes().count(b"\n") for file in TESTS.rglob("*.py")}
    assert {file: count for file, count in lines.items() if count > 450} == {}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(TESTS).as_posix())
def test_every_test_can_fail(file: Path) -> None:
    tests = found_in(file.read_text("utf-8"))
    assert tests
    found = {test.name: wrong(test, helpers()) for test in tests}
    assert {name: reason for name, reason in found.items() if reason} == {}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("f()", "asserts nothing"),
        ("if a: assert b", CONDITION),
        ("for a in b:\n  if a: assert a", CONDITION),
        ("if a: return\n assert b", "returns before it asserts"),
        ("try: f()\n except E: return\n assert b", "returns before it asserts"),
        ("assert a", None),
        ("if a:\n  assert b\n  return\n assert c", None),
        ("if a: assert b\n else: assert c", None),
        ("with pytest.raises(E): f()", None),
        ("if a: pytest.skip('why')\n assert b", None),
        ("for a in b: assert a", CONDITION),
        ("for a in (1, 2): assert a", None),
        ("for a in NAMES: assert a", None),
        ("for a in enumerate(NAMES, start=1): assert a", None),
        ("for a in sorted(NAMES): assert a", None),
        ("for a in range(len(b)): assert a", CONDITION),
        ("assert b\n for a in b: assert a", None),
    ],
)
def test_the_check_would_see_it(body: str, reason: str | None) -> None:
    (test,) = found_in(f"def test_it():\n {body}\n")
    assert wrong(test, frozenset(GIVEN)) == reason
