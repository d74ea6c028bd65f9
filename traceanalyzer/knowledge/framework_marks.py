"""Marks of steps: what frameworks write around each forward pass, and the parser of each framework's marks.

Accepted marks contain only public words and counts, so anonymized copies may keep them.
"""

from __future__ import annotations

import re

import msgspec

_COUNT = "([0-9]{1,18})"
"""Pattern of a count in a mark; the length limit keeps matching fast."""


class StepMark(msgspec.Struct, frozen=True):
    """Facts about a step from the mark of a framework; None if unknown."""

    phase: str | None
    """`prefill`, `decode`, `mixed`, `capture` (of a graph) or `diffusion`."""
    requests: int | None = None
    """Number of requests or images in the step."""
    tokens: int | None = None
    """Number of tokens that the step computes."""
    context_requests: int | None = None
    """Number of requests whose prompts are computed."""
    generation_requests: int | None = None
    """Number of requests that generate tokens."""


def _phase(context_requests: int, generation_requests: int) -> str | None:
    """The phase of a step of a language model server; None without requests."""
    if context_requests and generation_requests:
        return "mixed"
    if context_requests:
        return "prefill"
    return "decode" if generation_requests else None


def _whole(pattern: re.Pattern[str]) -> str:
    """Anchor a pattern to whole names; it must have no alternatives outside groups."""
    return f"^{pattern.pattern}$"


_SGLANG_PHASES = {
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
_SGLANG_MODE = "(" + "|".join(sorted(_SGLANG_PHASES, key=len, reverse=True)) + ")"
_SGLANG_FIELD = r" (?:toks|[cg](?:_(?:sq|sk|sqsq|sqsk))?)=[0-9]{1,18}"
_SGLANG_STEP = re.compile(rf"step\[{_SGLANG_MODE} bs={_COUNT}((?:{_SGLANG_FIELD}){{0,11}})\]", re.ASCII)
_SGLANG_CAPTURE = re.compile(rf"capture_{_COUNT}_{_SGLANG_MODE}", re.ASCII)
SGLANG_MARKS = (_whole(_SGLANG_STEP), _whole(_SGLANG_CAPTURE))


def sglang_mark(name: str) -> StepMark | None:
    """Parse a mark of SGLang; None for other names.

    Each forward pass is marked with its mode, `step[DECODE bs=32]`, and passes that compute prompts also with their
    tokens, `step[EXTEND bs=15 toks=15360]`. Roofline annotations add the number of requests and sums over their queries
    and keys, for requests that compute prompts (`c`, `c_sq`, ...) and for those that generate (`g`, `g_sq`, ...):
    `step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]`.

    `capture_32_DECODE` is the capture of a graph for 32 requests.
    """
    if match := _SGLANG_CAPTURE.fullmatch(name):
        return StepMark("capture", requests=int(match[1]))
    match = _SGLANG_STEP.fullmatch(name)
    return _sglang_step(match[1], int(match[2]), match[3]) if match else None


def _sglang_step(mode: str, requests: int, text: str) -> StepMark:
    """Create a step from its mode, its number of requests, and a text of ` field=number` pairs."""
    fields = {key: int(value) for key, value in (field.split("=") for field in text.split())}
    if mode == "EXTEND":
        return StepMark("prefill", requests, fields.get("toks"), requests, 0)
    if mode == "DECODE":  # one token per request
        return StepMark("decode", requests, requests, 0, requests)
    context, generation = fields.get("c"), fields.get("g")
    if context is None or generation is None:
        return StepMark(_SGLANG_PHASES[mode], requests, fields.get("toks"))
    tokens = fields["c_sq"] + fields["g_sq"] if {"c_sq", "g_sq"} <= fields.keys() else None
    return StepMark(_phase(context, generation), requests, tokens, context, generation)


_TENSORRT_LLM_STEP = re.compile(
    rf"\[Executor\] _forward_step(?: [0-9]{{1,18}})?: {_COUNT} ctx reqs, (?:{_COUNT} ctx tokens, )?{_COUNT} gen reqs",
    re.ASCII,
)
TENSORRT_LLM_MARKS = (_whole(_TENSORRT_LLM_STEP),)


def tensorrt_llm_mark(name: str) -> StepMark | None:
    """Parse a mark of TensorRT-LLM; None for other names.

    Its executor marks each forward pass with its requests, and newer versions with the tokens of the prompts:
    `[Executor] _forward_step 12: 1 ctx reqs, 5 ctx tokens, 32 gen reqs`.
    """
    match = _TENSORRT_LLM_STEP.fullmatch(name)
    if not match:
        return None
    context, generation = int(match[1]), int(match[3])
    # unknown: a generating request computes several tokens when it verifies drafts
    tokens = int(match[2]) if match[2] and not generation else None
    return StepMark(_phase(context, generation), context + generation, tokens, context, generation)


_VLLM_SUMS = rf"sq{_COUNT}sk[0-9]{{1,18}}sqsq[0-9]{{1,18}}sqsk[0-9]{{1,18}}"
_VLLM_ROOFLINE = re.compile(
    rf"execute_[0-9]{{1,18}}_context_{_COUNT}\({_VLLM_SUMS}\)_generation_{_COUNT}\({_VLLM_SUMS}\)",
    re.ASCII,
)
_VLLM_PLAIN = re.compile(
    rf"execute_context_{_COUNT}\({_COUNT}(?:_[0-9]{{1,18}})?\)_generation_{_COUNT}\({_COUNT}(?:_[0-9]{{1,18}})?\)",
    re.ASCII,
)
_VLLM_NEW_AND_CACHED = re.compile(rf"execute_new_{_COUNT}_cached_{_COUNT}", re.ASCII)
_VLLM_CAPTURE = re.compile(rf"capture_{_COUNT}_(?:draft_)?(?:FULL|PIECEWISE)", re.ASCII)
VLLM_MARKS = (_whole(_VLLM_ROOFLINE), _whole(_VLLM_PLAIN), _whole(_VLLM_NEW_AND_CACHED), _whole(_VLLM_CAPTURE))


def vllm_mark(name: str) -> StepMark | None:
    """Parse a mark of vLLM; None for other names.

    Its profiler marks each step with the numbers of requests that compute prompts and that generate (`gpu_worker.py`):

    * `execute_new_2_cached_30` until the end of 2025: requests that were never scheduled before, and all others, whose
      prompts may still be computed in chunks;
    * `execute_context_1(888)_generation_31(31)`: requests, and in parentheses their tokens (some versions add the
      square);
    * `execute_919_context_1(sq888sk888sqsq788544sqsk788544)_generation_31(...)` with roofline annotations: the tokens
      of the step, then requests with sums over their queries (q) and keys (k). SGLang wrote this mark for a time, too.

    `capture_32_FULL` is the capture of a graph for 32 tokens, `capture_32_draft_FULL` that of a draft model.
    """
    if match := _VLLM_ROOFLINE.fullmatch(name) or _VLLM_PLAIN.fullmatch(name):
        context, context_tokens, generation, generation_tokens = map(int, match.groups())
        tokens = context_tokens + generation_tokens
        return StepMark(_phase(context, generation), context + generation, tokens, context, generation)
    if match := _VLLM_NEW_AND_CACHED.fullmatch(name):
        new, cached = int(match[1]), int(match[2])
        return StepMark("prefill" if new and not cached else None, new + cached)
    if match := _VLLM_CAPTURE.fullmatch(name):
        return StepMark("capture", tokens=int(match[1]))
    return None


_XDIT_GENERATION = re.compile(
    rf"execute_diffusion_(?:{_COUNT}_)?[0-9]{{1,9}}x[0-9]{{1,9}}(?:_(?:bf16|bfloat16|fp16|float16|fp32|float32|fp8|int8))?",
    re.ASCII,
)
XDIT_MARKS = (_whole(_XDIT_GENERATION),)


def xdit_mark(name: str) -> StepMark | None:
    """Parse a mark of xDiT; None for other names.

    Each generation is marked with image count, image size, and in some scripts precision:
    `execute_diffusion_1_256x256`, `execute_diffusion_1024x1024_bf16`.
    """
    match = _XDIT_GENERATION.fullmatch(name)
    return StepMark("diffusion", requests=int(match[1]) if match[1] else None) if match else None


_LIGHTNING_STEP = "[pl][profile]run_training_batch"


def lightning_mark(name: str) -> StepMark | None:
    """Parse a mark of Lightning; None for other names.

    Its profiler marks the actions of the loop, `[pl][profile]run_training_batch`, and module calls, `[pl][module]...`.
    """
    return StepMark(None) if name == _LIGHTNING_STEP else None
