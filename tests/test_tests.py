"""Every test can fail: it asserts on every path, and ends nowhere before it has."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
GIVEN = {"raises", "warns", "fail", "skip", "assume", "validate", "check_schema"}
"""Functions of libraries that fail or end a test, or end an example in favour of another one."""

FILES = sorted(TESTS.rglob("test_*.py"))


def called(call: ast.Call) -> str:
    """The name of what is called, without what it belongs to."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def checks(node: ast.AST, asserting: frozenset[str] | set[str]) -> bool:
    """Whether there is an assertion somewhere within."""
    return any(
        isinstance(part, ast.Assert) or (isinstance(part, ast.Call) and called(part) in asserting)
        for part in ast.walk(node)
    )


def surely(body: list[ast.stmt], asserting: frozenset[str]) -> bool:
    """Whether statements assert whichever way they go; what a loop does is taken for done."""
    return any(_surely(statement, asserting) for statement in body)


def _surely(statement: ast.stmt, asserting: frozenset[str]) -> bool:
    match statement:
        case ast.If(test=test, body=body, orelse=other):
            return checks(test, asserting) or (surely(body, asserting) and surely(other, asserting))
        case ast.For(body=body) | ast.While(body=body):
            return surely(body, asserting)
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
    if not surely(function.body, asserting):
        return "asserts only under a condition"
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
        ("if a: assert b", "asserts only under a condition"),
        ("for a in b:\n  if a: assert a", "asserts only under a condition"),
        ("if a: return\n assert b", "returns before it asserts"),
        ("try: f()\n except E: return\n assert b", "returns before it asserts"),
        ("assert a", None),
        ("if a:\n  assert b\n  return\n assert c", None),
        ("if a: assert b\n else: assert c", None),
        ("with pytest.raises(E): f()", None),
        ("if a: pytest.skip('why')\n assert b", None),
        ("for a in b: assert a", None),
    ],
)
def test_the_check_would_see_it(body: str, reason: str | None) -> None:
    (test,) = found_in(f"def test_it():\n {body}\n")
    assert wrong(test, frozenset(GIVEN)) == reason
