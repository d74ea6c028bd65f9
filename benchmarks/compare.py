"""The project's report against JSON parsers and other tools on grown traces: ``python -m benchmarks.compare``.

Prints Markdown tables. Each command runs in a fresh process of this interpreter, in turns with the others,
on the same file; one replica exists at a time.
"""

import argparse
import compileall
import json
import multiprocessing
import os
import platform
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import traceanalyzer
from benchmarks.grow import Grown, grow
from benchmarks.measure import measure_in_turns
from benchmarks.peers import PROGRAMS, Peer, find
from benchmarks.results import BASELINE, OURS, READING, TWO_JOBS, Comparison, Replica, Start

CORPUS_SOURCES = {"kin": "train_v100_ns_timestamps.json.gz", "owl": "owlv2_h100_inference.json.gz"}
FIXTURES = Path(__file__).parent.parent / "fixtures" / "synthetic"
JSON_LOAD = "import json, sys\nwith open(sys.argv[1], encoding='utf-8') as file: json.load(file)"
ORJSON_LOADS = "import orjson, sys\nwith open(sys.argv[1], 'rb') as file: orjson.loads(file.read())"
LOAD = "import sys, traceanalyzer\ntraceanalyzer.load(sys.argv[1])"
SHORT_RUNS = 10
"""Least number of runs of a command that takes milliseconds, because its noise is largest."""


def default_sources() -> dict[str, Path]:
    """The two corpus traces for which targets are defined; without a corpus, the project's largest fixture.

    Raises:
        FileNotFoundError: There are neither corpus traces nor fixtures.
    """
    corpus = os.environ.get("TRACEANALYZER_CORPUS")
    if corpus:
        found = {name: Path(corpus, "corpus", file) for name, file in CORPUS_SOURCES.items()}
        found = {name: path for name, path in found.items() if path.exists()}
        if found:
            return found
    fixtures = [*FIXTURES.glob("gpu_training.json*")]
    fixtures = fixtures or [*FIXTURES.glob("*.json"), *FIXTURES.glob("*.json.gz")]
    if not fixtures:
        raise FileNotFoundError(f"no corpus and no trace in {FIXTURES}; name one with --source NAME=PATH")
    return {"fixture": max(fixtures, key=lambda path: (path.stat().st_size, path.name))}


def report_command(trace: Path, output: Path, jobs: int = 1) -> list[str]:
    """The command that users run; the suffix of the output decides the format."""
    command = [sys.executable, "-m", "traceanalyzer", "report", str(trace), "-o", str(output), "--quiet"]
    return [*command, "--jobs", str(jobs)]


def grow_apart(source: Path, target: Path, megabytes: float) -> Grown:
    """Grow a trace in another process, so that this one stays small (see measure.run_once)."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(grow, source, target, megabytes).result()


def measure_replica(name: str, source: Path, folder: Path, megabytes: float, runs: int, peers: list[Peer]) -> Replica:
    """Grow a trace, run all commands on it, and remove it."""
    trace = folder / f"{name}-{megabytes:g}.json"
    grown = grow_apart(source, trace, megabytes)
    commands = {
        OURS[0]: report_command(trace, folder / "report.json"),
        OURS[1]: report_command(trace, folder / "report.md"),
        TWO_JOBS: report_command(trace, folder / "report.json", jobs=2),
        READING: [sys.executable, "-c", LOAD, str(trace)],
        BASELINE: [sys.executable, "-c", JSON_LOAD, str(trace)],
        "orjson.loads": [sys.executable, "-c", ORJSON_LOADS, str(trace)],
    }
    titles = {f"{peer.name} {peer.version}": peer for peer in peers}
    commands |= {title: peer.command(trace) for title, peer in titles.items()}
    outcomes = measure_in_turns(commands, runs)
    trace.unlink()
    return Replica(name, grown.size_bytes, grown.events, outcomes, tuple(titles))


def measure_start(sources: dict[str, Path], folder: Path, runs: int) -> Start:
    """Run the report on the sources without growing them, and compare --help with an empty program."""
    reports = {name: report_command(path, folder / f"{name}.json") for name, path in sources.items()}
    reported = measure_in_turns(reports, runs)
    sizes = {name: grow_apart(path, folder / "source.json", 0).source_bytes for name, path in sources.items()}
    empty = {
        "python": [sys.executable, "-c", "pass"],
        "help": [sys.executable, "-m", "traceanalyzer", "--help"],
    }
    started = measure_in_turns(empty, max(runs, SHORT_RUNS))
    small_traces = {name: (sizes[name], reported[name]) for name in sources}
    return Start(small_traces, started["python"], started["help"])


def compile_package() -> None:
    """Compile the package to bytecode, as an installation does.

    A checkout is otherwise compiled on first use, or on every use if it is read-only.
    """
    compileall.compile_dir(str(Path(traceanalyzer.__file__).parent), quiet=1)


def compare(
    sources: dict[str, Path], folder: Path, sizes: list[float], runs: int, peers: list[Peer], largest: float
) -> Comparison:
    """Run all comparisons on each size.

    Args:
        sources: The traces to grow, by name.
        folder: Where replicas are written.
        sizes: Sizes of the replicas in MB.
        runs: Runs of each command.
        peers: Other tools that do the same work.
        largest: Size in MB up to which the peers run.
    """
    compile_package()
    replicas = []
    for name, path in sources.items():
        for megabytes in sizes:
            print(f"{name}: {megabytes:g} MB ...", file=sys.stderr)
            asked = peers if megabytes <= largest else []
            replicas.append(measure_replica(name, path, folder, megabytes, runs, asked))
    print("cold start ...", file=sys.stderr)
    start = measure_start(sources, folder, runs)
    return Comparison(platform.python_version(), runs, replicas, start)


def parse_arguments() -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(description="Compare the report with JSON parsers on grown traces.")
    parser.add_argument("--mb", type=float, nargs="+", default=[100, 1000], help="sizes (default: 100 1000)")
    parser.add_argument(
        "--source",
        nargs="+",
        metavar="NAME=PATH",
        help="traces to grow (default: the corpus's, or a fixture)",
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each command (default: %(default)s)")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help=f"another tool ({', '.join(PROGRAMS)}) and the interpreter of its environment; repeat for more",
    )
    parser.add_argument("--peer-mb", type=float, default=500, help="largest size for them (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--dir", type=Path, help="where replicas are written (default: a temporary folder)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    for source in options.source or []:
        if not Path(source.partition("=")[2]).is_file():
            parser.error(f"--source takes NAME=PATH of a trace, not {source!r}")
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    return options


def main() -> int:
    """Run the benchmark as the command line asks; returns the exit code."""
    options = parse_arguments()
    if options.source:
        pairs = (source.split("=", 1) for source in options.source)
        sources = {name: Path(path) for name, path in pairs}
    else:
        try:
            sources = default_sources()
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return 2
    try:
        peers = find(options.peer)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        comparison = compare(sources, Path(folder), options.mb, options.runs, peers, options.peer_mb)
    print(comparison.as_markdown())
    if options.json:
        options.json.write_text(json.dumps(comparison.as_json(), indent=2) + "\n", encoding="utf-8")
    missed = [found.name for found in comparison.verdicts() if not found.passed]
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
