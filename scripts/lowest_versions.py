"""Prints the lowest version of each dependency that pyproject.toml allows, as constraints for pip."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def constraints(project: dict[str, list[str]]) -> list[str]:
    """The lowest versions that a project promises to run with.

    Args:
        project: The table `project` of pyproject.toml.

    Raises:
        ValueError: A dependency does not begin with its lowest version, as in `name>=1.2`.
    """
    found = [re.fullmatch(r"([\w.-]+)>=([\w.]+)", line) for line in project["dependencies"]]
    if not all(found):
        raise ValueError("each dependency must be written as name>=version")
    return [f"{one[1]}=={one[2]}" for one in found if one]


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints(tomllib.loads(PROJECT.read_text("utf-8"))["project"])) + "\n")
