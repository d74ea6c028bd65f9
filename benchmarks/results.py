"""The measurements of a comparison, compared with the targets, and its Markdown tables."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import targets
from benchmarks.measure import CommandError, Measurement
from benchmarks.targets import Verdict

Outcome = Measurement | CommandError

BASELINE = "json.load"
OURS = ("report JSON", "report Markdown")
READING, TWO_JOBS = "read", "report JSON, 2 processes"


@dataclass(frozen=True)
class Replica:
    """The commands run on one grown trace."""

    source: str
    size_bytes: int
    events: int
    outcomes: dict[str, Outcome]
    peers: tuple[str, ...] = ()
    """Names of the commands that run other tools."""

    @property
    def title(self) -> str:
        """Name and size of the replica."""
        return f"{self.source} {self.size_bytes / 1e6:.0f} MB"

    def cpu_ratio(self, name: str) -> float | None:
        """CPU time of a command as a multiple of the baseline's."""
        return ratio(cpu_s(self.outcomes[name]), cpu_s(self.outcomes[BASELINE]))

    def memory_ratio(self, name: str) -> float | None:
        """Peak memory of a command as a multiple of the baseline's."""
        return ratio(peak_bytes(self.outcomes[name]), peak_bytes(self.outcomes[BASELINE]))

    def us_per_event(self, name: str) -> float | None:
        """CPU time of a command per event."""
        seconds = cpu_s(self.outcomes[name])
        return None if seconds is None else seconds / self.events * 1e6

    def verdicts(self) -> Iterator[Verdict]:
        """The figures of the report, compared with the targets relative to `json.load`."""
        reading = self.cpu_ratio(READING)
        yield Verdict(f"{self.title}, {READING}: CPU / {BASELINE}", reading, targets.READING_OF_JSON_LOAD)
        for name in OURS:
            cpu, memory = self.cpu_ratio(name), self.memory_ratio(name)
            yield Verdict(f"{self.title}, {name}: CPU / {BASELINE}", cpu, targets.CPU_OF_JSON_LOAD)
            yield Verdict(f"{self.title}, {name}: memory / {BASELINE}", memory, targets.MEMORY_OF_JSON_LOAD)
        wall = ratio(wall_s(self.outcomes[TWO_JOBS]), wall_s(self.outcomes[OURS[0]]))
        yield Verdict(f"{self.title}, {TWO_JOBS}: wall time / 1 process", wall, targets.WALL_OF_TWO_JOBS)
        if self.peers:
            yield self._against_peers("CPU / fastest peer", cpu_s, targets.CPU_OF_PEER)
            yield self._against_peers("memory / leanest peer", peak_bytes, targets.MEMORY_OF_PEER)

    def _against_peers(self, what: str, figure: Callable[[Outcome], float | None], target: float) -> Verdict:
        """The report against the best of the peers that succeeded."""
        known = [value for name in self.peers if (value := figure(self.outcomes[name])) is not None]
        value = ratio(figure(self.outcomes[OURS[0]]), min(known, default=None))
        return Verdict(f"{self.title}, {OURS[0]}: {what}", value, target)


@dataclass(frozen=True)
class Start:
    """Start-up cost: small traces and --help."""

    small_traces: dict[str, tuple[int, Outcome]]
    """Per source: its size unzipped, and the report of it, ungrown."""
    python: Outcome
    help: Outcome

    def verdicts(self) -> Iterator[Verdict]:
        """Small traces and --help against their targets; larger sources have no such target."""
        for source, (size, outcome) in self.small_traces.items():
            if size <= targets.SMALL_TRACE_BYTES:
                name = f"{source} ungrown ({size / 1e6:.1f} MB), {OURS[0]}: CPU s"
                yield Verdict(name, cpu_s(outcome), targets.SMALL_TRACE_S)
        help_ratio = ratio(cpu_s(self.help), cpu_s(self.python))
        yield Verdict("--help: CPU / python -c pass", help_ratio, targets.HELP_OF_PYTHON)


@dataclass(frozen=True)
class Comparison:
    """Everything that one run of the benchmark measured."""

    python_version: str
    runs: int
    replicas: list[Replica]
    start: Start

    def verdicts(self) -> list[Verdict]:
        """All figures that have a target."""
        relative = [found for replica in self.replicas for found in replica.verdicts()]
        return [*relative, *self._growth(), *self.start.verdicts()]

    def _growth(self) -> Iterator[Verdict]:
        """Time per event on each source's largest replica, as a multiple of that on its smallest."""
        for source in dict.fromkeys(replica.source for replica in self.replicas):
            by_size = sorted(
                (replica for replica in self.replicas if replica.source == source),
                key=lambda replica: replica.size_bytes,
            )
            small, large = by_size[0], by_size[-1]
            if small.size_bytes == large.size_bytes:
                continue
            for name in OURS:
                growth = ratio(large.us_per_event(name), small.us_per_event(name))
                title = f"{source} from {small.size_bytes / 1e6:.0f} to {large.size_bytes / 1e6:.0f} MB"
                yield Verdict(f"{title}, {name}: CPU per event", growth, targets.GROWTH)

    def as_markdown(self) -> str:
        """The tables in Markdown."""
        head = f"Python {self.python_version}. Best of {self.runs} runs, the median CPU time in brackets."
        tables = [_replica_table(replica) for replica in self.replicas]
        return "\n\n".join([head, *tables, _start_table(self.start), _verdict_table(self.verdicts())])

    def as_json(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "python_version": self.python_version,
            "runs": self.runs,
            "replicas": [
                {
                    "source": replica.source,
                    "size_bytes": replica.size_bytes,
                    "events": replica.events,
                    "commands": {name: _plain(outcome) for name, outcome in replica.outcomes.items()},
                }
                for replica in self.replicas
            ],
            "small_traces": [
                {"source": source, "size_bytes": size, "report": _plain(outcome)}
                for source, (size, outcome) in self.start.small_traces.items()
            ],
            "python_pass": _plain(self.start.python),
            "help": _plain(self.start.help),
            "verdicts": [asdict(found) | {"passed": found.passed} for found in self.verdicts()],
        }


def cpu_s(outcome: Outcome) -> float | None:
    """The best CPU time, if the command worked."""
    return outcome.best.cpu_s if isinstance(outcome, Measurement) else None


def wall_s(outcome: Outcome) -> float | None:
    """The best wall time, if the command worked."""
    return outcome.best.wall_s if isinstance(outcome, Measurement) else None


def peak_bytes(outcome: Outcome) -> float | None:
    """The best peak memory, if the command worked."""
    return outcome.best.peak_bytes if isinstance(outcome, Measurement) else None


def ratio(value: float | None, base: float | None) -> float | None:
    """How many times the base, if both are known."""
    return None if value is None or not base else value / base


def _plain(outcome: Outcome) -> dict[str, Any]:
    """An outcome in a form for JSON."""
    if isinstance(outcome, CommandError):
        return {"error": str(outcome)}
    return {"best": asdict(outcome.best), "median": asdict(outcome.median)}


def _replica_table(replica: Replica) -> str:
    """One replica: a row per command."""
    columns = ("command", "CPU s", "wall s", "peak MB", "us per event", "CPU ratio", "memory ratio")
    rows = [
        (
            name,
            *_figures(outcome),
            _number(replica.us_per_event(name), ".2f"),
            _number(replica.cpu_ratio(name), ".2f"),
            _number(replica.memory_ratio(name), ".3f"),
        )
        for name, outcome in replica.outcomes.items()
    ]
    return f"### {replica.title}, {replica.events:,} events\n\n{_table(columns, rows)}"


def _start_table(start: Start) -> str:
    """Small traces and start-up: a row per command."""
    rows = [
        (f"{source} ungrown ({size / 1e6:.1f} MB), {OURS[0]}", *_figures(outcome))
        for source, (size, outcome) in start.small_traces.items()
    ]
    rows += [("python -c pass", *_figures(start.python)), ("traceanalyzer --help", *_figures(start.help))]
    return f"### From a cold start\n\n{_table(('command', 'CPU s', 'wall s', 'peak MB'), rows)}"


def _verdict_table(verdicts: Iterable[Verdict]) -> str:
    """Every target: a row per figure."""
    columns = ("figure", "measured", "target", "")
    rows = [
        (found.name, _number(found.value, ".3f"), f"at most {found.target:g}", "pass" if found.passed else "**miss**")
        for found in verdicts
    ]
    return f"### Targets\n\n{_table(columns, rows)}"


def _figures(outcome: Outcome) -> tuple[str, str, str]:
    """The cells of CPU, wall time and peak memory; the reason of a failure is not shown in the table."""
    if isinstance(outcome, CommandError):
        return ("failed", "-", "-")
    best = outcome.best
    cpu = f"{best.cpu_s:.3f} ({outcome.median.cpu_s:.3f})"
    return (cpu, f"{best.wall_s:.3f}", f"{best.peak_bytes / 1e6:.0f}")


def _number(value: float | None, style: str) -> str:
    """A number, or a dash if there is none."""
    return "-" if value is None else format(value, style)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, all columns but the first right-aligned."""
    header = list(columns)
    ruler = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ruler, *rows])
