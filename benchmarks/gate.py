"""How often does the gate cry wolf, and what does it find? Writes the table of docs/ci.md.

    python -m benchmarks.gate                  judge the pairs and write the table (minutes)
    python -m benchmarks.gate keep FOLDER      keep the steps of recordings (FOLDER/PROGRAM/*.json.gz) in the project
    python -m benchmarks.gate record FOLDER N  record each program N times, in turns (needs torch)

Both sides of a pair are the same program. A slowdown is put in by making each step of the head longer.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from benchmarks import gate_pairs
from benchmarks.gate_pairs import Pair
from traceanalyzer.comparison import gate, statistics, verdict
from traceanalyzer.report.difference import Comparability

PAGE = Path(__file__).parents[1] / "docs" / "ci.md"
BEGIN, END = "<!-- python -m benchmarks.gate -->", "<!-- end -->"
LIMIT = 0.03
SLOWER = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1)
PROGRAMS = ("attention", "convolutions", "dense", "loader")
RECORDED, SYNTHETIC, SEVERAL = 200, 1000, 5
_COMPARABLE = Comparability(1.0, ())


def outcome(pair: Pair, share: float, limit: float = LIMIT) -> str:
    """What the gate says where the head is slower by a share."""
    base, head, machine = pair.base, gate_pairs.slower(pair.head, share), pair.machine
    judged = verdict.judge(base, head, verdict.compare(base, head, machine), _COMPARABLE, limit)
    return gate.judge(base, head, judged, _COMPARABLE, limit, machine).outcome


def upper_end(count: int, whole: int, level: float = 0.05) -> float:
    """The largest share that makes so few events as likely as the level (of Clopper and Pearson, one-sided)."""
    low, high = count / whole, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        # at least count + 1 of whole: the incomplete beta function, as the F test has it
        at_most = 1 - _at_least(count + 1, whole, middle)
        low, high = (middle, high) if at_most > level else (low, middle)
    return high


def _at_least(count: int, whole: int, share: float) -> float:
    """The probability of at least so many events."""
    if count > whole:
        return 0.0
    freedom, of_other = 2 * count, 2 * (whole - count + 1)
    ratio = (1 - share) / share * freedom / of_other  # an F of these degrees of freedom
    return statistics.exceeds(ratio, of_other, freedom)


def sets() -> Iterator[tuple[str, list[Pair]]]:
    """The pairs of each row of the table."""
    programs = gate_pairs.kept()
    several = f"{SEVERAL} a side"
    rows = (
        ("recorded, one a side", 1, False),
        ("recorded, one a side, `--noise`", 1, True),
        ("recorded, three a side, `--noise`", 3, True),
        (f"recorded, {several}", SEVERAL, False),
    )
    for number, (name, sides, has_noise) in enumerate(rows):
        random = np.random.default_rng(number)
        yield name, list(gate_pairs.of_recordings(programs, RECORDED, sides, random, has_noise=has_noise))
    for sides, name in ((1, "synthetic, one a side"), (SEVERAL, f"synthetic, {several}")):
        yield name, list(gate_pairs.synthetic(SYNTHETIC, sides, np.random.default_rng(100 + sides)))
    yield "steps with 1 % of noise, one a side", list(gate_pairs.quiet(RECORDED, np.random.default_rng(200)))


def table(rows: Iterable[tuple[str, Sequence[Pair]]]) -> Iterator[str]:
    """The lines of the table."""
    found = [f"{share:.0%}" for share in SLOWER[1:]]
    yield f"| pairs | number | passed | cannot tell | false alarms | at most | {' | '.join(found)} |"
    yield f"| :-- | --: | --: | --: | --: | --: |{' --: |' * len(found)}"
    every: Counter[str] = Counter()
    for name, pairs in rows:
        counts = [Counter(outcome(pair, share) for pair in pairs) for share in SLOWER]
        whole, same = len(pairs), counts[0]
        alarms = same["regression"]
        if name.startswith("synthetic"):
            every.update(same)
        cells = [f"{count['regression'] / whole:.0%} ({count['passed'] / whole:.0%})" for count in counts[1:]]
        said = [f"{same[word] / whole:.0%}" for word in ("passed", "inconclusive")]
        said += [f"{alarms} ({alarms / whole:.1%})", f"{upper_end(alarms, whole):.1%}"]
        yield f"| {name} | {whole} | {' | '.join([*said, *cells])} |"
    if not every:
        return
    alarms, whole = every["regression"], every.total()
    said = [f"{every[word] / whole:.0%}" for word in ("passed", "inconclusive")]
    said += [f"{alarms} ({alarms / whole:.1%})", f"{upper_end(alarms, whole):.1%}"]
    yield f"| all synthetic | {whole} | {' | '.join([*said, *('' for _ in found)])} |"


def record(folder: Path, count: int) -> None:
    """Record each program so many times, in turns, each time in a process of its own."""
    for number in range(count):
        for name in PROGRAMS:
            file = folder / name / f"{number:03}.json.gz"
            file.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([sys.executable, "-m", "benchmarks.gate_programs", name, str(file)], check=True)


def keep(folder: Path) -> None:
    """Write the file of the project's recordings."""
    lines = [
        f"{msgspec.json.encode(name).decode()}: [\n"
        + ",\n".join(msgspec.json.encode(each).decode() for each in recordings)
        + "\n]"
        for name, recordings in gate_pairs.recorded(folder).items()
    ]
    gate_pairs.FILE.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def main() -> None:
    """Record, keep, or judge and write the table."""
    match sys.argv[1:]:
        case ["record", folder, count]:
            record(Path(folder), int(count))
        case ["keep", folder]:
            keep(Path(folder))
        case []:
            lines = "\n".join(table(sets()))
            text = PAGE.read_text(encoding="utf-8")
            before, after = text.split(BEGIN)[0], text.split(END)[1]
            PAGE.write_text(f"{before}{BEGIN}\n{lines}\n{END}{after}", encoding="utf-8")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
