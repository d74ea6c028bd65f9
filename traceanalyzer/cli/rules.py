"""`traceanalyzer rules`: what is looked for, and what each rule means."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import click

from traceanalyzer import config
from traceanalyzer.errors import UsageError
from traceanalyzer.report import units
from traceanalyzer.rules import selection
from traceanalyzer.rules.rule import Rule


@click.command("rules")
@click.argument("rule", metavar="[RULE]", required=False)
def command(rule: str | None) -> None:
    """List the rules, or explain one.

    \b
    Examples:
      traceanalyzer rules
      traceanalyzer rules dataloader-bound

    Thresholds are set in pyproject.toml, or in traceanalyzer.toml without the leading tool.traceanalyzer:

    \b
      [tool.traceanalyzer]
      ignore = ["occupancy-low"]
      [tool.traceanalyzer.rules."dataloader-bound"]
      exposed_share = 0.05
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    chosen = {entry.rule.id: entry for entry in selection.choose(config.load())}
    if rule is None:
        click.echo(_list(set(chosen)))
        return
    limits = chosen[rule].limits if rule in chosen else {}
    click.echo(_explain(_find(rule), limits))


def _find(name: str) -> Rule:
    rules = {rule.id: rule for rule in selection.known()}
    if name not in rules:
        raise UsageError(f"unknown rule {name}; {selection.hint(name, rules, 'traceanalyzer rules lists them')}")
    return rules[name]


def _list(active: set[str]) -> str:
    rules = selection.known()
    width = max(len(rule.id) for rule in rules)
    severity = max(len(rule.severity) for rule in rules)
    return "\n".join(
        f"{rule.id:{width}}  {rule.severity:{severity}}  {rule.title()}{'' if rule.id in active else '  (ignored)'}"
        for rule in rules
    )


def _explain(rule: Rule, limits: Mapping[str, float]) -> str:
    """Its page, and its thresholds as they are in force."""
    first, _, rest = inspect.cleandoc(rule.page).partition("\n")
    lines = [f"{rule.id}: {first}", "", f"Severity: {rule.severity}. Confidence: {rule.confidence}.", rest.rstrip()]
    if rule.thresholds:
        lines += ["", "Thresholds:"]
    for threshold in rule.thresholds:
        value = limits.get(threshold.key, threshold.default)
        lines.append(f"    {threshold.key} = {value:g} ({units.render(value, threshold.unit)}): {threshold.meaning}")
        lines.append(f"        {threshold.source}")
    return "\n".join(lines)
