"""`traceanalyzer rules`: lists the rules and explains each one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import click

from traceanalyzer import config
from traceanalyzer.cli import delivery, parameters
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import cards
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import selection
from traceanalyzer.rules.engine.rule import Rule

_IGNORED = Text("rules-ignored", "{title}  (ignored)", "a rule in a list, which the project has switched off")
_STAGES = {
    "preview": Text("rules-preview", "{title}  (preview)", "a rule in a list that nobody has seen to be right yet"),
    "deprecated": Text("rules-deprecated", "{title}  (deprecated)", "a rule in a list that another one replaces"),
}
_HEAD = Text(
    "rules-head",
    "Severity: {severity}. Confidence: {confidence}.",
    "severity is a word such as high, or low to critical; confidence is A, B or C",
)
_SEVERITIES = Text("rules-severities", "{low} to {high}", "the least and the greatest severity of a rule's findings")
_THRESHOLDS = Text("rules-thresholds", "Thresholds", "numbers that decide whether a rule finds something")
_ENGLISH = Text(
    "rules-english", "Documentation of this rule:", "before the page, which is in English whatever the language"
)


@click.command("rules")
@click.argument("rule", metavar="[RULE]", required=False, shell_complete=parameters.rules)
@parameters.lang
def command(rule: str | None, lang: str | None) -> None:
    """List the rules, or explain one.

    \b
    Examples:
      traceanalyzer rules
      traceanalyzer rules dataloader-bound
      traceanalyzer rules --lang zh

    Thresholds are set in pyproject.toml, or in traceanalyzer.toml without the leading tool.traceanalyzer:

    \b
      [tool.traceanalyzer]
      ignore = ["occupancy-low"]
      [tool.traceanalyzer.rules."dataloader-bound"]
      exposed_share = 0.05

    \b
    Exit codes:
      0    done
      2    an unknown rule, or unusable settings
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    spoken = delivery.chosen_language(lang, settings)
    chosen = {entry.rule.id: entry for entry in selection.choose(settings)}
    if rule is None:
        click.echo(_list(set(chosen), spoken))
        return
    limits = chosen[rule].limits if rule in chosen else {}
    click.echo(_explain(_find(rule), limits, spoken))


def _find(name: str) -> Rule:
    rules = {rule.id: rule for rule in selection.known()}
    if name not in rules:
        raise UsageError(f"unknown rule {name}; {selection.hint(name, rules, 'traceanalyzer rules lists them')}")
    return rules[name]


def _list(active: set[str], language: Language) -> str:
    """One rule a line; in English the severities are the codes that `--fail-on` takes."""
    from rich.cells import cell_len  # noqa: PLC0415 - rich is slow to import

    rules = selection.known()
    width = max(len(rule.id) for rule in rules)
    severities = [_severity(rule, language) for rule in rules]
    widest = max(map(cell_len, severities))
    lines = []
    for rule, severity in zip(rules, severities, strict=True):
        title = language.text(rule.title)
        shown = language.text(_STAGES[rule.stage], title=title) if rule.stage in _STAGES else title
        is_ignored = rule.id not in active and rule.stage != "deprecated"
        shown = language.text(_IGNORED, title=shown) if is_ignored else shown
        lines.append(f"{rule.id:{width}}  {severity}{' ' * (widest - cell_len(severity))}  {shown}")
    return "\n".join(lines)


def _severity(rule: Rule, language: Language) -> str:
    """Severity of a rule's findings: `high`, or `low to critical`."""
    if language.code == ENGLISH.code:
        return rule.severity
    words = [cards.word(cards.SEVERITIES, code, language) for code in rule.severity.split(" to ")]
    return language.text(_SEVERITIES, low=words[0], high=words[1]) if len(words) > 1 else words[0]


def _explain(rule: Rule, limits: Mapping[str, float], language: Language) -> str:
    """Text of a rule's page, which is in English, and its thresholds as they are in force."""
    first, _, rest = inspect.cleandoc(rule.page).partition("\n")
    head = language.text(_HEAD, severity=_severity(rule, language), confidence=rule.confidence)
    if language.code == ENGLISH.code:
        lines = [f"{rule.id}: {first}", "", head, rest.rstrip()]
    else:
        lines = [f"{rule.id}: {language.text(rule.title)}", "", head, "", language.text(_ENGLISH), first, rest.rstrip()]
    if rule.thresholds:
        lines += ["", f"{language.text(_THRESHOLDS)}:"]
    for threshold in rule.thresholds:
        value = limits.get(threshold.key, threshold.default)
        amount = language.quantity(value, threshold.unit)
        lines.append(f"    {threshold.key} = {value:g} ({amount}): {threshold.meaning}")
        lines.append(f"        {threshold.source}")
    return "\n".join(lines)
