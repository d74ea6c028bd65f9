"""How do the ranks of a run compare: which are late, which wait, what does it cost, how far apart are their clocks?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from math import fsum

from msgspec import structs
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks import ranges
from traceanalyzer.analyzers.ranks.model import ExchangeRow, GroupRow, RankRow, Ranks
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.report import units
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import word
from traceanalyzer.report.section import Fact, Section, SectionTable, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, known, optional, table
from traceanalyzer.structure.recording import Recording

TITLE = Text("ranks-title", "Ranks")
_STEP = Text("ranks-step", "A step takes {mean:ns}, mean over {ranks:count} ranks.")
_ONE = Text("ranks-one", "A step takes {mean:ns}. This is one rank only.")
_WAITING = Text(
    "ranks-waiting",
    "In matched collectives, a rank waits {wait:ns} per step for the others ({exposed:ns} of it while nothing else "
    "runs), and {transfer:ns} are transfer.",
)
_WAITING_ON_HOST = Text(
    "ranks-waiting-on-host",
    "In matched collectives, a rank waits {wait:ns} per step for the others, and {transfer:ns} are transfer. They "
    "run on the CPU, so it is unknown what else runs meanwhile.",
)
_WAITING_UNKNOWN = Text(
    "ranks-waiting-unknown",
    "In matched collectives, a rank spends {time:ns} per step. How much of that is waiting for other ranks is unknown, "
    "because not every rank has a trace here.",
)
_UNEVEN = Text("ranks-uneven", "Without waiting, rank {rank} would take longest: {share:share} longer than the mean.")
_MATCHED = Text(
    "ranks-matched",
    "{matched:count} of {recorded:count} collectives were matched: {numbered:count} by id or sequence number, "
    "{ordered:count} by order.",
    one="{matched:count} of {recorded:count} collectives was matched: {numbered:count} by id or sequence number, "
    "{ordered:count} by order.",
)
_NOT_MUTUAL = Text(
    "ranks-not-mutual",
    "{count:count} are messages between two ranks, from or to a single rank, or of unequal parts without a common "
    "clock: they do not show waiting.",
    one="{count:count} is a message between two ranks, from or to a single rank, or of unequal parts without a "
    "common clock: it does not show waiting.",
)
_CONTRADICTED = Text(
    "ranks-contradicted",
    "{count:count} apparent matches do not overlap in time and were left out.",
    one="{count:count} apparent match does not overlap in time and was left out.",
)
_HERE = Text("ranks-here", "Ranks in this report")
_WORLD = Text("ranks-world", "Ranks of the run")
_MISSING = Text("ranks-missing", "Missing ranks")
_SPREAD = Text("ranks-clock-spread", "Clocks differ by", "largest difference between two hosts' clocks")

_WAIT = Column(
    Text("ranks-wait", "Waiting", "for other ranks, while nothing else runs"), "ns", "exposed_wait_ns", if_any=known
)
_STEP_TIME = Column(
    columns.STEP.title, "ns", lambda row: row.mean_step_ns if row.typical_step_ns is None else row.typical_step_ns
)
_OWN = Column(Text("ranks-own", "Without waiting", "step without exposed waiting for other ranks"), "ns", "own_ns")
_RANK_COLUMNS = optional(
    known,
    columns.RANK,
    _STEP_TIME,
    replace(_OWN, is_extra=True),
    _WAIT,
    Column(Text("ranks-last", "Came last", "number of collectives"), "count", "last"),
)
_STRIP = Text("ranks-strip", "Parts of its step", "head of a column of bars")
_LEGEND = Text(
    "ranks-strip-legend",
    "Bars: █ computes, ▓ communicates, ░ waits for others, ▁ is idle; ◄ is late.",
    "what a rank does in its step",
)
_WORST = 3
"""Kinds of collectives with most waiting that stand beside the ranks."""
_LATE_SIGN = " ◄"
_CELLS = 30
"""Length of the longest bar in characters."""
_EVERY_RANK = 16
"""As many ranks are all shown, however few rows other tables have (own choice: two machines)."""
_ALL = Text("ranks-all-title", "Every rank")
_ALL_COLUMNS = optional(
    known,
    columns.RANK,
    Column(Text("ranks-steps", "Steps"), "count", "steps"),
    _STEP_TIME,
    columns.MEDIAN.of("median_step_ns"),
    Column(Text("ranks-computation", "Computation"), "ns", "computation_ns"),
    Column(Text("ranks-communication", "Communication"), "ns", "communication_ns"),
    columns.EXPOSED,
    _WAIT,
    Column(Text("ranks-hidden-too", "All waiting", "exposed or not"), "ns", "wait_ns"),
    Column(Text("ranks-rank-transfer", "Transfer"), "ns", "transfer_ns"),
    Column(Text("ranks-loader", "Waiting for input"), "ns", "loader_ns"),
    Column(Text("ranks-idle", "Idle GPU"), "ns", "idle_ns"),
    Column(Text("ranks-stalled", "Stalls", "time of threads that stand still"), "ns", "stalled_ns", if_any=bool),
    Column(Text("ranks-in-common", "Collectives", "that other ranks have, too"), "count", "matched"),
    columns.FILE,
)

_LATE = Text("ranks-late-title", "Late ranks")
_PARTS = {
    "computation": Text("ranks-part-computation", "computation"),
    "loader": Text("ranks-part-loader", "waiting for input"),
    "idle": Text("ranks-part-idle", "idle GPU"),
}
_LATE_COLUMNS = (
    columns.RANK,
    Column(Text("ranks-caused", "Waiting caused", "mean over ranks and steps"), "ns", "caused_ns"),
    Column(Text("ranks-in-steps", "Steps", "number of steps in which it is the main cause"), "count", "steps"),
    Column(
        Text("ranks-reason", "Takes longer in", "than the median of the others: computation, ..."),
        "",
        lambda late: word(_PARTS, late.excess[0].part) if late.excess else "",
        if_any=bool,
    ),
    Column(
        Text("ranks-excess", "Longer by", "how much longer"),
        "ns",
        lambda late: late.excess[0].ns if late.excess else None,
        if_any=known,
    ),
)

_SLOWDOWN_TITLE = Text("ranks-slowdown-title", "Slowdown by slow ranks")
_SLOWDOWN = Text(
    "ranks-slowdown",
    "Slowdown {slowdown:number}: a step takes {step:ns}; it would take {ideal:ns} if all work and transfers took no "
    "longer than the median of their peers on other ranks.",
)
_SLOWDOWN_LATE = Text("ranks-slowdown-late", "Without the delays of rank {rank} a step would be {late:ns} shorter.")
_SLOWDOWN_TOGETHER = Text(
    "ranks-slowdown-together",
    "Without the delays of ranks {ranks} a step would be {late:ns} shorter; without those of one of them by at most "
    "{alone:ns}, because it would then wait for the others.",
    "ranks is a list of numbers",
)
_RATIO = Column(
    Text("ranks-slowdown-alone", "Slowdown", "step over the step without what is slower than the median of its peers"),
    "number",
    "slowdown",
)
_KINDS = {
    "host": Text("ranks-kind-host", "CPU"),
    "loader": Text("ranks-kind-loader", "waiting for input"),
    "compute": Text("ranks-kind-compute", "computation"),
    "memory": Text("ranks-kind-memory", "copies and fills"),
    "communication": Text("ranks-kind-communication", "transfers"),
}

_LAST = Column(Text("ranks-group-last", "Last most often", "the rank that came last most often"), "", "last_rank")
_LAST_TIMES = Column(
    Text("ranks-group-last-times", "Times", "in how many collectives that rank came last"), "count", "last"
)
_GROUPS = Text("ranks-groups-title", "Collectives of several ranks")


def _is_whole(row: GroupRow) -> bool:
    """Whether all ranks of a group are here: else nobody knows how much of its collectives is waiting."""
    return row.ranks >= (row.group_size or row.ranks)


def _of_whole(field: str) -> Callable[[GroupRow], float | None]:
    """The cells of a field in the rows of whole groups."""
    return lambda row: getattr(row, field) if _is_whole(row) else None


_GROUP_COLUMNS = optional(
    known,
    columns.COLLECTIVE,
    columns.PROCESS_GROUP,
    columns.RANKS,
    Column(Text("ranks-group-here", "Ranks here", "ranks of the group in this report"), "count", "ranks"),
    columns.MESSAGE_SIZE,
    Column(Text("ranks-collectives", "Collectives"), "count", "collectives"),
    Column(
        Text("ranks-group-time", "Duration", "waiting and transfer, where ranks of the group have no trace here"),
        "ns",
        lambda row: None if _is_whole(row) else row.wait_ns + (row.rank_transfer_ns or row.transfer_ns),
    ),
    Column(Text("ranks-group-wait", "Waiting", "mean over collectives and ranks"), "ns", _of_whole("wait_ns")),
    Column(Text("ranks-transfer", "Transfer", "mean of the shortest durations"), "ns", _of_whole("transfer_ns")),
    Column(Text("ranks-start-skew", "Starts apart", "from the first to the last rank, mean"), "ns", "start_skew_ns"),
    _LAST,
    _LAST_TIMES,
    columns.ALGORITHM.of(_of_whole("algorithm_gb_per_s")),
    columns.BUS.of(_of_whole("bus_gb_per_s")),
)
_OF_LINK = Text("ranks-share-of-link", "Of the link", "share of the bandwidth of the link between GPUs")
_LINK = Text("ranks-link", "Link between GPUs")
_LINK_RATE = Text("ranks-link-rate", "{name}, {rate:number} GB/s", "name is NVLink and the like")
_EXCHANGES = Text("ranks-exchanges-title", "Experts: waiting in each exchange of a step")
_ROTATES = Text(
    "ranks-exchanges-rotate",
    "In {exchanges:count} exchanges of tokens between experts, the rank with most work rotates: {ranks:count} ranks "
    "come last, rank {rank} in the most places, {places:count}.",
)
_ONE_RANK = Text(
    "ranks-exchanges-one-rank",
    "In {exchanges:count} exchanges of tokens between experts, mostly one rank has most work: rank {rank} comes last "
    "in {places:count} places.",
)
_MOSTLY = 0.5
"""Least part of the places of exchanges in which one rank comes last, so that it is no rotation (own choice)."""
_EXCHANGE_COLUMNS = (
    Column(Text("ranks-exchange-place", "Exchange", "place among the exchanges of a step"), "", "place"),
    Column(Text("ranks-exchange-count", "Number"), "count", "collectives"),
    Column(columns.WAITING, "ns", "wait_ns"),
    _LAST,
    _LAST_TIMES,
)
_STEPS = Text("ranks-steps-title", "Steps of all ranks")
_STEP_COLUMNS = optional(
    known,
    columns.STEP,
    columns.RANKS.of("ranks"),
    columns.MEAN,
    columns.MIN,
    columns.MAX,
    Column(Text("ranks-step-longest", "Longest rank"), "", "longest"),
    Column(columns.WAITING, "ns", "wait_ns"),
    Column(Text("ranks-step-late", "Waits for rank"), "", "waited_for"),
)
_CLOCKS = Text("ranks-clocks-title", "Clocks")
_CLOCKS_MEAN = Text(
    "ranks-clocks-mean",
    "A collective ends on all ranks at nearly the same time. The difference between two clocks is the median "
    "difference of these ends, with a 95 % interval. Waiting is measured by durations and does not depend on clocks, "
    "except where parts may be unequal: there the clocks show which rank came last.",
)
_CLOCK_COLUMNS = (
    columns.RANK,
    Column(Text("ranks-clock-ahead", "Ahead by", "its clock shows a later time"), "ns", "skew.ns"),
    Column(Text("ranks-clock-low", "At least"), "ns", "skew.low_ns"),
    Column(Text("ranks-clock-high", "At most"), "ns", "skew.high_ns"),
    Column(Text("ranks-clock-reference", "Relative to rank", "whose clock it is compared with"), "", "skew.reference"),
    Column(Text("ranks-clock-collectives", "Collectives"), "count", "skew.collectives"),
    columns.FILE,
)
_TERMS = (
    Term(
        Text("define-waiting", "Waiting, Transfer"),
        Text(
            "define-waiting-say",
            "In a collective that needs all ranks, the last rank to arrive has the shortest duration, which "
            "is the transfer. The longer durations of the other ranks include waiting for it. Exposed is the "
            "part in which no other kernel runs.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of ranks, late ranks, collectives by group, steps and clocks."""
    ranks = report.result("ranks", Ranks)
    if ranks is None:
        return
    slowdown = report.result("stragglers", Stragglers)
    if ranks.has_partial_groups:
        ranks, slowdown = _without_waits(ranks), None
    yield _overview(report, ranks, slowdown, top)
    if ranks.stragglers:
        yield detail("ranks-late", _LATE, Topic.RANKS, (_late(ranks, top),))
    if slowdown is not None:
        yield _slowdown(slowdown, top)
    for id_, title, messages, shown, rows in (
        ("all", _ALL, (), _ALL_COLUMNS, ranks.ranks),
        ("groups", _GROUPS, (), _group_columns(ranks), ranks.groups),
        ("exchanges", _EXCHANGES, _rotation(ranks.exchanges), _EXCHANGE_COLUMNS, ranks.exchanges),
        ("steps", _STEPS, (), _STEP_COLUMNS, ranks.steps),
        ("clocks", _CLOCKS, (_CLOCKS_MEAN(),), _CLOCK_COLUMNS, _by_skew(ranks)),
    ):
        if rows or id_ == "all":
            tables = (table(f"ranks_{id_}", shown, rows, top),)
            yield detail(f"ranks-{id_}", title, Topic.RANKS, tables, messages=messages)


def _without_waits(ranks: Ranks) -> Ranks:
    """The ranks without what only all ranks of a group show: who waits for whom, and how long."""
    unknown = dict.fromkeys(("wait_ns", "exposed_wait_ns", "transfer_ns", "own_ns"))
    rows = tuple(structs.replace(row, **unknown) for row in ranks.ranks)
    steps = tuple(structs.replace(step, wait_ns=None, waited_for=None) for step in ranks.steps)
    return structs.replace(ranks, ranks=rows, steps=steps, imbalance=None, stragglers=(), exchanges=())


def _overview(report: Report, ranks: Ranks, slowdown: Stragglers | None, top: int) -> Section:
    """The section that is not folded: what waiting costs, who is late, and the ranks beside each other."""
    recording = report.result("recording", Recording)
    first, *others = _messages(ranks, recording.typical_step_ns if recording else None)
    messages = [first]
    late: tuple[int | None, ...] = ()
    if slowdown is not None:
        messages += _delays(slowdown)
        late = slowdown.late_ranks or (slowdown.late_rank,)
    messages += others
    tables = [_ranks(ranks, top, late)]
    if any(column.title == _STRIP for column in tables[0].columns):
        messages.append(_LEGEND())
    if ranks.groups:
        tables.append(table("ranks_groups", _group_columns(ranks), ranks.groups, min(top, _WORST)))
    return Section(
        "ranks",
        TITLE,
        messages=tuple(messages),
        facts=tuple(_facts(ranks)),
        tables=tuple(tables),
        topic=Topic.RANKS,
        terms=_TERMS,
    )


def _by_skew(ranks: Ranks) -> list[RankRow]:
    """The ranks whose clock was compared, the one that differs most first."""
    compared = [(abs(row.skew.ns), row.rank, row) for row in ranks.ranks if row.skew is not None]
    compared.sort(key=lambda entry: (-entry[0], entry[1]))
    return [row for *_, row in compared]


def _group_columns(ranks: Ranks) -> tuple[Column, ...]:
    """Columns of collectives; their bandwidth as a share of the link's where that is known."""
    if ranks.link is None:
        return _GROUP_COLUMNS
    rate = ranks.link.gb_per_s

    def of_link(row: GroupRow) -> float | None:
        return None if row.bus_gb_per_s is None or not _is_whole(row) else row.bus_gb_per_s / rate

    return (*_GROUP_COLUMNS, Column(_OF_LINK, "share", of_link, if_any=known))


def _rotation(exchanges: Sequence[ExchangeRow]) -> tuple[Message, ...]:
    """Whether it is one rank that comes last in exchanges of experts, or now one, now another."""
    last = Counter(row.last_rank for row in exchanges if row.last_rank is not None)
    if not last:
        return ()
    rank, places = last.most_common(1)[0]
    text = _ONE_RANK if places >= _MOSTLY * len(exchanges) else _ROTATES
    return (text(exchanges=len(exchanges), ranks=len(last), rank=rank, places=places),)


def _messages(ranks: Ranks, typical_ns: float | None) -> Iterator[Message]:
    step = ranks.mean_step_ns if typical_ns is None else typical_ns
    if len(ranks.ranks) > 1:
        yield _STEP(mean=step, ranks=len(ranks.ranks))
    else:
        yield _ONE(mean=step)
    if ranks.has_partial_groups:
        if ranks.wait_ns is not None and ranks.transfer_ns is not None:
            yield _WAITING_UNKNOWN(time=ranks.wait_ns + ranks.transfer_ns)
    elif ranks.wait_ns is not None:
        waiting = _WAITING_ON_HOST if ranks.exposed_wait_ns is None else _WAITING
        yield waiting(wait=ranks.wait_ns, exposed=ranks.exposed_wait_ns, transfer=ranks.transfer_ns)
    if ranks.imbalance is not None and ranks.wait_ns is not None:
        yield _UNEVEN(rank=_by_own(ranks)[0].rank, share=ranks.imbalance)
    matching = ranks.matching
    if matching.recorded and len(ranks.ranks) > 1:
        yield _MATCHED(
            matched=matching.matched,
            recorded=matching.recorded,
            numbered=matching.by_sequence,
            ordered=matching.matched - matching.by_sequence,
        )
        if matching.not_mutual:
            yield _NOT_MUTUAL(count=matching.not_mutual)
        if matching.contradicted:
            yield _CONTRADICTED(count=matching.contradicted)


def _facts(ranks: Ranks) -> Iterator[Fact]:
    yield Fact(_HERE, len(ranks.ranks), "count")
    if ranks.world_size is not None:
        yield Fact(_WORLD, ranks.world_size, "count")
    if ranks.missing:
        yield Fact(_MISSING, ranges(ranks.missing), "")
    if ranks.link is not None and any(row.bus_gb_per_s is not None for row in ranks.groups):
        yield Fact(_LINK, _LINK_RATE(name=ranks.link.name, rate=ranks.link.gb_per_s), "")
    skews = [row.skew.ns for row in ranks.ranks if row.skew is not None]
    if skews:
        yield Fact(_SPREAD, max(0, *skews) - min(0, *skews), "ns")


def _by_own(ranks: Ranks) -> list[RankRow]:
    """Rows of the ranks, the one that would take longest without waiting first."""
    return sorted(ranks.ranks, key=lambda row: (-(row.own_ns or row.mean_step_ns or 0.0), row.rank))


def _ranks(ranks: Ranks, top: int, late: Collection[int | None]) -> SectionTable:
    """The ranks; all waiting is shown if its exposed part is unknown."""
    waits = _WAIT.of("wait_ns") if ranks.exposed_wait_ns is None else _WAIT
    shown = [waits if column == _WAIT else column for column in _RANK_COLUMNS]
    longest = max((row.mean_step_ns or 0.0 for row in ranks.ranks), default=0.0)
    shown.append(Column(_STRIP, "", lambda row: _strip(row, longest) + _LATE_SIGN * (row.rank in late), if_any=bool))
    return replace(table("ranks", shown, _by_own(ranks), max(top, _EVERY_RANK)), is_whole=True)


def _strip(row: RankRow, longest_ns: float) -> str:
    """The step of a rank as a bar, on the scale of the longest one; empty where its parts are not known."""
    if row.computation_ns is None or row.exposed_ns is None or not longest_ns:
        return ""
    waits = row.exposed_wait_ns or 0.0
    parts = (row.computation_ns, max(0.0, row.exposed_ns - waits), waits, (row.idle_ns or 0.0) + (row.loader_ns or 0.0))
    ends = [round(min(1.0, fsum(parts[: number + 1]) / longest_ns) * _CELLS) for number in range(len(parts))]
    return "".join(sign * (end - start) for sign, start, end in zip("█▓░▁", [0, *ends], ends, strict=False))


def _late(ranks: Ranks, top: int) -> SectionTable:
    """The ranks that others wait for; the reasons are judged by the ranks that are shown."""
    return table("ranks_late", _LATE_COLUMNS, ranks.stragglers[:top], total=len(ranks.stragglers))


def _slowdown(stragglers: Stragglers, top: int) -> Section:
    """What slow ranks cost, by rank and by kind of work, the largest first."""
    ideal = stragglers.step_ns / stragglers.slowdown
    message = _SLOWDOWN(slowdown=stragglers.slowdown, step=stragglers.step_ns, ideal=ideal)
    ranks = sorted(stragglers.by_rank, key=lambda row: (-row.slowdown, row.rank))
    kinds = sorted(stragglers.by_kind, key=lambda row: -row.slowdown)
    kind = columns.KIND_OF_WORK.of(lambda row: word(_KINDS, row.kind))
    tables = (
        table("ranks_slowdown", (columns.RANK, _RATIO), ranks, top),
        table("ranks_slowdown_kinds", (kind, _RATIO), kinds),
    )
    return detail("ranks-slowdown", _SLOWDOWN_TITLE, Topic.RANKS, tables, messages=(message,))


def _delays(stragglers: Stragglers) -> Iterator[Message]:
    """What a step would be shorter by without the delays of late ranks."""
    if len(stragglers.late_ranks) > 1:
        late, alone = stragglers.late_ranks_ns_per_step, stragglers.late_ns_per_step
        together = units.ranges((rank, rank) for rank in stragglers.late_ranks)
        yield _SLOWDOWN_TOGETHER(ranks=together, late=late, alone=alone)
    elif stragglers.late_rank is not None:
        yield _SLOWDOWN_LATE(rank=stragglers.late_rank, late=stragglers.late_ns_per_step)
