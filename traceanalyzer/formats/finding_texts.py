"""Texts for the saving of a finding, its confidence, and the calculation of the saving."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from traceanalyzer.formats import words
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.shared_unit import scale
from traceanalyzer.report import units
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Arithmetic, Combined, Finding, Headline, Resources, Saving

SEVERITIES = {
    "critical": Text("advice-critical", "Critical", "severity of a finding"),
    "high": Text("advice-high", "High", "severity of a finding"),
    "medium": Text("advice-medium", "Medium", "severity of a finding"),
    "low": Text("advice-low", "Low", "severity of a finding"),
    "info": Text("advice-info", "Info", "severity of a finding"),
}
CONFIDENCES = {
    "A": Text("advice-confidence-a", "A: exact evidence"),
    "B": Text("advice-confidence-b", "B: inferred from names and shapes"),
    "C": Text("advice-confidence-c", "C: a heuristic"),
}
RESOURCES = {
    "gpu": Text("advice-gpu", "GPU"),
    "host": Text("advice-host", "Host"),
    "loader": Text("advice-loader", "DataLoader"),
    "communication": Text("advice-communication", "Communication"),
}
"""Resources that can bound a step, in the order of reports."""
_BOUND_BY = {"input": "loader", "gpu-compute": "gpu", "gpu-memory": "gpu"}
"""Resources of headlines whose key differs from that of the resource."""

PLACES = {
    "step": Text("place-step", "Step"),
    "operator": Text("place-operator", "Operator"),
    "kernel": Text("place-kernel", "Kernel"),
    "copy": Text("place-copy", "Copy"),
    "call": Text("place-call", "Call"),
    "module": Text("place-module", "Module"),
    "python": Text("place-python", "Python line"),
    "time": Text("place-time", "Time"),
    "memory": Text("place-memory", "Memory"),
    "row": Text("place-row", "Row"),
}
"""Kinds of places where something was observed."""

_PREVIEW = Text(
    "advice-confidence-preview",
    "{confidence}; preview: this rule has not been confirmed on a real recording yet",
    note="confidence is A: exact evidence, and the like",
)
_PLAIN = re.compile(r"[!-;=?-~]{1,500}")
_LATENT = Text(
    "advice-latent",
    "Latent: saves nothing until this resource is no longer the bottleneck: {resource}",
    "a resource, such as Host",
)
_LATENT_UNKNOWN = Text(
    "advice-latent-unknown", "Latent: the recording does not show what bounds the program, so this may save nothing"
)
_SUM = Text("advice-sum", "{minuend} - {subtrahend} = {result}", "times with their units, and the name of a resource")
_SUM_OF_MOST = Text("advice-sum-max", "{minuend} - max({subtrahends}) = {result}")
_OPERAND = Text("advice-operand", "{value} {name}", "a time with its unit, and what takes it")


def confidence(finding: Finding, language: Language) -> str:
    """The confidence of a finding, and whether its rule is new."""
    said = word(CONFIDENCES, finding.confidence, language)
    return language.text(_PREVIEW, confidence=said) if finding.stage == "preview" else said


def saved_time(saving: Saving, language: Language) -> str | None:
    """`52 ms (46-58)` per step, or `46-58 ms` without a most likely value; None without a saving."""
    return _estimate(saving.wall_ns_per_step, saving.point_ns_per_step, language)


def saved_share(saving: Saving, language: Language) -> str | None:
    """`25-31 %` of the step; None without a saving."""
    return _share(saving.wall_share, language)


def combined_time(combined: Combined, language: Language) -> str | None:
    """Saving of all fixes together per step; None without a saving."""
    return _estimate(combined.wall_ns_per_step, combined.point_ns_per_step, language)


def combined_share(combined: Combined, language: Language) -> str | None:
    """Saving of all fixes together as a share of the step; None without a saving."""
    return _share(combined.wall_share, language)


def own_time(saving: Saving, language: Language) -> str | None:
    """Saving per step on the finding's own resource, independent of other resources."""
    return _estimate(saving.direct_ns_per_step, None, language)


def _estimate(interval: tuple[float, float], point: float | None, language: Language) -> str | None:
    """An estimated time; None if it would be shown as 0."""
    value = (interval[0], point, interval[1])
    is_nothing = units.is_zero(units.estimate_numbers(value, "estimate")[2])
    return None if is_nothing else language.quantity(value, "estimate")


def _share(interval: tuple[float, float], language: Language) -> str | None:
    """An estimated share; None if it would be shown as 0."""
    value = (interval[0], None, interval[1])
    is_nothing = units.is_zero(units.estimate_numbers(value, "estimated_share")[2])
    return None if is_nothing else language.quantity(value, "estimated_share")


def latent(finding: Finding, language: Language) -> str | None:
    """Why it saves nothing yet; None if it saves time now."""
    if not finding.latent:
        return None
    if finding.blocked_by is None:
        return language.text(_LATENT_UNKNOWN)
    return language.text(_LATENT, resource=resource_name(finding.blocked_by, language))


def word(texts: dict[str, Text], key: str, language: Language) -> str:
    """Text of a key in the reader's language; the key itself if a report of another version has an unknown one."""
    return language.text(words.word(texts, key))


def is_page(link: str) -> bool:
    """Whether a link is a web address that is safe to show, because rules may be third-party."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    return parts.scheme in ("https", "http") and bool(parts.netloc) and _PLAIN.fullmatch(link) is not None


def resource_name(key: str, language: Language) -> str:
    """Name of a resource; the key itself if unknown."""
    return word(RESOURCES, key, language)


def next_bottleneck(headline: Headline) -> str | None:
    """The resource that bounds the step after all fixes; None if it already bounds the step."""
    following = headline.combined.next_bottleneck if headline.combined else None
    return None if following == _BOUND_BY.get(headline.bound, headline.bound) else following


def resources(found: Resources) -> list[tuple[str, float, float]]:
    """Each known resource with its time in ns and its share of the step, in the order of `RESOURCES`."""
    times = ((key, getattr(found, f"{key}_ns")) for key in RESOURCES)
    return [(key, ns, ns / found.step_ns if found.step_ns else 0.0) for key, ns in times if ns is not None]


def calculation(sum_: Arithmetic, language: Language) -> str:
    """`174.76 ms - max(44.05 ms GPU, 6.14 ms host) = 130.71 ms`, rounded so that the shown numbers add up."""
    operands = (sum_.minuend, *sum_.subtrahends)
    in_unit = scale(language, max(abs(operand.ns) for operand in operands), "ns")
    values = [*(operand.ns for operand in operands), sum_.result_ns]
    digits = next(d for d in range(10) if all(ns * 10**d % in_unit.factor == 0 for ns in values))

    def shown(ns: int) -> str:
        return in_unit.text(ns, digits)

    others = [language.text(_OPERAND, value=shown(o.ns), name=language.say(o.name)) for o in sum_.subtrahends]
    minuend, result = shown(sum_.minuend.ns), shown(sum_.result_ns)
    if len(others) == 1:
        return language.text(_SUM, minuend=minuend, subtrahend=others[0], result=result)
    return language.text(_SUM_OF_MOST, minuend=minuend, subtrahends=", ".join(others), result=result)
