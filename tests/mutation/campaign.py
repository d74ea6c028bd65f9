"""One case after another: choose, damage, run, judge."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.mutation import child, damage, verdicts
from tests.mutation.bases import Base, Kind
from tests.mutation.child import Outcome
from tests.mutation.commands import Command, choose, named

_SHARES: dict[Kind, int] = {"trace": 68, "table": 12, "report": 10, "settings": 6, "log": 2, "difference": 2}
"""Cases of a hundred by kind; within a kind the files take turns."""

_CHEAP_S, _CHEAP_BYTES = verdicts.SPARE_S, verdicts.SPARE_BYTES
"""What costs less is not compared with the undamaged file: it is within the spare cost."""


@dataclass(frozen=True)
class Case:
    """A case: the file, its damage, and the command."""

    number: int
    base: Base
    damages: tuple[str, ...]
    command: Command
    data: bytes
    file: str


@dataclass(frozen=True)
class Result:
    """How a case ended."""

    number: int
    base: str
    damages: tuple[str, ...]
    arguments: tuple[str, ...]
    code: int
    problems: tuple[str, ...]
    cpu_s: float
    memory: int
    cpu_ratio: float | None = None
    memory_ratio: float | None = None
    line: str = field(default="", compare=False)


@dataclass(frozen=True)
class Campaign:
    """A seed, the files, and where they are kept."""

    seed: int
    bases: Sequence[Base]
    folder: Path
    with_costs: bool = True
    """Costs of the undamaged files, with which time and memory are compared."""

    def prepare(self, base: Base) -> bytes:
        """The undamaged bytes, made once."""
        file = self.folder / "bases" / base.name
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(base.make())
        return file.read_bytes()

    def base_of(self, number: int) -> Base:
        """The file of a case."""
        pattern = _pattern()
        round_, place = divmod(number, len(pattern))
        kind = pattern[place]
        turn = round_ * pattern.count(kind) + pattern[:place].count(kind)
        own = [base for base in self.bases if base.kind == kind] or list(self.bases)
        random.Random(kind).shuffle(own)  # a small campaign has some of all folders, too
        return own[turn % len(own)]

    def case(self, number: int) -> Case:
        """The case of a number; always the same."""
        base = self.base_of(number)
        rng = random.Random(f"{self.seed}/{number}/{base.name}")
        data, names = self.prepare(base), []
        command = choose(rng, base.kind)
        if base.kind == "settings":
            tools = (*damage.BLUNT, *damage.TEXT, *damage.TEXT, *damage.TEXT, damage.odd_tokens, damage.odd_tokens)
        elif base.kind in ("table", "log"):
            tools = (*damage.BLUNT, *damage.TEXT, *damage.TEXT)
        else:
            tools = (*damage.BLUNT, *damage.JSON)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            tool = rng.choice(tools)
            data = tool(rng, data)
            names.append(tool.__name__)
        file = base.name if base.kind == "settings" else f"damaged{base.suffix}"
        if base.kind != "settings" and rng.random() < (0.3 if base.packed else 0.1):
            data, file = damage.pack(rng, data), f"{file}.gz"
            names.append("pack")
        return Case(number, base, tuple(names), command, data, file)

    def run(self, number: int) -> Result:
        """Run a case and judge it."""
        case = self.case(number)
        folder = self.folder / "running" / str(number)
        outcome = self._run(case.command, case.file, case.data, folder)
        found = list(verdicts.problems(case.command, outcome, folder))
        cpu_ratio = memory_ratio = None
        if self.with_costs and (outcome.cpu_s > _CHEAP_S or outcome.memory > _CHEAP_BYTES):
            base = self._undamaged(case)
            grown = max(0, len(case.data) - len(self.prepare(case.base)))
            if any(verdicts.costs(outcome, base, grown)):  # another try each, because noise only ever adds
                outcome = _cheaper(outcome, self._run(case.command, case.file, case.data, folder))
            cpu_ratio = outcome.cpu_s / max(base.cpu_s, 0.01)
            memory_ratio = outcome.memory / max(base.memory, 1 << 20)
            found += verdicts.costs(outcome, base, grown)
        if found:
            self._keep(case, found, outcome)
        shutil.rmtree(folder)
        return Result(
            number=number,
            base=case.base.name,
            damages=case.damages,
            arguments=tuple(named(case.command, case.file)),
            code=outcome.code,
            problems=tuple(found),
            cpu_s=outcome.cpu_s,
            memory=outcome.memory,
            cpu_ratio=cpu_ratio,
            memory_ratio=memory_ratio,
            line=outcome.err.strip()[:300] if outcome.code == 2 else "",
        )

    def _undamaged(self, case: Case) -> Outcome:
        data = self.prepare(case.base)
        if case.file.endswith(".gz"):
            data = damage.sound_gzip(data)
        return self._run(
            case.command, case.file, data, self.folder / "running" / f"{case.number}-undamaged", keep=False
        )

    def _run(self, command: Command, file: str, data: bytes, folder: Path, *, keep: bool = True) -> Outcome:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / file).write_bytes(data)
        outcome = child.run(named(command, file), folder)
        if not keep:
            shutil.rmtree(folder)
        return outcome

    def _keep(self, case: Case, found: Sequence[str], outcome: Outcome) -> None:
        """Leave the damaged file, and how to run it again, beside what went wrong."""
        folder = self.folder / "failures" / f"{self.seed}-{case.number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / case.file).write_bytes(case.data)
        command = " ".join(f"'{argument}'" for argument in named(case.command, case.file))
        story = [
            f"{case.base.name}: {', '.join(case.damages)}",
            f"traceanalyzer {command}",
            *found,
            "",
            outcome.err[:20_000],
        ]
        (folder / "story.txt").write_text("\n".join(story), "utf-8", "replace")


def _cheaper(first: Outcome, second: Outcome) -> Outcome:
    return Outcome(first.code, first.out, first.err, min(first.cpu_s, second.cpu_s), min(first.memory, second.memory))


@cache
def _pattern() -> tuple[Kind, ...]:
    """A hundred kinds, in an order that mixes them."""
    kinds = [kind for kind, share in _SHARES.items() for _ in range(share)]
    random.Random(0).shuffle(kinds)
    return tuple(kinds)
