"""Collects facts about the program that a trace lacks: versions, devices, precision, kinds of parallelism."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

VERSION = 1
"""Version of the format of these facts, which docs/capture.schema.json describes."""

_PARALLEL = {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine"}
_COMPILED = "OptimizedModule"
_MOST_FRAMES = 64


def gather(torch: Any, optimizers: Iterable[Any]) -> dict[str, Any]:
    """Collect all facts from torch as of now; facts that this version of torch does not provide are None."""
    modules = list(_modules(torch))
    steppers = list(optimizers)
    held = [p for o in steppers for group in o.param_groups for p in group["params"]]
    parameters = held or [p for module in modules for p in module._parameters.values() if p is not None]
    return {
        "version": VERSION,
        "versions": _versions(torch),
        "host": {"cpus": _cpus(), "threads": torch.get_num_threads()},
        "devices": _devices(torch),
        "parameters": _parameters(parameters),
        "optimizers": [_optimizer(optimizer) for optimizer in steppers],
        "parallel": _parallel(modules),
        "is_compiled": _is_compiled(modules),
        "is_training": any(module.training for module in modules) if modules else None,
        "is_grad_enabled": torch.is_grad_enabled(),
        "numerics": _numerics(torch),
        "distributed": distributed(torch),
    }


def is_in_use(torch: Any, name: str) -> bool:
    """Whether the program has initialized this kind of device. The check itself never initializes it."""
    module = getattr(torch, name, None)
    check = getattr(module, "is_initialized", None)
    return bool(check is not None and check())


def activities(torch: Any, *, light: bool = False) -> list[Any]:
    """The profiler activities to record: the CPU and the devices in use. Unused devices are not initialized.

    Args:
        torch: The module torch.
        light: Whether to leave the CPU out.
    """
    kinds = torch.profiler.ProfilerActivity
    names = [name for name in ("CUDA", "XPU", "MTIA") if is_in_use(torch, name.lower())]
    return [*([] if light else [kinds.CPU]), *(getattr(kinds, name) for name in names if hasattr(kinds, name))]


def synchronize(torch: Any) -> None:
    """Wait for the devices that the program uses, except while a CUDA graph is captured, which waiting would break."""
    for name in ("cuda", "xpu"):
        if is_in_use(torch, name) and not is_capturing(torch):
            getattr(torch, name).synchronize()


def is_capturing(torch: Any) -> bool:
    """Whether a CUDA graph is being captured, so that calls are recorded into it instead of being run."""
    return is_in_use(torch, "cuda") and bool(torch.cuda.is_current_stream_capturing())


def rank(torch: Any) -> int | None:
    """Rank of this process in distributed training; None in a single process."""
    of_group = distributed(torch)
    if of_group is not None:
        group_rank: int = of_group["rank"]
        return group_rank
    text = os.environ.get("RANK", "")
    return int(text) if text.isdecimal() else None


def distributed(torch: Any) -> dict[str, Any] | None:
    """Rank, world size and backend of the default process group; None without a process group."""
    group = getattr(torch, "distributed", None)
    if group is None or not group.is_available() or not group.is_initialized():
        return None
    return {"rank": group.get_rank(), "world_size": group.get_world_size(), "backend": str(group.get_backend())}


def package_frames() -> list[str]:
    """Functions of installed packages other than torch that are running in this thread, the innermost first.

    They are written as the profiler writes frames, and show which framework has the loop. Functions of the program
    itself are left out.
    """
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < _MOST_FRAMES:
        code, frame = frame.f_code, frame.f_back
        _, is_package, path = code.co_filename.replace("\\", "/").rpartition("-packages/")
        if is_package and not path.startswith(("torch/", "traceanalyzer/")):
            found.append(f"{path}({code.co_firstlineno}): {code.co_name}")
    return found


def place(code: CodeType, project: str, name: str | None = None) -> str:
    """A function as the profiler writes frames, with a path relative to the project or to the folder of packages.

    Args:
        code: The code of the function.
        project: Folder of the project.
        name: Name of the function with its class; by default without.
    """
    path = code.co_filename.replace("\\", "/")
    _, is_package, within = path.rpartition("-packages/")
    folder = project.replace("\\", "/").rstrip("/") + "/"
    if is_package:
        path = within
    elif len(folder) > 1 and path.startswith(folder):
        path = path.removeprefix(folder)
    else:
        path = path.rpartition("/")[2] if path.startswith("/") or ":" in path else path
    return f"{path}({code.co_firstlineno}): {name or code.co_name}"


def _versions(torch: Any) -> dict[str, str | None]:
    cudnn = _ask(torch.backends.cudnn.version)
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": getattr(torch.version, "cuda", None),
        "hip": getattr(torch.version, "hip", None),
        "cudnn": None if cudnn is None else str(cudnn),
    }


def _cpus() -> int | None:
    """Number of CPU cores that this process may use; in a container it can be less than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _devices(torch: Any) -> list[dict[str, Any]]:
    devices = []
    for kind in ("cuda", "xpu"):
        if not is_in_use(torch, kind):
            continue
        module = getattr(torch, kind)
        for index in range(module.device_count()):
            properties = module.get_device_properties(index)
            devices.append(
                {
                    "kind": kind,
                    "index": index,
                    "name": properties.name,
                    "memory_bytes": getattr(properties, "total_memory", None),
                    "is_current": index == module.current_device(),
                }
            )
    return devices


def _parameters(parameters: list[Any]) -> dict[str, Any]:
    unique = {id(p): p for p in parameters}.values()
    dtypes = Counter(str(p.dtype).removeprefix("torch.") for p in unique)
    return {
        "tensors": len(unique),
        "elements": sum(int(p.numel()) for p in unique),
        "dtypes": [{"dtype": name, "tensors": n} for name, n in sorted(dtypes.items())],
        "devices": sorted({str(p.device.type) for p in unique}),
    }


def _optimizer(optimizer: Any) -> dict[str, Any]:
    groups = optimizer.param_groups
    first = groups[0] if groups else {}
    return {
        "name": type(optimizer).__name__,
        "groups": len(groups),
        "tensors": sum(len(group["params"]) for group in groups),
        "foreach": first.get("foreach"),
        "fused": first.get("fused"),
        "capturable": first.get("capturable"),
    }


def _modules(torch: Any) -> Iterator[Any]:
    """All live `nn.Module` objects, found by type: `isinstance` could call code of the program."""
    kind = torch.nn.Module
    return (entry for entry in gc.get_objects() if issubclass(type(entry), kind) and "_parameters" in vars(entry))


def _parallel(modules: list[Any]) -> list[dict[str, Any]]:
    kinds: dict[str, int | None] = {}
    for module in modules:
        names = {base.__name__ for base in type(module).__mro__}
        for name in sorted(names & _PARALLEL):
            ids = getattr(module, "device_ids", None)
            kinds[name] = len(ids) if isinstance(ids, list) else None
    return [{"name": name, "devices": devices} for name, devices in sorted(kinds.items())]


def _is_compiled(modules: list[Any]) -> bool:
    """Whether a module is wrapped by `torch.compile`, or anything else has been compiled."""
    if any(type(module).__name__ == _COMPILED for module in modules):
        return True
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters is not None and counters.get("stats"))


def _numerics(torch: Any) -> dict[str, Any]:
    backends = torch.backends
    return {
        "matmul_precision": _ask(torch.get_float32_matmul_precision),
        "matmul_allows_tf32": _ask(lambda: backends.cuda.matmul.allow_tf32),
        "cudnn_allows_tf32": _ask(lambda: backends.cudnn.allow_tf32),
        "cudnn_benchmark": _ask(lambda: backends.cudnn.benchmark),
        "cudnn_deterministic": _ask(lambda: backends.cudnn.deterministic),
        "deterministic_algorithms": _ask(torch.are_deterministic_algorithms_enabled),
    }


def _ask(question: Callable[[], Any]) -> Any:
    """The result of a query, or None if this version of torch lacks it or mixes old and new settings."""
    try:
        return question()
    except (AttributeError, RuntimeError):
        return None
