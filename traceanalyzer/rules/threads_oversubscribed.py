"""Operators on the CPU use more threads than there are cores.

What it detects:
    A program without a device whose capture shows more threads per operator than cores that the process may use, and
    operators that take longer than a single core would need for their work, by more than 10 % of the step in all.

Why it matters:
    The threads of an operator wait for each other at the end of each piece of work, mostly by spinning. If there are
    more threads than cores, waiting threads occupy the cores, while threads with work, and the program's main thread,
    have none. An operator of microseconds then takes milliseconds.

What to do:
    Use as many threads as cores: `torch.set_num_threads`, `OMP_NUM_THREADS`. In a container PyTorch may see the cores
    of the whole machine. With several processes (ranks, workers of a loader) share the cores among them.

How the saving is estimated:
    At least the time of operators beyond what one core needs for their operations and bytes, by a generous estimate
    that allows for other programs: 16 operations and 4 bytes per ns, and 10 us per call. At most the saving if spinning
    threads share the cores evenly: the step then takes threads divided by cores times as long as with as many threads
    as cores.

When it is wrong:
    Other programs on the machine also slow operators down, whatever the number of threads. It is unknown which cores
    other containers use.

References:
    https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#utilize-openmp
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.host.thread_contention import ThreadContention
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _host_work
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text(
    "threads-oversubscribed-subject", "operators beyond what one core needs for their work, share of the step"
)
_THREADS = Text("threads-oversubscribed-threads", "threads of an operator for each core")
_BASIS = Text(
    "threads-oversubscribed-basis",
    "at least what operators take beyond what one core needs for their work, by a generous estimate; at most "
    "{most:share} of the step, if threads that wait share the cores evenly with those that "
    "work",
)
_NO_TABLE = Text(
    "threads-oversubscribed-no-table", "a printed table does not show how many threads and cores there are"
)


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
        Evidence(_SUBJECT(), share, limits["share"], "share", where),
        Evidence(_THREADS(), ratio, limits["threads_per_core"], "number", ()),
    )
    params = {"threads": found.threads, "cpus": found.cpus, "beyond": beyond, "step": facts.step_ns}
    yield Draft(evidence, TimeSaved("host", interval, _BASIS(most=most)), params, code=_code(found.cpus))


def _code(cpus: int) -> str:
    return f"torch.set_num_threads({cpus})  # or OMP_NUM_THREADS={cpus} in the environment"


RULE = Rule(
    id="threads-oversubscribed",
    title=Text("threads-oversubscribed-title", "Operators use more threads than there are cores"),
    summary=Text(
        "threads-oversubscribed-summary",
        "Threads of an operator: {threads:number}; cores that the program may use: {cpus:number}. Operators take "
        "{beyond:ns} of a step of {step:ns} more than one core would need for their work.",
    ),
    advice=Text(
        "threads-oversubscribed-advice",
        "Use as many threads as cores, less those that other processes of the program need.",
    ),
    not_when=Text(
        "threads-oversubscribed-not-when",
        "The cores were taken by other programs during the recording.",
    ),
    severity="medium to critical",
    confidence="B",
    tags=("host",),
    since="0.2",
    thresholds=(
        Threshold(
            "threads_per_core",
            1.0,
            "number",
            "threads of an operator for each core that the process may use",
            "own choice: PyTorch's default is one per core",
        ),
        Threshold(
            "share",
            0.1,
            "share",
            "operators beyond what one core needs, over the step",
            "own choice: in the lab's programs with as many threads as cores it is at most seven percent",
        ),
    ),
    code="",
    links=(
        "https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#utilize-openmp",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
