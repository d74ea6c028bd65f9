"""Start a new analysis: its file, its section and its test, which already work.

    python scripts/new_analysis.py [--no-section] kernels slow_things "Which things are slow?"

Arguments: the subject (a folder of `traceanalyzer/analyzers`), the name of the analysis, which is its key in reports,
and the question that it answers. The section is part of the file that has the sections of the subject; the script adds
it to those of a report. With `--no-section`, there is none: rules alone use the analysis.

Then: what the files say is to do, a page in docs/metrics with the words `analyses.slow_things`, and `make format`.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ANALYSES = "traceanalyzer/analyzers"
SECTIONS = "traceanalyzer/sections"
TESTS = "tests/analyzers"
LAST_SECTION = "    trust.build,\n"
"""The last line of the list of sections; a new section comes before it."""

ANALYSIS = '''{question}

TODO: which events count, in which window, and how the figures follow from them.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category


class {row}(msgspec.Struct, frozen=True):
    """TODO: what one row is."""

    name: str
    """Name of the kernel as recorded."""
    calls: int
    """Number of launches."""
    total_ns: int
    """Sum of the durations in ns, overlap counted twice."""


class {result}(msgspec.Struct, frozen=True):
    """TODO: what all rows are together."""

    rows: tuple[{row}, ...]
    """One row per name, the most time first."""


def analyze(context: Context) -> {result}:
    """TODO: what is counted; events that start in the chosen steps, or all."""
    device, names = context.trace.device, context.trace.names
    kernels = _kernels(context)
    first, groups = group(device.name[kernels])
    sums = (count_by(groups, len(first)), sum_by(groups, device.dur_ns[kernels], len(first)))
    rows = [
        {row}(names[name], calls, time)
        for name, calls, time in np.column_stack((device.name[kernels][first], *sums)).tolist()
    ]
    return {result}(tuple(sorted(rows, key=lambda row: (-row.total_ns, row.name))))


def _kernels(context: Context) -> I64:
    """TODO: which rows of the device table count."""
    device = context.trace.device
    return np.flatnonzero((device.category == Category.KERNEL) & context.in_scope(device.start_ns))


_NEEDED = Need(
    Text("skip-no-{id}", "the trace has no TODO"),
    lambda context: len(_kernels(context)) > 0,
)
ANALYSES = (Analysis({order}, "{name}", {result}, analyze, needs=(_NEEDED,)),)
'''

SECTIONS_OF_SUBJECT = '''{question}"""

from __future__ import annotations
'''
"""The file of a subject that has no sections so far."""

NEEDED = {
    "Iterator": "collections.abc",
    "Report": "traceanalyzer.report.model",
    "Section": "traceanalyzer.report.section",
    "Term": "traceanalyzer.report.section",
    "Text": "traceanalyzer.report.message",
    "Topic": "traceanalyzer.report.section",
    "columns": "traceanalyzer.sections",
    "detail": "traceanalyzer.sections.columns",
    "table": "traceanalyzer.sections.columns",
}
"""What a section uses, and the module that has it."""

TEXTS = """
_{constant} = Text("{id}-title", "TODO")
_{constant}_COLUMNS = (columns.KERNEL, columns.CALLS, columns.TOTAL)
_{constant}_TERMS = (
    Term(_{constant}, Text("define-{id}", "TODO: what the figures mean, for those who read no documentation.")),
)
"""

BUILDER = '''

def build_{name}(report: Report, top: int) -> Iterator[Section]:
    """Build the table of TODO, if the report has the analysis."""
    found = report.result("{name}", {result})
    if found is not None and found.rows:
        rows = table("{name}", _{constant}_COLUMNS, found.rows, top)
        yield detail("{id}", _{constant}, Topic.KERNELS, (rows,), terms=_{constant}_TERMS)
'''

TEST = '''"""TODO: what these traces show."""

from __future__ import annotations

{report_with}from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.{subject}.{name} import ANALYSES, {result}, {row}, analyze
{builder}from traceanalyzer.structure.context import Context


def trace() -> TraceBuilder:
    """TODO: a small trace, times in microseconds."""
    built = TraceBuilder()
    built.kernel("slow", 0, 30)
    built.kernel("fast", 40, 10)
    built.kernel("fast", 60, 10)
    return built


def test_figures_worked_out_by_hand() -> None:
    found = analyze(Context(read_built(trace())))
    assert found == {result}(({row}("slow", 1, 30_000), {row}("fast", 2, 20_000)))


def test_what_it_needs() -> None:
    empty = TraceBuilder()
    empty.op("aten::mm", 0, 10)
    reason = ANALYSES[0].missing(Context(read_built(empty)))
    assert reason is not None
    assert reason.id == "skip-no-{id}"
'''

TEST_OF_SECTION = """

def test_the_section_has_the_rows() -> None:
    (section,) = build_{name}(report_with("{name}", analyze(Context(read_built(trace())))), 1)
    (table,) = section.tables
    assert (table.rows, table.total_rows) == ((("slow", 1, 30_000),), 2)
"""

IMPORTS_OF_TEST = {
    "report_with": "from tests.analyzers.memory.report_with import report_with\n",
    "builder": "from traceanalyzer.sections.{subject} import build_{name}\n",
}
"""What the test of an analysis with a section also imports."""


def free_order(subject: str) -> int:
    """A number for a new analysis: the first free one after those of its subject."""
    from traceanalyzer import analyzers  # noqa: PLC0415 - after the usage, in a checkout

    own = f"traceanalyzer.analyzers.{subject}"
    last = max((one.order for one in analyzers.ANALYSES if one.result.__module__.startswith(own)), default=0)
    taken = {one.order for one in analyzers.ANALYSES}
    return next(number for number in count(last + 1) if number not in taken)


def files(subject: str, name: str, question: str, order: int, *, section: bool = True) -> dict[str, str]:
    """Paths relative to the project, with the content of each file; of these, the sections of the subject may exist."""
    result = "".join(word.capitalize() for word in name.split("_"))
    names = {"subject": subject, "name": name, "id": name.replace("_", "-"), "constant": name.upper(), "order": order}
    names |= {"result": result, "row": f"{result}Row", "question": textwrap.fill(f'"""{question}', 116)}
    imported = {key: line.format(**names) if section else "" for key, line in IMPORTS_OF_TEST.items()}
    test = TEST + TEST_OF_SECTION if section else TEST
    written = {
        f"{ANALYSES}/{subject}/{name}.py": ANALYSIS.format(**names),
        f"{TESTS}/{subject}/test_{name}.py": test.format(**names, **imported),
    }
    if section:
        sections = ROOT / SECTIONS / f"{subject}.py"
        before = sections.read_text("utf-8") if sections.exists() else SECTIONS_OF_SUBJECT.format(**names)
        written[f"{SECTIONS}/{subject}.py"] = extended(before, names)
    return written


def extended(sections: str, names: dict[str, object]) -> str:
    """The sections of a subject with one more: its imports and texts behind the other ones, its function at the end."""
    body = ast.parse(sections).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    imported = {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    lines = [f"from {home} import {name}\n" for name, home in NEEDED.items() if f"{home}.{name}" not in imported]
    lines.append("from traceanalyzer.analyzers.{subject}.{name} import {result}\n".format(**names))
    first = next((at for at, node in enumerate(body) if isinstance(node, ast.FunctionDef | ast.ClassDef)), len(body))
    last_import, last_text = imports[-1].end_lineno, body[first - 1].end_lineno
    text = sections.splitlines(keepends=True)
    if len(imports) == 1:
        lines.insert(0, "\n")
    started = (*text[:last_import], *lines, *text[last_import:last_text], TEXTS.format(**names), *text[last_text:])
    return "".join(started).rstrip() + "\n" + BUILDER.format(**names)


def registered(sections: str, subject: str, name: str) -> str:
    """The module that lists the sections of a report, with a section more.

    Raises:
        ValueError: The list looks otherwise than expected.
    """
    imports = re.search(r"from traceanalyzer\.sections import \(\n((?:    \w+,\n)+)\)", sections)
    if imports is None or LAST_SECTION not in sections:
        raise ValueError(f"{SECTIONS}/__init__.py has no list of sections that ends in {LAST_SECTION.strip()}")
    lines = sorted({*imports[1].splitlines(keepends=True), f"    {subject},\n"})
    listed = sections.replace(imports[1], "".join(lines))
    return listed.replace(LAST_SECTION, f"    {subject}.build_{name},\n{LAST_SECTION}")


def main() -> int:
    """Write the files; of those that exist, only the sections of the subject change, and only grow."""
    given = sys.argv[1:]
    section = "--no-section" not in given
    given = [argument for argument in given if argument != "--no-section"]
    if len(given) != 3 or not re.fullmatch(r"[a-z]\w*", given[1]) or not given[2].endswith("?"):
        print(__doc__)
        return 2
    subject, name, question = given
    folder = ROOT / ANALYSES
    if not (folder / subject / "__init__.py").exists():
        subjects = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
        print(f"there is no subject {subject}; choose one of {', '.join(subjects)}")
        return 2
    sys.path.insert(0, str(ROOT))
    started = files(subject, name, question, free_order(subject), section=section)
    taken = [path for path in started if not path.startswith(SECTIONS) and (ROOT / path).exists()]
    if taken:
        print(f"{taken[0]} exists; choose another name")
        return 2
    for path, text in started.items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text, "utf-8")
        print(f"wrote {path}")
    if section:
        listing = ROOT / SECTIONS / "__init__.py"
        listing.write_text(registered(listing.read_text("utf-8"), subject, name), "utf-8")
        print(f"added it to {SECTIONS}/__init__.py")
    print("write its page in docs/metrics; sort the imports: make format")
    return 0


if __name__ == "__main__":
    sys.exit(main())
