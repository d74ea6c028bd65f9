"""Embeds a chart in the page with the page's colours, so that it follows the theme.

The page's policy blocks style attributes, so styles become presentation attributes. Parts that only a standalone
document needs are removed: metadata, background, unused ids.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import lru_cache

from markupsafe import Markup

from traceanalyzer.formats import charts, plots
from traceanalyzer.formats.charts import Chart
from traceanalyzer.formats.language import Language

_ROLES = {color: role for role, color in charts.PALETTE.items()}
_KEPT = frozenset({
    "fill", "fill-opacity", "opacity", "stroke", "stroke-dasharray", "stroke-dashoffset", "stroke-opacity",
    "stroke-width", "stroke-linejoin", "stroke-linecap", "font-size", "text-anchor",
})  # fmt: skip
_NUMBER = re.compile(r"-?(?<!\d)\d++\.\d+")
_REFERENCE = re.compile(r"url\(#([^()]+)\)|^#(.+)$")
_GEOMETRY = ("d", "x", "y", "width", "height", "transform", "points")


@lru_cache(maxsize=64)
def draw(chart: Chart, language: Language, width: int) -> Markup:
    """Draw a chart as an element of the page; cached, because a page rendered with less detail has the same charts."""
    # The XML was just written by matplotlib, so it is trusted.
    root = ET.fromstring(plots.svg(chart, language, width))  # noqa: S314
    _strip(root)
    prefix = f"{chart.id}-{width}-"
    used = {reference for element in root.iter() for reference in _references(element)}
    for element in root.iter():
        _attributes(element, prefix, used)
    root.attrib.pop("version", None)
    root.set("viewBox", root.get("viewBox", ""))
    root.set("class", "wide" if width == charts.WIDE else "narrow")
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}title {prefix}desc")
    for name, text in (("desc", chart.description), ("title", chart.title)):
        element = ET.Element(name, {"id": prefix + name})
        element.text = text
        root.insert(0, element)
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - ElementTree has escaped every text


def _strip(root: ET.Element) -> None:
    """Remove elements that are not drawn, and XML namespaces."""
    for parent in list(root.iter()):
        parent.tag = parent.tag.rpartition("}")[2]
        for child in list(parent):
            name = child.tag.rpartition("}")[2]
            if name in ("metadata", "style") or child.get("id") == "patch_1":
                parent.remove(child)


def _references(element: ET.Element) -> list[str]:
    found = [_REFERENCE.search(value) for name, value in element.items() if name != "id"]
    return [match[1] or match[2] for match in found if match]


def _attributes(element: ET.Element, prefix: str, used: set[str]) -> None:
    for name, value in list(element.items()):
        del element.attrib[name]
        short = name.rpartition("}")[2]
        if short == "style":
            for item in value.split(";"):
                key, _, setting = (part.strip() for part in item.partition(":"))
                if key in _KEPT:
                    element.set(key, _themed(setting))
        elif short == "id":
            if value in used:
                element.set("id", prefix + value)
        elif short in _GEOMETRY:
            if not (short == "transform" and value.startswith("rotate(-0 ")):
                element.set(short, " ".join(_NUMBER.sub(_rounded, value).split()))
        else:
            element.set(short, _REFERENCE.sub(lambda match: match[0].replace("#", "#" + prefix), value))


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.1f}".removesuffix(".0")


def _themed(setting: str) -> str:
    """Replace a colour of the palette by the page's colour for that role."""
    return f"var(--{_ROLES[setting].replace('_', '-')})" if setting in _ROLES else setting
