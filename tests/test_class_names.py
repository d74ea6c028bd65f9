"""Every public class of the package has a name of its own, so that a name says which class is meant."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def shared_names(modules: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of public classes that stand in several modules.

    Args:
        modules: The code of each module by its path.
    """
    found: dict[str, list[str]] = {}
    for path, code in modules.items():
        for node in ast.parse(code).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_two_public_classes_have_one_name() -> None:
    files = sorted((ROOT / "traceanalyzer").rglob("*.py"))
    assert files
    assert shared_names({file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in files}) == {}


def test_a_name_in_two_modules_is_found() -> None:
    modules = {
        "edits.py": "class Loader:\n    class Row: ...\nclass _Rows: ...",
        "loader.py": "class Loader: ...",
        "table.py": "from loader import Loader\nclass Row: ...\nclass _Rows: ...",
    }
    assert shared_names(modules) == {"Loader": ["edits.py", "loader.py"]}
