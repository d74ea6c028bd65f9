"""Checks whether the two sides do the same work, on the same machine, recorded in the same way.

The score is the weighted mean over the conditions of how far each is met; unknown conditions do not count. Without
common work the score is 0. Some conditions are required: on another device, with another number of ranks, with steps
marked in another way, or with another amount of data, a difference of step times shows nothing about the change to the
program.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction

import msgspec

from traceanalyzer.comparison import clocks
from traceanalyzer.comparison.alignment import is_as_often
from traceanalyzer.comparison.measurement import EARLIER, Key, Measurement, Table
from traceanalyzer.report.difference import Check, Comparability
from traceanalyzer.report.message import Message, Text

_MOST = 0.5
"""Own choice: where one ratio explains half of the time in other shapes, it is the reason for them."""

_ROWS = 32
"""Shapes of an operator that are looked at, those with most time (own choice: they have nearly all of it)."""

Shape = tuple[int, ...]


def shapes_in_common(base: Table, head: Table) -> float | None:
    """Share of the operators' time that is in shapes of both sides, over operators that both sides have.

    The smaller one of the two sides' shares; None where nothing is known.
    """
    common = {key.name for key in base} & {key.name for key in head}
    shares = [_share(base, head, common), _share(head, base, common)]
    known = [share for share in shares if share is not None]
    return min(known) if known else None


def scale_of(base: Table, head: Table) -> float | None:
    """The ratio of dimensions, head to base, that explains most of the other shapes; None if none does.

    Shapes belong together if operators of one name have them equally often in a step. Of several ratios that do (a
    larger batch is padded to longer sequences), it is the largest.
    """
    votes, whole = _votes(base, head)
    if not votes:
        return None
    best = max(votes, key=lambda ratio: (votes[ratio], ratio))
    changed = 1 - (shapes_in_common(base, head) or 0.0)
    return float(best) if votes[best] > _MOST * whole and changed > _MOST else None


def _votes(base: Table, head: Table) -> tuple[dict[Fraction, float], float]:
    """For each ratio the time of the rows that it explains; and the time of all rows that may be explained."""
    time = _time(base)
    votes: defaultdict[Fraction, float] = defaultdict(float)
    whole = 0.0
    others_of = _by_name(head, base)
    for name, rows in _by_name(base, head).items():
        others = {other: _tensors(other) for other in _largest(others_of.get(name, ()), _time(head))}
        if not others:
            continue
        whole += math.fsum(map(time, rows))
        for row in _largest(rows, time):
            as_often = [
                tensors
                for other, tensors in others.items()
                if is_as_often(base[row].calls or 0.0, head[other].calls or 0.0)
            ]
            for ratio in _all_ratios(_tensors(row), as_often):
                votes[ratio] += time(row)
    return votes, whole


def _all_ratios(tensors: tuple[Shape, ...], others: Iterable[tuple[Shape, ...]]) -> set[Fraction]:
    """The ratios that lead from the tensors of a row to those of any of some other rows."""
    return {ratio for other in others for ratio in _ratios(tensors, other)}


def _largest(keys: Collection[Key], time: Callable[[Key], float]) -> list[Key]:
    return sorted(keys, key=lambda key: (-time(key), key.detail or ""))[:_ROWS]


def _share(table: Table, other: Table, common: Collection[str]) -> float | None:
    time = _time(table)
    rows = [key for key in table if key.name in common]
    whole = math.fsum(map(time, rows))
    missing = math.fsum(time(key) for key in rows if key not in other)
    return 1 - missing / whole if whole else None


def _time(table: Table) -> Callable[[Key], float]:
    """Time of a row in ns: on the device, if the side has one."""
    field = "device_ns" if any(cost.device_ns for cost in table.values()) else "host_ns"
    return lambda key: getattr(table[key], field) or 0.0


def _by_name(table: Table, other: Table) -> dict[str, list[Key]]:
    """Rows that the other side does not have, by operator."""
    keys_of: defaultdict[str, list[Key]] = defaultdict(list)
    for key in table:
        if key not in other:
            keys_of[key.name].append(key)
    return keys_of


def _tensors(key: Key) -> tuple[Shape, ...]:
    """The shapes of a row's tensors; of what is no tensor, nothing."""
    try:
        decoded = msgspec.json.decode((key.detail or "").encode())
    except (msgspec.DecodeError, RecursionError):
        return ()
    shapes = decoded if isinstance(decoded, list) else []
    is_shape = [isinstance(s, list) and all(isinstance(size, int) and size > 0 for size in s) for s in shapes]
    return tuple(tuple(shape) if right else () for shape, right in zip(shapes, is_shape, strict=True))


def _ratios(base: tuple[Shape, ...], head: tuple[Shape, ...]) -> set[Fraction]:
    """The ratios of all dimensions that differ; none if tensors have other numbers of dimensions."""
    if [*map(len, base)] != [*map(len, head)]:
        return set()
    pairs = ((b, h) for one, two in zip(base, head, strict=True) for b, h in zip(one, two, strict=True))
    return {Fraction(h, b) for b, h in pairs if h != b}


_WEIGHTS = {
    "gpu": 3,
    "clocks": 2,
    "power": 1,
    "sizes": 3,
    "shapes": 2,
    "steps-from": 2,
    "world-size": 2,
    "calls": 2,
    "ranks": 1,
    "step-count": 1,
    "options": 1,
}
"""Weight of each condition (own choice: what changes the time of a step most counts most)."""

_SHAPES_IN_COMMON = 0.05
"""Own choice: of the operators' time; another model shares a few small tensors with any other."""
_SAME = 0.95
"""Share of the operators' time in shapes of both sides from which on sizes are the same (own choice)."""
_CALLS_IN_COMMON = 0.5
"""Own choice: another batch size or length keeps the operators and their calls, another model does not."""
_AS_MUCH = 1.5
"""Own choice: operations grow with the batch to the power of 1, or a little more, and of 2 with a model's width."""
_LEAST_IN_COMMON = 3
"""Own choice: fewer operators that both sides call say nothing about their steps."""
_ANYTHING_IN_COMMON = 0.05
"""Own choice, where shapes do not show it: of the operators' calls and of the kernels' time."""

_UNRELATED = Text(
    "diff-unrelated",
    "The two sides have hardly any operators, input shapes or kernels in common: they are different programs.",
)

_GPU = (
    Text("diff-gpu-same", "The same GPU: {base}."),
    Text("diff-gpu-other", "Different GPUs: {base} and {head}."),
    Text("diff-gpu-unknown", "The GPU is unknown on at least one side."),
)
_WORLD = (
    Text("diff-world-same", "The same number of ranks: {base:count}."),
    Text("diff-world-other", "Different numbers of ranks: {base:count} and {head:count}."),
    Text("diff-world-unknown", "The number of ranks is unknown on at least one side."),
)
_RANKS = (
    Text("diff-ranks-same", "Both sides have the same ranks."),
    Text(
        "diff-ranks-other",
        "{common:count} ranks are on both sides and are compared; {others:count} are left out.",
        one="{common:count} rank is on both sides and is compared; {others:count} are left out.",
    ),
    Text("diff-ranks-none", "No rank is on both sides, so all ranks of one side are compared with all of the other."),
)
_STEPS = (
    Text("diff-steps-same", "Steps were found in the same way: {base}."),
    Text(
        "diff-steps-other",
        "Steps were found in different ways, by {base} and by {head}, so they may be different work.",
    ),
    Text("diff-steps-unknown", "At least one side has no steps."),
)
_STEPS_ALIKE = Text(
    "diff-steps-alike-2",
    "Steps were found in different ways, by {base} and by {head}, but {same:count} of {all:count} operators of both "
    "sides are called equally often in them.",
)
_COUNT = (
    Text("diff-count-same", "The same number of steps: {base:count}."),
    Text("diff-count-other", "Different numbers of steps, {base:count} and {head:count}; all figures are per step."),
)
_SHAPES = (
    Text("diff-shapes-same", "The same input shapes."),
    Text(
        "diff-shapes-other",
        "{share:share} of operator time has the same input shapes on both sides; else the inputs, the model or what is "
        "compiled changed.",
    ),
    Text("diff-shapes-unknown", "Input shapes are missing on at least one side (record_shapes=True records them)."),
)
_SIZES = (
    Text("diff-sizes-same", "The operators work on tensors of the same sizes."),
    Text(
        "diff-sizes-other",
        "The operators work on tensors with dimensions {ratio:number} times as large (another batch size, sequence "
        "length or width), so the steps do different work.",
    ),
)
_ITEMS = Text(
    "diff-sizes-items",
    "Each step has {ratio:number} times as much data in one dimension (a batch or sequences), so the steps do "
    "different work. For as much data as in a step of the base, {base:ns} became {head:ns}: {factor:factor}x the "
    "throughput.",
    "the throughput per item of data; ratio is that of dimensions of tensors",
)
_CALLS = (
    Text("diff-calls-same", "The same operators, called equally often."),
    Text("diff-calls-other", "{share:share} of the operators' calls are the same on both sides."),
    Text("diff-calls-unknown", "At least one side has no operators."),
)
_OPTIONS = (
    Text("diff-options-same", "Recorded with the same options."),
    Text(
        "diff-options-other",
        "Recorded with different options ({options}): recording itself takes time on the CPU.",
        note="options are names of parameters of torch.profiler.profile",
    ),
    Text("diff-options-unknown", "The recording options are unknown on at least one side."),
)


def check(base: Measurement, head: Measurement) -> Comparability:
    """Check all conditions, and compute their score."""
    checks = [c for c in (find(base, head) for find in _CONDITIONS) if c is not None]
    known = [(c.similarity, _WEIGHTS[c.id]) for c in checks if c.similarity is not None and c.id in _WEIGHTS]
    score = math.fsum(s * w for s, w in known) / math.fsum(w for _, w in known) if known else None
    return Comparability(0.0 if _work(base, head) else score, tuple(checks))


def _work(base: Measurement, head: Measurement) -> Check | None:
    """Only where the sides have nothing in common: by shapes where both have them, else by calls and kernels."""
    tables = _by_shape(base, head)
    share = shapes_in_common(*tables)
    calls = _shared_calls(base, head)
    if share is not None:
        is_same_work = share >= _SHAPES_IN_COMMON or scale_of(*tables) is not None
        is_other = not is_same_work and calls is not None and calls < _CALLS_IN_COMMON
    else:
        known = [value for value in (calls, _shared_kernels(base, head)) if value is not None]
        is_other = bool(known) and max(known) < _ANYTHING_IN_COMMON
    return Check("work", 0.0, True, _UNRELATED()) if is_other else None


def _shared_kernels(base: Measurement, head: Measurement) -> float | None:
    """The larger share of the kernels' time that is in kernels of both sides; None where a side has none."""
    one, two = (side.rankings["kernels"].rows if "kernels" in side.rankings else {} for side in (base, head))
    wholes = [math.fsum(cost.device_ns or 0.0 for cost in table.values()) for table in (one, two)]
    if not all(wholes):
        return None
    names = {key.name for key in one} & {key.name for key in two}
    common = (math.fsum(c.device_ns or 0.0 for key, c in table.items() if key.name in names) for table in (one, two))
    return max(part / whole for part, whole in zip(common, wholes, strict=True))


def _gpu(base: Measurement, head: Measurement) -> Check:
    one, two = base.side.devices, head.side.devices
    params = {"base": ", ".join(one), "head": ", ".join(two)}
    return _equal("gpu", one or None, two or None, _GPU, params)


def _world_size(base: Measurement, head: Measurement) -> Check | None:
    one, two = base.world_size, head.world_size
    if one is None and two is None:
        return None
    return _equal("world-size", one, two, _WORLD, {"base": one, "head": two})


def _ranks(base: Measurement, head: Measurement) -> Check | None:
    """Whether both sides had the same ranks; by now they contain only the common ranks."""
    if not base.side.ranks and not head.side.ranks:
        return None
    same, other, none = _RANKS
    if base.side.ranks != head.side.ranks:
        return Check("ranks", 0.0, False, none())
    common = len(base.side.ranks)
    others = len({*base.side.ranks_left_out, *head.side.ranks_left_out})
    message = other(common=common, others=others) if others else same()
    return Check("ranks", common / (common + others), False, message)


def _steps_from(base: Measurement, head: Measurement) -> Check:
    """Whether a step is the same part of the program: steps that were found in other ways may still be."""
    one, two = base.side.steps_from, head.side.steps_from
    single = (side.once for side in (base, head) if len(side.steps) == 1)
    cut = [message for once in single for message in once if message.id == EARLIER.id]
    if len(cut) == 1:
        return Check("steps-from", 0.0, True, cut[0])
    same, every = _called_alike(base, head) if one and two and one != two else (0, 0)
    if same >= _LEAST_IN_COMMON:
        return Check("steps-from", 0.5, True, _STEPS_ALIKE(base=one, head=two, same=same, all=every))
    return _equal("steps-from", one, two, _STEPS, {"base": one, "head": two})


def _called_alike(base: Measurement, head: Measurement) -> tuple[int, int]:
    """How many operators of both sides are called equally often in a step, if more than in any other ratio; and all.

    Compiled code takes calls away.
    """
    one, two = (_calls_by_name(side.rankings["operators"].rows) for side in (base, head))
    ratios = Counter(round(two[name] / one[name], 1) for name in one if one[name] and two.get(name))
    ratio, count = max(ratios.items(), key=lambda entry: (entry[1], entry[0] == 1.0), default=(0.0, 0))
    return (count, ratios.total()) if ratio == 1.0 else (0, 0)


def _step_count(base: Measurement, head: Measurement) -> Check:
    one, two = base.side.steps, head.side.steps
    same, other = _COUNT
    return Check(
        "step-count", min(one, two) / max(one, two), False, (same if one == two else other)(base=one, head=two)
    )


def _shapes(base: Measurement, head: Measurement) -> Check:
    """Share of the time in common shapes, over operators of both sides: a replaced operator is not another shape."""
    return _shared("shapes", shapes_in_common(*_by_shape(base, head)), _SHAPES)


def _sizes(base: Measurement, head: Measurement) -> Check | None:
    """Whether one ratio explains the other shapes, which shows another amount of data, not another model."""
    tables = _by_shape(base, head)
    common = shapes_in_common(*tables)
    scaled = scale_of(*tables)
    same, other = _SIZES
    if common is None or scaled is None or (base.flops and head.flops and is_as_often(base.flops, head.flops)):
        return Check("sizes", 1.0, True, same()) if common is not None and common >= _SAME else None
    one, two = base.step_ns, head.step_ns
    if one and two and _is_more_data(base, head, scaled):
        items = _ITEMS(ratio=scaled, base=one, head=two / scaled, factor=one / two * scaled)
        return Check("sizes", 0.0, True, items)
    return Check("sizes", 0.0, True, other(ratio=scaled))


def _is_more_data(base: Measurement, head: Measurement, ratio: float) -> bool:
    """Whether products grew with the data, and not with its square as for a wider model."""
    if not base.flops or not head.flops or ratio == 1:
        return False
    power = math.log(head.flops / base.flops) / math.log(ratio)
    return 1 / _AS_MUCH <= power <= _AS_MUCH


def _by_shape(base: Measurement, head: Measurement) -> tuple[Table, Table]:
    return base.rankings["operators_by_shape"].rows, head.rankings["operators_by_shape"].rows


def _calls(base: Measurement, head: Measurement) -> Check:
    return _shared("calls", _shared_calls(base, head), _CALLS)


def _shared(id: str, share: float | None, texts: tuple[Text, Text, Text]) -> Check:  # noqa: A002 - the contract's word
    """Whether a share of something is on both sides; not required, and None is unknown."""
    same, other, unknown = texts
    if share is None:
        return Check(id, None, False, unknown())
    return Check(id, share, False, same() if share == 1 else other(share=share))


def _shared_calls(base: Measurement, head: Measurement) -> float | None:
    """The share of the operators' calls that is the same on both sides; None where a side has no operators."""
    one, two = (_calls_by_name(side.rankings["operators"].rows) for side in (base, head))
    most = math.fsum(max(one.get(name, 0.0), two.get(name, 0.0)) for name in {*one, *two})
    if not one or not two or not most:
        return None
    share = math.fsum(min(calls, two.get(name, 0.0)) for name, calls in sorted(one.items())) / most
    return 1.0 if share > 1 - 1e-9 else share  # sums of fractions


def _calls_by_name(table: Table) -> dict[str, float]:
    calls: defaultdict[str, float] = defaultdict(float)
    for key, cost in table.items():
        calls[key.name] += cost.calls or 0.0
    return calls


def _options(base: Measurement, head: Measurement) -> Check | None:
    if base.options is None or head.options is None:
        return None
    same, other, unknown = _OPTIONS
    pairs = {f: (getattr(base.options, f), getattr(head.options, f)) for f in base.options.__struct_fields__}
    known = {f: pair for f, pair in pairs.items() if None not in pair}
    if not known:
        return Check("options", None, False, unknown())
    differing = [f for f, (one, two) in known.items() if one != two]
    message: Message = other(options=", ".join(differing)) if differing else same()
    return Check("options", 1 - len(differing) / len(known), False, message)


def _equal(
    id: str,  # noqa: A002 - the contract's word
    one: object,
    two: object,
    texts: tuple[Text, Text, Text],
    params: Mapping[str, object],
) -> Check:
    """Whether two values are equal, which is required; None is unknown."""
    same, other, unknown = texts
    if one is None or two is None:
        return Check(id, None, True, unknown())
    return Check(id, float(one == two), True, (same if one == two else other)(**params))


_CONDITIONS: tuple[Callable[[Measurement, Measurement], Check | None], ...] = (
    _work,
    _gpu,
    clocks.check,
    clocks.check_power,
    _world_size,
    _ranks,
    _steps_from,
    _step_count,
    _shapes,
    _sizes,
    _calls,
    _options,
)
