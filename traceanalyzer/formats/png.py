"""Paints pictures as PNG with matplotlib, which is imported only here, and only to paint: it is slow to import.

Equal pictures give equal bytes. Texts are drawn with the fonts of this machine.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from traceanalyzer._version import __version__
from traceanalyzer.formats.charts import PALETTE
from traceanalyzer.formats.pictures import Picture, Placed, Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.font_manager import FontEntry
    from matplotlib.patches import PathPatch
    from matplotlib.transforms import Transform

_DPI = 72  # at this resolution a point is a CSS pixel
_USUAL = "DejaVu Sans"  # included in matplotlib
_SIMPLIFIED = frozenset({"SC", "CN", "GB", "Hans"})  # codes of Chinese variants in font names
_BOXES = ("Last Resort", "LastResort", "Adobe Blank")  # fonts with placeholder glyphs for all characters
_COMMAND = re.compile("([MLHVZ])([^MLHVZ]*)")
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def paint(size: tuple[int, int], pieces: Sequence[Placed], sharpness: int = 1) -> bytes | None:
    """Paint pictures; None if no fonts of this machine have all their characters.

    Args:
        size: Width and height in CSS pixels.
        pieces: The pictures, and where they are.
        sharpness: Pixels of the file per CSS pixel.
    """
    with _quiet():
        labels = (label for placed in pieces for label in placed.picture.labels)
        fonts = fonts_with(frozenset("".join(label.text for label in labels)))
        return None if fonts is None else _painted(size, pieces, sharpness, fonts)


def _painted(size: tuple[int, int], pieces: Iterable[Placed], sharpness: int, fonts: tuple[str, ...]) -> bytes:
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.transforms import Affine2D  # noqa: PLC0415

    width, height = size
    style: Any = {"font.family": list(fonts), "text.parse_math": False, "path.simplify": False}
    with rc_context(style):
        figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=PALETTE["paper"])
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        for placed in pieces:
            _paint(placed.picture, axes, Affine2D().translate(placed.x, placed.y) + axes.transData)
        data = io.BytesIO()
        software = {"Software": f"traceanalyzer {__version__}"}
        figure.savefig(data, format="png", dpi=sharpness * _DPI, metadata=software)
    return data.getvalue()


def _paint(picture: Picture, axes: Axes, place: Transform) -> None:
    shapes = [
        *(_patch(line, edgecolor=PALETTE[line.role], fill=False, linewidth=0.8) for line in picture.grid),
        *(_patch(area, facecolor=PALETTE[area.role], linewidth=0) for area in picture.areas),
        *(_patch(line, edgecolor=PALETTE[line.role], fill=False, linewidth=1) for line in picture.lines),
    ]
    for order, shape in enumerate(shapes):
        shape.set(transform=place, zorder=order)
        axes.add_artist(shape)
    for label in picture.labels:
        axes.text(
            label.x,
            label.y,
            label.text,
            transform=place,
            zorder=len(shapes),
            size=label.size,
            color=PALETTE[label.role],
            weight="bold" if label.is_bold else "normal",
            ha=_ANCHORS[label.anchor],
            va="baseline",
        )


def _patch(shape: Shape, **look: Any) -> PathPatch:
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    points = []
    codes = []
    x = y = 0.0
    for command, numbers in _COMMAND.findall(shape.path):
        if command in "ML":
            x, y = map(float, numbers.split())
        elif command == "H":
            x = float(numbers)
        elif command == "V":
            y = float(numbers)
        points.append((x, y))
        codes.append({"M": Path.MOVETO, "Z": Path.CLOSEPOLY}.get(command, Path.LINETO))
    dashes = (0, (4, 3)) if shape.is_dashed else "solid"
    opacity = None if shape.opacity is None else float(shape.opacity)
    return PathPatch(Path(points, codes), alpha=opacity, linestyle=dashes, capstyle="butt", **look)


def fonts_with(characters: frozenset[str]) -> tuple[str, ...] | None:
    """Font families of this machine that together have all these glyphs, the default first; None if there are none."""
    from matplotlib import font_manager, ft2font  # noqa: PLC0415

    every = (f for f in font_manager.fontManager.ttflist if not f.name.startswith(_BOXES))
    fonts = [f for f in every if f.style == "normal" and f.weight in (400, "normal")]
    missing = {ord(character) for character in characters if not character.isspace()}
    families: list[str] = []
    for font in sorted(fonts, key=_preference):
        if not missing:
            break
        found = missing & ft2font.FT2Font(font.fname).get_charmap().keys()
        if found and font.name not in families:
            families.append(font.name)
        missing -= found
    return None if missing else tuple(families)


def _preference(font: FontEntry) -> tuple[bool, bool, bool, str, str]:
    """Sort key of fonts: the default one, then similar ones; Chinese fonts of the variant of the catalogs first."""
    words = font.name.split()
    return font.name != _USUAL, "Sans" not in words, _SIMPLIFIED.isdisjoint(words), font.name, font.fname


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what matplotlib says about fonts without a bold face, and about where it keeps its cache."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
