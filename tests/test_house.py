"""Limits of the size and order of the package, as scripts/house.py measures them."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import commits, density, house

_FACTS = "a result is a contract and describes its fields; a fact is what rules see of traces and of printed tables"
_OTHER_THINGS = "a fact is about an operator, of a trace or of a printed table; these figures are of something else"
MIRRORED = {
    "analyzers/compilation/__init__.py:Compiling = analyzers/compilation/regions.py:CompiledRegion": (
        "the function stands behind the times in one row and before them in the other, in this order in the JSON"
    ),
    "analyzers/host/owner_calls.py:OwnCalls = structure/owners/__init__.py:OwnerTimeline": (
        "calls in no order, and pieces that cover a thread in the order of time: no function takes both"
    ),
    "analyzers/host/costs.py:OwnerCosts = analyzers/phases/costs.py:Sums": (
        "columns that two subjects sum up in ways of their own; neither imports the other"
    ),
    "analyzers/kernels/__init__.py:Kernel = rules/engine/facts/__init__.py:KernelFact": _FACTS,
    "analyzers/modules/of_graphs.py:JoinedLine = rules/engine/facts/__init__.py:OperatorFact": _OTHER_THINGS,
    "analyzers/modules/of_graphs.py:JoinedModule = rules/engine/facts/__init__.py:OperatorFact": _OTHER_THINGS,
    "analyzers/operators/of_graphs.py:JoinedOperator = analyzers/operators/of_graphs.py:"
    "JoinedOperatorByShape": "a base of three figures is longer than what it saves in two structs of one file",
    "analyzers/operators/of_graphs.py:JoinedOperator = rules/engine/facts/__init__.py:OperatorFact": _FACTS,
    "analyzers/operators/of_graphs.py:JoinedOperatorByShape = rules/engine/facts/__init__.py:OperatorFact": _FACTS,
    "analyzers/modules/of_graphs.py:JoinedPlace = rules/engine/facts/__init__.py:OperatorFact": _OTHER_THINGS,
    "analyzers/modules/python_lines.py:Line = rules/engine/facts/__init__.py:OperatorFact": _OTHER_THINGS,
    "analyzers/operators/__init__.py:OperatorTimes = rules/engine/facts/__init__.py:OperatorFact": _FACTS,
    "analyzers/phases/costs.py:MarkCosts = analyzers/phases/costs.py:Sums": (
        "a value for each mark, and one for each group of marks, in which marks within marks count once"
    ),
    "rules/engine/rule.py:Rule = rules/engine/rule.py:RulePage": (
        "the page is what is compiled, its texts together; a rule has detectors, and packages make it without a page"
    ),
    "structure/recording/frameworks.py:FrameworkEvidence = structure/recording/frameworks.py:_Evidence": (
        "the result is frozen and words the kind of evidence; the other counts, and compares kinds by their rank"
    ),
}
"""Pairs of structs with fields that both declare alike (`file:Class = file:Class`), and why they share no base."""

OTHER_JSON = {
    "structure/graph_events.py": "what programs say of kernels of graphs, which any text may be",
    "knowledge/profiler_overhead.py": "a file of the package",
    "rules/engine/rule.py": "the compiled pages of rules",
    "rules/engine/checks.py": "a finding, to check its types",
    "simulation/selectors.py": "no JSON: brackets within a pattern of names",
}
"""Files of packages that see the texts of inputs, in which something else looks like parsing them."""

LONG = {
    "cli/batch.py:command": "one parameter a line for each option",
    "cli/diff.py:command": "one parameter a line for each option",
    "cli/report.py:command": "one parameter a line for each option",
    "cli/verify.py:command": "one parameter a line for each option",
    "cli/whatif.py:command": "one parameter a line for each option",
}
"""Functions that may be long, and why."""


def test_a_concept_is_not_spread_over_small_files() -> None:
    small = [file for file in house.small_files() if not file.endswith("__init__.py")]
    assert len(small) <= 4, small


def test_no_file_is_large() -> None:
    assert {file: count for file, count in house.lines().items() if count > 450} == {}


def test_no_function_is_long_but_those_listed() -> None:
    assert {f"{one.file}:{one.name}" for one in house.long_functions()} == set(LONG)


def test_functions_are_not_complex() -> None:
    """The limits are those of today; lower ones are better, and none may be raised for a feature."""
    counts = [one.count for one in density.complexities()]
    assert max(counts) <= 15, density.complexities()[:5]


def test_functions_bind_few_names() -> None:
    many = [one for one in density.names_bound() if one.count > density.MOST_NAMES]
    assert len(many) <= 0.02 * len(density.names_bound()), many[:10]


def test_code_is_not_dense() -> None:
    assert density.tokens_per_line()[""][0] <= 10.45


def test_rules_need_few_names() -> None:
    counts = [one.count for one in density.names_of_rules()]
    assert len(counts) >= house.rules()
    assert statistics.median(counts) <= 11
    assert max(counts) <= 14, density.names_of_rules()[:3]


def test_texts_are_looked_up_only_where_listed() -> None:
    """A result carries its events; only what a user typed has to be found by its text."""
    assert density.code_lookups() == []


def test_rules_do_not_divide_by_steps() -> None:
    """What a step has is computed in one place, `typical.mean`, so that all figures have one population."""
    assert house.divisions_by_steps() == {}


def test_the_inputs_of_calls_are_parsed_in_one_place() -> None:
    """Each parser of its own took other texts for valid, and some did not expect that a text is damaged."""
    assert set(house.argument_parsers()) == {"knowledge/inputs.py", *OTHER_JSON}


def test_structs_that_mirror_each_other_are_few_and_listed() -> None:
    assert {pair.names for pair in house.alike()} == set(MIRRORED)
    assert len(MIRRORED) <= 15


def test_subjects_are_in_no_circle() -> None:
    assert house.circles(house.edges()) == []


@pytest.mark.parametrize("folder", ["cli/", "formats/", "readers/kineto/"])
def test_modules_of_a_folder_are_in_no_circle(folder: str) -> None:
    assert house.circles(house.module_edges(folder)) == []


def test_subjects_seldom_need_each_other() -> None:
    assert len(house.edges()) <= 5, sorted(house.edges())


def test_every_figure_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert house.main(["--pairs"]) == 0
    printed = capsys.readouterr().out
    assert f"all          {sum(house.lines().values()):>7,} lines {len(house.lines()):>4} files" in printed
    assert f"rules: {house.rules()}, of " in printed
    assert all(pair.names in printed for pair in house.pairs())
    assert all(line in printed for line in density.figures())


FILES = {
    "__init__.py": "",
    "analyzers/__init__.py": "from traceanalyzer.analyzers import idle, waits\n",
    "analyzers/idle.py": "from traceanalyzer.analyzers.waits.rows import Wait\n",
    "analyzers/waits/rows.py": "import traceanalyzer.analyzers.steps\n",
    "analyzers/steps.py": "def f():\n    from traceanalyzer.analyzers import idle\n",
    "analyzers/tables.py": "from traceanalyzer.analyzers.idle import x\n",
    "formats/page/__init__.py": "from traceanalyzer.formats import parts, words\n",
    "formats/parts.py": "def _f():\n    from traceanalyzer.formats.page import draw\n",
    "formats/words.py": "import traceanalyzer.analyzers.idle\n",
    "rules/rows.py": '''"""A text
of two lines."""

import a  # why

# why
TEXT = """one
two"""
"""Its docstring."""
''',
    "rules/divides.py": "a = b / c.steps + b // max(1, few_steps) + b / c.step_ns\na /= steps\n",
    "rules/dense.py": """
from traceanalyzer.trace import a, b, c

def _helper(x):
    return b(x)

def _judged(facts):
    one = two = [x for x in facts if x and not x.y]
    return _helper(a(one)) if two else facts.names.code("text")

RULES = (_RULE.rule(trace=_judged),)
""",
    "rules/engine/runner.py": "def _own(): ...\ndef f():\n" + "    f()\n" * 60 + "class C:\n    def g(self): ...\n",
    "structure/parses.py": """
json.loads(x), msgspec.json.Decoder(x)
ast.literal_eval(x)
a.types[0].split(b)
x == '[[]', '"double"' in x
b"".decode(), x.split(a.b), '"', a.types[0]
""",
    "report/rows.py": """
class Base(msgspec.Struct, frozen=True):
    a: int
    b: int
    c: int
    d: int

class One(Base):
    e: int
    \"\"\"One text.\"\"\"
    f: int
    \"\"\"A text
    of two lines.\"\"\"
    g: int
    h: int
    \"\"\"One text.\"\"\"
    i: int
    j: int

class Other(Base):
    h: int
    \"\"\"Another text.\"\"\"
    g: str = ""
    f: int
    \"\"\"A text of two lines.\"\"\"
    e: int

class NoStruct:
    e: int
    f: int
    g: int
    h: int

class Narrow(msgspec.Struct):
    a: int
    b: int
    c: int
    n: int

class Wide(msgspec.Struct):
    a: int
    b: int
    c: int
    d: int
    k: int
    l: int
    m: int
""",
}


@pytest.fixture
def small_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measure a package of a few files."""
    cached = (
        *(house.trees, house.lines, house.code_tokens, house.structs, house.pairs, house.edges, house.module_edges),
        *(density.complexities, density.names_bound, density.names_of_rules),
    )
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.setattr(house, "PACKAGE", tmp_path)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.usefixtures("small_house")
def test_what_is_measured() -> None:
    assert house.lines()["rules/rows.py"] == 9
    assert house.code_lines("rules/rows.py") == 3
    assert house.rule_files() == ["rules/dense.py", "rules/divides.py", "rules/rows.py"]
    assert house.divisions_by_steps() == {"rules/divides.py": 3}
    assert {file: sorted(found) for file, found in house.argument_parsers().items()} == {
        "structure/parses.py": [2, 2, 3, 4, 5, 5]
    }
    assert house.shared_names() == {"rows.py": 3}
    assert house.public_names() == 3 + 6
    assert house.long_functions() == [house.Function("rules/engine/runner.py", "f", 61)]
    assert [pair.names for pair in house.pairs()] == [
        "report/rows.py:Base = report/rows.py:Wide",
        "report/rows.py:One = report/rows.py:Other",
    ]
    assert house.pairs()[1].shared == ("e", "f", "g", "h")
    assert house.pairs()[1].alike == ("e", "f")
    assert [pair.names for pair in house.alike()] == ["report/rows.py:Base = report/rows.py:Wide"]
    assert house.edges() == {("idle", "waits"), ("waits", "steps"), ("steps", "idle"), ("tables", "idle")}
    assert house.circles(house.edges()) == [{"idle", "waits", "steps"}]
    assert house.circles(house.module_edges("formats/")) == [{"formats/page/__init__.py", "formats/parts.py"}]


@pytest.mark.usefixtures("small_house")
def test_how_density_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    judged = "rules/dense.py:7 _judged"
    of_judged = 1 + 1 + 2 + 1  # itself, the loop of the comprehension, its condition with `and`, the conditional value
    assert density.complexities()[0] == (of_judged, judged)
    assert density.names_bound()[0] == (3, judged)
    assert density.names_of_rules() == ((2, "rules/dense.py _RULE.rule(trace=_judged)"),)
    assert density.code_lookups() == ["rules/dense.py:9"]
    assert density.tokens_per_line()["analyzers"] == ((8 + 10 + 6 + 11 + 8) / 6, 6)
    assert density.main(["--worst"]) == 0
    assert "names of the project that a rule uses: 2 in the median, 2 at most" in capsys.readouterr().out


def test_what_commits_touch() -> None:
    files = [
        "rules/idle.py",
        "rules/idle/gaps.py",
        "sections/waits.py",
        "rules/__init__.py",
        "trace/idle.py",
        "idle.py",
    ]
    assert commits.touched(files, {"idle", "waits"}) == {("rules", "idle"), ("sections", "waits")}
    sources = {
        "rules/pages/idle.md": "",
        "analyzers/idle.py": "ANALYSES = (Analysis(1, a), Analysis(\n    2, b))\n",
        "cli/diff.py": "\ndef command(): ...\n",
        "cli/help.py": "\ndef _command(): ...\n",
        "structure/analysis.py": "class Analysis(Base): ...\n",
    }
    assert commits.capabilities(sources) == 1 + 2 + 1


def test_history_of_a_repository(tmp_path: Path) -> None:
    package = tmp_path / "package"
    for number, names in enumerate([("rules/idle.py",), ("rules/idle.py", "sections/waits.py"), ("trace/model.py",)]):
        for name in names:
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text(f"a = {number}\n" * (number + 1), "utf-8")
        git(tmp_path, "init", "-q")
        git(tmp_path, "add", ".")
        git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "commit it")
    touched, subjects, row, first, last = commits.history(9, package, {"idle", "waits"})
    assert touched == "commits that change the package: 3, that touch subjects: 2"
    assert subjects == "  subjects that they touch: median 1.5, most 2; one: 1"
    assert row == "  within one row of one subject: 1 commits"
    assert first.partition(": ")[2] == "1 lines, 3 tokens; 0 rules, analyses and commands"
    assert last.partition(": ")[2] == "7 lines, 21 tokens; 0 rules, analyses and commands"


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)
