"""What installed packages add is found wherever Python finds it, and metadata is parsed only where something may be."""

from __future__ import annotations

import sys
import zipfile
from importlib.machinery import PathFinder
from importlib.metadata import MetadataPathFinder
from pathlib import Path

import pytest

from traceanalyzer.rules.engine import selection

GROUP = "some.group"


@pytest.fixture(autouse=True)
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test puts there is on the path; importers of other tools know no packages."""
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    # Where a tool has loaded the backport of importlib.metadata, that has taken this away.
    monkeypatch.setattr(PathFinder, "find_distributions", MetadataPathFinder.find_distributions, raising=False)


def package(folder: Path, group: str = GROUP) -> Path:
    """Metadata of a package that adds one object."""
    (folder / "extra-1.0.dist-info").mkdir(parents=True)
    (folder / "extra-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (folder / "extra-1.0.dist-info" / "entry_points.txt").write_text(f"[{group}]\nfirst = extra:FIRST\n")
    return folder


def found() -> list[tuple[str, str]]:
    return [(point.name, point.value) for point in selection.entry_points(group=GROUP)]


def test_a_package_in_a_folder_is_found(tmp_path: Path) -> None:
    sys.path.append(str(package(tmp_path)))
    assert found() == [("first", "extra:FIRST")]


def test_a_package_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(package(tmp_path))
    sys.path.append("")
    assert found() == [("first", "extra:FIRST")]


def test_a_package_in_an_archive_is_found(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "extra.zip", "w") as archive:
        for file in package(tmp_path / "content").glob("*/*"):
            archive.write(file, file.relative_to(tmp_path / "content"))
    sys.path.append(str(tmp_path / "extra.zip"))
    assert found() == [("first", "extra:FIRST")]


def test_finders_of_others_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @classmethod
        def find_spec(cls, *_: object) -> None: ...

        @classmethod
        def find_distributions(cls, *_: object) -> list[object]:
            asked.append(cls)
            return []

    asked: list[object] = []
    monkeypatch.setattr(sys, "meta_path", [PathFinder, Finder])
    assert found() == []
    assert asked == [Finder]


def test_without_such_a_package_nothing_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path += [str(package(tmp_path, "other")), str(tmp_path / "missing")]
    monkeypatch.delitem(sys.modules, "importlib.metadata", raising=False)
    assert found() == []
    assert "importlib.metadata" not in sys.modules
