"""`--assets`: charts in files beside a Markdown report."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.cli.running import TRAINING, assert_one_line, call
from tests.formats import readback


def targets(document: Path) -> list[Path]:
    """The files that the report shows, found as a browser would."""
    images = [token for token in readback.inline(document.read_text("utf-8")) if token.type == "image"]
    return [(document.parent / unquote(str(image.attrs["src"]))).resolve() for image in images]


@pytest.mark.parametrize("folder", ["charts", "my charts (1)", "out/x", "#1%20&'"])
def test_charts_lie_where_the_report_says(folder: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    document = tmp_path / "out" / "my report.md"
    run = call("report", TRAINING, "-o", document, "--assets", tmp_path / folder)
    assert run.code == 0
    shown = targets(document)
    assert len(shown) >= 3
    assert sorted(shown) == sorted((tmp_path / folder).resolve().glob("my-report-*.svg"))
    assert run.err.splitlines()[-1] == f"Wrote {document}", "the files are there before what links them"
    assert len(run.err.splitlines()) == len(shown) + 1


def test_the_same_report_gives_the_same_files(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    call("report", TRAINING, "-o", saved, "-q")
    for folder, arguments in {"a": ("report", TRAINING), "b": ("render", saved)}.items():
        (tmp_path / folder).mkdir()
        run = call(*arguments, "-o", tmp_path / folder / "r.md", "--assets", tmp_path / folder / "c", "-q")
        assert (run.code, run.err) == (0, "")
    files = [{p.name: p.read_bytes() for p in (tmp_path / folder).rglob("*.*")} for folder in "ab"]
    assert files[0] == files[1]
    assert len(files[0]) > 3


def test_it_can_be_repeated_but_overwrites_nothing_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert call("report", TRAINING, "-o", "r.md", "--assets", "c", "-q").code == 0
    Path("c", "r-overview.svg").write_text("<svg/>")
    Path("r.md").unlink()
    line = assert_one_line(call("report", TRAINING, "-o", "r.md", "--assets", "c", "-q"))
    assert "r-overview.svg: exists, and nothing in it says that traceanalyzer wrote it" in line
    assert not Path("r.md").exists()
    assert call("report", TRAINING, "-o", "r.md", "--assets", "c", "-q", "--force").code == 0


def test_png_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = call("report", TRAINING, "--format", "markdown", "--assets", ".", "--assets-format", "png", "-q")
    assert run.code == 0
    assert "](report-overview.png)" in run.out
    assert Path("report-overview.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--assets", "c"), "charts of a Markdown report"),
        (("-o", "x.html", "--assets", "c"), "charts of a Markdown report"),
        (("-o", "x.md", "--assets-format", "svg"), "name it with --assets DIR"),
        (("-o", "x.md", "--assets", "no/such/folder"), "cannot be created"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in assert_one_line(call("report", TRAINING, "-q", *arguments))
    assert not list(tmp_path.iterdir())
