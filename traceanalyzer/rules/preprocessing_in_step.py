"""The program prepares its inputs between two passes of the model, and the GPU or the model waits for that.

What it detects:
    Functions, marks or modules that decode, resize, augment, tokenize or collate inputs (by their names and files) on
    the thread that launches the work, while the GPU has nothing to do: more than three percent of the typical step. In
    programs without a device, such functions on the program's thread, without the time of its loader.

Why it matters:
    The GPU has no work until its inputs are ready. Neither faster kernels nor a faster GPU change that.

What to do:
    Prepare the next inputs while the GPU works on the current ones, in worker processes or a thread. Or make it
    cheaper: do resizing and normalizing as tensor operations on the GPU, with a fast image processor, or once in
    advance.

How the saving is estimated:
    At most the GPU's idle time in these functions. At least the saving of preparing inputs during the rest of the step,
    less 31 % because workers share cores and memory; half of that if stacks were recorded, which slow Python code down.
    On a CPU at most the time in these functions, and at least nothing: workers take the cores that the model needs.

When it is wrong:
    The time of the program's own DataLoader does not count here, because dataloader-bound reports it, unless a
    library's pipeline made the loader. Work that runs while the GPU works does not count either.

References:
    https://docs.pytorch.org/docs/stable/data.html
    https://huggingface.co/docs/transformers/main/en/image_processors
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.host import HostOwner, HostOwners, RoleTimes
from traceanalyzer.knowledge.loaders import SLOWDOWN
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _host_work, _owners, _recording
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_STACKS = 0.5
"""What is left at least of a host's time that was recorded with stacks (own choice; C code is not slowed down)."""

_NO_OWNERS = Text("preprocessing-in-step-no-owners", "it is unknown which part of the program the GPU waits for")
_SUBJECT = Text("preprocessing-in-step-subject", "input preprocessing while the GPU waits, share of the step")
_BASIS = Text(
    "preprocessing-in-step-basis",
    "at most the GPU's idle time in it; at least what preparing inputs during the rest of the step saves, less "
    "{contention:share} because workers share the cores",
)
_BASIS_STACKS = Text(
    "preprocessing-in-step-basis-stacks",
    "at most the GPU's idle time in it; at least half of what preparing inputs during the rest of the step saves, "
    "because recording stacks slows Python code down",
)
_SUBJECT_CPU = Text(
    "preprocessing-in-step-subject-cpu", "input preprocessing on the program's thread, share of the step"
)
_BASIS_CPU = Text(
    "preprocessing-in-step-basis-cpu",
    "at most the time in it; at least nothing, because workers take cores that the model may need",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if facts.resources.gpu_ns is None:
        yield from _on_cpu(facts, limits)
        return
    _recording.need_usual_idle_time(facts)
    owners = _owners.found(facts)
    if owners is None:
        raise Missing(_NO_OWNERS())
    roles = [row for row in owners.roles if row.role in _owners.INPUT_ROLES]
    in_pipeline = _owners.loads_in_pipeline(facts)
    time = sum(_idle_ns(row, in_pipeline) for row in roles) / owners.steps
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = sorted((row for name in _owners.INPUT_ROLES for row in _owners.of_role(facts, name)), key=_own_idle)[:5]
    where = tuple(_owners.place(row, row.idle_self_ns_per_step) for row in rows if row.idle_self_ns)
    evidence = Evidence(_SUBJECT(), share, limits["idle_share"], "share", where)
    most = _most(owners, roles)
    params = {"time": time, "step": facts.step_ns, "share": share, "owner": _owners.name(most)}
    yield Draft(
        (evidence,),
        _change(facts, time, is_loader=in_pipeline),
        params,
        advice=_ADVICE_PIPELINE if in_pipeline else _ADVICE_PROCESSOR if _is_processor(rows) else None,
        code=_CODE_PROCESSOR if _is_processor(rows) else "",
    )


def _on_cpu(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Preprocessing on the thread of a program without a device."""
    owners = facts.find("host_owners", HostOwners)
    if owners is None or not owners.steps:
        raise Missing(_NO_OWNERS())
    _host_work.need_cpu_steps(facts)
    roles = [row for row in owners.roles if row.role in _owners.INPUT_ROLES]
    time = sum(row.host_ns for row in roles) / owners.steps - (facts.resources.loader_ns or 0.0)
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = sorted((row for row in owners.rows if row.role in _owners.INPUT_ROLES), key=lambda row: -row.host_self_ns)[
        :5
    ]
    where = tuple(_owners.place(row, row.host_self_ns_per_step) for row in rows)
    evidence = Evidence(_SUBJECT_CPU(), share, limits["idle_share"], "share", where)
    params = {"time": time, "step": facts.step_ns, "share": share, "owner": _owners.name(rows[0])}
    change = TimeSaved("host", (0.0, time), _BASIS_CPU())
    yield Draft((evidence,), change, params, summary=_SUMMARY_CPU, advice=_ADVICE_CPU, ceiling="high")


def _idle_ns(row: RoleTimes, in_pipeline: bool) -> int:
    """Idle time of a role, without what the program's own loader takes."""
    return (row.idle_ns or 0) - (0 if in_pipeline else row.idle_in_loader_ns or 0)


def _own_idle(row: HostOwner) -> float:
    return -(row.idle_self_ns or 0)


def _most(owners: HostOwners, roles: list[RoleTimes]) -> HostOwner:
    """The owner to name: among owners with half of the time, the one with the most time of its own."""
    largest = max(roles, key=lambda row: row.idle_ns or 0)
    rows = [row for row in owners.rows if row.role == largest.role]
    half = [row for row in rows if 2 * (row.idle_self_ns or 0) >= (largest.idle_ns or 0)]
    around = [row for row in rows if 2 * (row.idle_ns or 0) >= (largest.idle_ns or 0)]
    return min(half or around or rows, key=lambda row: row.idle_ns or 0)


def _is_processor(rows: list[HostOwner]) -> bool:
    """Whether a processor of images of a library takes part that has a fast variant on tensors."""
    return any("transformers/" in (row.file or "") and "image_process" in (row.file or "") for row in rows)


def _change(facts: Facts, time: float, *, is_loader: bool) -> TimeSaved:
    hidden = (1 - SLOWDOWN[1]) * min(time, facts.step_ns - time)
    basis = _BASIS(contention=SLOWDOWN[1])
    if facts.is_host_inflated:
        hidden, basis = _STACKS * hidden, _BASIS_STACKS()
    interval = (hidden, time)
    claimed = {"loader": time} if is_loader else _owners.claims(facts, time)
    return TimeSaved("loader" if is_loader else "host", interval, basis, interval, claimed)


_SUMMARY_CPU = Text(
    "preprocessing-in-step-summary-cpu",
    "For {time:ns} of a step of {step:ns} ({share:share}) the program prepares inputs on its own thread, mostly in "
    "{owner}.",
    note="owner is a function, mark or module",
)
_ADVICE_CPU = Text(
    "preprocessing-in-step-advice-cpu",
    "Prepare whole batches by operators on tensors instead of sample by sample, prepare inputs once and keep them, or "
    "let workers of a DataLoader do it if cores are free.",
)
_ADVICE_PIPELINE = Text(
    "preprocessing-in-step-advice-pipeline",
    "The pipeline prepares inputs itself, one after the other. Use a processor that works on tensors, on the GPU "
    "where it can (for images a fast image processor: use_fast=True), prepare an input only once if several calls need "
    "it, or prepare the next inputs in a thread while the GPU works.",
)
_ADVICE_PROCESSOR = Text(
    "preprocessing-in-step-advice-processor",
    "Use a processor that works on tensors, on the GPU where it can (for images a fast image processor: "
    "use_fast=True), or prepare the next inputs in worker processes or a thread while the GPU works.",
)
_CODE_PROCESSOR = "processor = AutoImageProcessor.from_pretrained(checkpoint, use_fast=True)"

RULE = Rule(
    id="preprocessing-in-step",
    title=Text("preprocessing-in-step-title", "Input preprocessing runs inside the step"),
    summary=Text(
        "preprocessing-in-step-summary",
        "For {time:ns} of a step of {step:ns} ({share:share}) the program prepares inputs while the GPU waits, mostly "
        "in {owner}.",
        note="owner is a function, mark or module",
    ),
    advice=Text(
        "preprocessing-in-step-advice",
        "Prepare the next inputs while the GPU works, in worker processes or a thread, or do the work as tensor "
        "operations on the GPU.",
    ),
    not_when=Text(
        "preprocessing-in-step-not-when",
        "A single request must be answered as soon as it arrives: then only cheaper preprocessing helps.",
    ),
    severity="low to critical",
    confidence="B",
    tags=("input", "host"),
    since="0.2",
    thresholds=(
        Threshold(
            "idle_share",
            0.03,
            "share",
            "idle time of the device during preprocessing, on a CPU its time, over the typical step",
            "own choice, as for dataloader-bound: a step varies by 1 to 2 % from run to run",
        ),
    ),
    code="",
    links=(
        "https://docs.pytorch.org/docs/stable/data.html",
        "https://huggingface.co/docs/transformers/main/en/image_processors",
    ),
    trace=_trace,
)
