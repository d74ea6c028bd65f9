"""Saved reports that somebody wrote by hand: absurd numbers and hostile texts end in a report or one line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import TRAINING, call

CRAFTS: dict[str, Callable[[Any], Any]] = {
    "huge": lambda value: 1.7e308 if isinstance(value, float) else value,
    "huge and negative": lambda value: -1.7e308 if isinstance(value, float) else value,
    "nothing": lambda value: 0.0 if isinstance(value, float) else value,
    "many": lambda value: 2**62 if type(value) is int and value > 1 else value,
    "texts": lambda value: f"=1+1\x1b]52;c;x\x07{value}" if isinstance(value, str) and len(value) > 11 else value,
}


def crafted(path: Path, craft: Callable[[Any], Any]) -> Path:
    """A report of which each value is another one."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(member) for key, member in value.items()}
        return list(map(changed, value)) if isinstance(value, list) else craft(value)

    plain = json.loads(call("report", TRAINING, "--format", "json").out)
    kept = {key: plain[key] for key in ("schema_version", "generator")}
    path.write_text(json.dumps(changed(plain) | kept), "utf-8")
    return path


@pytest.mark.parametrize("craft", CRAFTS.values(), ids=CRAFTS.keys())
def test_every_format_and_command_shows_it(craft: Callable[[Any], Any], tmp_path: Path) -> None:
    saved = crafted(tmp_path / "crafted.json", craft)
    for form in ("terminal", "markdown", "html", "sarif", "json"):
        assert call("render", saved, "--format", form).code == 0, form
    assert call("render", saved, "-o", tmp_path / "x.xlsx").code == 0
    assert call("render", saved, "-o", tmp_path / "tables", "--format", "csv").code == 0
    texts = [file.read_text("utf-8") for file in (tmp_path / "tables").glob("*.csv")]
    cells = [cell for text in texts for row in csv.reader(io.StringIO(text)) for cell in row]
    assert cells
    assert not [cell for cell in cells if "\x1b" in cell or cell.startswith(("=", "@"))]
    assert call("diff", saved, saved).code == 0
    assert call("batch", saved, "-q", "-o", tmp_path / "out", "--jobs", "1").code in (0, 1)
