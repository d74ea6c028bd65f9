"""Markdown reports as a reader on GitHub sees them: parsed, not matched."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

_SUMMARY = re.compile(r"<details>\n<summary>([^<>\n]*)</summary>\n")
_BORDER = re.compile(r"(?<!\\)\|")
_PARSER = MarkdownIt("gfm-like", {"html": True, "linkify": False})

Cells = list[list[str]]


@dataclass
class Part:
    """One section with what is in it; the first row of a table is its head."""

    title: str
    is_folded: bool
    said: str = ""
    """What the line of a folded section says after its title."""
    paragraphs: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    tables: list[Cells] = field(default_factory=list)

    def rows(self, table: int = 0) -> list[dict[str, str]]:
        """A table's rows by column title."""
        head, *body = self.tables[table]
        return [dict(zip(head, row, strict=True)) for row in body]


@lru_cache(16)
def tokens(markdown: str) -> list[Token]:
    """The blocks of a document."""
    return _PARSER.parse(markdown)


def inline(markdown: str) -> Iterator[Token]:
    """The text in paragraphs, headings and cells."""
    for token in tokens(markdown):
        yield from token.children or []


def text_of(token: Token) -> str:
    """What a reader sees of an inline token."""
    return "".join(child.content for child in token.children or [])


def parts(markdown: str) -> dict[str, Part]:
    """The sections by title; the title of the document is the key of what stands before them."""
    found: list[Part] = []
    context: list[str] = []
    for token in tokens(markdown):
        if token.nesting:
            context = [*context, token.type] if token.nesting > 0 else context[:-1]
        if token.type == "html_block" and (summary := _SUMMARY.fullmatch(token.content)):
            title, _, said = html.unescape(summary[1]).partition(": ")
            found.append(Part(title, is_folded=True, said=said))
        elif token.type == "table_open":
            found[-1].tables.append([])
        elif token.type == "tr_open":
            found[-1].tables[-1].append([])
        elif token.type == "inline":
            _place(token, context, found)
    return {part.title: part for part in found}


def _place(token: Token, context: list[str], found: list[Part]) -> None:
    text = text_of(token)
    if "heading_open" in context:
        found.append(Part(text, is_folded=False))
    elif "tr_open" in context:
        found[-1].tables[-1][-1].append(text)
    elif "list_item_open" in context:
        label, _, value = text.partition(": ")
        found[-1].facts[label] = value
    else:
        found[-1].paragraphs.append(text)


def skeleton(markdown: str) -> list[tuple[str, str, str]]:
    """The structure of a document: its blocks and its HTML, without its texts."""
    return [
        (token.type, token.tag, _SUMMARY.sub("summary", token.content) if token.type == "html_block" else "")
        for token in tokens(markdown)
    ]


BLOCKS = {
    "heading",
    "paragraph",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "bullet_list",
    "list_item",
    "ordered_list",
}
INLINE = {"text", "code_inline", "strong_open", "strong_close", "link_open", "link_close", "hardbreak"}


def check_structure(markdown: str, *, is_pictured: bool = False) -> None:
    """Assert what holds for every report: one title, sections, whole tables, folds in pairs, text and code."""
    blocks = tokens(markdown)
    headings = [token.tag for token in blocks if token.type == "heading_open"]
    assert headings[0] == "h2"
    assert set(headings[1:]) <= {"h3", "h4"}
    mark, *folds = [token.content for token in blocks if token.type == "html_block"]
    assert re.fullmatch(r"<!-- traceanalyzer report [\w.+]+ -->\n", mark)
    depth = 0
    for fold in folds:
        depth += 1 if _SUMMARY.fullmatch(fold) else -1
        assert depth >= 0
        assert depth or fold == "</details>\n"
    assert depth == 0
    for token in inline(markdown):
        assert token.type in INLINE or (is_pictured and token.type == "image"), token
        assert token.type != "link_open" or (token.info == "auto" and str(token.attrs["href"]).startswith("https://"))
    leaves = {token.type for token in blocks if token.nesting == 0}
    assert leaves <= {"inline", "html_block", "fence"}
    assert all(token.info in ("python", "text") for token in blocks if token.type == "fence")
    assert {token.type.removesuffix("_open") for token in blocks if token.nesting > 0} <= BLOCKS
    for columns, counts in _cell_counts(blocks, markdown.split("\n")):
        assert counts == [columns] * len(counts)
        assert len(counts) >= 3, "a head, a rule and a row"


def prose(markdown: str) -> str:
    """What a reader sees beside code and beside the links that the report means."""
    depth, seen = 0, []
    for token in inline(markdown):
        depth += token.nesting if token.type.startswith("link") else 0
        if token.type == "text" and not depth:
            seen.append(token.content)
    return "\n".join(seen)


def _cell_counts(blocks: list[Token], lines: list[str]) -> Iterator[tuple[int, list[int]]]:
    """Per table the number of columns, and the number of cells that each of its lines really has."""
    for index, token in enumerate(blocks):
        if token.type == "table_open" and token.map:
            head = next(i for i, later in enumerate(blocks) if i > index and later.type == "thead_close")
            columns = sum(cell.type == "th_open" for cell in blocks[index:head])
            yield columns, [len(_BORDER.findall(line)) - 1 for line in lines[slice(*token.map)]]
