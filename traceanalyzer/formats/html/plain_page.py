"""An HTML page of sections without a script: a heading for each, with its messages and tables."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

from traceanalyzer.formats.html import embed, findings, labels, page
from traceanalyzer.formats.html.detail import stages
from traceanalyzer.formats.html.page import MARK, PageGroup
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.names import clean, shorten
from traceanalyzer.formats.templates import environment
from traceanalyzer.report.model import Generator
from traceanalyzer.report.section import Section


def render(generator: Generator, title: str, shown: Iterable[Section], language: Language) -> str:
    """Render a page of sections.

    Args:
        generator: The program that creates it.
        title: Its title, safe to show.
        shown: The sections.
        language: Language of the texts.
    """
    detail, style = next(iter(stages(None))), page.source("style.css")
    groups = []
    for section in shown:
        group = PageGroup(section.id, clean(language.text(section.title)))
        group.blocks.append(page.block(section, (), group, language, detail))
        groups.append(group)
    return (
        environment(autoescape=True)
        .get_template("html/plain.html.j2")
        .render(
            page={
                "html_lang": language.html_lang,
                "generator": f"{MARK} {generator.version}",
                "title": title,
                "groups": groups,
                "style": embed.verbatim(style),
                "policy": embed.policy(style, ""),
            },
            word=SimpleNamespace(**labels.labels(language) | {"all_rows_command": "-o x.json"}),
            say=findings.prose,
            brief=lambda text: shorten(clean(text), detail.name),
        )
    )
