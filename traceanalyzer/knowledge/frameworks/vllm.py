"""vLLM: serves language models.

Its profiler marks each step with the numbers of requests that compute prompts and that generate (`gpu_worker.py`):

* `execute_new_2_cached_30` until the end of 2025: requests that were never scheduled before, and all others, whose
  prompts may still be computed in chunks;
* `execute_context_1(888)_generation_31(31)`: requests, and in parentheses their tokens (some versions add the square);
* `execute_919_context_1(sq888sk888sqsq788544sqsk788544)_generation_31(...)` with roofline annotations: the tokens of
  the step, then requests with sums over their queries (q) and keys (k). SGLang wrote this mark for a time, too.

`capture_32_FULL` is the capture of a graph for 32 tokens, `capture_32_draft_FULL` that of a draft model.
"""

from __future__ import annotations

import re

from traceanalyzer.knowledge.frameworks.framework import (
    NUMBER,
    Framework,
    StepMark,
    matching,
    package,
    path,
    phase,
    whole,
)

_SUMS = rf"sq{NUMBER}sk[0-9]{{1,18}}sqsq[0-9]{{1,18}}sqsk[0-9]{{1,18}}"
_ROOFLINE = re.compile(
    rf"execute_[0-9]{{1,18}}_context_{NUMBER}\({_SUMS}\)_generation_{NUMBER}\({_SUMS}\)",
    re.ASCII,
)
_PLAIN = re.compile(
    rf"execute_context_{NUMBER}\({NUMBER}(?:_[0-9]{{1,18}})?\)_generation_{NUMBER}\({NUMBER}(?:_[0-9]{{1,18}})?\)",
    re.ASCII,
)
_NEW_AND_CACHED = re.compile(rf"execute_new_{NUMBER}_cached_{NUMBER}", re.ASCII)
_CAPTURE = re.compile(rf"capture_{NUMBER}_(?:draft_)?(?:FULL|PIECEWISE)", re.ASCII)


def _step_mark(name: str) -> StepMark | None:
    if match := _ROOFLINE.fullmatch(name) or _PLAIN.fullmatch(name):
        context, context_tokens, generation, generation_tokens = map(int, match.groups())
        tokens = context_tokens + generation_tokens
        return StepMark(phase(context, generation), context + generation, tokens, context, generation)
    if match := _NEW_AND_CACHED.fullmatch(name):
        new, cached = int(match[1]), int(match[2])
        return StepMark("prefill" if new and not cached else None, new + cached)
    if match := _CAPTURE.fullmatch(name):
        return StepMark("capture", tokens=int(match[1]))
    return None


VLLM = Framework(
    id="vllm",
    title="vLLM",
    role="serving",
    names=matching(
        whole(_ROOFLINE),
        whole(_PLAIN),
        whole(_NEW_AND_CACHED),
        whole(_CAPTURE),
        r"^vllm::",
        r"^(?:v2_)?gpu_model_runner: ",
    ),
    frames=matching(package("vllm"), package("vllm_ascend"), path("vllm", r"(?:v1|model_executor|compilation)[/\\]")),
    step_mark=_step_mark,
)
