"""Measure how dense the code of the package is: what a reader must hold in mind at a time.

python scripts/density.py          print the figures
python scripts/density.py --worst  print where they come from: complex functions, functions with many names, dense files

tests/test_house.py holds the limits of the figures.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from radon.complexity import cc_visit

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripts import house

MOST_NAMES = 12
"""A function that binds more names is two."""
LEVELS = (15, 20, 25)
"""Complexities above which functions are counted."""
_WORST = 10


class Measured(NamedTuple):
    """A figure of a function or file."""

    count: float
    where: str
    """Path in the package, with line and name of a function."""

    @property
    def is_of_rules(self) -> bool:
        """Whether it is in the rules."""
        return self.where.startswith("rules/")


def main(arguments: list[str] | None = None) -> int:
    """Print the figures of the package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worst", action="store_true", help="print where the figures come from")
    options = parser.parse_args(arguments)
    for line in figures():
        print(line)
    if options.worst:
        lists = {
            "complexity": [one for one in complexities() if one.count > min(LEVELS)],
            "names": [one for one in names_bound() if one.count > MOST_NAMES],
            "tokens per line": files_by_density(),
            "names of a rule": names_of_rules(),
        }
        for title, measured in lists.items():
            print(f"\n{title}:")
            for one in measured:
                print(f"{one.count:>6.4g} {one.where}")
    return 0


def figures() -> Iterator[str]:
    """Yield a line for each figure."""
    by_package = tokens_per_line()
    yield f"tokens per line of code: {by_package.pop('')[0]:.1f}"
    ordered = sorted(by_package.items(), key=lambda item: -item[1][0])
    yield "  " + ", ".join(f"{package} {density:.1f}" for package, (density, _) in ordered)
    for level in LEVELS:
        above = [one for one in complexities() if one.count > level]
        yield f"functions of a complexity above {level}: {len(above)}, in rules {sum(one.is_of_rules for one in above)}"
    yield f"  the highest: {', '.join(f'{one.count:.0f} {one.where}' for one in complexities()[:3])}"
    many = sum(one.count > MOST_NAMES for one in names_bound())
    share = 1 - many / len(names_bound())
    yield f"functions that bind at most {MOST_NAMES} names: {share:.1%}, all but {many}"
    counts = [one.count for one in names_of_rules()]
    yield f"names of the project that a rule uses: {median(counts):.4g} in the median, {max(counts):.0f} at most"
    yield f"codes of texts that rules and the simulation look up: {len(code_lookups())}"


@cache
def complexities() -> tuple[Measured, ...]:
    """McCabe's complexity of each function and method as radon counts it, the highest first.

    Each condition counts, in comprehensions, too: https://radon.readthedocs.io/en/latest/intro.html.
    """
    found = (
        Measured(block.complexity, f"{file}:{block.lineno} {block.name}")
        for file in house.lines()
        for block in cc_visit((house.PACKAGE / file).read_text("utf-8"))
        if not hasattr(block, "methods")  # the methods of a class are blocks of their own
    )
    return tuple(sorted(found, key=lambda one: (-one.count, one.where)))


@cache
def names_bound() -> tuple[Measured, ...]:
    """How many names each function binds, inner functions and comprehensions included, parameters not; most first."""
    found = []
    for file, tree in house.trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                bound = {
                    part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
                }
                found.append(Measured(len(bound), f"{file}:{node.lineno} {node.name}"))
    return tuple(sorted(found, key=lambda one: (-one.count, one.where)))


def tokens_per_line() -> dict[str, tuple[float, int]]:
    """Tokens per line of code, and lines of code: of each package, and of all under an empty name."""
    tokens, code_lines = defaultdict(int), defaultdict(int)
    for file in house.lines():
        package = file.split("/")[0] if "/" in file else "(root)"
        for group in (package, ""):
            tokens[group] += len(house.code_tokens(file))
            code_lines[group] += house.code_lines(file)
    return {group: (tokens[group] / max(1, count), count) for group, count in code_lines.items()}


def files_by_density() -> list[Measured]:
    """The files with most tokens per line of code, of those with at least a small file's lines."""
    counted = [(len(house.code_tokens(file)), house.code_lines(file), file) for file in house.lines()]
    dense = [Measured(tokens / count, file) for tokens, count, file in counted if count >= house.SMALL]
    return sorted(dense, key=lambda one: (-one.count, one.where))[: 2 * _WORST]


@cache
def names_of_rules() -> tuple[Measured, ...]:
    """How many imported names of the project each rule uses in its functions and their helpers; most first."""
    found = []
    for file in house.rule_files():
        tree = house.trees()[file]
        imported = _imported_names(tree)
        helpers = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for rule in _rules_of(tree):
            used: set[str] = set()
            reached: set[str] = set()
            waiting = _names_in(rule) & helpers.keys()
            while waiting:
                helper = waiting.pop()
                reached.add(helper)
                used |= _names_in(helpers[helper])
                waiting |= (used & helpers.keys()) - reached
            found.append(Measured(len(used & imported), f"{file} {ast.unparse(rule)}"))
    return tuple(sorted(found, key=lambda one: (-one.count, one.where)))


def _imported_names(tree: ast.Module) -> set[str]:
    """What a module imports of the project by name."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("traceanalyzer")
        for alias in node.names
    }


def _rules_of(tree: ast.Module) -> list[ast.expr]:
    """The entries of RULES in the file of a subject."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["RULES"]:
            entries = node.value.elts if isinstance(node.value, ast.Tuple) else []
            return [entry for entry in entries if not isinstance(entry, ast.Starred)]  # those count in their own file
    return []


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def code_lookups() -> list[str]:
    """Places in rules and the simulation that look up the code of a text: `trace.strings.code(text)`."""
    return [
        f"{file}:{node.lineno}"
        for file, tree in house.trees().items()
        if file.startswith(("rules/", "simulation/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "code"
    ]


if __name__ == "__main__":
    sys.exit(main())
