"""Several kernels in a row each pass over the same tensor.

What it detects:
    Three or more elementwise kernels, reductions or copies in a row on one stream, launched by operators on the same
    number of elements within one call of a module (or one autograd function), if these chains take a notable share of
    the step. Kernels of optimizers and generated Triton kernels do not count.

Why it matters:
    Each kernel reads and writes the whole tensor, and memory bandwidth decides how long it takes. A fused kernel reads
    the inputs once and writes the result once.

What to do:
    Let `torch.compile` fuse the module, or use a fused operator where one exists (`rms_norm`, `layer_norm`, rotary
    embeddings, gated activations).

How the saving is estimated:
    Upper end: a fused chain takes only as long as its shortest pass over all elements. Lower end: it takes as long as
    two of its longest passes. If autograd may keep the intermediate results, the upper end is halved and the lower end
    is 0.

When it is wrong:
    Intermediate results that autograd keeps for the backward pass have to be written anyway. Additional inputs of the
    kernels in a chain have to be read anyway. Chains on tensors that fit into the cache gain less.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.kernels.elementwise_chains import Chain, Chains
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import Interval, TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_PASSES = 2
"""Own choice: two passes, for operands from outside and for reductions that need the whole row first."""
_SAVED = 0.5
"""Own choice: of a read and a write by each kernel the write remains."""

_SHOWN = 8
"""Number of operators of a chain that a text names."""

_AND_MORE = Text(
    "elementwise-fusion-chain-more",
    "{operators} and {hidden:count} more",
    note="operators is a list of operator names such as add, mul",
)
_SUBJECT = Text(
    "elementwise-fusion-chain-subject", "kernels that follow each other on the same elements, share of the step"
)
_NO_TABLE = Text("elementwise-fusion-chain-no-table", "a printed table does not show which kernels follow each other")
_BASIS = Text(
    "elementwise-fusion-chain-basis",
    "at most the time of the chains minus one shortest pass each; at least minus {passes:count} longest passes each. "
    "Where autograd may keep intermediate results, at most half of that and at least nothing",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = facts.need("chains", Chains).rows
    time = facts.gpu_per_step(sum(row.device_ns for row in rows))
    share = time / facts.step_ns
    if share <= limits["step_share"]:
        return
    ends = [_saved(row) for row in rows]
    direct = facts.gpu_per_step(sum(low for low, _ in ends)), facts.gpu_per_step(sum(high for _, high in ends))
    change = TimeSaved("gpu", direct, _BASIS(passes=_PASSES), claims=_claims(facts, rows), is_removed=True)
    where = tuple(_place(facts, row) for row in rows[:5])
    evidence = Evidence(_SUBJECT(), share, limits["step_share"], "share", where)
    kernels = round(sum(row.kernels * row.repetitions for row in rows) / facts.steps)
    chains = round(sum(row.repetitions for row in rows) / facts.steps)
    params = {"kernels": kernels, "chains": max(1, chains), "time": time, "share": share}
    texts = {"operators": _first_operators(rows[0]), "caller": rows[0].caller or ""}
    yield Draft((evidence,), change, {**params, **texts}, summary=_SUMMARY_CALLER if rows[0].caller else None)


def _saved(row: Chain) -> Interval:
    most = row.device_ns - row.least_pass_ns
    if row.is_saved:
        return 0.0, _SAVED * most
    return max(0.0, row.device_ns - _PASSES * row.greatest_pass_ns), most


def _claims(facts: Facts, rows: Sequence[Chain]) -> dict[str, float]:
    claims: dict[str, float] = {}
    for link in (link for row in rows for link in row.links):
        key = f"operator:{link.name}|{link.input_shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(link.device_ns)
    return claims


def _place(facts: Facts, row: Chain) -> CodePlace:
    """The chain as a place: its operators, and the shapes of the first one."""
    operators = ", ".join(_names(row)) + (", ..." if row.kernels > _SHOWN else "")
    name = f"{row.caller}: {operators}" if row.caller else operators
    time = facts.gpu_per_step(row.device_ns)
    return CodePlace("kernel", name, row.links[0].input_shapes, time, "ns", row.start_ns)


def _first_operators(row: Chain) -> str | Message:
    """The first operators, for a sentence that also has the number of the others."""
    names = _names(row)
    listed = ", ".join(names)
    return _AND_MORE(operators=listed, hidden=row.kernels - len(names)) if row.kernels > len(names) else listed


def _names(row: Chain) -> list[str]:
    return [link.name.removeprefix("aten::") for link in row.links[:_SHOWN]]


_SUMMARY_CALLER = Text(
    "elementwise-fusion-chain-summary-caller",
    "{chains:count} chains of kernels that each pass over the same elements, {kernels:count} kernels in all, take "
    "{time:ns} per step ({share:share}); the longest chain is in {caller}: {operators}.",
    note="caller is a class of modules, operators a list of operator names",
    one="A chain of {kernels:count} kernels that each pass over the same elements takes {time:ns} per step "
    "({share:share}), in {caller}: {operators}.",
)

RULE = Rule(
    id="elementwise-fusion-chain",
    title=Text("elementwise-fusion-chain-title", "Kernels pass over the same tensor again and again"),
    summary=Text(
        "elementwise-fusion-chain-summary",
        "{chains:count} chains of kernels that each pass over the same elements, {kernels:count} kernels in all, "
        "take {time:ns} per step ({share:share}); the longest chain is {operators}.",
        note="operators is a list of operator names",
        one="A chain of {kernels:count} kernels that each pass over the same elements takes {time:ns} per step "
        "({share:share}): {operators}.",
    ),
    advice=Text(
        "elementwise-fusion-chain-advice",
        "Fuse the kernels of each chain into one: compile the module with torch.compile, or use a fused operator for "
        "the norm, the rotation or the activation that the chain computes.",
        note="torch.compile is code",
    ),
    not_when=Text(
        "elementwise-fusion-chain-not-when",
        "Shapes change so often that compilation does not pay off, or intermediate results are used elsewhere.",
    ),
    severity="medium to critical",
    confidence="B",
    tags=("gpu",),
    since="0.1",
    thresholds=(
        Threshold(
            "step_share",
            0.03,
            "share",
            "time of the chains over the step",
            "own choice, because about half of it can be saved, and less than 1 to 2 % of a step is noise",
        ),
    ),
    code="model = torch.compile(model)",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
