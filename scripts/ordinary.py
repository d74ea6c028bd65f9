"""Builds the programs of tests/ordinary, writes the reports on them, and compares these with their labels.

TRACEANALYZER_CORPUS names a folder with `tools/advice.py`, which compares a report with a label. A line of each program
says whether its headline is right, how many of the things that must be said are, and how much is said that must not be;
what is missed or wrong stands below it. Traces and reports stay in build/ordinary. The exit code is 1 if less than 95 %
of the headlines or of the things to say are right, or if anything is said that must not be.

python scripts/ordinary.py                  the first half
python scripts/ordinary.py --half second    the second half, which is only run once the work is done
python scripts/ordinary.py NAME...          these programs of the half
python scripts/ordinary.py --build          only the traces
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import traceanalyzer as ta
from tests.ordinary.halves import HALVES
from tests.ordinary.programs import PROGRAMS
from traceanalyzer.errors import TraceAnalyzerError

ROOT = Path(__file__).resolve().parent.parent
LABELS = ROOT / "tests" / "ordinary" / "labels"
OUT = ROOT / "build" / "ordinary"
ENOUGH = 0.95
"""Share of headlines, and of things to say, that must be right."""

Score = dict[str, tuple[int, int]]
"""Right ones and all: of headlines, workloads, steps, things to say, savings, and what a free GPU saves;
of things that must not be said: how many are not."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write and compare the reports of a half; returns 1 if too little is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="NAME", help="programs of the half; all, if none is named")
    parser.add_argument("--half", choices=HALVES, default="first")
    parser.add_argument("--build", action="store_true", help="only write the traces, for a reader who labels them")
    options = parser.parse_args(arguments)
    path = Path(os.environ.get("TRACEANALYZER_CORPUS") or ".", "tools", "advice.py")
    if not options.build and not path.is_file():
        print("ordinary: TRACEANALYZER_CORPUS names no folder with tools/advice.py", file=sys.stderr)
        return 2
    if unknown := [name for name in options.programs if name not in HALVES[options.half]]:
        print(f"ordinary: not in the {options.half} half: {', '.join(unknown)}", file=sys.stderr)
        return 2
    folder = OUT / options.half
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "traces").mkdir(parents=True)
    built = {name: PROGRAMS[name].write(folder / "traces") for name in options.programs or HALVES[options.half]}
    return 0 if options.build else compare(built, folder, LABELS / options.half, tool_in(path))


def compare(built: Mapping[str, Sequence[Path]], folder: Path, labels: Path, tool: Any) -> int:
    """Write a report on the files of each program, and compare it with the label; returns 1 if too little is right."""
    musts = tool.musts_of(labels)
    scores = []
    for name, files in built.items():
        report = report_of(files)
        (folder / f"{name}.json").write_text(json.dumps(report), "utf-8")
        label = tool.load_expected(labels / f"{name}.toml")
        result = tool.judge(report, label, musts)
        free = free_gpu(files[0], label["free_gpu"]) if "free_gpu" in label else []
        scores.append(score(result, free))
        print(f"{PROGRAMS[name].kind:16} {name:34} {line(scores[-1])}", flush=True)
        for detail in (*tool.details(result), *(words for is_right, words in free if not is_right)):
            print(f"    {detail}")
    return verdict(scores)


def tool_in(path: Path) -> Any:
    """The module that compares reports with labels."""
    spec = importlib.util.spec_from_file_location("advice", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report_of(files: Sequence[Path]) -> dict[str, Any]:
    """The report on a trace, or on the ranks of a run, as the command writes it; empty if a file cannot be read."""
    try:
        measured = ta.load(files[0])
        are_ranks = len(files) > 1 or (isinstance(measured, ta.Trace) and measured.ranks)
        report = ta.ranks(files) if are_ranks else ta.analyze(measured)
    except TraceAnalyzerError as error:
        print(f"    {error}")
        return {}
    content: dict[str, Any] = json.loads(ta.render(report, "json"))
    return content


def free_gpu(file: Path, wanted: dict[str, Any]) -> list[tuple[bool, str]]:
    """Whether what a free GPU saves, by replay, overlaps the interval that the script gives; and words for it."""
    try:
        low, high = (saving / 1e6 for saving in saved_by_free_gpu(file))
    except TraceAnalyzerError as error:
        return [(False, f"FREE GPU {error}")]
    is_right = high >= wanted["low_ms"] and low <= wanted["high_ms"]
    interval = f"{wanted['low_ms']:g} to {wanted['high_ms']:g} ms"
    return [(is_right, f"FREE GPU saves {low:.4g} to {high:.4g} ms; expected {interval}: {wanted['why']}")]


def saved_by_free_gpu(file: Path) -> tuple[float, float]:
    """Nanoseconds of a typical step: at least and at most."""
    trace = ta.load(file)
    if not isinstance(trace, ta.Trace):
        return 0.0, 0.0
    low, _, high = ta.whatif(trace, free=["gpu"]).saving_ns
    return low, high


def score(result: dict[str, Any], free: Sequence[tuple[bool, str]]) -> Score:
    """How much of a label the report fulfils."""
    kinds = {"headline": "headline", "workload": "workload", "step": "typical", "said": "must"}
    rows = {title: [bool(row[0]) for row in result[key]] for title, key in kinds.items()}
    rows["savings"] = [row[0] == "inside" for row in result["saving"]]
    rows["free GPU"] = [is_right for is_right, _ in free]
    rows["unsaid"] = [not hits for hits, _ in result["must_not"]]
    return {title: (sum(row), len(row)) for title, row in rows.items()}


def line(found: Score) -> str:
    """The figures of a program or of all."""
    words = [f"{title} {right}/{of}" for title, (right, of) in found.items() if of and title != "unsaid"]
    right, of = found["unsaid"]
    return ", ".join([*words, f"must not {of - right}"])


def verdict(scores: Sequence[Score]) -> int:
    """Print the sums; returns 1 if too little is right."""
    sums = {title: (sum(s[title][0] for s in scores), sum(s[title][1] for s in scores)) for title in scores[0]}
    print(f"\n{len(scores)} programs: {line(sums)}")
    limits = {"headline": ENOUGH, "said": ENOUGH, "unsaid": 1.0}
    failed = [title for title, limit in limits.items() if sums[title][0] < limit * sums[title][1]]
    print(f"NOT PASSED: {', '.join(failed)}" if failed else "PASSED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
