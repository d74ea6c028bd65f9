"""Graphs of decode steps compute more requests than there are.

What it detects:
    A language model's server whose marks show how many requests decode in a step, and whose steps replay graphs of
    larger batches: an operator takes more rows from the graph than there are requests, or the same graph is replayed
    for a larger batch as well. Padding is a fifth or more of what decode steps compute.

Why it matters:
    A graph computes a batch of one size. If there are fewer requests, the server fills the batch up, and what is
    computed for the rest is thrown away.

What to do:
    Let the server capture graphs for the batches that occur.

How the saving is estimated:
    At most the padded share of what each of these steps runs on the GPU, as if its time grew in proportion to the
    batch. At least nothing: reading weights takes as long for fewer requests.

When it is wrong:
    Small batches mostly read weights, so that padding is nearly free. Where several replicas compute experts together
    (data parallelism), each is padded to the largest batch of all of them. Each graph takes memory, and time when the
    server starts.

References:
    https://docs.vllm.ai/en/latest/design/cuda_graphs/
    https://docs.sglang.io/advanced_features/server_arguments.html
    https://nvidia.github.io/TensorRT-LLM/llm-api/reference/DecodeCudaGraphConfig.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.serving.decode_graphs import DecodeBatch, DecodeGraphs
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text("graph-batch-padded-subject", "padding, share of what decode steps compute on the GPU")
_BASIS = Text(
    "graph-batch-padded-basis",
    "at most the padded share of what these steps run on the GPU; at least nothing, because reading weights takes as "
    "long for fewer requests",
)
_NO_SIZE = Text("graph-batch-padded-no-size", "nothing shows the size of the graphs that decode steps replay")
_NO_TABLE = Text("graph-batch-padded-no-table", "a printed table has no marks of a server's steps")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    batches = facts.need("decode_graphs", DecodeGraphs).batches
    if all(batch.size is None for batch in batches):
        raise Missing(_NO_SIZE())
    padded = [batch for batch in batches if _padding_ns(batch)]
    rows = sorted(padded, key=lambda batch: (-_padding_ns(batch), batch.requests, batch.start_ns))
    time, padding = sum(batch.steps * batch.median_device_ns for batch in batches), sum(map(_padding_ns, rows))
    share = padding / time if time else 0.0
    if share < limits["share"] or not rows:
        return
    steps = sum(batch.steps for batch in batches)
    first = rows[0]
    params = {
        "padded": sum(batch.steps for batch in rows),
        "steps": steps,
        "requests": first.requests,
        "size": first.size,
        "share": share,
    }
    evidence = Evidence(_SUBJECT(), share, limits["share"], "share", tuple(map(_place, rows[:5])))
    yield Draft(
        (evidence,),
        TimeSaved("gpu", (0.0, padding / steps), _BASIS()),
        params,
        ceiling="low",
        summary=None if first.is_exact else _SUMMARY_AT_LEAST,
    )


def _padding_ns(batch: DecodeBatch) -> float:
    """Time of the GPU in all steps of a batch, times the padded share of the graph's batch."""
    return batch.steps * batch.median_device_ns * (batch.size - batch.requests) / batch.size if batch.size else 0.0


def _place(batch: DecodeBatch) -> CodePlace:
    return CodePlace("step", batch.longest, value=batch.median_device_ns, unit="ns", start_ns=batch.start_ns)


_SUMMARY_AT_LEAST = Text(
    "graph-batch-padded-summary-at-least",
    "{padded:count} of {steps:count} decode steps replay a graph that also runs larger batches: a batch of "
    "{requests:count} is computed as one of {size:count} or more. At least {share:share} of what decode steps compute "
    "is padding.",
    note="requests and size are of the batch with most padding",
)

RULE = Rule(
    id="graph-batch-padded",
    title=Text("graph-batch-padded-title", "Graphs of decode steps compute more requests than there are"),
    summary=Text(
        "graph-batch-padded-summary",
        "{padded:count} of {steps:count} decode steps replay the graph of a larger batch: one of {requests:count} is "
        "computed as one of {size:count}. {share:share} of what decode steps compute is padding.",
        note="requests and size are of the batch with most padding",
    ),
    advice=Text(
        "graph-batch-padded-advice",
        "Let the server capture graphs for the batches that occur: cudagraph_capture_sizes in vLLM, --cuda-graph-bs in "
        "SGLang (newer versions: --cuda-graph-bs-decode), batch_sizes of cuda_graph_config in TensorRT-LLM. Each graph "
        "takes memory.",
        note="cudagraph_capture_sizes, batch_sizes and cuda_graph_config are code",
    ),
    not_when=Text(
        "graph-batch-padded-not-when",
        "Steps mostly read weights, so that padding is nearly free, or replicas that compute experts together are "
        "padded to the largest batch of all.",
    ),
    severity="info to low",
    confidence="B",
    tags=("inference", "gpu"),
    since="0.2",
    thresholds=(
        Threshold(
            "share",
            0.2,
            "share",
            "padded share of the batch, weighted with the time of the GPU in the steps",
            "own choice: less is what servers that capture every eighth size usually have",
        ),
    ),
    links=(
        "https://docs.vllm.ai/en/latest/design/cuda_graphs/",
        "https://docs.sglang.io/advanced_features/server_arguments.html",
        "https://nvidia.github.io/TensorRT-LLM/llm-api/reference/DecodeCudaGraphConfig.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
    stage="preview",
)
