"""Tries the compiled scan with random events, against the other way of reading, until a time is over.

    python scripts/fuzz_scan.py --seconds 60 --seed 7

The scan is compiled with the address and undefined-behaviour sanitizers of gcc, outside of the checkout. Each case is a
list of events with odd values and damaged bytes, cut into windows; where the scan takes them for plain, they must
become the same part of a trace as with msgspec and a `Collector`. The exit code is 1 after a difference or an error of
a sanitizer, whose case is printed, and 3 where there is no compiler.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

FLAGS = "-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
LIBRARIES = ("libasan.so", "libubsan.so")
NO_COMPILER = 3
ROUND = 200
"""Cases of one run of hypothesis, which prints the smallest one that fails."""


def main() -> int:
    """Compile the scan, and try it in a process that has the sanitizers loaded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long cases are tried")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the cases; else a new one")
    parser.add_argument("--compiled", type=Path, help=argparse.SUPPRESS)  # in the process with the sanitizers
    options = parser.parse_args()
    if options.compiled:
        return tried(options.compiled, options.seconds, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        compiled = sanitized(Path(folder))
        if compiled is None:
            print("fuzz-scan: skipped, because there is no gcc with libasan and libubsan", file=sys.stderr)
            return NO_COMPILER
        command = [sys.executable, __file__, f"--compiled={compiled}", f"--seconds={options.seconds}"]
        loaded = {"LD_PRELOAD": " ".join(map(library, LIBRARIES)), "ASAN_OPTIONS": "detect_leaks=0"}
        done = subprocess.run([*command, f"--seed={options.seed}"], env=os.environ | loaded, check=False)
        if done.returncode:
            case = compiled.with_name("case")
            if done.returncode != 1 and case.exists():  # a sanitizer ended the process
                print(f"the text and the borders of the windows: {case.read_text('utf-8')}")
            print(f"fuzz-scan: failed; once more: make fuzz-scan SECONDS={options.seconds:g} SEED={options.seed}")
        return int(done.returncode != 0)


def library(name: str) -> str:
    """The path of a library of gcc; only its name where there is none."""
    try:
        return subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return name


def sanitized(folder: Path) -> Path | None:
    """The scan, compiled with the sanitizers into a folder; None where that is impossible."""
    if not all(Path(library(name)).is_absolute() for name in LIBRARIES):
        return None
    import hatch_build  # noqa: PLC0415 - needs packages that the process with the sanitizers does without

    os.environ |= {"CC": "gcc", "CFLAGS": FLAGS}
    return next(folder.rglob("_scan*.so")) if hatch_build.compile_scan(folder) else None


def tried(compiled: Path, seconds: float, seed: int) -> int:
    """Try cases, and print how many and how many of them the scan took; 1 after one that is read differently."""
    from hypothesis import HealthCheck, given, settings  # noqa: PLC0415 - as above, the other way round
    from hypothesis import seed as seeded  # noqa: PLC0415
    from hypothesis import strategies as st  # noqa: PLC0415

    from tests.readers.kineto.plain_events import CHANGES, DAMAGE, NUMBERS  # noqa: PLC0415

    use(compiled)
    end, counts = time.monotonic() + seconds, {False: 0, True: 0}
    rows = st.lists(st.integers(0, 10_000), min_size=1, max_size=30)
    cuts = st.lists(st.integers(0, 10_000), max_size=3)
    keep = compiled.with_name("case")

    def one_round(number: int) -> None:
        @seeded(seed + number)
        @settings(max_examples=ROUND, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        @given(rows, CHANGES | NUMBERS, st.just([]) | DAMAGE, cuts)
        def compare(rows: list[int], changes: Any, damages: Any, cuts: list[int]) -> None:
            counts[agrees(*case(rows, changes, damages, cuts), keep)] += 1

        compare()

    print(f"fuzz-scan: {seconds:g} seconds with seed {seed}", flush=True)
    try:
        for number in itertools.count():
            one_round(number)
            if time.monotonic() >= end:
                break
    except AssertionError as error:
        print(f"{error}\n{''.join(getattr(error, '__notes__', ()))}")
        return 1
    print(f"fuzz-scan: {sum(counts.values()):,} cases, {counts[True]:,} of them plain: no difference, no error")
    return 0


def use(compiled: Path) -> None:
    """Let the reader scan with what was compiled there."""
    from traceanalyzer.readers.kineto import scanning  # noqa: PLC0415 - as above

    spec = importlib.util.spec_from_file_location("_scan", compiled)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scanning.scan = module.scan


def case(rows: list[int], changes: Any, damages: Any, cuts: list[int]) -> tuple[bytes, list[int]]:
    """The text of a list of events, and the borders of its windows.

    Args:
        rows: Numbers of plain events; each event counts once.
        changes: As of `plain_events.change`.
        damages: As of `plain_events.damage`.
        cuts: Numbers of the events behind which a window ends.
    """
    from tests.readers.kineto.plain_events import PLAIN, change, damage, listed  # noqa: PLC0415 - as above

    found = [(event.copy(), args.copy()) for event, args in PLAIN]
    change(found, changes)
    kept = sorted({row % len(found) for row in rows} | {row for row, *_ in changes})
    texts = [listed([found[row]])[2:-2] for row in kept]
    commas = list(itertools.accumulate((len(text) + 1 for text in texts), initial=0))
    borders = sorted({0, commas[-1], *(commas[cut % len(commas)] for cut in cuts)})
    return damage(b"[" + b",".join(texts) + b"]", damages), borders


def agrees(text: bytes, borders: list[int], keep: Path) -> bool:
    """Whether the scan takes windows for plain; they then have to be what msgspec makes of them.

    Args:
        text: A list of events.
        borders: As of `scan`.
        keep: A file that gets the case, so that it is known if a sanitizer ends the process.
    """
    from tests.readers.kineto.plain_events import contents  # noqa: PLC0415 - as above
    from traceanalyzer.readers.kineto.events import EventDecoder  # noqa: PLC0415
    from traceanalyzer.readers.kineto.parts import part_from  # noqa: PLC0415
    from traceanalyzer.readers.kineto.scanning import ScanningDecoder  # noqa: PLC0415

    keep.write_text(f"{text!r}, {borders}", "utf-8")
    scanned, stop = ScanningDecoder()._scanned(memoryview(text), borders)
    given, limits = text, borders
    if stop is not None:  # of a single list, what comes before that place has to be the same, too
        cut = text.rfind(b",", 0, stop)
        given, limits = text[:cut] + b"]", [0, cut]
    if scanned is None or (stop is not None and (len(borders) > 2 or not scanned.elements)):
        return False
    decoded = part_from(EventDecoder(), memoryview(given), limits)
    assert decoded is not None, f"only the scan takes {text!r}, {borders}"
    assert repr(contents(scanned)) == repr(contents(decoded)), f"differs: {text!r}, {borders}"
    return stop is None


if __name__ == "__main__":
    sys.exit(main())
