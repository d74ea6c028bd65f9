"""What a program of this folder is: a builder, what kind of recording it makes, and what that shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.builders import TraceBuilder

Recording = TraceBuilder | str | Mapping[str, TraceBuilder]
"""A trace, the text of one that no builder writes, or the traces of several ranks by the ends of their names."""


@dataclass(frozen=True)
class Program:
    """An ordinary recording. Its name is that of its label, too."""

    name: str
    kind: str
    shows: str
    build: Callable[[], Recording]

    def texts(self) -> dict[str, bytes]:
        """The files by name."""
        made = self.build()
        if isinstance(made, str):
            return {f"{self.name}.json": made.encode()}
        parts = {"": made} if isinstance(made, TraceBuilder) else made
        return {f"{self.name}{end}.json": trace.to_bytes() for end, trace in parts.items()}

    def write(self, folder: Path) -> list[Path]:
        """Write the files, and return where they are."""
        paths = []
        for name, data in self.texts().items():
            paths.append(folder / name)
            paths[-1].write_bytes(data)
        return paths


PROGRAMS: dict[str, Program] = {}
"""All programs by name; modules of this folder add theirs."""


def program(kind: str, shows: str) -> Callable[[Callable[[], Recording]], Callable[[], Recording]]:
    """Make a function a program of its name."""

    def add(build: Callable[[], Recording]) -> Callable[[], Recording]:
        name = build.__name__
        assert name not in PROGRAMS
        PROGRAMS[name] = Program(name, kind, shows, build)
        return build

    return add
