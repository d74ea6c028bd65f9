"""Which values are read to check the arguments of distributions, and does the program step an environment?

`torch.distributions` checks parameters when a distribution is made, and samples when their probability is asked for. To
raise an error it must read the result, one value for each check. An environment of reinforcement learning needs the
values of actions as numbers, too, but these cannot be left out. Frames of Python show both. Without frames, checks show
in `aten::_is_all_true` whose result is read at once: hardly anything else calls it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_activity import innermost
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

READING = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"})
"""Operators that read a value of a tensor in Python."""
_is_check = finds(r"(?:^|[/\\])torch[/\\]distributions[/\\]distribution\.py\(\d+\): (?:__init__|_validate_sample)$")
_PACKAGES = frozenset(
    {"gym", "gymnasium", "pettingzoo", "ale_py", "dm_env", "dm_control", "envpool", "minigrid", "stable_baselines3"}
)
_WORDS = frozenset({"env", "envs", "environment", "environments"})
"""Words in names of files, and at the end of names of folders, with environments."""
_STEPS = frozenset({f"{start}step{end}" for start in ("", "_") for end in ("", "_wait", "_async")})
_ALL_TRUE, _READ = "aten::_is_all_true", "aten::is_nonzero"
_AT_ONCE_NS = 50_000
"""Time from the end of the one to the start of the other at most (own choice: Python does nothing between them)."""
_LINES = 5


class CheckingLine(msgspec.Struct, frozen=True):
    """Checks that one Python line of the program asks for."""

    name: str
    """The line `file.py(12): function`."""
    checks: int
    """Checks in the typical steps."""
    time_ns: int
    """Time of these checks in ns."""


class DistributionChecks(msgspec.Struct, frozen=True):
    """Checks of distributions, and steps of environments, in the typical steps."""

    steps: int
    """Number of typical steps."""
    by_frames: bool
    """Whether Python frames show the checks; else operators do, and only what reads their results is known."""
    checks: int
    """Checks of parameters or samples that read a value."""
    time_ns: int
    """Time of these checks in ns; without frames that of reading their results."""
    operators: int
    """Operators that were recorded in them."""
    lines: tuple[CheckingLine, ...]
    """Where they are asked for, those that take longest first, at most five; empty without frames."""
    environment: str | None
    """The function that steps an environment, the most frequent one; null where no frame shows any."""
    environment_steps: int
    """Calls of it."""


class CheckFrames(msgspec.Struct, frozen=True):
    """Rows of frames that check arguments of distributions and read a value, in the whole recording."""

    rows: I64

    def contain(self, context: Context, thread: Array, times: I64) -> Bool:
        """Which points in time of threads lie in a check."""
        if not len(self.rows):
            return np.zeros(len(times), np.bool_)
        is_within: Bool = innermost(context.trace.frames, self.rows, thread.astype(np.int32), times) != NO_PARENT
        return is_within


def analyze(context: Context) -> DistributionChecks:
    """Add up the checks, and find the environment."""
    frames, host = context.trace.frames, context.trace.host
    rows = _in_steps(context, context.cached(check_frames).rows)
    environment, calls = _environment(context)
    pairs = _pairs_in_steps(context)
    by_frames = len(rows) > 0 or not len(pairs)
    if by_frames:
        start = frames.start_ns[rows]
        end = frames.end_ns[rows]
    else:
        start = host.start_ns[pairs[:, 0]]
        end = host.end_ns[pairs[:, 1]]
    operators = np.flatnonzero(host.category == Category.OPERATOR)
    inside = CheckFrames(rows).contain(context, host.thread[operators], host.start_ns[operators])
    return DistributionChecks(
        steps=len(program_steps(context).typical),
        by_frames=by_frames,
        checks=len(start),
        time_ns=Intervals.union(start, end).length,
        operators=int(inside.sum()) if by_frames else 2 * len(start),
        lines=_lines(context, rows),
        environment=environment,
        environment_steps=calls,
    )


def _environment(context: Context) -> tuple[str | None, int]:
    """The function that steps an environment most often, and its calls."""
    frames = context.trace.frames
    stepping = _environments(context)
    if not len(stepping):
        return None, 0
    first, kind = group(frames.name[stepping])
    counts = count_by(kind, len(first))
    most = int(np.argmax(counts))
    return context.trace.names[frames.name[stepping[first[most]]]], int(counts[most])


@event_set
def checks_at(context: Context) -> Iterator[Occurrences]:
    """When arguments of distributions are checked in typical steps, by frames."""
    rows = _in_steps(context, context.cached(check_frames).rows)
    frames = context.trace.frames
    yield Occurrences(
        "host", "checks", frames.thread[rows].astype(np.int64), frames.start_ns[rows], frames.end_ns[rows]
    )


def check_frames(context: Context) -> CheckFrames:
    """The frames that check arguments of distributions, where a value is read in them."""
    trace = context.trace
    rows = np.flatnonzero(trace.names.where(_is_check)[trace.frames.name])
    if not len(rows):
        return CheckFrames(rows)
    reads = np.flatnonzero(trace.names.where(READING.__contains__)[trace.host.name])
    around = innermost(trace.frames, rows, trace.host.thread[reads], trace.host.start_ns[reads])
    return CheckFrames(distinct(around[around != NO_PARENT]).astype(np.int64))


def checks_without_frames(context: Context) -> I64:
    """Rows of the host table that find out whether all values are valid, and that read it; shape (checks, 2)."""
    names, host = context.trace.names, context.trace.host
    codes = names.code(_ALL_TRUE), names.code(_READ)
    rows = np.flatnonzero(np.isin(host.name, codes)) if min(codes) >= 0 else np.empty(0, np.int64)
    rows = rows[np.argsort(host.thread[rows], kind="stable")]
    before = rows[:-1]
    after = rows[1:]
    pause = host.start_ns[after] - host.end_ns[before]
    is_pair = (host.name[before] == codes[0]) & (host.name[after] == codes[1])
    is_pair &= (host.thread[before] == host.thread[after]) & (pause >= 0) & (pause <= _AT_ONCE_NS)
    return np.column_stack((before[is_pair], after[is_pair]))


def _pairs_in_steps(context: Context) -> I64:
    pairs = context.cached(checks_without_frames)
    return pairs[program_steps(context).typical.at(context.trace.host.start_ns[pairs[:, 0]]) >= 0]


def _is_environment(name: str) -> bool:
    """Whether a Python function steps an environment, by the package, the folder or the file of the function."""
    place, _, rest = name.partition("(")
    if rest.partition("): ")[2] not in _STEPS:
        return False
    *folders, file = place.replace("\\", "/").split("/")
    in_folder = bool(folders) and folders[-1].rpartition("_")[2] in _WORDS
    return in_folder or not _PACKAGES.isdisjoint(folders) or not _WORDS.isdisjoint(file.removesuffix(".py").split("_"))


def _environments(context: Context) -> I64:
    """Rows of frames that step an environment in typical steps."""
    names, frames = context.trace.names, context.trace.frames
    return _in_steps(context, np.flatnonzero(names.where(_is_environment)[frames.name]))


def _in_steps(context: Context, rows: I64) -> I64:
    return rows[program_steps(context).typical.at(context.trace.frames.start_ns[rows]) >= 0]


def _has_any(context: Context) -> bool:
    """Whether a typical step checks a distribution or steps an environment."""
    has_any = len(_in_steps(context, context.cached(check_frames).rows)) or len(_environments(context))
    return bool(has_any or len(_pairs_in_steps(context)))


def _lines(context: Context, rows: I64) -> tuple[CheckingLine, ...]:
    frames = context.trace.frames
    line = host_activity.python_lines(context, frames.thread[rows], frames.start_ns[rows])
    first, own = group(line)
    time = sum_by(own, frames.dur_ns[rows], len(first))
    calls = count_by(own, len(first))
    names = [context.trace.names[code] for code in line[first].tolist()]
    found = [CheckingLine(*row) for row in zip(names, calls.tolist(), time.tolist(), strict=True)]
    return tuple(sorted(found, key=lambda row: (-row.time_ns, row.name))[:_LINES])


_NEEDED = Need(
    Text("skip-no-distribution-checks", "nothing shows checks of distributions or environments in the typical steps"),
    _has_any,
)
ANALYSES = (Analysis(470, "distribution_checks", DistributionChecks, analyze, needs=(_NEEDED,), is_of_steps=True),)
