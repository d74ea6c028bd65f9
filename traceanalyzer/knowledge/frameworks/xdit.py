"""xDiT: serves diffusion transformers on several devices.

Each generation is marked with image count, image size, and in some scripts precision: `execute_diffusion_1_256x256`,
`execute_diffusion_1024x1024_bf16`.
"""

from __future__ import annotations

import re

from traceanalyzer.knowledge.frameworks.framework import NUMBER, Framework, StepMark, matching, package, path, whole

_GENERATION = re.compile(
    rf"execute_diffusion_(?:{NUMBER}_)?[0-9]{{1,9}}x[0-9]{{1,9}}(?:_(?:bf16|bfloat16|fp16|float16|fp32|float32|fp8|int8))?",
    re.ASCII,
)


def _step_mark(name: str) -> StepMark | None:
    match = _GENERATION.fullmatch(name)
    return StepMark("diffusion", requests=int(match[1]) if match[1] else None) if match else None


XDIT = Framework(
    id="xdit",
    title="xDiT",
    role="serving",
    names=matching(whole(_GENERATION)),
    frames=matching(package("xfuser"), path("xfuser", r"(?:core|model_executor)[/\\]")),
    step_mark=_step_mark,
)
