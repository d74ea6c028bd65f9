"""What a reader sees of a page without scrolling: its figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

HEIGHT = 900
_UNIT = "(?:%|[mun]s|s|min|h|B|[KMGT]iB|с|мс|мкс|нс|мин|Б|[КМГТ]иБ|秒|毫秒|微秒)"
_FIGURE = re.compile(rf"(?<![\w.,])\d[\d.,\u202f\xa0]*(?:-\d[\d.,]*)?[ \xa0\u202f]?{_UNIT}(?![\w/])")
DECIMAL = re.compile(r"\d[.,]\d{1,2}(?!\d)")
_TEXTS = """([height, within]) => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const blocks = new Map();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const around = node.parentElement;
    if (around.closest("script, style, code, bdi, table, title, h1, .strip-axis, .axis")) continue;
    if (within && !around.closest(within)) continue;
    if (!around.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 2 || box.bottom <= 0 || box.top >= height) continue;
    const block = around.closest("p, li, dt, dd, h2, h3, figcaption, text, summary, span.label, td, th") ?? around;
    blocks.set(block, `${blocks.get(block) ?? ""}${node.data}`);
  }
  return [...blocks.values()].map((text) => text.replace(/\\s+/g, " ").trim()).filter(Boolean);
}"""


def texts(page: Page, within: str = "") -> list[str]:
    """The texts above the fold, without axis ticks, code, names and tables; of some elements, or of all."""
    return list(page.evaluate(_TEXTS, [HEIGHT, within]))


def figures(page: Page, within: str = "") -> list[str]:
    """The figures with a unit above the fold."""
    return [found for text in texts(page, within) for found in _FIGURE.findall(text)]
