"""What a framework is known by: names that it gives to annotations and operators, its files, and its marks of steps."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

NOT_NAMED = frozenset({"compiler", "benchmark", "runtime"})
"""Roles that are evidence of how a program runs, and never the framework that a report names."""

NUMBER = "([0-9]{1,18})"
"""A count in a mark; longer ones are none, and would cost time to read."""


class StepMark(msgspec.Struct, frozen=True):
    """What a framework's own mark says of a step; None where it does not show it."""

    phase: str | None
    """`prefill`, `decode`, `mixed`, `capture` (of a graph) or `diffusion`."""
    requests: int | None = None
    """Requests, or images, in the step."""
    tokens: int | None = None
    """Tokens that the step computes."""
    context_requests: int | None = None
    """Requests whose prompts are computed."""
    generation_requests: int | None = None
    """Requests that generate tokens."""


class Framework(msgspec.Struct, frozen=True):
    """One line in the table of frameworks."""

    id: str
    title: str
    """The name as its makers write it."""
    role: str
    """`serving`, `training`, `inference`, `parallel`, `compiler`, `benchmark` or `runtime`."""
    names: re.Pattern[str] | None = None
    """Found in the names of its annotations and operators, marks of steps included, and of kinds of its events."""
    frames: re.Pattern[str] | None = None
    """Found in its Python frames, `path(line): function`, and in those of modules, `nn.Module: Class_0`."""
    step_mark: Callable[[str], StepMark | None] | None = None
    """Reads a mark of a step. A mark that it knows holds public words and counts only, so that copies may keep it."""

    @property
    def is_named(self) -> bool:
        """Whether a report may name it as the framework of the program."""
        return self.role not in NOT_NAMED


def matching(*patterns: str) -> re.Pattern[str]:
    """Any of some patterns, each of which may begin anywhere in a name."""
    return re.compile("|".join(patterns), re.ASCII)


def whole(pattern: re.Pattern[str]) -> str:
    """A pattern of whole names that has no alternatives outside of groups, as one of several."""
    return f"^{pattern.pattern}$"


def package(name: str) -> str:
    """A file of an installed package: below the folder of packages, or with a path relative to `sys.path`."""
    return rf"(?:^|(?:^|[/\\])(?:site|dist)-packages[/\\]){name}[/\\]"


def path(*parts: str) -> str:
    """Folders or files one below the other, wherever they lie: for packages that run from a checkout."""
    return r"(?:^|[/\\])" + r"[/\\]".join(parts)


def module(name: str) -> str:
    """Calls of a class of modules."""
    return rf"^nn\.Module: {name}(?:_[0-9]{{1,9}})?$"


def phase(context_requests: int, generation_requests: int) -> str | None:
    """The phase of a step of a language model's server; None where no request is in it."""
    if context_requests and generation_requests:
        return "mixed"
    if context_requests:
        return "prefill"
    return "decode" if generation_requests else None
