"""Tensors are created on the CPU in every step, only to be copied to the GPU.

What it detects:
    An operator that creates or fills a tensor on the CPU (`torch.zeros`, `torch.randn`, ...), followed by a copy of a
    tensor of the same shape and type to a device, at least once per step.

Why it matters:
    The CPU fills memory that the GPU could fill directly, and the program waits for an unnecessary copy.

What to do:
    Create the tensor where it is used: `torch.zeros(shape, device=device)`. If it is always the same, create it once
    before the loop.

How the saving is estimated:
    At most the host time of creating and moving these tensors; at least that minus the time to launch one kernel for
    each, about 20 us including its operator.

When it is wrong:
    Tensors that are created once and used in all steps. Random numbers that must be the same on every device: for the
    same seed, the GPU's generator gives different ones.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.copies.host_tensors import HostOrigin, HostOrigins
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_LAUNCH_NS = 20_000
"""Host time of an operator that launches one kernel, in eager mode on a common CPU."""

_SUBJECT = Text("tensor-created-on-cpu-subject", "creating tensors on the CPU and moving them, share of the step")
_BASIS = Text(
    "tensor-created-on-cpu-basis",
    "at most the host time of creating and moving them; at least that time minus {launch:ns} each, for launching its "
    "fill",
)
_NO_STEPS = Text("tensor-created-on-cpu-no-steps", "no step is marked, so repeated creation cannot be recognized")
_NO_TABLE = Text("tensor-created-on-cpu-no-table", "a printed table does not show which tensor a copy moves")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("host_origins", HostOrigins).rows
    if found and (facts.summary is None or facts.summary.steps_from != "ProfilerStep"):
        raise Missing(_NO_STEPS())
    rows = [
        row for row in found if row.calls >= limits["calls_per_step"] * facts.steps and 2 * row.steps >= facts.steps
    ]
    if not rows:
        return
    time = facts.host_per_step(sum(row.making_ns + row.moving_ns for row in rows))
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    calls = sum(row.calls for row in rows) / facts.steps
    evidence = Evidence(_SUBJECT(), share, limits["host_share"], "share", tuple(map(_place, rows)))
    claims: dict[str, float] = {}
    for row in rows:
        key = f"operator:{row.operator}"
        claims[key] = claims.get(key, 0.0) + facts.host_per_step(row.making_ns + row.moving_ns)
    change = TimeSaved("host", (max(0.0, time - calls * _LAUNCH_NS), time), _BASIS(launch=_LAUNCH_NS), claims=claims)
    params = {"calls": calls, "time": time, "share": share, "operator": rows[0].operator}
    yield Draft((evidence,), change, params, ceiling="low")


def _place(row: HostOrigin) -> CodePlace:
    kind, name = ("operator", row.operator) if row.python_line is None else ("python", row.python_line)
    time = row.making_ns + row.moving_ns
    return CodePlace(kind, name, shapes=row.shapes, value=time, unit="ns", start_ns=row.first_start_ns)


RULE = Rule(
    id="tensor-created-on-cpu",
    title=Text("tensor-created-on-cpu-title", "Tensors are created on the CPU and then moved"),
    summary=Text(
        "tensor-created-on-cpu-summary",
        "{calls:count} tensors per step are created on the CPU ({operator}) and copied to the GPU: {time:ns} of host "
        "time per step ({share:share}).",
        note="operator is a name such as aten::zeros",
        one="{calls:count} tensor per step is created on the CPU ({operator}) and copied to the GPU: {time:ns} of "
        "host time per step ({share:share}).",
    ),
    advice=Text(
        "tensor-created-on-cpu-advice",
        "Create these tensors on the GPU, with device= in the call that creates them, or once before the loop if "
        "they never change.",
    ),
    not_when=Text(
        "tensor-created-on-cpu-not-when",
        "The values must be the same as on the CPU: the GPU's random generator gives other numbers for the same seed.",
    ),
    severity="low",
    confidence="B",
    tags=("host",),
    since="0.1",
    thresholds=(
        Threshold(
            "calls_per_step",
            1,
            "number",
            "how often such a tensor is made per step",
            "own choice, because what is made less often than once per step is no cost of the step",
        ),
        Threshold(
            "host_share",
            0.01,
            "share",
            "host time of making and moving over the step",
            "own choice, because less is within noise",
        ),
    ),
    code="mask = torch.zeros(shape, device=x.device)",
    links=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
