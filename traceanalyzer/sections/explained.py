"""Orders tables by the share of device time that they explain.

If operators launched little of it, as with graph replays, their tables say so and follow the kernels by kind of work,
owners and repeated layers.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from traceanalyzer.analyzers.kernels.attribution import Attribution
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section

LEAST = 0.8
"""Least share of device time that a table must explain to come first without a note (own choice: four fifths)."""

_OPERATORS = Text(
    "explained-by-operators",
    "Operators launched only {share:share} of the device time, so this section covers only that part. Kernels by kind "
    "of work and repeated layers show the rest.",
)
_OPERATORS_GRAPHS = Text(
    "explained-by-operators-graphs",
    "Operators launched only {share:share} of the device time, so this section covers only that part; graph launches "
    "started {graphs:share}. Kernels by kind of work and repeated layers show the rest.",
    note="graphs are captured CUDA or HIP graphs",
)
_MODULES = Text(
    "explained-by-modules",
    "Only {share:share} of the device time was launched by modules, so this section covers only that part.",
    note="a module is an nn.Module of PyTorch",
)

_OF_OPERATORS = ("operators", "operators-by-shape", "kernels-by-operator", "roofline")
_OF_MODULES = ("modules", "modules-by-class", "modules-tree")
_INSTEAD = ("kernel-classes", "host-owners", "repeated-layers", "kernels")
"""Sections that explain device time without operators, in order."""


def ordered(report: Report, sections: Iterable[Section]) -> tuple[Section, ...]:
    """Order the sections by explained device time, and add a note to those that explain little."""
    attribution = report.result("attribution", Attribution)
    given = tuple(sections)
    if attribution is None:
        return given
    by_operators, by_modules = _is_little(attribution.operator_share), _is_little(attribution.module_share)
    noted = tuple(_with_note(section, attribution, by_operators, by_modules) for section in given)
    places = [number for number, section in enumerate(noted) if section.id in ("operators", *_INSTEAD)]
    if not by_operators or not places:
        return noted
    instead = sorted(
        (replace(section, is_detail=False) for section in noted if section.id in _INSTEAD),
        key=lambda section: _INSTEAD.index(section.id),
    )
    before = [section for section in noted[: places[0]] if section.id not in _INSTEAD]
    after = [section for section in noted[places[0] :] if section.id not in _INSTEAD]
    return (*before, *instead, *after)


def _is_little(share: float | None) -> bool:
    return share is not None and share < LEAST


def _with_note(section: Section, attribution: Attribution, by_operators: bool, by_modules: bool) -> Section:
    if by_operators and section.id in _OF_OPERATORS:
        return replace(section, messages=(_of_operators(attribution), *section.messages), is_detail=True)
    if by_modules and section.id in _OF_MODULES:
        return replace(section, messages=(_MODULES(share=attribution.module_share), *section.messages))
    return section


def _of_operators(attribution: Attribution) -> Message:
    if not attribution.graph_ns:
        return _OPERATORS(share=attribution.operator_share)
    return _OPERATORS_GRAPHS(share=attribution.operator_share, graphs=attribution.graph_ns / attribution.device_ns)
