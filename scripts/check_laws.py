"""Checks the laws of reports on real traces and on the fixtures, two traces at a time, if there is a corpus.

TRACEANALYZER_CORPUS names a folder with `corpus/`, `field/` and `tools/laws.py`, which reads the raw events of a trace
itself and compares them with what this checkout says about it. The exit code is 1 if a law is broken, or not tested.

python scripts/check_laws.py             all traces, those of the lab in build/lab too (half an hour)
python scripts/check_laws.py --part      small ones that test each law (two minutes)
python scripts/check_laws.py TRACE...    these, and no law needs to be tested
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts import torch_referee

ROOT = Path(__file__).resolve().parent.parent
FIXTURES, LAB = ROOT / "fixtures", ROOT / "build" / "lab"
"""Traces of the project itself, and of a run of the lab: `python -m examples.lab measure --traces build/lab`."""
PART = (
    "corpus/timesformer_h100_inference.json.gz",
    "corpus/train_v100_ns_timestamps.json.gz",
    "corpus/torch_compile_triton_mi300.json.gz",
    "corpus/event_sync_multi_stream_a100.json.gz",
    "corpus/sampled_rank1_of_128.json.gz",
    "corpus/cpu_only_gloo_rank34.json.gz",
    "corpus/normalization_layers_mi300.json.gz",
    "corpus/resnet50_v100_workers4_golden.json.gz",
    "field/ranks/llama_tp2_4090_rank0.json.gz",
    "fixtures/synthetic/gpu_training.json.gz",
    "fixtures/lab/clones.small.before.json.gz",
    "fixtures/lab/ddp-small-buckets.small.before.json.gz",
    "fixtures/lab/item-logging.small.before.json.gz",
)
"""Files of the corpus and of this checkout that together test each law: inference, training, start-up, CPUs, ranks."""


def main() -> int:
    """Check the laws and print what breaks them; returns 1 if something does, or if a law was not tested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    parser.add_argument("--part", action="store_true", help="only small traces that test each law")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    corpus = Path(os.environ.get("TRACEANALYZER_CORPUS") or ".")
    tool = corpus / "tools" / "laws.py"
    if not tool.is_file():
        print("laws: TRACEANALYZER_CORPUS names no folder with tools/laws.py; nothing to check", file=sys.stderr)
        return 2
    traces = options.traces or list(_part(corpus) if options.part else _all(corpus))
    broken, tested = check(tool, traces, options.processes)
    untested = [] if options.traces else sorted(laws(tool) - tested.keys())
    print(f"{len(traces)} traces; violations: {_counts(broken)}")
    print(f"tested on: {_counts(tested)}")
    if untested:
        print(f"not tested: {', '.join(untested)}")
    against = list(_referee(traces))
    return 1 if broken or untested or against else 0


def _referee(traces: Iterable[Path]) -> Iterator[str]:
    """Print what torch's own rules find and reports do not say, where torch is installed."""
    violations = torch_referee.validator()
    if violations is None:
        print(
            "laws: torch is not installed, so its rules were not asked (make test-torch installs it)", file=sys.stderr
        )
        return
    for line in torch_referee.disagreements(violations, traces, torch_referee.report_of):
        print(line, flush=True)
        yield line


def laws(tool: Path) -> set[str]:
    """Names of the laws."""
    return {line.split()[0] for line in _run(tool, "--list").splitlines()}


def check(tool: Path, traces: Iterable[Path], processes: int) -> tuple[Counter[str], Counter[str]]:
    """Check traces and print a line for each violation.

    Returns:
        How often each law is broken, and on how many traces it had something to test.
    """
    broken, tested = Counter[str](), Counter[str]()
    with ThreadPoolExecutor(processes) as pool:
        for text in pool.map(partial(_run, tool), traces):
            *lines, _, last = text.splitlines()
            for line in lines:
                print(line, flush=True)
                broken[line.split(": ")[1]] += 1
            tested.update(re.findall(r"(\([^)]*\)|[\w-]+) \d+", last))
    return broken, tested


def _all(corpus: Path) -> Iterator[Path]:
    for folder in (corpus / "corpus", corpus / "field", LAB, *sorted(FIXTURES.iterdir())):
        if folder.name != "saved":
            yield from sorted(path for path in folder.rglob("*.json*") if path.is_file())


def _part(corpus: Path) -> Iterator[Path]:
    for name in PART:
        yield next(path for path in (corpus / name, ROOT / name) if path.is_file())


def _run(tool: Path, *arguments: Path | str) -> str:
    """What the tool prints; it starts the program of this checkout, with the packages of this Python."""
    program = {"TRACEANALYZER": str(Path(sys.executable).with_name("traceanalyzer")), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tool), *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=os.environ | program).stdout


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
