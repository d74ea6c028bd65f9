"""Programs that step an environment of reinforcement learning, which needs values of actions as numbers."""

from __future__ import annotations

from traceanalyzer.analyzers.waits.distribution_checks import DistributionChecks
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.facts import Facts

ADVICE = Text(
    "environment-advice",
    "The actions that the environment needs must be read. Read those of many environments at once (a vector "
    "environment and one call of tolist() or numpy()), and leave losses and statistics in tensors until the rollout "
    "ends.",
    note="tolist() and numpy() are code; rollout: steps of the environment between two updates of the policy",
)


def is_stepped(facts: Facts) -> bool:
    """Whether Python frames show that an environment is stepped."""
    found = facts.find("distribution_checks", DistributionChecks)
    return found is not None and found.environment is not None
