"""Paints pictures as SVG: an element of a page, which follows its theme, and a file, which follows that of its reader.

Texts stay texts, so that the reader's fonts are used for all scripts. Equal pictures give equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from traceanalyzer.formats import environment
from traceanalyzer.formats.charts import DARK, PALETTE, WIDE, Chart
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.pictures import Placed, lay_out, px


def element(chart: Chart, language: Language, width: int) -> Markup:
    """A chart as an element of a page, in its colours; without style attributes, which the page's policy blocks."""
    template = environment(autoescape=True).get_template("html/chart.svg.j2")
    text = template.render(
        chart=chart,
        picture=lay_out(chart, language, width),
        width=width,
        prefix=f"{chart.id}-{width}-",
        shape="wide" if width == WIDE else "narrow",
        color=lambda role: f"var(--{role.replace('_', '-')})",
        px=px,
    )
    return Markup(text)  # noqa: S704 - the template has escaped every text


def document(
    title: str, description: str, size: tuple[int, int], pieces: Sequence[Placed], *, is_always_light: bool = False
) -> str:
    """A file with pictures.

    Args:
        title: Accessible name of the file.
        description: What it shows, in words.
        size: Width and height in CSS pixels.
        pieces: The pictures, and where they are.
        is_always_light: Whether it is light where the reader's theme is dark, too.
    """
    template = environment(autoescape=True).get_template("file.svg.j2")
    width, height = size
    return template.render(
        title=title,
        description=description,
        width=width,
        height=height,
        pieces=pieces,
        palette=PALETTE,
        dark=None if is_always_light else DARK,
        color=PALETTE.__getitem__,
        px=px,
    )
