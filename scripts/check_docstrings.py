"""Refuse docstrings that are too short to say anything.

python scripts/check_docstrings.py            check the package, the scripts and the benchmarks
python scripts/check_docstrings.py FILE...    check these files

A module, class or function needs four words. A field or constant needs three, because its name says the rest.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("traceanalyzer", "scripts", "benchmarks")
LEAST, LEAST_OF_FIELDS = 4, 3


def main(files: Sequence[str]) -> int:
    """Print every docstring that is too short, and return the exit code."""
    chosen = [Path(file) for file in files] or sorted(p for name in FOLDERS for p in (ROOT / name).rglob("*.py"))
    found = [f"{path}:{line}: {problem}" for path in chosen for line, problem in problems(path.read_text("utf-8"))]
    for problem in found:
        print(problem)
    return 1 if found else 0


def problems(code: str) -> Iterator[tuple[int, str]]:
    """Line and description of every docstring in some code that has too few words."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _too_short(node.body[:1], LEAST)
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                yield from _too_short(_below_fields(block), LEAST_OF_FIELDS)


def _below_fields(block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block that stand directly below an assignment."""
    return [after for before, after in pairwise(block) if isinstance(before, ast.Assign | ast.AnnAssign)]


def _too_short(statements: list[ast.stmt], least: int) -> Iterator[tuple[int, str]]:
    """The string literals among some statements that have fewer words than the least number."""
    for statement in statements:
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and len(value.value.split()) < least:
            yield statement.lineno, f'"{value.value.strip()}" says too little: write {least} words or more'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
