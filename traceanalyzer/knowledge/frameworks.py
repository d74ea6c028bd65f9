"""Frameworks and how each is recognized: by names of annotations and operators, by its files, by its step marks.

docs/frameworks.md explains how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from traceanalyzer.knowledge.first_match import AnyOf
from traceanalyzer.knowledge.framework_marks import (
    SGLANG_MARKS,
    TENSORRT_LLM_MARKS,
    VLLM_MARKS,
    XDIT_MARKS,
    StepMark,
    lightning_mark,
    sglang_mark,
    tensorrt_llm_mark,
    vllm_mark,
    xdit_mark,
)

NOT_NAMED = frozenset({"compiler", "benchmark", "runtime"})
"""Roles that show how a program runs, but that a report never names as its framework."""


class Framework(msgspec.Struct, frozen=True):
    """One line in the table of frameworks."""

    id: str
    title: str
    """The name as its authors write it."""
    role: str
    """`serving`, `training`, `inference`, `parallel`, `compiler`, `benchmark` or `runtime`."""
    names: AnyOf | None = None
    """Searched in names of annotations and operators, including step marks, and in event categories."""
    frames: AnyOf | None = None
    """Searched in Python frames, `path(line): function`, and in module frames, `nn.Module: Class_0`."""
    step_mark: Callable[[str], StepMark | None] | None = None
    """Parses a step mark. Accepted marks contain only public words and counts, so anonymized copies may keep them."""

    @property
    def is_named(self) -> bool:
        """Whether a report may name it as the program's framework."""
        return self.role not in NOT_NAMED


def package(name: str) -> str:
    """Pattern of the files of an installed package: below site-packages, or with a path relative to `sys.path`."""
    return rf"(?:^|(?:^|[/\\])(?:site|dist)-packages[/\\]){name}[/\\]"


def path(*parts: str) -> str:
    """Pattern of nested folders or files at any place, for packages that run from a checkout."""
    return r"(?:^|[/\\])" + r"[/\\]".join(parts)


def module(name: str) -> str:
    """Pattern of calls of a module class."""
    return rf"^nn\.Module: {name}(?:_[0-9]{{1,9}})?$"


_LOOKS_AROUND = r"(?!utils[/\\](?:import_utils|versions|logging|hub)\.py|dependency_versions)"

FRAMEWORKS: tuple[Framework, ...] = (
    # -- serving
    # SGLang: serves language models.
    Framework(
        "sglang",
        "SGLang",
        "serving",
        names=AnyOf(
            *SGLANG_MARKS,
            r"^sglang::",
            r"^sglang_profiler::",
            r"^sgl_kernel::",
        ),
        frames=AnyOf(package("sglang"), path("sglang", r"(?:srt|jit_kernel|multimodal_gen)[/\\]")),
        step_mark=sglang_mark,
    ),
    # LightLLM: serves language models. It writes no marks and is recognized by its files.
    Framework(
        "lightllm",
        "LightLLM",
        "serving",
        frames=AnyOf(package("lightllm"), path("lightllm", r"(?:server|models|common)[/\\]")),
    ),
    # TensorRT-LLM: serves language models.
    Framework(
        "tensorrt-llm",
        "TensorRT-LLM",
        "serving",
        names=AnyOf(*TENSORRT_LLM_MARKS, r"^trtllm::", r"^tensorrt_llm::"),
        frames=AnyOf(package("tensorrt_llm"), path("tensorrt_llm", r"(?:_torch|executor|runtime|llmapi)[/\\]")),
        step_mark=tensorrt_llm_mark,
    ),
    # Text Generation Inference: serves language models. It writes no marks and is recognized by its files.
    Framework("tgi", "Text Generation Inference", "serving", frames=AnyOf(path("text_generation_server", ""))),
    # vLLM: serves language models.
    Framework(
        "vllm",
        "vLLM",
        "serving",
        names=AnyOf(
            *VLLM_MARKS,
            r"^vllm::",
            r"^(?:v2_)?gpu_model_runner: ",
        ),
        frames=AnyOf(package("vllm"), package("vllm_ascend"), path("vllm", r"(?:v1|model_executor|compilation)[/\\]")),
        step_mark=vllm_mark,
    ),
    # xDiT: runs diffusion transformers on several devices, one generation at a time.
    Framework(
        "xdit",
        "xDiT",
        "inference",
        names=AnyOf(*XDIT_MARKS),
        frames=AnyOf(package("xfuser"), path("xfuser", r"(?:core|model_executor)[/\\]")),
        step_mark=xdit_mark,
    ),
    # -- loops
    # Megatron-LM and Megatron Core: train language models in tensor, pipeline and data parallel.
    Framework(
        "megatron",
        "Megatron",
        "parallel",
        names=AnyOf(r"^_?LinearWithGradAccumulationAndAsync(?:Communication|Allreduce)(?:Backward)?$"),
        frames=AnyOf(path("megatron", r"(?:core|training|legacy|model|optimizer|schedules|mpu)(?:[/\\]|\.py\()")),
    ),
    # TorchTitan: pretrains language models with PyTorch's own parallelism.
    Framework(
        "torchtitan",
        "TorchTitan",
        "training",
        frames=AnyOf(
            package("torchtitan"), path("torchtitan", r"(?:train\.py\(|(?:models|components|distributed)[/\\])")
        ),
    ),
    # Lightning (PyTorch Lightning): its Trainer owns the loop.
    Framework(
        "lightning",
        "Lightning",
        "training",
        names=AnyOf(r"^\[pl\]\[profile\]", r"^\[pl\]\[module\]"),
        frames=AnyOf(
            package("pytorch_lightning"),
            package("lightning_fabric"),
            path("lightning", "(?:pytorch|fabric)", ""),
        ),
        step_mark=lightning_mark,
    ),
    # Detectron2: trains detectors; its Trainer owns the loop.
    Framework(
        "detectron2",
        "Detectron2",
        "training",
        frames=AnyOf(package("detectron2"), path("detectron2", r"(?:modeling|engine|layers)[/\\]")),
    ),
    # MMEngine, and its predecessor MMCV: the Runner of OpenMMLab's projects owns the loop.
    Framework(
        "mmengine",
        "MMEngine",
        "training",
        frames=AnyOf(
            package("mmengine"), path("mmengine", r"(?:runner|model|optim)[/\\]"), path("mmcv", r"runner[/\\]")
        ),
    ),
    # fairseq: trains sequence models. Its trainer marks its operations on gradients (`trainer.py`).
    Framework(
        "fairseq",
        "fairseq",
        "training",
        names=AnyOf(r"^multiply-grads$", r"^reduce-grads$"),
        frames=AnyOf(
            package("fairseq"),
            package("fairseq_cli"),
            package("fairseq2"),
            path("fairseq", r"(?:models|modules|tasks|optim|trainer\.py\()"),
        ),
    ),
    # TorchRec: trains recommendation models with sharded embeddings.
    # Its pipeline marks the distribution of sparse features, `## start_sparse_data_dist 3 ##`, its all-to-all
    # exchanges, `## all2all_data:kjt splits ##`, and each wait for them, `## KJTListAwaitable wait() ##`.
    # `## forward ##` and `## backward ##` are marks of many programs.
    Framework(
        "torchrec",
        "TorchRec",
        "training",
        names=AnyOf(
            r"^## (?:start_|wait_)?sparse_data_dist(?: [0-9]{1,18})? ##$",
            r"^## all2all_data:",
            r"^## \w{0,40}Awaitable wait\(\) ##$",
        ),
        frames=AnyOf(package("torchrec"), path("torchrec", r"(?:distributed|modules|sparse)[/\\]")),
    ),
    # -- models
    # Hugging Face Diffusers: pipelines that generate images, video and sound.
    Framework(
        "diffusers",
        "Diffusers",
        "inference",
        frames=AnyOf(package("diffusers"), path("src", "diffusers", r"(?:pipelines|models|schedulers)[/\\]")),
    ),
    # Hugging Face: models, pipelines and `generate` of Transformers, its Trainer, and Accelerate.
    # It supports training and inference, so its role does not show which one a program does. Frames of
    # `transformers/utils` that only look for installed packages occur in programs that do not use it otherwise.
    Framework(
        "huggingface",
        "Hugging Face",
        "inference",
        frames=AnyOf(
            package("transformers") + _LOOKS_AROUND,
            path("src", "transformers", r"(?:models|generation|pipelines)[/\\]"),
            package("accelerate"),
            package("trl"),
            package("peft"),
        ),
    ),
    # -- distribution
    # DeepSpeed: trains with sharded optimizers, gradients and parameters (ZeRO).
    Framework(
        "deepspeed",
        "DeepSpeed",
        "parallel",
        names=AnyOf(
            r"^LinearFunctionForZeroStage3(?:Backward)?$",
            r"^PreBackwardFunctionForModule(?:Backward)?$",
            r"^PostBackwardFunctionModule(?:Backward)?$",
        ),
        frames=AnyOf(package("deepspeed"), path("deepspeed", r"(?:runtime|ops|utils)[/\\]"), module("DeepSpeedEngine")),
    ),
    # FSDP2: shards parameters in place (`fully_shard`), the second of PyTorch's two.
    Framework(
        "fsdp2",
        "FSDP2",
        "parallel",
        names=AnyOf(r"^FSDP::", r"^fsdp::"),
        frames=AnyOf(
            path("torch", "distributed", "fsdp", r"_fully_shard[/\\]"),
            path("torch", "distributed", "_composable", r"fsdp[/\\]"),
        ),
    ),
    # FSDP: shards parameters of wrapped modules (`FullyShardedDataParallel`), the first of PyTorch's two.
    Framework(
        "fsdp",
        "FSDP",
        "parallel",
        names=AnyOf(r"^FullyShardedDataParallel(?:\.|::)"),
        frames=AnyOf(
            path("torch", "distributed", "fsdp", r"(?:fully_sharded_data_parallel|_runtime_utils|_?flat_param)\.py\("),
            module("FullyShardedDataParallel"),
        ),
    ),
    # DDP: PyTorch's `DistributedDataParallel`, which reduces gradients in buckets.
    # Frames of its file are not evidence: torch.compile checks there in every program whether the model is wrapped.
    Framework(
        "ddp",
        "DistributedDataParallel",
        "parallel",
        names=AnyOf(
            r"^DistributedDataParallel\.forward$",
            r"^torch::distributed::reducer::",
            r"^torch\.distributed\.ddp\.reducer::",
            r"^_DDPSink(?:Backward)?$",
        ),
        frames=AnyOf(
            path("torch", "nn", "parallel", r"distributed\.py\([0-9]{1,9}\): (?:_(?:run_ddp|pre|post)_)?forward$"),
            module("DistributedDataParallel"),
        ),
    ),
    # DataParallel: one process copies its model to all devices at each step.
    Framework(
        "dataparallel",
        "DataParallel",
        "parallel",
        names=AnyOf(r"^DataParallel\.forward$"),
        frames=AnyOf(
            path("torch", "nn", "parallel", r"data_parallel\.py\([0-9]{1,9}\): forward$"), module("DataParallel")
        ),
    ),
    # Ray Train: starts the worker processes of a training job, whose loop may belong to another framework.
    Framework("ray-train", "Ray Train", "training", frames=AnyOf(path("ray", "train", ""))),
    # timm (PyTorch Image Models): image models without a training loop.
    Framework("timm", "timm", "inference", frames=AnyOf(package("timm"), path("timm", r"(?:models|layers)[/\\]"))),
    # -- never named
    # torch.compile: code that PyTorch's compiler generated, in any program.
    Framework(
        "torch.compile",
        "torch.compile",
        "compiler",
        names=AnyOf(
            r"^Torch-Compiled Region\b",
            r"^## Call CompiledFxGraph ",
            r"^TorchDynamo Cache Lookup$",
            r"^CompiledFunction(?:Backward)?$",
            r"^AOTDispatcher Runtime Wrapper",
            r"^inductor::",
            r"^triton_(?:poi|red|per|tem|for)_fused_",
        ),
        frames=AnyOf(
            path("torch", "_dynamo", r"eval_frame\.py\([0-9]{1,9}\): (?:_fn|compile_wrapper|__call__)$"),
            path("torch", "_inductor", r"output_code\.py\("),
            path("torch", "_functorch", r"_aot_autograd[/\\]runtime_wrappers\.py\("),
        ),
    ),
    # PARAM: benchmarks of operators and models. Its marks begin with `[param|`.
    Framework("param", "PARAM", "benchmark", names=AnyOf(r"^\[param\|")),
    # FBGEMM: operators for embeddings and quantization, used by TorchRec and other programs.
    Framework("fbgemm", "FBGEMM", "runtime", names=AnyOf(r"^fbgemm::"), frames=AnyOf(package("fbgemm_gpu"))),
    # MTIA: the runtime of Meta's accelerators. Its events have the categories `mtia_runtime` and `mtia_ccp_events`.
    # Frames of `torch/mtia` are not evidence, because PyTorch checks in every program whether such a device exists.
    Framework("mtia", "MTIA", "runtime", names=AnyOf(r"^mtia_\w{1,40}$", r"^mtia::")),
    # Ascend Extension for PyTorch (torch_npu): the runtime of Ascend's NPUs.
    Framework(
        "npu",
        "Ascend Extension for PyTorch",
        "runtime",
        names=AnyOf(r"^npu::"),
        frames=AnyOf(package("torch_npu")),
    ),
)
"""All frameworks in order of priority: a report names the first one found.

Servers come before the libraries that they use (SGLang and others have imported vLLM, all import Transformers), then
frameworks that own the loop, then model libraries, then distribution; the last group is never named.
"""


def title(id: str) -> str:  # noqa: A002 - the contract's word
    """The title of a framework as its authors write it; other ids are returned unchanged."""
    return next((known.title for known in FRAMEWORKS if known.id == id), id)


_LOOPS = (("transformers/trainer.py", "Hugging Face Trainer"), ("accelerate/", "Hugging Face Accelerate"))
"""Files of those parts of one framework that have a loop or a step of their own."""


def loop_title(id: str, frames: Iterable[str]) -> str:  # noqa: A002 - the contract's word
    """The title of a framework, or of the part of it whose functions run the step."""
    files = tuple(frames)
    parts = (title for file, title in _LOOPS if any(frame.startswith(file) for frame in files))
    return next(parts, title(id)) if id == "huggingface" else title(id)


def is_step_mark(name: str) -> bool:
    """Whether a name is a step mark of a framework, which consists only of public words and counts."""
    return step_mark(name) is not None


def step_mark(name: str) -> StepMark | None:
    """The facts in a step mark of any framework; None for all other names."""
    marks = (known.step_mark(name) for known in FRAMEWORKS if known.step_mark)
    return next((mark for mark in marks if mark is not None), None)
