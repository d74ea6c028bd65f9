"""How a framework is recognized: by names of annotations and operators, by its files, and by its step marks."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

NOT_NAMED = frozenset({"compiler", "benchmark", "runtime"})
"""Roles that show how a program runs, but that a report never names as its framework."""

NUMBER = "([0-9]{1,18})"
"""Pattern of a count in a mark; the length limit keeps matching fast."""


class StepMark(msgspec.Struct, frozen=True):
    """Facts about a step from the mark of a framework; None if unknown."""

    phase: str | None
    """`prefill`, `decode`, `mixed`, `capture` (of a graph) or `diffusion`."""
    requests: int | None = None
    """Number of requests or images in the step."""
    tokens: int | None = None
    """Number of tokens that the step computes."""
    context_requests: int | None = None
    """Number of requests whose prompts are computed."""
    generation_requests: int | None = None
    """Number of requests that generate tokens."""


class Framework(msgspec.Struct, frozen=True):
    """One line in the table of frameworks."""

    id: str
    title: str
    """The name as its authors write it."""
    role: str
    """`serving`, `training`, `inference`, `parallel`, `compiler`, `benchmark` or `runtime`."""
    names: re.Pattern[str] | None = None
    """Searched in names of annotations and operators, including step marks, and in event categories."""
    frames: re.Pattern[str] | None = None
    """Searched in Python frames, `path(line): function`, and in module frames, `nn.Module: Class_0`."""
    step_mark: Callable[[str], StepMark | None] | None = None
    """Parses a step mark. Accepted marks contain only public words and counts, so anonymized copies may keep them."""

    @property
    def is_named(self) -> bool:
        """Whether a report may name it as the program's framework."""
        return self.role not in NOT_NAMED


def matching(*patterns: str) -> re.Pattern[str]:
    """Compile patterns as alternatives, to be searched anywhere in a name."""
    return re.compile("|".join(patterns), re.ASCII)


def whole(pattern: re.Pattern[str]) -> str:
    """Anchor a pattern to whole names; it must have no alternatives outside groups."""
    return f"^{pattern.pattern}$"


def package(name: str) -> str:
    """Pattern of the files of an installed package: below site-packages, or with a path relative to `sys.path`."""
    return rf"(?:^|(?:^|[/\\])(?:site|dist)-packages[/\\]){name}[/\\]"


def path(*parts: str) -> str:
    """Pattern of nested folders or files at any place, for packages that run from a checkout."""
    return r"(?:^|[/\\])" + r"[/\\]".join(parts)


def module(name: str) -> str:
    """Pattern of calls of a module class."""
    return rf"^nn\.Module: {name}(?:_[0-9]{{1,9}})?$"


def phase(context_requests: int, generation_requests: int) -> str | None:
    """The phase of a step of a language model server; None without requests."""
    if context_requests and generation_requests:
        return "mixed"
    if context_requests:
        return "prefill"
    return "decode" if generation_requests else None
