"""Write the sample reports in docs/samples/ from the project's own fixtures, with a picture of each.

python scripts/samples.py            write (pictures need chromium and playwright)
python scripts/samples.py --check    fail if a page says something else; pictures, styles and scripts are not compared
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

import traceanalyzer as ta
from scripts.goldens import without_assets
from traceanalyzer.formats import difference, language
from traceanalyzer.report.model import Generator

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "samples"
SYNTHETIC, LAB = ROOT / "fixtures" / "synthetic", ROOT / "fixtures" / "lab"
TRAINING, FED = (SYNTHETIC / f"gpu_training{suffix}.json.gz" for suffix in ("", "_fed"))
RANKS = [LAB / f"ddp-slow-rank{rank}.large.before.json.gz" for rank in ("", ".rank1")]
BATCH = [SYNTHETIC / f"{name}.json.gz" for name in ("rocm_training", "no_profiler_step", "ddp_nccl", "serving_graphs")]
DOCUMENT = ROOT / "fixtures" / "key_averages" / "article.md"

WINDOW = {"width": 1280, "height": 860}
"""What a picture shows: the first screen of a laptop."""
SCALE = 1.5
"""Pixels of a picture per pixel of the page, so that words are sharp where the picture is shown smaller."""
COLOURS = 128
"""A page has few colours; with a palette a picture is a third as large."""


@dataclass(frozen=True)
class Sample:
    """One page: its file, what it shows, and the command that writes it."""

    file: str
    title: str
    shows: str
    command: str


_BEFORE_AFTER = "fixtures/synthetic/gpu_training.json.gz fixtures/synthetic/gpu_training_fed.json.gz"
_DIFF = "diff.html" if "html" in difference.FORMATS else "diff.md"
SAMPLES = (
    Sample(
        "training.html",
        "A training",
        "The GPU waits for the DataLoader in each step.",
        "traceanalyzer report fixtures/synthetic/gpu_training.json.gz -o training.html",
    ),
    Sample(
        "ranks.html",
        "Two ranks of a DDP training",
        "One rank is slower than the other, which waits for it.",
        f"traceanalyzer ranks {' '.join(file.relative_to(ROOT).as_posix() for file in RANKS)} -o ranks.html",
    ),
    Sample(
        "server.html",
        "A server",
        "Decode steps of a language model, replayed from CUDA graphs.",
        "traceanalyzer report fixtures/synthetic/serving_graphs.json.gz -o server.html",
    ),
    Sample(
        "table.html",
        "Printed tables",
        "An article with tables of `key_averages()`, and no trace at all.",
        "traceanalyzer report fixtures/key_averages/article.md -o table.html",
    ),
    Sample(
        "batch/index.html",
        "A batch",
        "The index of many traces, which links to a page for each.",
        f"traceanalyzer batch {' '.join(file.relative_to(ROOT).as_posix() for file in BATCH)} -o batch --format html",
    ),
    Sample(
        _DIFF,
        "Before and after",
        "The same training with loader workers: is it faster, and why?",
        f"traceanalyzer diff {_BEFORE_AFTER} -o {_DIFF}",
    ),
)
PICTURES = {"training": "training.html", "ranks": "ranks.html", "server": "server.html", "table": "table.html"}
PICTURES |= {"batch": "batch/index.html"} | ({"diff": _DIFF} if _DIFF.endswith("html") else {})
"""Pictures by name, and the pages that they show."""
LANGUAGES = ("ru", "zh")
"""Other languages of the first picture, for the READMEs in them."""


def pages() -> dict[str, str]:
    """The text of each page by its path in the folder."""
    training = _plain(ta.analyze(ta.load(TRAINING)))
    change = msgspec.structs.replace(ta.diff(TRAINING, FED), generator=_GENERATOR)
    form = "html" if _DIFF.endswith("html") else "markdown"
    found = {
        "training.html": ta.render(training, "html"),
        "ranks.html": ta.render(_plain(ta.ranks([str(file) for file in RANKS])), "html"),
        "server.html": ta.render(_plain(ta.analyze(ta.load(SYNTHETIC / "serving_graphs.json.gz"))), "html"),
        "table.html": ta.render(_plain(ta.analyze(ta.load(DOCUMENT))), "html"),
        _DIFF: difference.answer(change).render(form),
        "README.md": _overview(),
    }
    return found | _batch()


_GENERATOR = Generator("traceanalyzer", "sample")
"""Written in place of the program's version, so that a release changes no sample."""


def _plain(report: ta.Report) -> ta.Report:
    return msgspec.structs.replace(report, generator=_GENERATOR)


def _batch() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        ta.batch([str(file) for file in BATCH], folder, formats=["html"])
        files = sorted(Path(folder).glob("*.html"))
        return {f"batch/{file.name}": _unversioned(file.read_text("utf-8")) for file in files}


def _unversioned(page: str) -> str:
    return page.replace(f"{_GENERATOR.name} {ta.__version__}", f"{_GENERATOR.name} {_GENERATOR.version}")


def _overview() -> str:
    """The page that shows the pictures."""
    lines = [
        "# Sample reports",
        "",
        "Made by `make samples` from traces in the repository. A page is one file: download it and open it, no network",
        "is needed. In a clone of the repository the command below each picture writes the same page.",
    ]
    names = {file: name for name, file in PICTURES.items()}
    for sample in SAMPLES:
        lines += ["", f"## {sample.title}", "", f"{sample.shows} [Open the page]({sample.file})."]
        if sample.file in names:
            lines += ["", f"![The first screen of the page: {sample.title.lower()}]({names[sample.file]}.png)"]
        lines += ["", f"    {sample.command}"]
    return "\n".join([*lines, ""])


def differences(expected: dict[str, str]) -> list[str]:
    """The pages and pictures that are missing, superfluous, or say something else."""
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.*") if path.is_file()}
    pictures = {f"{name}.png" for name in (*PICTURES, *(f"training.{code}" for code in LANGUAGES))}
    found = [f"missing: {name}" for name in sorted((expected.keys() | pictures) - there)]
    found += [f"unknown: {name}" for name in sorted(there - expected.keys() - pictures)]
    return found + [
        f"differs: {name}"
        for name, text in expected.items()
        if name in there and without_assets((FOLDER / name).read_text("utf-8")) != without_assets(text)
    ]


def take_pictures() -> None:
    """Take a picture of the first screen of each page."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a check needs no browser

    from tests.browser.conftest import SWITCHES  # noqa: PLC0415

    shown = {name: (FOLDER / file).read_text("utf-8") for name, file in PICTURES.items()}
    training = _plain(ta.analyze(ta.load(TRAINING)))
    shown |= {f"training.{code}": ta.render(training, "html", language=language.of(code)) for code in LANGUAGES}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(SWITCHES))
        tab: Any = browser.new_context(viewport=WINDOW, device_scale_factor=SCALE).new_page()
        for name, text in shown.items():
            page = Path(folder, f"{name}.html")
            page.write_text(text, "utf-8")
            tab.goto(page.as_uri())
            tab.evaluate("document.fonts.ready")
            (FOLDER / f"{name}.png").write_bytes(_smaller(tab.screenshot()))
        browser.close()


def _smaller(png: bytes) -> bytes:
    from PIL import Image  # noqa: PLC0415 - matplotlib brings it

    out = io.BytesIO()
    palette = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    palette.save(out, "PNG", optimize=True)
    return out.getvalue()


def main() -> int:
    """Write the samples, or check them; returns 1 if the check finds a difference."""
    expected = pages()
    if "--check" in sys.argv:
        problems = differences(expected)
        for problem in problems:
            print(f"docs/samples: {problem}; run make samples")
        return 1 if problems else 0
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, text in expected.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    take_pictures()
    return 0


if __name__ == "__main__":
    sys.exit(main())
