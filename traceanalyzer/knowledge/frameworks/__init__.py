"""Frameworks and how each is recognized: one small file for each, and this table.

They are in order of priority: a report names the first one found. Servers come before the libraries that they use
(SGLang and others have imported vLLM, all import Transformers), then frameworks that own the loop, then model
libraries, then distribution; the last group is never named. docs/frameworks.md explains how to add one.
"""

from __future__ import annotations

from traceanalyzer.knowledge.frameworks.dataparallel import DATAPARALLEL
from traceanalyzer.knowledge.frameworks.ddp import DDP
from traceanalyzer.knowledge.frameworks.deepspeed import DEEPSPEED
from traceanalyzer.knowledge.frameworks.detectron2 import DETECTRON2
from traceanalyzer.knowledge.frameworks.diffusers import DIFFUSERS
from traceanalyzer.knowledge.frameworks.fairseq import FAIRSEQ
from traceanalyzer.knowledge.frameworks.fbgemm import FBGEMM
from traceanalyzer.knowledge.frameworks.framework import Framework, StepMark
from traceanalyzer.knowledge.frameworks.fsdp import FSDP
from traceanalyzer.knowledge.frameworks.fsdp2 import FSDP2
from traceanalyzer.knowledge.frameworks.huggingface import HUGGINGFACE
from traceanalyzer.knowledge.frameworks.lightllm import LIGHTLLM
from traceanalyzer.knowledge.frameworks.lightning import LIGHTNING
from traceanalyzer.knowledge.frameworks.megatron import MEGATRON
from traceanalyzer.knowledge.frameworks.mmengine import MMENGINE
from traceanalyzer.knowledge.frameworks.mtia import MTIA
from traceanalyzer.knowledge.frameworks.npu import NPU
from traceanalyzer.knowledge.frameworks.param import PARAM
from traceanalyzer.knowledge.frameworks.ray_train import RAY_TRAIN
from traceanalyzer.knowledge.frameworks.sglang import SGLANG
from traceanalyzer.knowledge.frameworks.tensorrt_llm import TENSORRT_LLM
from traceanalyzer.knowledge.frameworks.tgi import TGI
from traceanalyzer.knowledge.frameworks.timm import TIMM
from traceanalyzer.knowledge.frameworks.torch_compile import TORCH_COMPILE
from traceanalyzer.knowledge.frameworks.torchrec import TORCHREC
from traceanalyzer.knowledge.frameworks.torchtitan import TORCHTITAN
from traceanalyzer.knowledge.frameworks.vllm import VLLM
from traceanalyzer.knowledge.frameworks.xdit import XDIT

__all__ = ["FRAMEWORKS", "Framework", "StepMark", "is_step_mark", "step_mark", "title"]

FRAMEWORKS: tuple[Framework, ...] = (
    # serving
    SGLANG,
    LIGHTLLM,
    TENSORRT_LLM,
    TGI,
    VLLM,
    XDIT,
    # loops
    MEGATRON,
    TORCHTITAN,
    LIGHTNING,
    DETECTRON2,
    MMENGINE,
    FAIRSEQ,
    TORCHREC,
    # models
    DIFFUSERS,
    HUGGINGFACE,
    # distribution
    DEEPSPEED,
    FSDP2,
    FSDP,
    DDP,
    DATAPARALLEL,
    RAY_TRAIN,
    TIMM,
    # never named
    TORCH_COMPILE,
    PARAM,
    FBGEMM,
    MTIA,
    NPU,
)


def title(id: str) -> str:  # noqa: A002 - the contract's word
    """The title of a framework as its authors write it; other ids are returned unchanged."""
    return next((known.title for known in FRAMEWORKS if known.id == id), id)


def is_step_mark(name: str) -> bool:
    """Whether a name is a step mark of a framework, which consists only of public words and counts."""
    return step_mark(name) is not None


def step_mark(name: str) -> StepMark | None:
    """The facts in a step mark of any framework; None for all other names."""
    marks = (known.step_mark(name) for known in FRAMEWORKS if known.step_mark)
    return next((mark for mark in marks if mark is not None), None)
