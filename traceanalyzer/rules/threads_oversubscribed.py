"""Detects threads-oversubscribed: see pages/threads-oversubscribed.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.host.thread_contention import ThreadContention
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _host_work
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("threads-oversubscribed")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("thread_contention", ThreadContention)
    _host_work.need_cpu_steps(facts)
    ratio = found.threads / found.cpus
    beyond = found.beyond_ns / found.steps
    share = beyond / facts.step_ns
    if ratio <= limits["threads_per_core"] or share <= limits["share"]:
        return
    most = 1 - found.cpus / found.threads
    interval = (min(beyond, most * facts.step_ns), most * facts.step_ns)
    where = (CodePlace("operator", found.slowest or "aten::mm", None, beyond, "ns", found.start_ns),)
    evidence = (
        Evidence(_PAGE.text("subject")(), share, limits["share"], "share", where),
        Evidence(_PAGE.text("threads")(), ratio, limits["threads_per_core"], "number", ()),
    )
    params = {"threads": found.threads, "cpus": found.cpus, "beyond": beyond, "step": facts.step_ns}
    yield Draft(evidence, TimeSaved("host", interval, _PAGE.text("basis")(most=most)), params, code=_code(found.cpus))


def _code(cpus: int) -> str:
    return f"torch.set_num_threads({cpus})  # or OMP_NUM_THREADS={cpus} in the environment"


RULE = _PAGE.rule(trace=_trace)
