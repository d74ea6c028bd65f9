"""Finds the owner of the code of a Python frame: the program, a library, or the interpreter.

The profiler names a frame `path(line): function` and strips the `sys.path` entry from the path. So the paths of
installed packages begin with the package (`torch/nn/functional.py`), unless the folder of packages is kept
(`.../site-packages/torch/...`).
"""

from __future__ import annotations

import re

import msgspec

_INSTALLED = re.compile(
    r"(?:^|[/\\])(?:site|dist)-packages[/\\]"
    r"|[/\\]lib(?:64)?[/\\]python[0-9]|[/\\][Pp]ython[0-9]+[/\\][Ll]ib[/\\]"
    r"|[/\\]torch[/\\](?:nn|utils|autograd|optim|cuda|distributed|fx|jit|profiler|amp|_[a-z]+)[/\\]"
    r"|torchinductor_|torch_extensions[/\\]"
)
"""Parts of paths that occur only in installed packages, the standard library, PyTorch and code that it compiles."""

_TORCH = "/torch/"
"""Part of the whole path of every file of torch; not all of them are in a package that is named above."""

_CELL = ("<ipython-input", "<stdin>", "<cell ")
"""Code typed into an interpreter or a notebook."""

_GENERATED = re.compile(
    r"<(?:string|eval_with_key|frozen [\w.]+|attrs generated [\w. ]+|__array_function__ internals)>"
    r"(?:\.[0-9]+)?",
    re.ASCII,
)
"""Code without a file: `<string>`, `<frozen importlib._bootstrap>`, `<eval_with_key>.5`."""

_LIBRARIES = """
    torch torchvision torchaudio torchtext torchdata torchrec torchtitan torchtune torchao torchmetrics torchcodec
    functorch fbgemm_gpu triton transformers tokenizers accelerate datasets diffusers peft trl evaluate optimum
    safetensors sentence_transformers huggingface_hub timm kornia albumentations imgaug cv2 PIL av decord imageio
    skimage sklearn scipy numpy pandas numba librosa soundfile tqdm rich wandb mlflow tensorboard tensorboardX
    pytorch_lightning lightning lightning_fabric ignite fastai detectron2 mmengine mmcv mmdet fairseq fairscale
    deepspeed megatron apex xformers flash_attn bitsandbytes transformer_engine vllm sglang lightllm tensorrt_llm
    flashinfer xgrammar outlines tiktoken sentencepiece ray dask distributed einops jax jaxlib tensorflow keras onnx
    habana_frameworks onnxruntime pydantic fsspec requests urllib3 aiohttp uvicorn starlette fastapi anyio zmq msgspec
    cloudpickle multiprocess omegaconf hydra click typer fire absl matplotlib dgl torch_geometric pyarrow h5py aiter
    torch_npu torch_xla intel_extension_for_pytorch setuptools pkg_resources _pytest pytest IPython ipykernel
"""
LIBRARIES = frozenset(_LIBRARIES.split())
"""First parts of paths of third-party packages."""

_STANDARD = """
    __future__ _collections_abc _weakrefset abc argparse ast asyncio base64 bisect codecs collections concurrent
    contextlib contextvars copy copyreg csv ctypes dataclasses datetime decimal difflib dis email encodings enum
    fnmatch fractions functools genericpath gettext glob gzip hashlib heapq html http importlib inspect io ipaddress
    json keyword linecache locale logging lzma mimetypes multiprocessing ntpath numbers opcode operator os pathlib
    pickle pkgutil platform posixpath pprint queue random re reprlib runpy sched selectors shlex shutil signal socket
    socketserver sre_compile sre_parse ssl stat string struct subprocess sysconfig tarfile tempfile textwrap threading
    timeit token tokenize traceback types typing typing_extensions unittest urllib uuid warnings
    weakref xml zipfile zipimport zoneinfo
"""
STANDARD = frozenset(_STANDARD.split())
"""Standard library modules that occur in traces, except those whose names are common for files of programs."""

_PASSING = re.compile(
    r"_?_?(?:wrapped_)?call(?:_impl|_func|_function)?_?_?|_?wrapp(?:er|ed)\w*|_?inner\w*|_fn|decorate_\w+|decorator"
    r"|__torch_(?:function|dispatch)__|handle_torch_function|__enter__|__exit__|__iter__|__next__|__init__|__del__"
    r"|__get(?:attr|item|attribute)?__|__set(?:attr|item)?__|compile_wrapper|_?run|_?wait\w*|_?acquire|_?get"
    r"|apply|_apply|<(?:lambda|listcomp|setcomp|dictcomp|genexpr|module)>"
)
"""Library functions that only forward or await a call, so that their names do not describe the work."""

_THIN = re.compile(
    r"(?:^|[/\\])torch[/\\](?:(?:nn[/\\])?functional|_tensor|_ops|_VF|_jit_internal|_meta_registrations|overrides|hub"
    r"|cuda[/\\](?:__init__|streams|graphs)|autograd[/\\]\w+|_dynamo[/\\]eval_frame|_compile|_higher_order_ops[/\\]\w+"
    r"|_inductor[/\\](?:output_code|utils)|_functorch[/\\](?:_aot_autograd[/\\])?\w+|utils[/\\]_\w+)\.py$"
)
"""Files of PyTorch whose functions only call an operator or the runtime, so that their caller is the owner."""

_ANONYMOUS = re.compile(r"<(?:lambda|listcomp|setcomp|dictcomp|genexpr)>")
"""Functions without a name, `<lambda>` or `<listcomp>`, which belong to the enclosing function."""


class PythonFrame(msgspec.Struct, frozen=True):
    """The parts of the name of a frame."""

    path: str
    line: int
    function: str


def parse(name: str) -> PythonFrame | None:
    """Split `path(line): function`; None for built-in functions and module calls, which have no line."""
    head, separator, function = name.partition("): ")
    path, bracket, line = head.rpartition("(")
    if not (separator and bracket and line.isascii() and line.isdigit() and len(line) < 10):
        return None
    return None if name.startswith(("<built-in ", "nn.Module: ")) else PythonFrame(path, int(line), function)


def is_own(name: str) -> bool:
    """Whether a frame is a named function of the program, not of a library or the interpreter."""
    frame = parse(name)
    return frame is not None and _is_own_path(frame.path) and _ANONYMOUS.fullmatch(frame.function) is None


def is_of_program(name: str) -> bool:
    """Whether a frame is code of the program, with a name or without."""
    frame = parse(name)
    return frame is not None and _is_own_path(frame.path)


def is_own_file(path: str) -> bool:
    """Whether a file, by its whole path, is code of the program: not of torch, a library, or the interpreter."""
    return _TORCH not in path.replace("\\", "/") and _is_own_path(path)


def is_telling_library(name: str) -> bool:
    """Whether a frame is a function of an installed library whose name describes the work.

    Functions of the standard library and those that only forward a call are not.
    """
    frame = parse(name)
    if frame is None or _is_own_path(frame.path) or _GENERATED.fullmatch(frame.path) is not None:
        return False
    if _is_standard(frame.path) or _THIN.search(frame.path) is not None:
        return False
    return _PASSING.fullmatch(frame.function) is None


def _is_own_path(path: str) -> bool:
    if _GENERATED.fullmatch(path) is not None:
        return path.startswith(_CELL)
    if _INSTALLED.search(path) is not None:
        return False
    return path.startswith(("/", "\\")) or path[1:2] == ":" or _package(path) not in LIBRARIES | STANDARD


def _is_standard(path: str) -> bool:
    installed = path.replace("\\", "/")
    if "-packages/" in installed:
        return False
    return "/lib/python" in installed or "/lib64/python" in installed or _package(path) in STANDARD


def _package(path: str) -> str:
    """The first part of a path relative to `sys.path`: a package or module."""
    return path.replace("\\", "/").removeprefix("./").partition("/")[0].removesuffix(".py")
