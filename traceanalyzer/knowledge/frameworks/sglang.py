"""SGLang: serves language models.

Each forward pass is marked with its mode, `step[DECODE bs=32]`, and passes that compute prompts also with their tokens,
`step[EXTEND bs=15 toks=15360]`. Roofline annotations add the number of requests and sums over their queries and keys,
for requests that compute prompts (`c`, `c_sq`, ...) and for those that generate (`g`, `g_sq`, ...):
`step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]`.

`capture_32_DECODE` is the capture of a graph for 32 requests.
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

_PHASES = {
    "EXTEND": "prefill",
    "SPLIT_PREFILL": "prefill",
    "DECODE": "decode",
    "TARGET_VERIFY": "decode",
    "MIXED": "mixed",
    "DRAFT_EXTEND": None,
    "DRAFT_EXTEND_V2": None,
    "DLLM_EXTEND": None,
    "PREBUILT": None,
    "DUMMY_FIRST": None,
    "IDLE": None,
}
"""Phase by mode of a forward pass; that of a draft model is part of both phases."""

_MODE = "(" + "|".join(sorted(_PHASES, key=len, reverse=True)) + ")"
_FIELD = r" (?:toks|[cg](?:_(?:sq|sk|sqsq|sqsk))?)=[0-9]{1,18}"
_STEP = re.compile(rf"step\[{_MODE} bs={NUMBER}((?:{_FIELD}){{0,11}})\]", re.ASCII)
_CAPTURE = re.compile(rf"capture_{NUMBER}_{_MODE}", re.ASCII)


def _step_mark(name: str) -> StepMark | None:
    if match := _CAPTURE.fullmatch(name):
        return StepMark("capture", requests=int(match[1]))
    match = _STEP.fullmatch(name)
    return _step(match[1], int(match[2]), match[3]) if match else None


def _step(mode: str, requests: int, text: str) -> StepMark:
    """Create a step from its mode, its number of requests, and a text of ` field=number` pairs."""
    fields = {key: int(value) for key, value in (field.split("=") for field in text.split())}
    if mode == "EXTEND":
        return StepMark("prefill", requests, fields.get("toks"), requests, 0)
    if mode == "DECODE":  # one token per request
        return StepMark("decode", requests, requests, 0, requests)
    context, generation = fields.get("c"), fields.get("g")
    if context is None or generation is None:
        return StepMark(_PHASES[mode], requests, fields.get("toks"))
    tokens = fields["c_sq"] + fields["g_sq"] if {"c_sq", "g_sq"} <= fields.keys() else None
    return StepMark(phase(context, generation), requests, tokens, context, generation)


SGLANG = Framework(
    id="sglang",
    title="SGLang",
    role="serving",
    names=matching(
        whole(_STEP),
        whole(_CAPTURE),
        r"^sglang::",
        r"^sglang_profiler::",
        r"^sgl_kernel::",
    ),
    frames=matching(package("sglang"), path("sglang", r"(?:srt|jit_kernel|multimodal_gen)[/\\]")),
    step_mark=_step_mark,
)
