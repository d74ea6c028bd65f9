"""What stands for a frame of Python: lines of public libraries as they are, the rest hashed part by part.

Folders by which a framework is known stay, too: they are names of public packages.
"""

from __future__ import annotations

import re

from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.rewrite import public_names as known
from traceanalyzer.rewrite.public_names import LONGEST, public
from traceanalyzer.rewrite.secret import Secret

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
        if match := known_by.search(f"{path}("):
            return match.span()
    return 0, 0


def _root(parts: list[str]) -> int:
    """Where the path relative to `sys.path` begins: after the last folder of packages or of Python's library."""
    for at in range(len(parts) - 1, -1, -1):
        if parts[at] in _PACKAGES or (_PYTHON.fullmatch(parts[at]) and at >= 2 and parts[at - 2] in ("lib", "lib64")):
            return at + 2
    return 0
