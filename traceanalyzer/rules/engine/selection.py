"""Chooses which rules of the package and of third parties run, and with which thresholds."""

from __future__ import annotations

import difflib
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from traceanalyzer.config import MOST, Config, is_within
from traceanalyzer.errors import UsageError
from traceanalyzer.report.message import Text
from traceanalyzer.rules import SUBJECTS
from traceanalyzer.rules.engine.rule import STAGES, Rule, Threshold, pages

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "traceanalyzer.rules"
"""Entry points of this group are objects of type `Rule`."""

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_METADATA = (".dist-info", ".egg-info")
_FILE = "entry_points.txt"


class Chosen(msgspec.Struct, frozen=True):
    """A rule and its thresholds in this project."""

    rule: Rule
    limits: Mapping[str, float]
    seconds: float | None = None
    """Most seconds that a rule of another package may take; None for a rule of this one."""


@cache
def builtin() -> tuple[Rule, ...]:
    """The rules of the package, in the order of their pages."""
    rules = {rule.id: rule for subject in SUBJECTS for rule in import_module(f"traceanalyzer.rules.{subject}").RULES}
    return tuple(rules[ident] for ident in pages())


@cache
def known() -> tuple[Rule, ...]:
    """The rules of the package and of installed third parties, by id.

    Raises:
        UsageError: An entry point cannot be loaded, is not a rule, or has an id that is already in use.
    """
    rules = {rule.id: rule for rule in builtin()}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            rule = point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            told = " ".join(f"{error}".split()) or type(error).__name__
            raise UsageError(f"rule {point.name} ({point.value}) cannot be loaded: {told}") from None
        if not isinstance(rule, Rule):
            raise UsageError(f"rule {point.name} ({point.value}) is not a traceanalyzer.rules.engine.rule.Rule")
        if (problem := _problem(rule)) is not None:
            raise UsageError(f"rule {point.name} ({point.value}) {problem}")
        if rule.id in rules:
            raise UsageError(f"rule {point.name} ({point.value}): the id {rule.id} is taken; choose another")
        rules[rule.id] = rule
    return tuple(rules.values())


def _problem(rule: Any) -> str | None:
    """Why a rule is unusable even before it runs; its fields may contain anything."""
    if not isinstance(rule.id, str) or not _ID.fullmatch(rule.id):
        return "has an id that is none: lower-case words with hyphens between them"
    for name in ("title", "summary", "advice", "not_when"):
        if not isinstance(getattr(rule, name), Text):
            return f"has a {name} that is not a traceanalyzer.report.message.Text"
    if rule.stage not in STAGES:
        return f"has a stage that is none of {', '.join(STAGES)}"
    if not isinstance(rule.severity, str) or not isinstance(rule.thresholds, tuple):
        return "has no text as its severity, or no tuple as its thresholds"
    for limit in rule.thresholds:
        if not isinstance(limit, Threshold) or not isinstance(limit.key, str) or not _is_number(limit.default):
            return "has a threshold without a name or a number"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def choose(config: Config) -> tuple[Chosen, ...]:
    """The rules that a project wants, with its thresholds.

    Raises:
        UsageError: The name of a rule or a threshold is unknown.
    """
    rules = {rule.id: rule for rule in known()}
    for key, names in (("select", config.select), ("ignore", config.ignore), ("rules", config.rules)):
        for name in names:
            if name not in rules:
                near = hint(name, rules, "traceanalyzer rules lists them")
                raise UsageError(f"{config.place(key, name)}: unknown rule {name}; {near}")
    current = [name for name, rule in rules.items() if rule.stage != "deprecated"]
    wanted = set(config.select or current) - set(config.ignore)
    return tuple(
        Chosen(rule, _limits(rule, config), None if rule.id in pages() else config.rule_seconds)
        for rule in rules.values()
        if rule.id in wanted
    )


def _limits(rule: Rule, config: Config) -> Mapping[str, float]:
    chosen = config.rules.get(rule.id, {})
    for key in chosen:
        if key not in rule.defaults:
            near = hint(key, rule.defaults, f"it has {', '.join(rule.defaults) or 'none'}")
            place = config.place(f'rules."{rule.id}"')
            raise UsageError(f"{place}: rule {rule.id} has no threshold {key}; {near}")
    for limit in rule.thresholds:
        most = 1 if limit.unit == "share" and limit.default <= 1 else MOST
        if limit.key in chosen and not is_within(value := chosen[limit.key], 0, most):
            place = config.place(f"rules.{rule.id}.{limit.key}")
            raise UsageError(f"{place} = {value!r}: a {limit.unit} from 0 to {most:g} is needed")
    return {**rule.defaults, **chosen}


def hint(name: str, known: Iterable[str], otherwise: str) -> str:
    """Suggest the nearest known name, or else where to look."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise


def entry_points(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group, as of `importlib.metadata`.

    Python's own way parses the metadata of every installed package, which takes longer than reading 5 MB of a trace. It
    is asked only if some package names the group at all, which most environments have none of.
    """
    if not _may_exist(group):
        return ()
    from importlib import metadata  # noqa: PLC0415 - takes 0.02 s of its own

    return metadata.entry_points(group=group)


def _may_exist(group: str) -> bool:
    """Whether a package declares the group, or may be in a place that only Python's own import machinery can search."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    return any(_may_be_in(path or ".", group.encode()) for path in sys.path)


def _may_be_in(path: str, group: bytes) -> bool:
    """Whether a package in an entry of `sys.path` names the group; archives are not opened."""
    if path.endswith(".egg"):
        return True
    try:
        with os.scandir(path) as entries:
            packages = [entry.path for entry in entries if entry.name.lower().endswith(_METADATA)]
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(group in _content(Path(package, _FILE)) for package in packages)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
