"""Measure how far commits reach over the subjects of the package, and how large it was.

python scripts/commits.py          print the figures of the latest 250 commits
python scripts/commits.py 1000     print those of more
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripts import house

_STOREYS = ("analyzers", "rules", "sections")
"""Packages that have a module or folder for each subject."""


def history(commits: int, package: Path, subjects: Set[str]) -> Iterator[str]:
    """Yield a line for each figure about the latest commits that change a package.

    A commit touches a subject if it changes a file of it in `analyzers/`, `rules/` or `sections/`. Merges do not count.
    """
    log = _git(
        package, "log", f"-{commits}", "--no-merges", "--name-only", "--format=commit %h", "--relative", "--", "."
    )
    blocks = [block.split() for block in log.split("commit ")[1:]]
    reached = [parts for _, *files in blocks if (parts := touched(files, subjects))]
    counts = [len({subject for _, subject in parts}) for parts in reached]
    yield f"commits that change the package: {len(blocks)}, that touch subjects: {len(reached)}"
    if counts:
        yield f"  subjects that they touch: median {median(counts):g}, most {max(counts)}; one: {counts.count(1)}"
        yield f"  within one row of one subject: {sum(len(parts) == 1 for parts in reached)} commits"
    for commit in dict.fromkeys(block[0] for block in (*blocks[-1:], *blocks[:1])):
        yield f"{commit}: {_size(_sources(package, commit))}"


def touched(files: Iterable[str], subjects: Set[str]) -> set[tuple[str, str]]:
    """The storey and subject of each changed file that is of some."""
    parts = [file.split("/") for file in files]
    found = {(one[0], one[1].removesuffix(".py")) for one in parts if len(one) > 1 and one[0] in _STOREYS}
    return {(storey, subject) for storey, subject in found if subject in subjects}


def capabilities(sources: Mapping[str, str]) -> int:
    """Number of rules, analyses and commands in some sources: pages, calls of `Analysis`, modules of commands."""
    pages = sum(file.startswith("rules/pages/") for file in sources)
    analyses = sum(len(re.findall(r"\bAnalysis\(\s*\d", text)) for text in sources.values())
    commands = [file for file, text in sources.items() if file.startswith("cli/") and "\ndef command(" in text]
    return pages + analyses + len(commands)


def _size(sources: Mapping[str, str]) -> str:
    code = [text for file, text in sources.items() if file.endswith(".py")]
    lines, tokens = sum(text.count("\n") for text in code), sum(len(house.tokens_of(text)) for text in code)
    many = capabilities(sources)
    per_capability = f", {lines / many:,.0f} lines and {tokens / many:,.0f} tokens for each" if many else ""
    return f"{lines:,} lines, {tokens:,} tokens; {many} rules, analyses and commands{per_capability}"


def _sources(package: Path, commit: str) -> dict[str, str]:
    """The code and the pages of rules of a commit, by their paths in the package."""
    files = _git(package, "ls-tree", "-r", "--name-only", commit, ".").splitlines()
    return {file: _git(package, "show", f"{commit}:./{file}") for file in files if file.endswith((".py", ".md"))}


def _git(package: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=package, capture_output=True, text=True, check=True).stdout


def main(arguments: list[str]) -> int:
    """Print the figures of the latest commits."""
    subjects = {file.split("/")[1].removesuffix(".py") for file in house.trees() if file.startswith("analyzers/")}
    for line in history(int(arguments[0]) if arguments else 250, house.PACKAGE, subjects - {"__init__"}):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
