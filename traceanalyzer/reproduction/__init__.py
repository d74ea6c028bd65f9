"""Programs that repeat a recorded operator with torch alone, and the variant that advice names beside it.

    calls       which calls of which operators: those named, or those that a finding is about
    arguments   recorded inputs as arguments in Python
    variants    what advice changes: contiguous, channels_last, bfloat16, padded, compiled, fused
    program     the text of the program

What a file says becomes numbers, names of operators that are checked, and quoted texts; it is never code.
"""

from __future__ import annotations

from traceanalyzer.config import Config
from traceanalyzer.errors import UsageError
from traceanalyzer.pipeline import context_of
from traceanalyzer.reproduction import calls, program, variants
from traceanalyzer.trace.model import Trace

__all__ = ["reproduce"]


def reproduce(
    trace: Trace,
    operator: str | None = None,
    finding: str | None = None,
    *,
    config: Config | None = None,
    jobs: int = 1,
) -> str:
    """Write a program that repeats an operator, or what a finding is about, with the recorded inputs.

    Args:
        trace: What `load` returned.
        operator: Name of an operator, and the shapes of its inputs where it has calls with several:
            `aten::mm[[64,1000],[1000,128]]`; without shapes those that take most time. Several operators that follow
            each other are joined with `->`.
        finding: Id of a finding of the report: that of its rule, or `RULE#2`.
        config: Settings of a project, for the report.
        jobs: As of `analyze`, for the report.

    Raises:
        UsageError: The trace has no such operator or finding, or the inputs were not recorded.
    """
    if (operator is None) == (finding is None):
        raise UsageError("name an operator (--op) or a finding (--finding), and only one of them")
    context = context_of(trace, None, None)
    rule = None
    if operator is not None:
        chosen = calls.named(context, operator)
    else:
        rule, chosen = calls.of_finding(context, str(finding), config, jobs)
    return program.text(trace, chosen, variants.of(chosen, rule), finding)
