"""Measure the size and order of the package, read from its source.

python scripts/house.py            print the figures
python scripts/house.py --pairs    print the pairs of structs that mirror each other, too

The figures of `scripts/density.py` are among them: what a reader must hold in mind at a time. `scripts/commits.py`
measures how far changes reach.

Lines are lines of a file, blank ones and docstrings included. tests/test_house.py holds the limits of these figures.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations, zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
PACKAGE = ROOT / "traceanalyzer"
PAGES = ROOT / "traceanalyzer" / "rules" / "pages"
SMALL = 40
"""A file with fewer lines is small."""
LONG = 60
"""A function with more lines is long."""
LEAST_FIELDS, LEAST_SHARE = 4, 0.6
"""Two structs mirror each other if they share so many fields, and these are so large a part of the smaller struct."""
_KNOWING = ("analyzers/", "knowledge/", "rules/", "sections/", "simulation/", "structure/")
"""Packages that see the texts of a call's inputs, which only knowledge/inputs.py may parse."""
_INPUT_TEXTS = {"shapes", "types", "strides", "concrete", "input_shapes", "input_types"}
_TAKES_APART = {
    "split",
    "partition",
    "strip",
    "lstrip",
    "rstrip",
    "removeprefix",
    "removesuffix",
    "startswith",
    "endswith",
}
_PART = re.compile(r'\[\[|\["|"\w+"$')
"""A constant that is compared with a text of inputs, such as `[[]` or `"double"`."""
_DECODERS = {"decode", "loads", "Decoder", "JSONDecoder", "literal_eval"}
_INIT = "__init__"
_NO_CODE = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Struct(NamedTuple):
    """A subclass of `msgspec.Struct`, with the fields that it declares itself: those of its bases belong to these."""

    file: str
    name: str
    fields: dict[str, tuple[str, str]]
    """Type and description (or an empty text) of each field, as written."""


class Pair(NamedTuple):
    """Two structs and the fields that both declare, in the order of the first."""

    one: Struct
    other: Struct
    shared: tuple[str, ...]

    @property
    def alike(self) -> tuple[str, ...]:
        """Shared fields of one type and one description, if both have some: a common base can declare these."""
        return tuple(field for field in self.shared if _same(self.one.fields[field], self.other.fields[field]))

    @property
    def names(self) -> str:
        """Both classes, as `file:Class = file:Class`, with files relative to the package."""
        return " = ".join(f"{struct.file}:{struct.name}" for struct in (self.one, self.other))


class Function(NamedTuple):
    """A function or method, with its number of lines from `def` on, without decorators."""

    file: str
    name: str
    lines: int


def main(arguments: list[str] | None = None) -> int:
    """Print the figures of the package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", action="store_true", help="print the pairs of structs that mirror each other")
    options = parser.parse_args(arguments)
    from scripts import density  # noqa: PLC0415 - density measures with the functions of this module

    for line in (*figures(), *density.figures()):
        print(line)
    if options.pairs:
        print()
        for pair in pairs():
            differ = [field for field in pair.shared if field not in pair.alike]
            print(f"{pair.names}: {', '.join(pair.shared)}; declared otherwise: {', '.join(differ) or 'none'}")
    return 0


def figures() -> Iterator[str]:
    """Yield a line for each figure."""
    by_package: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for file, count in lines().items():
        package = file.split("/")[0] if "/" in file else "(root)"
        by_package[package] += count
        files[package] += 1
    for package, count in by_package.most_common():
        yield f"{package:<12} {count:>7,} lines {files[package]:>4} files"
    yield f"{'all':<12} {by_package.total():>7,} lines {files.total():>4} files"
    yield f"lines of the largest file: {max(lines().values())}"
    yield f"files below {SMALL} lines: {len(small_files())}"
    yield f"file names borne by several files: {len(shared_names())}, by {sum(shared_names().values())} files"
    yield f"public classes and functions of modules: {public_names()}"
    yield f"functions above {LONG} lines: {len(long_functions())}"
    yield f"rules: {rules()}, of {by_package['rules'] / rules():.0f} lines on average"
    detecting = rule_files()
    yield f"  without engine/: of {sum(lines()[file] for file in detecting) / rules():.0f} lines"
    yield f"  and of {sum(map(code_lines, detecting)) / rules():.0f} lines of code"
    yield f"  divide by a number of steps: {divisions_by_steps().total()} times"
    yield f"files that parse arguments or other JSON of traces: {len(argument_parsers())}"
    yield f"mirrored pairs of structs: {len(pairs())}, with fields declared alike: {len(alike())}"
    yield f"edges between subjects: {len(edges())}"
    for of, graph in (("subjects", edges()), ("modules of formats/", module_edges("formats/"))):
        yield f"circles of {of}: {', '.join(' '.join(sorted(circle)) for circle in circles(graph)) or 'none'}"


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax of each file, by its path in the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_bytes()) for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def lines() -> dict[str, int]:
    """Number of lines of each file."""
    return {file: (PACKAGE / file).read_bytes().count(b"\n") for file in trees()}


def small_files() -> list[str]:
    """Files with fewer than 40 lines."""
    return [file for file, count in lines().items() if count < SMALL]


def divisions_by_steps() -> Counter[str]:
    """In how many places the files of the rules divide by a number of steps: a name that ends in `steps`."""
    return Counter(
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if file.startswith("rules/")
        and isinstance(node, ast.BinOp | ast.AugAssign)
        and isinstance(node.op, ast.Div | ast.FloorDiv)
        and any(_is_steps(part) for part in ast.walk(node.right if isinstance(node, ast.BinOp) else node.value))
    )


def _is_steps(node: ast.AST) -> bool:
    name = _name(node)
    return name == "steps" or name.endswith("_steps")


def _name(node: ast.AST) -> str:
    """The name that an expression is, or the last part of one with dots; empty for others."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def argument_parsers() -> dict[str, list[int]]:
    """Lines on which files of packages that see the texts of inputs decode JSON or take such a text apart."""
    found = {
        file: [node.lineno for node in ast.walk(tree) if isinstance(node, ast.expr) and _parses_arguments(node)]
        for file, tree in trees().items()
        if file.startswith(_KNOWING)
    }
    return {file: numbers for file, numbers in found.items() if numbers}


def _parses_arguments(node: ast.expr) -> bool:
    """Whether an expression decodes JSON or Python, takes a text of inputs apart, or is a part of such a text."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(_PART.match(node.value))
    if not isinstance(node, ast.Attribute):
        return False
    of = set(map(_name, ast.walk(node.value)))
    return not of.isdisjoint(
        {"json", "ast"} if node.attr in _DECODERS else _INPUT_TEXTS if node.attr in _TAKES_APART else ()
    )


@cache
def code_tokens(file: str) -> tuple[tokenize.TokenInfo, ...]:
    """The tokens of a file that are code: neither ends of lines nor comments, indentation or docstrings."""
    return tokens_of((PACKAGE / file).read_text("utf-8"))


def tokens_of(text: str) -> tuple[tokenize.TokenInfo, ...]:
    """The tokens of a text that are code."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _NO_CODE]
    before = [tokenize.NEWLINE, *(token.type for token in tokens)]
    return tuple(
        token
        for token, last in zip(tokens, before, strict=False)
        if token.type != tokenize.NEWLINE and not (token.type == tokenize.STRING and last == tokenize.NEWLINE)
    )


def code_lines(file: str) -> int:
    """Lines of a file that hold code: neither blank nor comment nor docstring."""
    return len({line for token in code_tokens(file) for line in range(token.start[0], token.end[0] + 1)})


def rules() -> int:
    """Number of rules: each has a page."""
    return len(list(PAGES.glob("*.md")))


def rule_files() -> list[str]:
    """Files of the subjects of rules, which several rules share; without those of the engine."""
    return [file for file in lines() if file.startswith("rules/") and not file.startswith("rules/engine/")]


def shared_names() -> dict[str, int]:
    """Names of files that several files bear, and how many; every package has an `__init__.py`."""
    names = Counter(Path(file).name for file in lines())
    return {name: count for name, count in names.items() if count > 1 and name != f"{_INIT}.py"}


def public_names() -> int:
    """Number of classes and functions of modules without an underscore."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return sum(
        isinstance(node, kinds) and not node.name.startswith("_") for tree in trees().values() for node in tree.body
    )


def long_functions() -> list[Function]:
    """Functions and methods with more than 60 lines, the longest first."""
    found = (
        Function(file, node.name, (node.end_lineno or 0) - node.lineno + 1)
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return sorted((one for one in found if one.lines > LONG), key=lambda one: -one.lines)


@cache
def structs() -> tuple[Struct, ...]:
    """All subclasses of `msgspec.Struct`, by the names of their bases."""
    classes = [(file, node) for file, tree in trees().items() for node in tree.body if isinstance(node, ast.ClassDef)]
    names, known = {"Struct"}, 0
    while known < len(names):
        known = len(names)
        names |= {node.name for _, node in classes if _bases(node) & names}
    return tuple(Struct(file, node.name, _fields(node)) for file, node in classes if _bases(node) & names)


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def _fields(node: ast.ClassDef) -> dict[str, tuple[str, str]]:
    found = {}
    for part, text in zip_longest(node.body, node.body[1:]):
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            described = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            found[part.target.id] = (
                ast.unparse(part.annotation),
                " ".join(str(text.value.value).split()) if described else "",
            )
    return found


def _same(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return one[0] == other[0] and (one[1] == other[1] or not one[1] or not other[1])


@cache
def pairs() -> tuple[Pair, ...]:
    """Pairs of structs that mirror each other, those with most shared fields first."""
    found = (
        Pair(one, other, tuple(field for field in one.fields if field in other.fields))
        for one, other in combinations([struct for struct in structs() if len(struct.fields) >= LEAST_FIELDS], 2)
    )
    mirrored = (pair for pair in found if _mirror(pair, pair.shared))
    return tuple(sorted(mirrored, key=lambda pair: -len(pair.shared)))


def _mirror(pair: Pair, fields: tuple[str, ...]) -> bool:
    return len(fields) >= max(LEAST_FIELDS, LEAST_SHARE * min(len(pair.one.fields), len(pair.other.fields)))


def alike() -> list[Pair]:
    """Pairs that mirror each other even if only fields count that both declare alike."""
    return [pair for pair in pairs() if _mirror(pair, pair.alike)]


@cache
def edges() -> frozenset[tuple[str, str]]:
    """Which subject of `analyzers/` imports which. A subject is a module or package there; imports of types count."""
    subjects = {file.split("/")[1].removesuffix(".py") for file in trees() if file.startswith("analyzers/")} - {_INIT}
    found = set()
    for file, tree in trees().items():
        parts = file.removesuffix(".py").split("/")
        if parts[0] == "analyzers" and parts[1] in subjects:
            found |= {(parts[1], other) for other in _imported(tree) & subjects if other != parts[1]}
    return frozenset(found)


def _imported(tree: ast.Module) -> set[str]:
    """Names directly below `analyzers/` that a module imports or imports from."""
    return {name.split(".")[2] for name in _imports(tree) if name.startswith("traceanalyzer.analyzers.")}


def _imports(tree: ast.Module) -> set[str]:
    """All names that a module imports, anywhere in it: in functions and for types, too."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


@cache
def module_edges(folder: str) -> frozenset[tuple[str, str]]:
    """Which module below a folder imports which, in functions and for types, too; modules by their file."""
    files = {
        f"traceanalyzer.{file.removesuffix('.py').removesuffix(f'/{_INIT}').replace('/', '.')}": file
        for file in trees()
        if file.startswith(folder)
    }
    found = set()
    for file in files.values():
        for name in _imports(trees()[file]):
            other = files.get(name) or files.get(name.rpartition(".")[0])
            found |= {(file, other)} if other not in (None, file) else set()
    return frozenset(found)


def circles(graph: frozenset[tuple[str, str]]) -> list[set[str]]:
    """Groups of subjects or modules that import each other, directly or through others."""
    reached: dict[str, set[str]] = {}
    for one in sorted({one for edge in graph for one in edge}):
        found: set[str] = set()
        new = {one}
        while new:
            new = {other for start, other in graph if start in new} - found
            found |= new
        reached[one] = found
    groups: list[set[str]] = []
    for one, others in reached.items():
        if one in others and not any(one in group for group in groups):
            groups.append({other for other in others if one in reached[other]})
    return sorted(groups, key=lambda group: (-len(group), min(group)))


if __name__ == "__main__":
    sys.exit(main())
