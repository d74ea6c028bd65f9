"""Pages of rules: what the build makes of them, what it refuses, and what happens without it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_build import PAGES, PageError, compile_pages, compiled_page
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.rules.engine import rule as module
from traceanalyzer.rules.engine.rule import HEADINGS, Threshold

ROOT = Path(__file__).parents[2]

PAGE = """---
order: 10
severity: low
confidence: B
tags: [gpu, memory]
since: "0.1"
part_of: [fast-thing]
is_rest: true
---

# slow-thing

Something is slow.

## What it detects

Something: `a | b`.

And more.

## Why it matters

It is slow.

## What to do

Make it
fast.

```python
fast = True  # not: slow
```

## How the saving is estimated

Not at all.

## When it is wrong

Never.

## Thresholds

| Key | Default | Unit | Meaning | Source |
| :-- | --: | :-- | :-- | :-- |
| `share` | 0.03 | share | part of it | own choice |
| `bytes` | 4_096 | bytes | size of it | own choice |
| `ratio` | 10.0 | number | how much | own choice |

## References

* <https://pytorch.org/docs>
* Background: <https://arxiv.org/abs/1>

## Texts

```yaml
title: Something is slow
summary:
  english: "{n:count} things: slow"
  one: "{n:count} thing: slow"
  note: a note
advice: >-
  Make it
  fast.
not-when: yes
more: {id: another-id, english: 1.0}
no-table: a table shows nothing
```
"""
SLOW = Path("slow-thing.md")


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page in place of those of the package, and where it was compiled."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / SLOW).write_text(PAGE, "utf-8")
    compile_pages(tmp_path.glob("pages/*.md"), tmp_path / "pages.json")
    monkeypatch.setattr(module, "_SOURCES", tmp_path / "pages")
    monkeypatch.setattr(module, "_COMPILED", tmp_path / "pages.json")
    module.pages.cache_clear()
    yield tmp_path
    module.pages.cache_clear()


def test_a_rule_has_what_its_page_says(compiled: Path) -> None:
    def trace(facts: object, limits: object) -> list[object]:
        return []

    rule = module.page("slow-thing").rule(trace=trace)  # type: ignore[arg-type]
    assert (rule.id, rule.severity, rule.confidence, rule.since) == ("slow-thing", "low", "B", "0.1")
    assert (rule.tags, rule.stage, rule.part_of) == (("gpu", "memory"), "stable", ("fast-thing",))
    assert (rule.is_rest, rule.sums_up_idle, rule.code) == (True, False, "fast = True  # not: slow")
    assert rule.thresholds == (
        Threshold("share", 0.03, "share", "part of it", "own choice"),
        Threshold("bytes", 4096, "bytes", "size of it", "own choice"),
        Threshold("ratio", 10.0, "number", "how much", "own choice"),
    )
    assert [type(threshold.default) for threshold in rule.thresholds] == [float, int, float]
    assert rule.links == ("https://pytorch.org/docs",)
    assert (rule.trace, rule.table, rule.no_trace) == (trace, None, None)
    assert rule.no_table is not None
    assert (rule.no_table.id, rule.no_table.text) == ("slow-thing-no-table", "a table shows nothing")


def test_texts_are_texts_whatever_they_look_like(compiled: Path) -> None:
    page = module.page("slow-thing")
    assert (page.text("title").id, page.text("not-when").english) == ("slow-thing-title", "yes")
    assert (page.text("more").id, page.text("more").english) == ("another-id", "1.0")
    summary = page.text("summary")
    assert (summary.english, summary.one, summary.note) == ("{n:count} things: slow", "{n:count} thing: slow", "a note")
    assert page.text("advice").english == "Make it fast."


def test_the_page_is_printed_without_its_markup(compiled: Path) -> None:
    lines = module.page("slow-thing").rule().page.splitlines()
    assert lines[:7] == [
        "Something is slow.",
        "",
        "What it detects:",
        "    Something: `a | b`.",
        "",
        "    And more.",
        "",
    ]
    assert [line.rstrip(":") for line in lines if line.endswith(":")] == list(HEADINGS)
    assert "    Make it\n    fast.\n\nHow" in "\n".join(lines)
    assert lines[-2:] == ["    https://pytorch.org/docs", "    https://arxiv.org/abs/1"]


def test_pages_come_in_their_order(tmp_path: Path) -> None:
    for name, order in (("a", 30), ("b", 20), ("c", 100)):
        text = PAGE.replace("order: 10", f"order: {order}").replace("slow-thing", name)
        (tmp_path / f"{name}.md").write_text(text, "utf-8")
    compile_pages(sorted(tmp_path.glob("*.md")), tmp_path / "pages.json")
    assert [page["id"] for page in json.loads((tmp_path / "pages.json").read_text("utf-8"))["pages"]] == ["b", "a", "c"]
    (tmp_path / "a.md").write_text((tmp_path / "a.md").read_text("utf-8").replace("order: 30", "order: 20"), "utf-8")
    with pytest.raises(PageError, match=r"b\.md:2: the order 20 is that of a, too"):
        compile_pages(sorted(tmp_path.glob("*.md")), tmp_path / "pages.json")


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("---\norder", "order", "1: no front matter between two lines of ---"),
        ("order: 10", "order: first", "2: the order is first, which is not "),
        ("confidence: B", "confidence: D", "4: the confidence is D, which is not [ABC]"),
        ("severity: low", "severity: [low, high]", "3: the severity is ['low', 'high'], which is not "),
        ("tags: [gpu, memory]", "tags: gpu", "5: the tags is gpu, which is not "),
        ("is_rest: true", "is_rest: yes", "8: the is_rest is yes, which is not true"),
        ("Make it\nfast.\n", "```python\nfast\n```\n", "25: code is not at the end of What to do"),
        ("| 0.03 |", "| nan |", "46: the default is nan, not a number"),
        ("order: 10\n", "", "2: the front matter: order is missing"),
        ("is_rest: true", "is_first: true", "2: the front matter: is_first is unknown"),
        ("confidence: B", "confidence: [B", "5: the front matter: "),
        ("since:", "severity:", "6: the front matter: severity is there twice"),
        ("# slow-thing", "# other-thing", "11: the page does not begin with # slow-thing"),
        ("## Why it matters", "## Why", "21: the headings are not What it detects, "),
        ("Never.\n\n## Thresholds", "Never.", "48: the headings are not What it detects, "),
        ("It is slow.\n", "", "21: nothing is below Why it matters"),
        ("| Key | Default |", "| Key | Value |", "44: the table of thresholds does not begin with"),
        ("| part of it ", "| part | of it ", "46: a threshold is not | `key` | default | unit | meaning | source |"),
        ("| 0.03 |", "| 3 % |", "46: the default is 3 %, not a number"),
        ("* <https://pytorch", "* <http://pytorch", "52: a reference is not"),
        ("```yaml", "```", "57: the texts are not between ```yaml and ```"),
        ("title: Some", "name: Some", "58: the texts: title is missing"),
        ("title: Some", "title: [Some]\nname: Some", "58: title is neither a text nor a mapping"),
        ("  note: a", "  remark: a", "59: summary is neither a text nor a mapping"),
        ("not-when: yes", "not-when: yes: no", "66: the texts: "),
        ("more: ", "title: ", "67: the texts: title is there twice"),
    ],
)
def test_what_is_wrong_with_a_page_is_one_line(old: str, new: str, wrong: str) -> None:
    assert old in PAGE
    with pytest.raises(PageError) as caught:
        compiled_page(SLOW, PAGE.replace(old, new, 1))
    assert f"{caught.value}".startswith(f"slow-thing.md:{wrong}")
    assert len(f"{caught.value}".splitlines()) == 1


def test_the_build_says_what_is_wrong_with_a_page(tmp_path: Path) -> None:
    (tmp_path / "traceanalyzer" / "rules" / "pages").mkdir(parents=True)
    shutil.copy(ROOT / "hatch_build.py", tmp_path)
    page = tmp_path / "traceanalyzer" / "rules" / "pages" / SLOW
    page.write_text(PAGE.replace("order: 10", "order: ten"), "utf-8")
    run = subprocess.run(
        [sys.executable, "hatch_build.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 1
    assert run.stderr == "traceanalyzer/rules/pages/slow-thing.md:2: the order is ten, which is not \\d+\n"


# The compiled pages


def test_pages_that_changed_since_they_were_compiled_are_one_line(compiled: Path) -> None:
    assert list(module.pages()) == ["slow-thing"]
    module.pages.cache_clear()
    (compiled / "pages" / SLOW).write_text(PAGE.replace("part of it", "all of it"), "utf-8")
    with pytest.raises(TraceAnalyzerError, match=r"pages\.json is missing or older .*: run python hatch_build\.py$"):
        module.pages()


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"checksum": 1, "pages": [{"id": "slow-thing"}]}'])
def test_compiled_pages_that_are_missing_or_of_another_version_are_one_line(
    content: bytes | None, compiled: Path
) -> None:
    (compiled / "pages.json").unlink()
    if content is not None:
        (compiled / "pages.json").write_bytes(content)
    with pytest.raises(TraceAnalyzerError, match=r"run python hatch_build\.py$"):
        module.pages()


def test_a_wheel_has_no_sources_to_compare(compiled: Path) -> None:
    shutil.rmtree(compiled / "pages")
    assert list(module.pages()) == ["slow-thing"]


def test_the_pages_of_this_checkout_are_compiled(tmp_path: Path) -> None:
    compile_pages(sorted(PAGES.glob("*.md")), tmp_path / "pages.json")
    assert (tmp_path / "pages.json").read_bytes() == PAGES.with_suffix(".json").read_bytes()
