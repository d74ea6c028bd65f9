"""Steps of a server that also compute prompts delay the requests that generate tokens in them.

What it detects:
    A language model's server whose marks show steps that compute prompts and generate tokens, and steps that only
    generate: in the median, the former take at least 1.5 times as long, and so does their work on the GPU. Steps that
    load code or allocate memory, and those at the edges of the recording, do not count.

Why it matters:
    All requests of a step get their tokens when it ends. A long prompt in the step delays the next token of each
    request that only generates, so that text appears unevenly.

What to do:
    Let a step compute fewer tokens of prompts: a smaller budget cuts long prompts into more chunks (chunked prefill).
    Or compute prompts on other GPUs (disaggregated prefill).

How the saving is estimated:
    Not at all, because it is a trade-off. The time between tokens gets shorter, the time to the first token longer, and
    throughput may be lower.

When it is wrong:
    Throughput matters more than the time between tokens, as for requests in the background. The two kinds of steps may
    also differ in the number of generating requests.

References:
    https://docs.vllm.ai/en/latest/configuration/optimization.html
    https://docs.vllm.ai/en/latest/features/disagg_prefill/
    https://docs.sglang.io/advanced_features/server_arguments.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from traceanalyzer.analyzers.phases import Phases
from traceanalyzer.analyzers.phases.kinds import StepKind
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _steps
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.recording.left_out import OTHER_PHASE, UNKNOWN

_SUBJECT = Text(
    "prefill-with-decode-subject", "median duration of steps that also compute prompts, over that of decode steps"
)
_NO_STEPS = Text(
    "prefill-with-decode-no-steps",
    "no marks of a server show steps that compute prompts and decode, beside steps that only decode",
)
_NO_DEVICE = Text("prefill-with-decode-no-device", "how long the GPU works for each kind of step is not known")
_UNKNOWN_REQUESTS = Text(
    "prefill-with-decode-summary-unknown",
    "A step that also computes prompts takes {mixed:ns}, one that only decodes {decode:ns} (medians). Every request "
    "that decodes in such a step waits until its end for the next token.",
)
_COUNTS = frozenset({None, OTHER_PHASE, UNKNOWN})
"""Reasons for being unlike other steps that leave a step to its phase: no edge of the recording, no one-time event."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    recording = facts.need("recording", Recording)
    counted = [step for step in recording.steps if step.reason in _COUNTS]
    mixed, decode = ([step for step in counted if step.phase == phase] for phase in ("mixed", "decode"))
    if not mixed or not decode:
        raise Missing(_NO_STEPS())
    duration, usual = (float(median(step.duration_ns for step in steps)) for steps in (mixed, decode))
    kind, other = (_kind(facts, recording, phase) for phase in ("mixed", "decode"))
    if kind is None or other is None or not kind.median_device_ns or not other.median_device_ns:
        raise Missing(_NO_DEVICE())
    is_work = kind.median_device_ns >= limits["ratio"] * other.median_device_ns
    if duration < limits["ratio"] * usual or not is_work:
        return
    evidence = Evidence(_SUBJECT(), duration / usual, limits["ratio"], "number", _steps.longest(mixed))
    params: dict[str, float] = {"mixed": duration, "decode": usual}
    if kind.generation_requests is None:
        yield Draft((evidence,), params=params, severity="info", summary=_UNKNOWN_REQUESTS)
        return
    params["requests"] = round(kind.generation_requests / kind.steps)
    yield Draft((evidence,), params=params, severity="info")


def _kind(facts: Facts, recording: Recording, phase: str) -> StepKind | None:
    """All steps of a phase by the marks of the framework; None if they are not known."""
    phases = facts.find("phases", Phases)
    rows = phases.kinds if phases is not None else ()
    return next((row for row in rows if row.kind == phase and row.framework == recording.framework), None)


RULE = Rule(
    id="prefill-with-decode",
    title=Text("prefill-with-decode-title", "Requests that decode wait for prompts in the same step"),
    summary=Text(
        "prefill-with-decode-summary",
        "A step that also computes prompts takes {mixed:ns}, one that only decodes {decode:ns} (medians). On average "
        "{requests:count} requests decode in such a step, and all wait until its end for their next token.",
        one="A step that also computes prompts takes {mixed:ns}, one that only decodes {decode:ns} (medians). On "
        "average one request decodes in such a step, and it waits until its end for the next token.",
    ),
    advice=Text(
        "prefill-with-decode-advice",
        "If the time between tokens matters, let a step compute fewer tokens of prompts (chunked prefill): "
        "max_num_batched_tokens in vLLM, chunked_prefill_size in SGLang. Or compute prompts on other GPUs "
        "(disaggregated prefill). Smaller chunks delay the first token of a request.",
        note="max_num_batched_tokens and chunked_prefill_size are code",
    ),
    not_when=Text(
        "prefill-with-decode-not-when",
        "Throughput matters more than the time between tokens.",
    ),
    severity="info",
    confidence="B",
    tags=("inference", "gpu"),
    since="0.2",
    thresholds=(
        Threshold(
            "ratio",
            1.5,
            "number",
            "median duration of steps that also compute prompts, over that of steps that only decode; the same for the "
            "time of the GPU",
            "own choice: far more than decode steps of a server differ among themselves",
        ),
    ),
    links=(
        "https://docs.vllm.ai/en/latest/configuration/optimization.html",
        "https://docs.vllm.ai/en/latest/features/disagg_prefill/",
        "https://docs.sglang.io/advanced_features/server_arguments.html",
    ),
    trace=_trace,
    stage="preview",
)
