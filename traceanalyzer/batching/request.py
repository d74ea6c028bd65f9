"""What a batch is asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import msgspec

from traceanalyzer._version import __version__
from traceanalyzer.config import Config
from traceanalyzer.renderers import FORMATS

_WANTED = ("json", "html")
"""Written unless something else is asked for, as far as this version has them."""


def formats() -> tuple[str, ...]:
    """Formats that are files."""
    return tuple(name for name, suffixes in FORMATS.items() if suffixes)


def default_formats() -> tuple[str, ...]:
    """What is written if nothing is said."""
    return tuple(name for name in _WANTED if name in FORMATS)


@dataclass(frozen=True)
class ReportOptions:
    """What decides the bytes of a report, besides the file."""

    formats: tuple[str, ...] = field(default_factory=default_formats)
    top: int | None = None
    """Rows of each ranking."""
    skip_warmup: int = 0
    """Steps at the start that do not count."""
    config: Config = field(default_factory=Config)
    language: str = "en"
    """Code of the language of what people read."""

    def fingerprint(self, name: str, size: int, version: str) -> str:
        """The same for the same input, options and version of this program, and for nothing else.

        Args:
            name: Of the file, relative.
            size: In bytes.
            version: Of the file: time of its last change, or the tag of a store.
        """
        settings = replace(self.config, origin="", options=frozenset())  # where they stand changes no report
        what = (__version__, name, size, version, replace(self, config=settings))
        return hashlib.sha256(msgspec.json.encode(what, order="deterministic")).hexdigest()


@dataclass(frozen=True)
class Request:
    """One batch."""

    inputs: tuple[str, ...]
    """Files, folders, patterns, URLs."""
    output: str
    """Folder of the reports; a path or a URL."""
    options: ReportOptions = field(default_factory=ReportOptions)
    jobs: int | None = None
    """Processes at most; as many as there are processors if None."""
    memory: str | None = None
    """What all of them may use: `8G`, `50%`; what is available, less a reserve, if None."""
    cluster: str | None = None
    """Address of a Dask scheduler that does the work instead."""
    force: bool = False
    """Write over files that are not ours."""
