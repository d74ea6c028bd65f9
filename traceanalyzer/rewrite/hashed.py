"""What stands for private names of kernels and of Python frames: a hash that keeps what analyses read from them."""

from __future__ import annotations

import hashlib
import re
import secrets
from functools import cache

from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.knowledge.kernel_classes import generated, is_generated, kernel_class
from traceanalyzer.knowledge.kernel_names import (
    is_communication,
    is_library_collective,
    is_tf32,
    uses_tensor_cores,
)
from traceanalyzer.report.names import readable
from traceanalyzer.rewrite import public_names as known
from traceanalyzer.rewrite.public_names import LONGEST, public

_BYTES = 6
"""Bytes of a hash: two of 10,000 names share one with a chance of 1 in 5 million."""

_KEY_BYTES = 32


class Secret:
    """A secret key, with the hashes that it makes."""

    def __init__(self, key: str | None = None) -> None:
        """Set the key; a random secret one if None."""
        given = secrets.token_bytes(_KEY_BYTES) if key is None else key.encode("utf-8", "surrogatepass")
        # A key of any length becomes one that BLAKE2 takes.
        self._key = hashlib.blake2b(given, digest_size=_KEY_BYTES).digest()

    def hide(self, text: str, kind: str) -> str:
        """Hash a text to a name such as `kind_1a2b3c4d5e6f`."""
        data = text.encode("utf-8", "surrogatepass")
        return f"{kind}_{hashlib.blake2b(data, digest_size=_BYTES, key=self._key).hexdigest()}"


# What stands for the name of a kernel: public names as they are, the rest hashed with its class kept.

_TRIES = 40
_UNITS = ("", "hmma_", "simt_", "s1688_tf32_")
_CLASS_WORDS = (
    "custom", "gemm", "conv2d", "attn_fwd", "flash_fwd", "layer_norm", "elementwise", "rotary", "quant", "reduce",
    "softmax", "nll_loss", "copy_kernel", "memcpy", "store_kvcache", "gather", "nccl", "cross_device_reduce",
    "multi_tensor_apply", "adam_kernel", "triton_poi_fused_add_", "triton_poi_fused_clone_", "triton_red_fused_sum_",
    "triton_red_fused_layer_norm_", "triton_per_fused_sum_", "triton_per_fused_layer_norm_", "triton_tem_fused_mm_",
    "triton_tem_fused_convolution_", "triton_tem_fused_attention_", "triton_tem_fused_grouped_mm_", "triton_for_fused_",
    "triton_spl_fused_", "triton_", "embedding", "sort", "sampling", "lstm", "pool", "fused_moe", "routing", "getrf",
)  # fmt: skip
_WORDS = tuple(unit + word for word in _CLASS_WORDS for unit in _UNITS)
"""What a hidden name may begin with, so that it is of the class of the name that it hides, on the same units."""

_SIDES = r"(Pageable|Pinned|Device|Array|Managed|Unified|Device Static|Managed Static|Unknown|Host)"
_COPY = re.compile(
    rf"(Memcpy ([HDPAS]to[HDPAS]|Unknown|PtoP)|Memset)( \((Unknown|{_SIDES}( -> {_SIDES})?)\))?", re.ASCII
)
_FUSED = re.compile(r"(triton_(?:poi|per|red|for|tem|split_scan|mix)_fused)(_.*?)?(_[0-9]{1,6})?", re.DOTALL | re.ASCII)
_SPECIALIZED = re.compile(r"triton_(_([0-9]{1,3}[dce]{0,2}){1,60})?", re.ASCII)
_TOKEN = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)|([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?[uUlL]{0,3}f?)|([ <>,:*&()\[\]{}#~+.=!|^%/-])"
)
_BASE = re.compile(r"(?:(?:void|int|float|double|bool) )?([^<( ]*(?:\(anonymous namespace\)[^<( ]*)*)")
_NUMBERS = re.compile(r"[0-9]+")
_FAMILY = re.compile(
    r"(ampere|volta|turing|maxwell|pascal|hopper|sm[0-9]{2,3}|cutlass(?:[0-9]|_[0-9]{2})?|nvjet|xmma|fmha|cask|Cijk|cudnn(?:_infer|_train)?"
    r"|nccl(?:Dev)?Kernel|_5x_cudnn)_(?=[A-Za-z0-9_])"
)
_LONGEST_FUSED = 600


class KernelNames:
    """Names of kernels of one file."""

    def __init__(self, secret: Secret, *, hash_generated: bool) -> None:
        """Set the key, and whether names that the compiler made of operators are hashed, too."""
        self._secret = secret
        self._hash_generated = hash_generated

    def of(self, name: str) -> str:
        """The anonymized name of a kernel or a copy, which is not mangled where it can be read."""
        name = readable(name)
        if _COPY.fullmatch(name):
            return name
        if name.startswith("triton_"):
            return self._generated(name)
        replaced = self._in_parts(name) if len(name) <= LONGEST and name.isascii() else None
        return replaced if replaced is not None and _facts(replaced) == _facts(name) else self._whole(name)

    def _generated(self, name: str) -> str:
        if self._hash_generated:
            return self._whole(name)
        if _SPECIALIZED.fullmatch(name):
            return name
        match = _FUSED.fullmatch(name) if len(name) <= _LONGEST_FUSED else None
        if match is None:
            return self._whole(name)
        operators = match[2] or ""
        if not operators or operators[1:].isdecimal() or _are_operators(operators[1:]):
            return name
        hidden = f"{match[1]}_{self._secret.hide(operators, 'ops').removeprefix('ops_')}{match[3] or ''}"
        return hidden if _facts(hidden) == _facts(name) else self._whole(name)

    def _in_parts(self, name: str) -> str | None:
        """Replace unknown identifiers by hashes; None if the name of the kernel itself is unknown."""
        base = _BASE.match(name)
        if base is None or not base[1] or _unknown(base[1]):
            return None
        parts = []
        at = 0
        while at < len(name):
            token = _TOKEN.match(name, at)
            if token is None:
                return None
            parts.append(self._identifier(token[1]) if token[1] else token[0])
            at = token.end()
        return "".join(parts)

    def _identifier(self, word: str) -> str:
        if word in public("kernels"):
            return word
        family = _FAMILY.match(word)
        if family is None:
            return self._secret.hide(word, "type")
        return family[0] + "_".join(map(self._piece, word[family.end() :].split("_")))

    def _piece(self, piece: str) -> str:
        return piece if _is_word(piece) else self._secret.hide(piece, "x").removeprefix("x_")

    def _whole(self, name: str) -> str:
        facts = _facts(name)
        for attempt in range(_TRIES):  # digits of a hash may look like the shape of a matrix instruction
            hidden = self._secret.hide(f"{name}#{attempt}" if attempt else name, "kernel").removeprefix("kernel")
            for word in _WORDS:
                if _facts(word + hidden) == facts:
                    return word + hidden
        return self._secret.hide(name, "kernel")


def _unknown(base: str) -> bool:
    """Some part of the qualified name of a kernel is unknown."""
    words = [match[1] for match in _TOKEN.finditer(base) if match[1]]
    return not words or not all(word in public("kernels") or _FAMILY.match(word) for word in words)


def _is_word(piece: str) -> bool:
    """A word of a name scheme, with any numbers."""
    return piece == "" or _NUMBERS.sub("#", piece) in public("kernel_words")


@cache
def _operator_words() -> frozenset[str]:
    return frozenset(name.rpartition("::")[2] for name in public("operators")) | {"fused", "prepare_softmax_online"}


def _are_operators(text: str) -> bool:
    """Names of operators, joined by underscores."""
    known = _operator_words()
    pieces = text.split("_")
    reached = [True] + [False] * len(pieces)
    for end in range(1, len(pieces) + 1):
        reached[end] = any(
            reached[start] and "_".join(pieces[start:end]) in known for start in range(max(0, end - 12), end)
        )
    return reached[-1]


def _facts(kernel: str) -> tuple[object, ...]:
    """The facts that analyses read from the name of a kernel."""
    communicates = is_communication(kernel), is_library_collective(kernel)
    made = generated(kernel)
    kind = made.kind if made else is_generated(kernel)
    return kernel_class(kernel), kind, uses_tensor_cores(kernel), is_tf32(kernel), *communicates


# What stands for a frame of Python: lines of public libraries as they are, the rest hashed part by part.
#
# Folders by which a framework is known stay, too: they are names of public packages.

_MODULE = "nn.Module: "
_NUMBER = re.compile(r"_[0-9]{1,9}\Z", re.ASCII)
_BUILTIN = re.compile(
    r"<built-in (method|function) ([^ ]*)(?: of (.*?))?( object at 0x[0-9a-f]{1,16})?>", re.DOTALL | re.ASCII
)
_LINE = re.compile(r"\(([0-9]{1,9})\): ", re.ASCII)
_PYTHON = re.compile(r"python[23](\.[0-9]{1,2})?t?", re.ASCII)
_GENERATED = re.compile(r"<eval_with_key>\.[0-9]{1,9}", re.ASCII)
_SEPARATOR = re.compile(r"([/\\])")
_PACKAGES = ("site-packages", "dist-packages")


class FrameNames:
    """Frames of one file."""

    def __init__(self, secret: Secret) -> None:
        """Set the key that names are hashed with."""
        self._secret = secret

    def of(self, name: str) -> str:
        """The anonymized name of a frame."""
        if len(name) > LONGEST:
            return self._secret.hide(name, "frame")
        if name.startswith(_MODULE):
            return _MODULE + self._module(name.removeprefix(_MODULE))
        if name.startswith("<built-in "):
            match = _BUILTIN.fullmatch(name)
            return self._builtin(match) if match else self._secret.hide(name, "frame")
        lines = list(_LINE.finditer(name))
        if not lines:
            return self._secret.hide(name, "frame")
        last = lines[-1]
        return self._path(name[: last.start()]) + last[0] + self._function(name[last.end() :])

    def _module(self, text: str) -> str:
        number = _NUMBER.search(text)
        suffix = number[0] if number else ""
        name = text.removesuffix(suffix)
        return (name if name in public("modules") else self._secret.hide(name, "Module").replace("_", "")) + suffix

    def _builtin(self, match: re.Match[str]) -> str:
        method = match[2] if not match[2] or match[2] in public("functions") else self._secret.hide(match[2], "method")
        if match[3] is None:
            return f"<built-in {match[1]} {method}{match[4] or ''}>"
        owner = match[3] if match[3] in known.BUILTIN_OWNERS else self._secret.hide(match[3], "type")
        return f"<built-in {match[1]} {method} of {owner}{match[4] or ''}>"

    def _function(self, name: str) -> str:
        if name in known.FUNCTIONS or name in public("functions"):
            return name
        return self._secret.hide(name, "function")

    def _path(self, path: str) -> str:
        """A file of a library, by its exact path below the folder of packages; else part by part."""
        if path in known.FILES or _GENERATED.fullmatch(path):
            return path
        if path.startswith("<frozen "):
            return self._frozen(path)
        parts = _SEPARATOR.split(path)
        first = _root(parts)
        below = parts[first:]
        if "/".join(below[::2]) in public("files"):
            return "".join(map(self._part, parts[:first])) + "".join(below)
        start, end = _framework(path)
        *folders, file = _SEPARATOR.split(path[end:])
        return (
            "".join(map(self._part, _SEPARATOR.split(path[:start])))
            + path[start:end]
            + "".join(map(self._part, folders))
            + (self._file(file) if file else "")
        )

    def _frozen(self, path: str) -> str:
        module = path.removeprefix("<frozen ").removesuffix(">")
        file = module.replace(".", "/") if all(map(str.isidentifier, module.split("."))) else ""
        is_public = f"{file}.py" in public("files") or f"{file}/__init__.py" in public("files")
        return path if is_public and path.endswith(">") else f"<frozen {self._secret.hide(module, 'module')}>"

    def _part(self, part: str) -> str:
        if part in known.FOLDERS or part in ("", "/", "\\") or _PYTHON.fullmatch(part):
            return part
        return self._secret.hide(part, "folder")

    def _file(self, name: str) -> str:
        """Hash a file name, but keep what distinguishes Python's files and cells of notebooks from others."""
        if name.startswith("<ipython-input"):
            return f"<ipython-input-{self._secret.hide(name, 'cell')}>"
        stem, suffix = (name[:-3], ".py") if name.endswith(".py") else (name, "")
        return self._secret.hide(stem, "ipykernel" if "ipykernel" in name else "file") + suffix


def _framework(path: str) -> tuple[int, int]:
    """The part of a path by which a framework is recognized; empty without one."""
    for known_by in (each.frames for each in FRAMEWORKS if each.frames):
        if match := known_by.compiled.search(f"{path}("):
            return match.span()
    return 0, 0


def _root(parts: list[str]) -> int:
    """Where the path relative to `sys.path` begins: after the last folder of packages or of Python's library."""
    for at in range(len(parts) - 1, -1, -1):
        if parts[at] in _PACKAGES or (_PYTHON.fullmatch(parts[at]) and at >= 2 and parts[at - 2] in ("lib", "lib64")):
            return at + 2
    return 0
