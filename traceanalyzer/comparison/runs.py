"""What changed between the ranks of two runs: who is late, how long ranks wait, and which collectives take how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from msgspec.structs import replace

from traceanalyzer import multirank
from traceanalyzer.analyzers.ranks.member import of_report
from traceanalyzer.analyzers.ranks.model import GroupRow, Ranks
from traceanalyzer.config import Config
from traceanalyzer.multirank import ComparedRanks
from traceanalyzer.report.difference import CollectiveChange, RunChange, RunSide
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.report.selection import Selection

_Kind = tuple[str, int, int]
"""Operation, number of ranks of the group, and size of a message in bytes; 0 where it is unknown."""


@dataclass(frozen=True)
class JoinedRanks:
    """The ranks of one side together."""

    compared: ComparedRanks
    report: Report
    """Their joint report."""

    @property
    def times(self) -> Mapping[tuple[str, str], float]:
        """How much longer late ranks make a step in ns, by the kind and name of what findings on them are about."""
        late = self.compared.stragglers
        return {} if late is None or not late.late_ranks_ns_per_step else {_LATE: late.late_ranks_ns_per_step}

    def findings(self, of_ranks: Iterable[Finding]) -> Iterator[Finding]:
        """What all ranks show, with the events of one of them that show it too, then what only single ranks show.

        Where a rank is late, the collectives of another rank last as long as it waits for that one: so they count once.
        """
        single = list(of_ranks)
        late = self.times.get(_LATE)
        of_late = () if late is None else (Selection(*_LATE, None, None, None, late, 0, (), 0, 0),)
        for finding in self.report.findings:
            own = next((each for each in single if each.rule == finding.rule), None)
            where = of_late if finding.rule == _STRAGGLER else own.where if own else ()
            yield replace(finding, where=where)
        known = {finding.rule for finding in self.report.findings}
        for finding in single:
            waits = finding.saving is not None and finding.saving.resource == "communication"
            if finding.rule not in known and not (waits and late is not None):
                yield finding


_STRAGGLER = "comm-straggler"
_LATE = ("rank", "late ranks")
"""What the finding on late ranks is about: no events of one rank."""


def of_reports(name: str, reports: Sequence[Report], config: Config | None) -> JoinedRanks | None:
    """Compare the ranks of one side, with the rules that a project has chosen; None unless it has several."""
    ranks = {report.trace.rank: report for report in reports if report.trace is not None}
    found = {rank: of_report(report) for rank, report in ranks.items() if rank is not None}
    members = {rank: member for rank, member in found.items() if member is not None}
    if len(members) < 2:
        return None
    compared = multirank.compare(members)
    return JoinedRanks(compared, multirank.join(members, name, config, compared))


def compare(base: JoinedRanks | None, head: JoinedRanks | None) -> RunChange | None:
    """Compare two runs; None unless both sides have several ranks."""
    if base is None or head is None:
        return None
    one, two = base.compared, head.compared
    rows = sorted(_collectives(one.judged, two.judged), key=lambda row: (-abs(_change(row)), row.operation))
    return RunChange(_side(one), _side(two), tuple(rows))


def _side(run: ComparedRanks) -> RunSide:
    late = run.stragglers
    return RunSide(
        late_ranks=late.late_ranks if late is not None else (),
        late_ns=late.late_ranks_ns_per_step if late is not None else None,
        wait_ns=run.judged.wait_ns,
        exposed_wait_ns=run.judged.exposed_wait_ns,
        transfer_ns=run.judged.transfer_ns,
    )


def _change(row: CollectiveChange) -> float:
    """How much longer a rank spends in some collectives per step, in ns."""
    before, after = (
        (wait or 0.0) + (transfer or 0.0)
        for wait, transfer in ((row.base_wait_ns, row.base_transfer_ns), (row.head_wait_ns, row.head_transfer_ns))
    )
    return after - before


def _collectives(base: Ranks, head: Ranks) -> Iterator[CollectiveChange]:
    before = _by_kind(base)
    after = _by_kind(head)
    for kind in before.keys() | after.keys():
        operation, size, message = kind
        one, two = (_per_step(side.get(kind, ()), run) for side, run in ((before, base), (after, head)))
        yield CollectiveChange(
            operation, size or None, message or None, *(value for pair in zip(one, two, strict=True) for value in pair)
        )


def _by_kind(run: Ranks) -> Mapping[_Kind, Sequence[GroupRow]]:
    """Rows of collectives, whatever the names of their groups, which differ from run to run."""
    found: defaultdict[_Kind, list[GroupRow]] = defaultdict(list)
    for row in run.groups:
        found[row.operation or "", row.group_size or 0, row.message_bytes or 0].append(row)
    return found


def _per_step(rows: Sequence[GroupRow], run: Ranks) -> tuple[float | None, float | None, float | None]:
    """Number of collectives per step, and waiting and transfer of a rank in them per step in ns."""
    steps = max(1, run.counted_steps)
    ranks = len(run.ranks)
    if not rows:
        return None, None, None
    # groups side by side, such as those of tensor parallelism, are one collective of each rank
    times = [(row.collectives * row.ranks / ranks, row) for row in rows]
    return (
        fsum(count for count, _ in times) / steps,
        fsum(count * row.wait_ns for count, row in times) / steps,
        fsum(
            count * (row.transfer_ns if row.rank_transfer_ns is None else row.rank_transfer_ns) for count, row in times
        )
        / steps,
    )
