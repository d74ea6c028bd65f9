"""Collects public names: `python scripts/public_names.py WHEELS` writes traceanalyzer/rewrite/public/.

Run it in an environment with torch, NumPy and Triton; the project itself needs none of them. WHEELS is a folder with
the wheels of torch (built for CUDA), triton, nvidia-nccl-cu12, nvidia-cublas-cu12 and nvidia-cudnn-cu12, as `pip
download --no-deps` fetches them. Every list comes from a public package:

operators    operators of torch's dispatcher
autograd     the nodes of torch's derivatives, and functions of torch written in Python
marks        ranges that torch's own code records, and its compiler times
modules      classes of torch.nn, optimizers of torch.optim
runtime      calls of CUDA (CUPTI's headers) and HIP (its header)
files        modules of Python's library, torch, Triton and NumPy, as they follow `sys.path`
functions    functions and methods that these define
kernels      identifiers in the symbols of torch's kernels
kernel_words words of kernel names in cuBLAS, cuDNN, NCCL, and torch, with `#` for numbers
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

PUBLIC = Path(__file__).parents[1] / "traceanalyzer" / "rewrite" / "public"
_LIBRARIES = ("torch", "triton", "numpy")
_SKIPPED = re.compile(
    r"(^|/)(tests?|testing|test_\w+|idlelib|lib2to3|turtledemo|_inductor/(fx_passes|kernel)|_vendor)/"
)
_INTERNAL = ("_test::", "_inductor_test::", "static_runtime::", "debug_mode_ops::", "flex_lib::", "export::")
_STRING = re.compile(rb"[ -~]{6,4000}")
_MANGLED = re.compile(r"_Z[A-Za-z0-9_]{4,4000}")
_STUB = re.compile(r"_Z\d+__device_stub_*Z")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WORDS = re.compile(
    r"(?:ampere|volta|turing|maxwell|pascal|hopper|sm\d+|cutlass\d?|nvjet|xmma|cudnn|fmha|cask|nccl\w*Kernel)_[A-Za-z0-9_]{4,300}"
    r"|nccl(?:Dev)?Kernel_\w{4,100}"
)
_TYPES = (
    str, bytes, int, float, bool, list, tuple, dict, set, frozenset, type, object, range, slice, complex, bytearray,
    memoryview, property, BaseException, type(iter([])), type(lambda: 0), type(iter(())),
)  # fmt: skip


def main(wheels: Path) -> None:
    """Write all lists of public names."""
    import torch  # noqa: PLC0415 - help needs no torch

    trees = [
        Path(torch.__file__).parent,
        *(Path(importlib.import_module(n).__file__).parent for n in ("triton", "numpy")),
    ]
    library = Path(sysconfig.get_path("stdlib"))
    sources = dict(_sources(trees)) | dict(_standard(library))
    write("operators", operators(torch))
    write("autograd", autograd(trees[0]))
    write("marks", marks(trees[0]))
    write("modules", modules(torch))
    write("optimizers", (n for n, v in vars(torch.optim).items() if inspect.isclass(v) and n != "Optimizer"))
    write("runtime", runtime(next(wheels.glob("triton-*.whl"))))
    write("files", sources)
    write("functions", functions(torch, sources))
    symbols = set(demangled(strings(wheels, "torch-*.whl", "libtorch_cuda.so")))
    write("kernels", {word for symbol in symbols for word in _IDENTIFIER.findall(symbol) if not _is_generated(word)})
    words = {word for symbol in symbols for word in _WORDS.findall(symbol)}
    for package in ("nvidia_cublas*.whl", "nvidia_cudnn*.whl", "nvidia_nccl*.whl"):
        words.update(word for text in strings(wheels, package, ".so") for word in _WORDS.findall(text))
    write("kernel_words", {part for word in words for part in re.sub(r"\d+", "#", word).split("_") if len(part) < 40})


def write(name: str, names: Iterable[str]) -> None:
    """One list, one name a line."""
    lines = sorted({name for name in names if name.isascii() and name.isprintable() and name})
    (PUBLIC / f"{name}.txt").write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(lines)}")


def operators(torch: object) -> set[str]:
    """Names of the operators, without their overloads."""
    for name in ("torch._inductor", "torch.distributed", "torch.distributed._symmetric_memory", "torch._refs"):
        importlib.import_module(name)
    names = torch._C._dispatch_get_all_op_names()  # type: ignore[attr-defined]
    return {name.partition(".")[0] for name in names if not name.startswith(_INTERNAL)}


def autograd(tree: Path) -> Iterator[str]:
    """Names of autograd's nodes, with and without a number: until 2021 nodes had none."""
    headers = "".join(p.read_text() for p in (tree / "include/torch/csrc/autograd").rglob("*.h"))
    for name in re.findall(
        r"struct (?:TORCH_API )?(\w+)\s*(?:final )?: public (?:Traceable|torch::autograd::)*(?:Node|Function)", headers
    ):
        yield name
        yield name.rstrip("0123456789")
    yield from re.findall(r"struct TORCH_API (\w+Backward\d*)", headers)
    for path in tree.rglob("*.py"):
        if "/testing/" not in str(path):
            for name in re.findall(
                r"^class (\w+)\((?:torch\.autograd\.)?(?:Function|function\.Function)\)", path.read_text(), re.M
            ):
                yield name
                yield f"{name}Backward"


def marks(tree: Path) -> Iterator[str]:
    """Literal names of ranges."""
    for path in tree.rglob("*.py"):
        if "/testing/" in str(path) or "/test/" in str(path):
            continue
        text = path.read_text()
        yield from re.findall(r"(?:record_function|RecordFunctionFast)\(\s*[\"']([^\"'{}\\]+)[\"']", text)
        timed = re.findall(r"dynamo_timed\(\s*[\"']([\w.]+)[\"']", text)
        yield from (f"{name} (dynamo_timed)" for name in timed)
        yield from re.findall(r"[\"'](AOTDispatcher [A-Za-z ]+)[\"']", text)


def modules(torch: object) -> Iterator[str]:
    """Classes of modules, in this package and in the packages that contain it."""
    nn = torch.nn  # type: ignore[attr-defined]
    for name in (
        "nn",
        "nn.parallel",
        "nn.utils.parametrize",
        "distributed.fsdp",
        "nn.quantized",
        "ao.nn.qat",
        "ao.nn.intrinsic",
    ):
        found = importlib.import_module(f"torch.{name}")
        yield from (n for n, v in vars(found).items() if inspect.isclass(v) and issubclass(v, nn.Module))
    for name in (
        "container",
        "batchnorm",
        "dropout",
        "conv",
        "pooling",
        "linear",
        "activation",
        "loss",
        "normalization",
    ):
        found = importlib.import_module(f"torch.nn.modules.{name}")
        yield from (n for n, v in vars(found).items() if inspect.isclass(v) and issubclass(v, nn.Module))


def runtime(wheel: Path) -> Iterator[str]:
    """Calls of the runtimes and drivers of CUDA and HIP."""
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if name.endswith(("cupti_runtime_cbid.h", "cupti_driver_cbid.h")):
                text = packed.read(name).decode()
                for call in re.findall(r"CUPTI_(?:RUNTIME|DRIVER)_TRACE_CBID_(\w+)", text):
                    yield call
                    yield re.sub(r"_v\d+$", "", call)
                    yield re.sub(r"_ptsz$|_ptds$", "", re.sub(r"_v\d+$", "", call))
            elif name.endswith(("hip/hip_runtime_api.h", "amd_detail/hip_prof_str.h", "hip/hip_ext.h")):
                yield from re.findall(r"\bhip[A-Z]\w+(?=\s*\()", packed.read(name).decode())
                yield from re.findall(r"HIP_API_ID_(hip[A-Z]\w+)", packed.read(name).decode())


def _sources(trees: list[Path]) -> Iterator[tuple[str, Path]]:
    for tree in trees:
        for path in tree.rglob("*.py"):
            name = path.relative_to(tree.parent).as_posix()
            if not _SKIPPED.search(name):
                yield name, path


def _standard(library: Path) -> Iterator[tuple[str, Path]]:
    for path in library.rglob("*.py"):
        name = path.relative_to(library).as_posix()
        root = name.partition("/")[0].removesuffix(".py")
        if root in sys.stdlib_module_names and not _SKIPPED.search(name):
            yield name, path


def functions(torch: object, sources: dict[str, Path]) -> Iterator[str]:
    """Functions and methods, written in Python or in C."""
    for path in sources.values():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(node.name) > 1:
                yield node.name
    own = torch._C  # type: ignore[attr-defined]
    for owner in (own, own._VariableFunctions, own._nn, own._linalg, own._fft, own._special, own._autograd,
                  own._functorch, own._profiler, own._dynamo, own._dynamo.eval_frame, own._dynamo.guards,
                  torch.Tensor, builtins, *_TYPES):  # fmt: skip  # type: ignore[attr-defined]
        yield from (name for name in dir(owner))
    for name in sys.builtin_module_names:
        yield from dir(importlib.import_module(name))
    for found in pkgutil.iter_modules([sysconfig.get_path("platstdlib") + "/lib-dynload"]):
        if not found.name.startswith("_test"):
            try:
                yield from dir(importlib.import_module(found.name))
            except ImportError:
                continue
    import numpy as np  # noqa: PLC0415 - help needs no NumPy

    for owner in (np, np.ndarray, np._core.multiarray, np._core.umath, np.ufunc):
        yield from dir(owner)


def strings(wheels: Path, package: str, suffix: str) -> Iterator[str]:
    """Texts in the shared libraries of a wheel."""
    for wheel in sorted(wheels.glob(package)):
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if suffix in name and ".so" in name:
                    data = packed.read(name)
                    yield from (match[0].decode() for match in _STRING.finditer(data))


def demangled(texts: Iterable[str]) -> Iterator[str]:
    """Symbols of kernels, demangled."""
    names = {_STUB.sub("_Z", text) for text in texts if _MANGLED.fullmatch(text)}
    tool = shutil.which("c++filt")
    assert tool, "c++filt is missing: it is in binutils"
    run = subprocess.run([tool], input="\n".join(sorted(names)), capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        if line.startswith("void ") or "kernel" in line.partition("(")[0].partition("<")[0].lower():
            yield line


def _is_generated(word: str) -> bool:
    """Whether a word was generated: it contains a hash, as in names of lambdas, or is very long."""
    return re.search(r"[0-9a-f]{8}|^_Z", word) is not None or len(word) > 120


if __name__ == "__main__":
    main(Path(sys.argv[1]))
