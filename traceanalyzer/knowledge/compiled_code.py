"""Recognizes the events of torch.compile: compiled regions, compilations, and guard checks.

Torch writes `Torch-Compiled Region: 0/1` around each call of compiled code (`torch/_dynamo/eval_frame.py`), where 0 is
the function and 1 its second compilation, `## Call CompiledFxGraph <key> ##` around each graph that Inductor compiled
(`torch/_inductor/output_code.py`), `TorchDynamo Cache Lookup` around its guards
(`torch/csrc/dynamo/eval_frame.c`), and ranges around each compilation (`torch/_dynamo/utils.py`, `dynamo_timed`), in
which a mark names the compilation.
"""

from __future__ import annotations

import re

_ID = r"(?:!\d+/)?\d+/\d+"
_REGION = re.compile(rf"Torch-Compiled Region(?:: ({_ID}))?$")
_COMPILATION = re.compile(r"entire_(frame|backward)_compile$|_compile\.(<locals>\.)?compile_inner( \(dynamo_timed\))?$")
_NAMED = re.compile(rf"\w+_data: .*\bcompile_id=({_ID})$")
_RESUMED = "torch_dynamo_resume_in_"
_SIZE_CHECK = re.compile(r"\bassert_size_stride\b")

_KERNEL = re.compile(r"\btriton_(?:poi|per|red|tem|for)_fused_\w+")
_GRAPH = re.compile(r"## Call CompiledFxGraph (\w+)")

GUARDS = "TorchDynamo Cache Lookup"


def is_region(name: str) -> bool:
    """Whether an event is a call of compiled code."""
    return name.startswith("Torch-Compiled Region") and _REGION.match(name) is not None


def is_compiled(name: str) -> bool:
    """Whether what an event launches is compiled code, of the forward or the backward pass."""
    return is_region(name) or "CompiledFxGraph" in name or "CompiledFunction" in name


def region_id(name: str) -> str | None:
    """The compilation that a region runs, such as `0/1`; None in older versions of torch, which do not name it."""
    match = _REGION.match(name)
    return match[1] if match else None


def graph_key(name: str) -> str | None:
    """Torch's key of the graph that an event calls, under which its cache has the graph; None for other events."""
    match = _GRAPH.match(name)
    return match[1] if match else None


def kernels_in(text: str) -> frozenset[str]:
    """Names of the kernels that Inductor generated, in its code or as the name of an event."""
    return frozenset(_KERNEL.findall(text))


def is_generated_kernel(name: str) -> bool:
    """Whether an event is a kernel that Inductor generated; until torch 2.2 many have no names of their own."""
    return name.startswith(("triton__", "triton_poi_", "triton_per_", "triton_red_"))


def is_compilation(name: str) -> bool:
    """Whether an event is the compilation of one function, or of its backward pass."""
    return "compile" in name and _COMPILATION.match(name) is not None


def is_conversion(name: str) -> bool:
    """Whether TorchDynamo converts a function in an event, because no compilation fits the call: it traces or gives up.

    The range `dynamo` is around the ranges of the compilation (`ConvertFrame` in torch/_dynamo/convert_frame.py).
    """
    return name == "dynamo"


def is_backward_compilation(name: str) -> bool:
    """Whether an event is the compilation of a backward pass."""
    return name.startswith("entire_backward_compile")


def named_compilation(name: str) -> str | None:
    """The compilation that a mark inside the compilation event names, such as `0/1`."""
    if "compile_id=" not in name:
        return None
    match = _NAMED.match(name)
    return match[1] if match else None


def is_named_compilation(name: str) -> bool:
    """Whether a mark names a compilation."""
    return named_compilation(name) is not None


def is_guards(name: str) -> bool:
    """Whether an event is the check of guards before a call."""
    return name == GUARDS


def is_size_check(name: str) -> bool:
    """Whether a Python frame checks sizes and strides of a tensor in code that Inductor wrote."""
    return "assert_size" in name and _SIZE_CHECK.search(name) is not None


def resumed_at(name: str) -> tuple[str, int, str] | None:
    """File, line and function at which a graph broke, from the Python frame that continues after the break."""
    place, _, resumed = name.partition(f": {_RESUMED}")
    function, _, line = resumed.rpartition("_at_")
    file = place.rpartition("(")[0]
    return (file, int(line), function) if file and function and line.isdecimal() else None


def is_recompilation(compilation: str) -> bool:
    """Whether a compilation is not the first of its function."""
    return compilation.rpartition("/")[2] != "0"
