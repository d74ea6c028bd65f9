"""Replaces names: public ones are kept, others become a hash that keeps the facts that analyses read from names.

The analyses find steps, loaders, optimizers, autograd's functions, libraries and kinds of kernels by names. So a hash
keeps the known parts around the hidden part, and the hash of a kernel keeps its class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.accelerators import TaskKind, kind_by_name
from traceanalyzer.knowledge.frameworks import is_step_mark
from traceanalyzer.readers.kineto.fields import CATEGORIES, TableGroup
from traceanalyzer.rewrite import public_names as known
from traceanalyzer.rewrite.hashed import FrameNames, KernelNames, Secret
from traceanalyzer.rewrite.public_names import public

_EVALUATION = "autograd::engine::evaluate_function: "
_CPP_NODE = "torch::autograd::CppNode<"
_GRAPH = ("## Call CompiledFxGraph ", " ##")
_LOADERS = ("enumerate(DataLoader)#", "enumerate(DataPipe)#")
_OPTIMIZERS = ("step", "zero_grad")
_SHARDED = tuple(
    f"FSDP::{word} ("
    for word in ("forward", "backward", "pre_forward", "post_forward", "pre_backward", "post_backward", "all_gather",
                 "all_gather_copy_out", "post_backward_reduce", "post_backward_accumulate", "post_backward_reshard",
                 "post_backward_rs_wait", "reduce_scatter")
)  # fmt: skip
_FRAMEWORKS = (
    ("[pl][profile]", ""),
    ("[pl][module]", ""),
    ("[param|", "]"),
    ("## all2all_data:", " ##"),
    ("## ", "Awaitable wait() ##"),
    ("gpu_model_runner: ", ""),
    ("v2_gpu_model_runner: ", ""),
)
"""Beginnings and ends of frameworks' marks, around a private name."""
_TASK_WORDS = {
    TaskKind.WORK: "kernel",
    TaskKind.COMMUNICATION: "hcom",
    TaskKind.TRANSFER: "memcpy",
    TaskKind.WAITING: "wait",
    TaskKind.CONTROL: "stream",
}
_GRAPH_NODES = frozenset({"EventRecord", "HostNode"})
_FLOWS = frozenset({"fwdbwd", "forward_backward", "ac2g", "async_cpu_to_gpu", "async_gpu", "cpu_to_cuda", "launch"})


class Names:
    """Replaces the names of one file, or of several with one key."""

    def __init__(self, secret: Secret, *, hash_kernels: bool = False) -> None:
        """Set the key, and whether kernels that the compiler named after operators get hashes, too."""
        self._secret = secret
        self._kernels = KernelNames(secret, hash_generated=hash_kernels)
        self._frames = FrameNames(secret)
        self._cache: dict[tuple[TableGroup, str], str] = {}

    def of(self, group: TableGroup, name: str) -> str:
        """The anonymized name of an event, by its kind."""
        key = group, name
        if key not in self._cache:
            self._cache[key] = self._makers.get(group, self._range)(name)
        return self._cache[key]

    @cached_property
    def _makers(self) -> dict[TableGroup, Callable[[str], str]]:
        return {
            TableGroup.LAUNCH: lambda name: self._among(public("runtime"), name, "call"),
            TableGroup.OVERHEAD: lambda name: self._among(known.OVERHEADS, name, "overhead"),
            TableGroup.SYNC: lambda name: self._among(known.OVERHEADS, name, "sync"),
            TableGroup.FLOW: lambda name: self._among(_FLOWS, name, "flow"),
            TableGroup.ARROW: lambda name: self._among(_FLOWS, name, "flow"),
            TableGroup.GRAPH_NODE: self._graph_node,
            TableGroup.DEVICE: self._kernels.of,
            TableGroup.ACCELERATOR: self._task,
            TableGroup.FRAME: self._frames.of,
        }

    def _graph_node(self, name: str) -> str:
        """A node of a graph that is no work: what it is stays, the function of a callback does not."""
        kind, colon, function = name.partition(": ")
        known_kind = self._among(_GRAPH_NODES, kind, "node")
        return known_kind + colon + self._secret.hide(function, "function") if function else known_kind

    def _among(self, names: frozenset[str], name: str, kind: str) -> str:
        return name if name in names else self._secret.hide(name, kind)

    def _task(self, name: str) -> str:
        """Events of devices that are not GPUs: words of the runtime are kept, kernels of programs are hashed."""
        hidden = name if name in known.TASKS else self._kernels.of(name)
        return hidden if kind_by_name(hidden) is kind_by_name(name) else self._secret.hide(name, _word_of(name))

    def task_type(self, name: str) -> str:
        """Replace a type of task or the name of an engine, and keep its meaning."""
        if name in known.TASKS:
            return name
        engine = known.ENGINE.search(name)
        return self._secret.hide(name, engine[1] or "NIC" if engine else _word_of(name))

    def _range(self, name: str) -> str:
        """An operator or annotation: on the host, older writers do not distinguish them."""
        if _is_public(name) or _is_numbered(name):
            return name
        if name.startswith("triton_"):
            return self._kernels.of(name)
        if name.startswith(_EVALUATION):
            return _EVALUATION + self._function(name.removeprefix(_EVALUATION))
        return self._mark(name) or self._function(name)

    def _mark(self, name: str) -> str | None:
        """The anonymized form of a mark of PyTorch or a framework around a private name; None for other names."""
        if name.startswith("Optimizer."):
            return self._optimizer_range(name)
        for prefix in _LOADERS:
            if name.startswith(prefix):
                return self._loader(prefix, name.removeprefix(prefix))
        if name.startswith(_GRAPH[0]) and name.endswith(_GRAPH[1]):
            return self._secret.hide(name, "graph").join(_GRAPH)
        for prefix in _SHARDED:
            if name.startswith(prefix) and name.endswith(")"):
                return f"{prefix}{self._secret.hide(name, 'module')})"
        for prefix, suffix in _FRAMEWORKS:
            if name.startswith(prefix) and name.endswith(suffix):
                return f"{prefix}{self._secret.hide(name, 'mark')}{suffix}"
        return None

    def _function(self, name: str) -> str:
        """A function of autograd, an operator of a namespace, or anything else."""
        if _is_public(name):
            return name
        if name.startswith(_CPP_NODE):
            return f"{_CPP_NODE}{self._secret.hide(name, 'function')}>"
        if marks.is_namespaced(name):
            namespace = name.partition("::")[0]
            space = namespace if namespace in known.NAMESPACES else self._secret.hide(namespace, "namespace")
            return f"{space}::{self._secret.hide(name, 'op')}"
        if marks.is_backward(name):
            stem, separator, number = name.rpartition("Backward")
            return self._secret.hide(stem + separator, "function") + separator + number
        hidden = self._secret.hide(name, "_".join(marks.passes(name)) or "range")
        # The form of a mark distinguishes it from an operator if the trace calls both operators.
        return f"# {hidden}" if marks.is_mark_among_operators(name) else hidden

    def _optimizer_range(self, name: str) -> str:
        for call in _OPTIMIZERS:
            prefix, suffix = f"Optimizer.{call}#", f".{call}"
            if name.startswith(prefix) and name.endswith(suffix):
                return prefix + self.optimizer(name.removeprefix(prefix).removesuffix(suffix)) + suffix
        return f"Optimizer.{self._secret.hide(name, 'call')}"

    def _loader(self, prefix: str, name: str) -> str:
        stem = name.removesuffix(".__next__")
        suffix = ".__next__" if stem != name else ""
        return prefix + self._among(known.LOADERS, stem, "loader") + suffix

    def thread(self, name: str) -> str:
        """Replace the name of a thread or stream."""
        if match := known.NAMED_THREAD.fullmatch(name):
            return match[1]
        return name if known.THREAD.fullmatch(name) else self._secret.hide(name, "thread")

    def process(self, name: str) -> str:
        """Replace the name or label of a process, or an id that is not a number."""
        is_public = known.THREAD.fullmatch(name) or known.PROCESS.fullmatch(name)
        return name if is_public else self._secret.hide(name, "process")

    def group(self, name: str) -> str:
        """Replace the name of a process group."""
        is_public = name in ("", "default_pg", "undefined") or (name.isascii() and name.isdecimal())
        return name if is_public else self._secret.hide(name, "group")

    def category(self, name: str) -> str:
        """Replace a category that is unknown to the reader."""
        lower = name.lower()
        is_public = name in CATEGORIES or name in known.CATEGORIES
        return (
            name
            if is_public
            else lower
            if lower in CATEGORIES or lower == marks.COUNTERS
            else self._secret.hide(name, "category")
        )

    def phase(self, name: str) -> str:
        """Replace a phase that is unknown to viewers."""
        return self._secret.hide(name, "phase")

    def optimizer(self, name: str) -> str:
        """Replace the class of an optimizer."""
        return self._among(public("optimizers"), name, "optimizer")

    def word(self, name: str) -> str:
        """Replace a word that a capture recorded."""
        return self._among(known.CAPTURED, name, "word")


def _word_of(task: str) -> str:
    """Beginnings that a hidden task may keep, so that it is read as the same kind of work."""
    return _TASK_WORDS[kind_by_name(task)]


def _is_public(name: str) -> bool:
    return any(name in public(kind) for kind in ("operators", "autograd", "marks"))


def _is_numbered(name: str) -> bool:
    """A mark of public words and numbers, and nothing else."""
    return any(pattern.fullmatch(name) for pattern in known.NUMBERED) or is_step_mark(name)
