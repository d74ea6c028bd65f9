"""Names in the headline the part of a step that a finding is about, if that is a good part of it.

The class of kernels, or the operator, that takes longest is not always what somebody can change: half of a step may be
attention in pieces, whose products and elementwise kernels are of two classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer.config import SEVERITIES
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import named_operators, typical
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST
from traceanalyzer.rules.engine.headlines.step_bound import MOST_WORDS, StepBound, first_short, is_short, unit
from traceanalyzer.rules.engine.selection import Chosen
from traceanalyzer.structure.recording import Recording

_WORTH_BESIDE = 0.15
"""Share of a step from which on a part is named beside the class of kernels that takes longest (own choice)."""
_WORTH_ALONE = 1 / 3
"""Share of a step from which on a part is named in place of what else takes long on a CPU (own choice)."""
_LEAST = SEVERITIES.index("medium")

_PART = Text("headline-part", "{cause} {time:ns}", note="part of a sentence: unfused attention 82 ms")
_COMPUTE = Text(
    "headline-typical-gpu-compute-and-2",
    "Limited by GPU compute: {most} {work}, {part:part} of {unit}; {also}.",
    note="unit is in the genitive: each step; most: mostly; work: convolutions; also: unfused attention 82 ms",
)
_MEMORY = Text(
    "headline-typical-gpu-memory-and-2",
    "Limited by GPU memory bandwidth: {most} {work}, {part:part} of {unit}; {also}.",
    note="unit is in the genitive: each step; most: mostly; work: elementwise kernels; also: unfused attention 82 ms",
)
_COMPUTE_ALONE = Text(
    "headline-typical-gpu-compute-and-short-2",
    "Limited by GPU compute, {busy:part} of {unit}; {also}.",
    note="unit is in the genitive: each step; also: unfused attention 82 ms",
)
_MEMORY_ALONE = Text(
    "headline-typical-gpu-memory-and-short-2",
    "Limited by GPU memory bandwidth, {busy:part} of {unit}; {also}.",
    note="unit is in the genitive: each step; also: unfused attention 82 ms",
)
_KIND = Text(
    "headline-cpu-kind-and",
    "Limited by the CPU: mostly {work}, {part:part} of {unit}; {also}.",
    note="unit is in the genitive: each step; work: convolutions; also: arithmetic in double precision 82 ms",
)
_ABOVE_ALL = Text(
    "headline-cpu-above-all",
    "Limited by the CPU: above all {work}, {part:part} of {unit}.",
    note="unit is in the genitive: each step; work: a Python loop over tensors, which takes less than half of it",
)
_TAKES = Text(
    "headline-cpu-part",
    "{cause} takes {time:ns}",
    note="a clause about the CPU, in a sentence: preparing inputs takes 838 ms, so the GPU idles ...",
)
_BOTH = {typical.PRODUCTS.id: (_COMPUTE, _COMPUTE_ALONE), typical.MOVES.id: (_MEMORY, _MEMORY_ALONE)}
"""Sentences about a kind of work, and the same with a part: with the kind, and without it where words are short."""
BESIDE = {**{id_: text for id_, (text, _) in _BOTH.items()}, named_operators.OF_KIND.id: _KIND}
"""Sentences about a kind of work, on a GPU or a CPU, and the same with a part beside it."""


class Removable(msgspec.Struct, frozen=True):
    """The part of a step that a finding is about."""

    cause: Message
    """What it is, as a noun."""
    ns: float
    """How long it takes per step, as recorded, whatever of it is saved; of communication what nothing hides."""
    resource: str
    """Whose time it is, as in `report.model.Saving`."""


def largest(findings: Iterable[Finding], chosen: Sequence[Chosen]) -> Removable | None:
    """The longest part that a finding with a price is about, if its rule has words for it."""
    words = {entry.rule.id: entry.rule for entry in chosen if entry.rule.cause is not None}
    parts = []
    for finding in findings:
        rule, saving = words.get(finding.rule), finding.saving
        is_sure = not finding.latent and finding.stage == "stable" and SEVERITIES.index(finding.severity) >= _LEAST
        if rule is None or rule.cause is None or saving is None or not is_sure:
            continue
        ns = fsum(place.ns_per_step or 0.0 for place in finding.where if not place.outside_steps)
        if saving.resource == "communication":  # of which the events are all, hidden or not
            ns = saving.direct_ns_per_step[1]
        cause = rule.causes.get(finding.summary.id, rule.cause)
        parts.append(Removable(cause(**said_of(finding.summary)), ns, saving.resource))
    return max(parts, key=lambda part: part.ns, default=None)


def with_part(facts: Facts, found: StepBound, part: Removable | None) -> StepBound:
    """The headline of a trace that names the part, if that is as long as the sentence needs."""
    if part is None or facts.table is not None or not facts.step_ns:
        return found
    of_device = part.resource in ("gpu", "communication")
    if found.bound.startswith("gpu") and of_device and part.ns >= _WORTH_BESIDE * facts.step_ns:
        return _beside(facts, found, part)
    own = facts.step_resources
    on_cpu = own is not None and own.gpu_ns is None
    if found.bound != "host" or of_device or part.ns < _WORTH_ALONE * facts.step_ns:
        return found
    return _of_cpu(facts, found, part) if on_cpu else _while_idle(facts, found, part)


def _beside(facts: Facts, found: StepBound, part: Removable) -> StepBound:
    """The headline that names the part beside the kind of work that it said, as far as there is room for both."""
    texts = _BOTH.get(found.message.id)
    if texts is None:
        return found
    said = {**said_of(found.message), "also": _PART(cause=part.cause, time=part.ns)}
    message = first_short([text(**said) for text in texts], _room(facts))
    return replace(found, message=message) if is_short(message, _room(facts)) else found


def _while_idle(facts: Facts, found: StepBound, part: Removable) -> StepBound:
    """The headline that names the part as that for which the GPU waits, where it knew nothing but Python code."""
    said = said_of(found.message)
    if found.message.id != typical.HOST.id or said["cause"].id != typical.IN_PYTHON.id:
        return found
    message = typical.HOST(**said | {"cause": _TAKES(cause=part.cause, time=part.ns)})
    return replace(found, message=message) if is_short(message, _room(facts)) else found


def _of_cpu(facts: Facts, found: StepBound, part: Removable) -> StepBound:
    """The headline that names the part in place of what takes no longer, or beside a kind of arithmetic."""
    time, step, of = min(part.ns, facts.step_ns), facts.step_ns, unit(facts.find("recording", Recording))
    if found.message.id == named_operators.OF_KIND.id and time < MOST * step:
        message = _KIND(**said_of(found.message), also=_PART(cause=part.cause, time=time))
    elif time < (found.message.params.get("time") or 0.0) and found.message.id != named_operators.OUTSIDE.id:
        return found
    else:
        text = named_operators.OF_KIND if time >= MOST * step else _ABOVE_ALL
        message = text(work=part.cause, part=(time, step), unit=of)
    return replace(found, message=message) if is_short(message, _room(facts)) else found


def with_time(cause: str | Message, ns: float) -> Message:
    """A part of a step with its time in ns, as sentences with a part say it."""
    return _PART(cause=cause, time=ns)


def said_of(message: Message) -> dict[str, Any]:
    """What fills a message, with messages among it as such."""
    return {
        key: msgspec.convert(each, Message) if isinstance(each, dict) else each for key, each in message.params.items()
    }


def _room(facts: Facts) -> int:
    return MOST_WORDS - 2 * facts.is_cut
