"""The loader has more worker processes than there are cores, and the program does not wait for it.

What it detects:
    A capture shows that loaders have more workers than the program may use hardware threads, and the exposed waiting
    for them is a small part of the step, so fewer would be enough.

Why it matters:
    Workers without a free core compete with the program and with each other: each switch costs time and cached data,
    and every worker keeps a copy of the dataset's objects and a few batches in memory.

What to do:
    Lower `num_workers` to the number of free cores or fewer, or to 0 if a batch takes less than a millisecond.

How the saving is estimated:
    Not at all: a trace of the program does not show how long the workers run. Measure with fewer workers.

When it is wrong:
    Workers that mostly wait for a network or for files need no cores, so many of them can be right.

References:
    https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.loader import DataLoader
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _loader
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text("dataloader-too-many-workers-subject", "worker processes over the hardware threads of the program")
_WAIT = Text("dataloader-too-many-workers-wait", "waiting for the loader in which nothing else runs, share of the step")
_NO_CAPTURE = Text(
    "dataloader-too-many-workers-no-capture", "only a capture tells how many workers and cores there are"
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    known, average = facts.capture.facts if facts.capture else None, facts.step_parts
    if known is None or known.host.cpus is None or known.loaders is None:
        raise Missing(_NO_CAPTURE())
    workers = max((loader.workers or 0 for loader in known.loaders), default=0)
    if average is None or not average.duration_ns:
        return
    wait = average.dataloader_ns / average.duration_ns
    if workers <= limits["per_core"] * known.host.cpus or wait > limits["wait_share"]:
        return
    found = facts.find("dataloader", DataLoader)
    where = _loader.places(list(found.loaders) if found else [])
    evidence = (
        Evidence(_SUBJECT(), workers / known.host.cpus, limits["per_core"], "number", where),
        Evidence(_WAIT(), wait, limits["wait_share"], "share", where),
    )
    fewer = max(1, known.host.cpus // 2)
    params = {"workers": workers, "cores": known.host.cpus}
    code = f"DataLoader(dataset, num_workers={fewer}, persistent_workers=True)  # or 0, if batches are cheap"
    yield Draft(evidence, None, params, severity="medium", code=code)


RULE = Rule(
    id="dataloader-too-many-workers",
    title=Text("dataloader-too-many-workers-title", "The loader has more workers than there are cores"),
    summary=Text(
        "dataloader-too-many-workers-summary",
        "{workers:count} worker processes share {cores:count} hardware threads with the program, which hardly waits "
        "for them.",
    ),
    advice=Text(
        "dataloader-too-many-workers-advice",
        "Lower num_workers and look whether the step gets shorter: to half of the cores, or to 0 if a batch is made "
        "within a millisecond. What that saves is not in the trace, which does not show the workers.",
    ),
    not_when=Text(
        "dataloader-too-many-workers-not-when",
        "The workers mostly wait for a network or for files; then they need no cores of their own.",
    ),
    severity="medium",
    confidence="B",
    tags=("input", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "per_core",
            1,
            "number",
            "workers over the hardware threads that the program may use",
            "as torch, whose DataLoader warns of more workers than that",
        ),
        Threshold(
            "wait_share",
            0.2,
            "share",
            "exposed waiting over the step",
            "own choice: above, the loader is slow, and what makes it slow is not known",
        ),
    ),
    code="DataLoader(dataset, num_workers=2, persistent_workers=True)",
    links=("https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading",),
    trace=_trace,
    stage="preview",
)
