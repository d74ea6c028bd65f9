"""Chooses which code a finding may show: only code that runs in the recorded program and that it does not use yet.

One table has the requirements of each piece of torch: a version, a program that trains, its own loop. Rules write the
code; whether it fits the framework, the version and the settings of a recording is decided here, for all rules,
including those of other packages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule

_NEWER = Text(
    "advice-needs-newer-torch",
    "{advice} This needs PyTorch {version} or newer; the trace was made with an older version.",
    note="advice is one or several sentences; version is a number such as 2.0",
)


class _Use(msgspec.Struct, frozen=True):
    """Something that code uses, and where it fits."""

    pattern: re.Pattern[str]
    since: tuple[int, int] = (1, 0)
    """First version of torch that has it, by its release notes."""
    fits: Callable[[Facts], bool] = lambda _: True


def _owns_loop(facts: Facts) -> bool:
    """The loop of a server, and the content of a replayed graph, belong to the framework."""
    return not program.serves(facts)


def _may_compile(facts: Facts) -> bool:
    """Neither is it compiled already, nor is a server's model for its users to compile."""
    return _owns_loop(facts) and not program.is_compiled(facts) and not program.replays_graphs(facts)


def _may_change_loader(facts: Facts) -> bool:
    return _owns_loop(facts) and program.has_loader(facts) and program.loader_maker(facts) is None


_USES = (
    _Use(re.compile(r"torch\.compile\((?!.*(?:fullgraph|max-autotune))"), (2, 0), _may_compile),
    _Use(re.compile(r"torch\.compile\("), (2, 0), _owns_loop),  # compiled already, and better so
    _Use(re.compile("reduce-overhead"), (2, 0), _may_compile),
    _Use(re.compile(r"scaled_dot_product_attention\("), (2, 0)),
    _Use(re.compile("enable_gqa"), (2, 5)),
    _Use(re.compile(r"rms_norm\("), (2, 4)),
    _Use(re.compile(r"\bforeach=True"), (1, 12)),
    _Use(re.compile(r"\bfused=True"), (2, 0)),
    _Use(re.compile(r"optim\.(SGD|Adagrad)\(.*\bfused=True"), (2, 4)),
    _Use(re.compile("set_to_none"), (1, 7)),
    _Use(re.compile("use_reentrant=False"), (1, 11)),
    _Use(re.compile(r"torch\.autocast\("), (1, 10)),
    _Use(re.compile(r"fuse_conv_bn_eval\("), (1, 8)),
    _Use(re.compile("torchao"), (2, 5)),
    _Use(re.compile(r"convert_to_float8_training\("), (2, 5), program.may_train),
    _Use(re.compile(r"Schedule1F1B\("), (2, 4), program.may_schedule_stages),
    _Use(re.compile(r"\bDataLoader\("), fits=_may_change_loader),
    _Use(re.compile(r"\bgc\.\w+\("), fits=program.collects_garbage),
    _Use(re.compile(r"\boptim(izer)?\.|checkpoint\(|DistributedDataParallel\(|loss\b"), fits=program.steps_may_train),
)
"""Requirements of code that rules show. Code that is not listed fits everywhere."""


def action(rule: Rule, draft: Draft) -> Message | None:
    """What to do in a few words, by the advice of the finding; None where the rule has no such words."""
    if draft.advice is None:
        return rule.action() if rule.action else None
    if found := rule.actions.get(draft.advice.id):
        return found()
    said: Any = msgspec.to_builtins(draft.params.get("advice"))
    while isinstance(said, dict):  # an advice may hold others: the first that says more is the one to begin with
        if found := rule.actions.get(said["id"]):
            return found()
        said = said["params"].get("advice")
    return None


def fitting(facts: Facts, code: str | None) -> str | None:
    """The code, if it runs in the recorded program and the program does not use it already."""
    if code and all(use.fits(facts) and program.has_torch(facts, use.since) for use in _used(code)):
        return code
    return None


def with_version(facts: Facts, advice: Message, code: str | None) -> Message:
    """The advice; with the version of torch that it takes, if the recorded program ran on an older one."""
    needed = max((use.since for use in _used(code or "") if use.fits(facts)), default=(1, 0))
    if program.has_torch(facts, needed):
        return advice
    return _NEWER(advice=advice, version=".".join(map(str, needed)))


def _used(code: str) -> list[_Use]:
    return [use for use in _USES if use.pattern.search(code)]
