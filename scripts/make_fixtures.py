"""Write the synthetic and malformed fixtures and the table of all fixtures; `--check` only compares."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.builders.fixture_set import FOLDER, Fixture, fixtures, readme

_OWN = ("synthetic", "malformed")


def main() -> int:
    """Write or check the fixtures; returns 1 if the check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the committed files differ, write nothing")
    options = parser.parse_args()
    entries = list(fixtures())
    if options.check:
        return _report(differences(entries))
    for entry in entries:
        write(entry)
    for stale in _strangers(entries):
        stale.unlink()
    (FOLDER / "README.md").write_bytes(readme(entries))
    print(f"Wrote {len(entries)} fixtures and README.md to fixtures/")
    return 0


def write(entry: Fixture) -> None:
    """Write a fixture, unless an equal one exists."""
    path = FOLDER / entry.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if (content := entry.content) is not None and not (path.exists() and entry.matches(path.read_bytes())):
        path.write_bytes(content)


def differences(entries: list[Fixture]) -> list[str]:
    """The files that are missing, different or superfluous in the folder."""
    missing = [entry.path for entry in entries if not (FOLDER / entry.path).exists()]
    if missing:
        return [f"missing: {path}" for path in missing]
    found = [f"differs: {entry.path}" for entry in entries if not entry.matches((FOLDER / entry.path).read_bytes())]
    found += [f"unknown: {path.relative_to(FOLDER).as_posix()}" for path in _strangers(entries)]
    page = FOLDER / "README.md"
    return found if page.exists() and page.read_bytes() == readme(entries) else [*found, "differs: README.md"]


def _strangers(entries: list[Fixture]) -> list[Path]:
    known = {entry.path for entry in entries}
    files = (path for name in _OWN for path in sorted((FOLDER / name).glob("*")))
    return [path for path in files if path.relative_to(FOLDER).as_posix() not in known]


def _report(problems: list[str]) -> int:
    for problem in problems:
        print(problem)
    if problems:
        print("Run: python scripts/make_fixtures.py")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
