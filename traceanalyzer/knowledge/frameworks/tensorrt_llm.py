"""TensorRT-LLM: serves language models.

Its executor marks each forward pass with its requests, and newer versions with the tokens of the prompts:
`[Executor] _forward_step 12: 1 ctx reqs, 5 ctx tokens, 32 gen reqs`.
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

_STEP = re.compile(
    rf"\[Executor\] _forward_step(?: [0-9]{{1,18}})?: {NUMBER} ctx reqs, (?:{NUMBER} ctx tokens, )?{NUMBER} gen reqs",
    re.ASCII,
)


def _step_mark(name: str) -> StepMark | None:
    match = _STEP.fullmatch(name)
    if not match:
        return None
    context, generation = int(match[1]), int(match[3])
    # unknown: a generating request computes several tokens when it verifies drafts
    tokens = int(match[2]) if match[2] and not generation else None
    return StepMark(phase(context, generation), context + generation, tokens, context, generation)


TENSORRT_LLM = Framework(
    id="tensorrt-llm",
    title="TensorRT-LLM",
    role="serving",
    names=matching(whole(_STEP), r"^trtllm::", r"^tensorrt_llm::"),
    frames=matching(package("tensorrt_llm"), path("tensorrt_llm", r"(?:_torch|executor|runtime|llmapi)[/\\]")),
    step_mark=_step_mark,
)
