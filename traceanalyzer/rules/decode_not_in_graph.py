"""Some decode steps launch their kernels one by one, while others of the same server replay graphs.

What it detects:
    A language model's server whose marks show steps that decode and replay graphs, and steps that decode and launch as
    many kernels without any graph. In the latter the GPU is idle for a fifth of the step longer than in the step with
    a graph whose batch is the nearest.

Why it matters:
    Launching hundreds of kernels takes the host longer than many of them run. A graph is launched by one call.

What to do:
    If these are the largest batches, let the server capture graphs for them. If graphs are there for larger batches,
    let the server pad to these, or capture the sizes that are missing.

How the saving is estimated:
    Not as time of the typical step, which such a step often is not. Each such step gets shorter by at most the time in
    which the GPU is idle in it, which the text says.

When it is wrong:
    Something else may keep a step out of graphs: a feature that does not support them, or a batch that needs other
    kernels. A graph takes memory that the caches of requests then lack, and large batches are rare.

References:
    https://docs.vllm.ai/en/latest/design/cuda_graphs/
    https://docs.sglang.io/advanced_features/server_arguments.html
    https://nvidia.github.io/TensorRT-LLM/llm-api/reference/DecodeCudaGraphConfig.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.serving.decode_graphs import DecodeBatch, DecodeGraphs
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text(
    "decode-not-in-graph-subject",
    "time in which the GPU is idle in a decode step without a graph, beyond that with a graph, share of the step",
)
_NO_GRAPH = Text("decode-not-in-graph-no-graph", "no decode step replays a graph")
_NO_TABLE = Text("decode-not-in-graph-no-table", "a printed table has no marks of a server's steps")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    batches = facts.need("decode_graphs", DecodeGraphs).batches
    graphs = [batch for batch in batches if batch.in_graph]
    if not graphs:
        raise Missing(_NO_GRAPH())
    eager = [batch for batch in batches if not batch.in_graph]
    rows = [batch for batch in eager if _excess(batch, graphs) >= limits["idle_share"]]
    if not rows:
        return
    rows.sort(key=lambda batch: (-batch.steps * batch.median_idle_ns, batch.requests))
    first, other = rows[0], _nearest(rows[0], graphs)
    params = {
        "eager": sum(batch.steps for batch in rows),
        "steps": sum(batch.steps for batch in batches),
        "requests": first.requests,
        "time": first.median_duration_ns,
        "idle": first.median_idle_ns,
        "other": other.requests,
        "usual": other.median_duration_ns,
        "rest": other.median_idle_ns,
    }
    largest = max(max(batch.requests, batch.size or 0) for batch in graphs)
    is_above = min(batch.requests for batch in rows) > largest
    evidence = Evidence(_SUBJECT(), _excess(first, graphs), limits["idle_share"], "share", tuple(map(_place, rows[:5])))
    yield Draft((evidence,), params=params, severity="low", advice=None if is_above else _ADVICE_BETWEEN)


def _nearest(batch: DecodeBatch, graphs: Sequence[DecodeBatch]) -> DecodeBatch:
    """The steps in graphs whose number of requests is nearest."""
    return min(graphs, key=lambda other: (abs(other.requests - batch.requests), other.requests, other.start_ns))


def _excess(batch: DecodeBatch, graphs: Sequence[DecodeBatch]) -> float:
    """Idle time of the GPU beyond that of the nearest steps in graphs, over the duration of the step."""
    if not batch.median_duration_ns:
        return 0.0
    return (batch.median_idle_ns - _nearest(batch, graphs).median_idle_ns) / batch.median_duration_ns


def _place(batch: DecodeBatch) -> CodePlace:
    return CodePlace("step", batch.longest, value=batch.median_idle_ns, unit="ns", start_ns=batch.start_ns)


_ADVICE_BETWEEN = Text(
    "decode-not-in-graph-advice-between",
    "Graphs are there for larger batches, which could run these with padding: enable_padding of cuda_graph_config in "
    "TensorRT-LLM; SGLang pads unless --disable-cuda-graph-padding is set. Or add these sizes to those that are "
    "captured. vLLM always pads: look for what keeps these steps out of graphs, such as cudagraph_mode.",
    note="enable_padding, cuda_graph_config and cudagraph_mode are code",
)

RULE = Rule(
    id="decode-not-in-graph",
    title=Text("decode-not-in-graph-title", "Some decode steps launch kernel by kernel instead of replaying a graph"),
    summary=Text(
        "decode-not-in-graph-summary",
        "{eager:count} of {steps:count} decode steps launch their kernels one by one, although others replay graphs. "
        "Such a step with a batch of {requests:count} takes {time:ns}, and the GPU is idle for {idle:ns} of it, which "
        "is the most that a graph could save. With a graph and a batch of {other:count} it takes {usual:ns}, and the "
        "GPU is idle for {rest:ns}.",
    ),
    advice=Text(
        "decode-not-in-graph-advice",
        "These are larger batches than those in graphs: let the server capture graphs for them. That is "
        "max_cudagraph_capture_size in vLLM, --cuda-graph-max-bs in SGLang (newer versions: "
        "--cuda-graph-max-bs-decode), max_batch_size of cuda_graph_config in TensorRT-LLM. Graphs take memory.",
        note="max_cudagraph_capture_size, max_batch_size and cuda_graph_config are code",
    ),
    not_when=Text(
        "decode-not-in-graph-not-when",
        "Such steps are rare, the memory is needed for the caches of requests, or a feature of the server does not "
        "support graphs.",
    ),
    severity="low",
    confidence="B",
    tags=("inference", "host"),
    since="0.2",
    thresholds=(
        Threshold(
            "idle_share",
            0.2,
            "share",
            "idle time of the GPU in a step without a graph, beyond that in the nearest batch with one, over the step",
            "own choice: less is not worth the memory of more graphs",
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
