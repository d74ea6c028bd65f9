"""What stands for a name: itself if it is no secret, else a hash that keeps what the analyses read out of it.

The analyses find steps, loaders, optimizers, autograd's functions, libraries and kinds of kernels by names. So a hash
keeps the known parts around what it hides, and a kernel's keeps its class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from traceanalyzer.readers.kineto.categories import Group
from traceanalyzer.rewrite import known_names as known
from traceanalyzer.rewrite.secret import Secret
from traceanalyzer.trace.kernel_classes import kernel_class
from traceanalyzer.trace.kernel_names import is_communication, uses_tensor_cores

_TRIES = 40
_UNITS = ("", "hmma_", "simt_")
_CLASS_WORDS = (
    "custom", "gemm", "conv2d", "attn_fwd", "flash_fwd", "layer_norm", "elementwise", "rotary", "quant", "reduce",
    "softmax", "nll_loss", "copy_kernel", "memcpy", "store_kvcache", "gather", "nccl", "multi_tensor_apply",
    "adam_kernel", "triton_poi", "triton_tem", "triton_", "embedding", "sort", "sampling", "lstm", "pool",
)  # fmt: skip
_KERNEL_WORDS = tuple(unit + word for word in _CLASS_WORDS for unit in _UNITS)
"""What a hidden name may begin with, so that it is of the class of the name that it hides, on the same units."""

_SEPARATOR = re.compile(r"([/\\])")


class Names:
    """Names of one file, or of several with one key."""

    def __init__(self, secret: Secret, *, hash_kernels: bool = False) -> None:
        """Set the key, and whether kernels that belong to no library get hashes, too."""
        self._secret = secret
        self._hash_kernels = hash_kernels
        self._cache: dict[tuple[Group, str], str] = {}

    def of(self, group: Group, name: str) -> str:
        """What stands for the name of an event of a kind."""
        key = group, name
        if key not in self._cache:
            self._cache[key] = self._makers.get(group, self._range)(name)
        return self._cache[key]

    @cached_property
    def _makers(self) -> dict[Group, Callable[[str], str]]:
        return {
            Group.LAUNCH: lambda name: self._unless(known.RUNTIME, name, "call"),
            Group.OVERHEAD: lambda name: self._unless(known.OVERHEAD, name, "overhead"),
            Group.SYNC: lambda name: self._unless(known.OVERHEAD, name, "sync"),
            Group.DEVICE: self._kernel,
            Group.FRAME: self._frame,
        }

    def _unless(self, pattern: re.Pattern[str], name: str, kind: str) -> str:
        return name if pattern.fullmatch(name) else self._secret.hide(name, kind)

    def _range(self, name: str) -> str:
        """An operator or annotation: on the host, older writers do not tell them apart."""
        if known.OPERATOR.fullmatch(name) or known.RANGE.fullmatch(name):
            return name
        if name.startswith("triton_"):
            return self._kernel(name)
        for pattern, public, kind in (
            (known.OPTIMIZER, known.OPTIMIZERS, "optimizer"),
            (known.LOADER, known.LOADERS, "loader"),
            (known.COMPILED_GRAPH, frozenset[str](), "graph"),
            (known.SHARDED, frozenset[str](), "module"),
        ):
            match = pattern.fullmatch(name)
            if match:
                hidden = match[2] if match[2] in public else self._secret.hide(match[2], kind)
                return f"{match[1]}{hidden}{match[3]}"
        if match := known.EVALUATION.fullmatch(name):
            return match[1] + self._range(match[2])
        if match := known.BACKWARD.fullmatch(name):
            return self._secret.hide(match[1], "function") + match[2]
        return self._secret.hide(name, "range")

    def _kernel(self, name: str) -> str:
        if not self._hash_kernels or known.LIBRARY_KERNEL.match(name):
            return name
        facts = _facts(name)
        for attempt in range(_TRIES):  # digits of a hash may look like the shape of a matrix instruction
            hidden = self._secret.hide(f"{name}#{attempt}" if attempt else name, "kernel").removeprefix("kernel")
            for word in _KERNEL_WORDS:
                if _facts(word + hidden) == facts:
                    return word + hidden
        return self._secret.hide(name, "kernel")

    def _frame(self, name: str) -> str:
        if match := known.MODULE.fullmatch(name):
            hidden = match[2] if match[2] in known.MODULES else self._secret.hide(match[2], "Module").replace("_", "")
            return f"{match[1]}{hidden}{match[3] or ''}"
        if match := known.BUILTIN.fullmatch(name):
            return self._builtin(match)
        if match := known.FRAME.fullmatch(name):
            return self._line(*match.groups())
        return self._secret.hide(name, "frame")

    def _builtin(self, match: re.Match[str]) -> str:
        method, owner = match[2], match[4]
        if match[3] is None or owner in known.BUILTIN_OWNERS or owner.startswith("torch."):
            return match[0]
        return f"{match[1]}{self._secret.hide(method, 'method')}{match[3]}{self._secret.hide(owner, 'type')}{match[5]}"

    def _line(self, path: str, line: str, function: str) -> str:
        parts = _SEPARATOR.split(path)
        roots = [n for n, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
        first = roots[-1] + 2 if roots else 0
        if (first < len(parts) and parts[first] in known.LIBRARIES) or path.startswith("<frozen "):
            return "".join(map(self._part, parts[:first])) + "".join(parts[first:]) + line + function
        hidden = self._unless(known.FUNCTIONS, function, "function")
        return "".join(map(self._part, parts[:-1])) + self._file(parts[-1]) + line + hidden

    def _part(self, part: str) -> str:
        return part if part in known.FOLDERS or part in ("", "/", "\\") else self._secret.hide(part, "folder")

    def _file(self, name: str) -> str:
        """With what tells Python's files and cells of notebooks from others."""
        if name.startswith("<ipython-input"):
            return f"<ipython-input-{self._secret.hide(name, 'cell')}>"
        stem, suffix = (name[:-3], ".py") if name.endswith(".py") else (name, "")
        return self._secret.hide(stem, "ipykernel" if "ipykernel" in name else "file") + suffix

    def thread(self, name: str) -> str:
        """The name of a thread or stream."""
        if match := known.NAMED_THREAD.fullmatch(name):
            return match[1]
        return self._unless(known.THREAD, name, "thread")

    def process(self, name: str) -> str:
        """The name or label of a process, or an id that is no number."""
        return name if known.THREAD.fullmatch(name) else self._unless(known.PROCESS, name, "process")

    def group(self, name: str) -> str:
        """The name of a process group."""
        return name if name in ("", "default_pg") or name.isdecimal() else self._secret.hide(name, "group")

    def category(self, name: str) -> str:
        """A category that nobody knows."""
        return self._secret.hide(name, "category")

    def optimizer(self, name: str) -> str:
        """The class of an optimizer."""
        return name if name in known.OPTIMIZERS else self._secret.hide(name, "optimizer")


def _facts(kernel: str) -> tuple[object, ...]:
    """What the analyses read out of the name of a kernel."""
    return kernel_class(kernel), uses_tensor_cores(kernel), is_communication(kernel)
