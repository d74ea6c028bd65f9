"""A server decodes few tokens per step, so that each step mostly reads weights.

What it detects:
    Decode steps of a language model's server with fewer than a hundred tokens, on a GPU that works for most of the
    step.

Why it matters:
    Each decode step reads all weights that it uses, whether for one token or a hundred. Below the point at which
    arithmetic takes as long as reading, more requests in a step are nearly free: more tokens per second for the same
    GPU, at a little more time per token.

What to do:
    Let more requests run together: raise the server's limit of sequences and the share of memory for its caches, send
    it more load, or use fewer GPUs. Smaller weights (8 or 4 bits) shorten the reading itself.

How the saving is estimated:
    Not as time of a step, which gets a little longer. The finding gives the current tokens per second.

When it is wrong:
    Long contexts: then most of the bytes read are the caches of the single requests. Response time may matter more than
    throughput, and there may be no more requests.

References:
    https://docs.vllm.ai/en/latest/configuration/optimization.html
    https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _steps
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.recording import Recording

_SUBJECT = Text("decode-batch-small-subject", "tokens of a decode step")
_NO_MARKS = Text("decode-batch-small-no-marks", "no mark of a server shows how many tokens its decode steps compute")
_NO_TABLE = Text("decode-batch-small-no-table", "a printed table has no marks of a server's steps")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    recording, busy = facts.need("recording", Recording), facts.resources.gpu_ns
    steps = [step for step in recording.steps if step.phase == "decode" and step.tokens]
    if not steps or busy is None:
        raise Missing(_NO_MARKS())
    tokens = sum(step.tokens or 0 for step in steps) / len(steps)
    if tokens >= limits["tokens"] or busy < limits["busy_share"] * facts.step_ns:
        return
    time = sum(step.duration_ns for step in steps) / len(steps)
    params = {"tokens": round(tokens), "time": time, "rate": round(tokens / time * 1e9)}
    evidence = Evidence(_SUBJECT(), tokens, limits["tokens"], "number", _steps.longest(steps))
    yield Draft((evidence,), params=params, severity="info")


RULE = Rule(
    id="decode-batch-small",
    title=Text("decode-batch-small-title", "Decode steps have few tokens and mostly read weights"),
    summary=Text(
        "decode-batch-small-summary",
        "A decode step of {tokens:count} tokens takes {time:ns}: {rate:count} tokens per second. With so few tokens, "
        "products read weights for longer than they compute.",
        one="A decode step of one token takes {time:ns}: {rate:count} tokens per second. With so few tokens, products "
        "read weights for longer than they compute.",
    ),
    advice=Text(
        "decode-batch-small-advice",
        "Where throughput matters, let more requests run together: twice as many tokens take hardly longer until "
        "arithmetic or the caches of long contexts dominate. Weights of 8 or 4 bits shorten each step.",
    ),
    not_when=Text(
        "decode-batch-small-not-when",
        "Response time matters more than throughput, there are no more requests, or contexts are so long that caches "
        "are most of what is read.",
    ),
    severity="info",
    confidence="B",
    tags=("inference", "gpu"),
    since="0.2",
    thresholds=(
        Threshold(
            "tokens",
            100,
            "count",
            "tokens of a decode step, on average",
            "GPUs of servers do 150 to 300 dense 16-bit operations in the time in which they read a byte (data sheets)",
        ),
        Threshold(
            "busy_share",
            0.8,
            "share",
            "time in which the GPU works, over the step",
            "own choice, as for the headline: with less, the host is what to look at first",
        ),
    ),
    links=(
        "https://docs.vllm.ai/en/latest/configuration/optimization.html",
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
