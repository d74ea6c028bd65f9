"""Batches are copied to the GPU from pageable memory, which the driver must first copy itself.

What it detects:
    Copies of 64 KiB and more from pageable host memory to a device (`Memcpy HtoD (Pageable -> Device)`), while no
    kernel runs, for more than one percent of the step.

Why it matters:
    Such a copy goes through a buffer of the driver: it is slower, it blocks the host until it is nearly done, and no
    kernels can run at the same time.

What to do:
    Let the loader pin its batches (`pin_memory=True`) and copy them with `non_blocking=True`.

How the saving is estimated:
    The time of the copies while no kernel runs, minus the time of the same bytes at the bandwidth of pinned copies in
    this trace, or at 12 GB/s (PCIe 3) if there are none. The upper end includes waits for these copies after which the
    device had nothing to do. A table has no sizes, so there the upper end is all of the time.

When it is wrong:
    For small copies, and for memory that is used only once, pinning costs more than it saves. ROCm and XPU do not
    record what kind of memory a copy comes from; there the rule is skipped.

References:
    https://docs.pytorch.org/docs/stable/data.html#memory-pinning
    https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.copies import Copies, Copy
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _copies, _program, _settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_PCIE_3 = 12.0
"""GB/s of pinned copies over PCIe 3 x16 in practice; later generations reach two and four times that."""

_SUBJECT = Text("h2d-pageable-subject", "copies from pageable memory while no kernel runs, share of the step")
_SUBJECT_TABLE = Text("h2d-pageable-subject-table", "copies from pageable memory, share of the profiled time")
_BASIS = Text(
    "h2d-pageable-basis",
    "the time of the copies minus that of the same bytes at {bandwidth:number} GB/s; at most also the waits for them "
    "that left the GPU without work",
)
_BASIS_TABLE = Text(
    "h2d-pageable-basis-table", "at most all of the copies; at least nothing, because a table prints no sizes"
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    copies = facts.need("copies", Copies)
    to_device = _copies.to_device(copies)
    rows = [row for row in to_device if row.host_memory == "pageable" and row.calls > row.small_calls]
    exposed = facts.gpu_per_step(sum(row.exposed_ns for row in rows))
    share = exposed / facts.step_ns if facts.step_ns else 0.0
    if not rows or share <= limits["copy_share"]:
        return
    measured = _fastest([row for row in to_device if row.host_memory == "pinned"])
    bandwidth = measured or max(_PCIE_3, _fastest(rows))
    size = sum(row.bytes or 0 for row in rows)
    low = max(0.0, exposed - facts.gpu_per_step(size / bandwidth))
    high = low + facts.host_per_step(sum(row.avoidable_ns or 0 for row in rows))
    change = TimeSaved("gpu", (low, high), _BASIS(bandwidth=bandwidth), (low, high), _claims(rows, high))
    evidence = Evidence(_SUBJECT(), share, limits["copy_share"], "share", tuple(map(_place, rows)))
    params = {"time": exposed, "share": share, "bytes": size / facts.steps}
    pinned = bool(_settings.all_pinned(facts))
    own = _ADVICE_PINNED if pinned else None if _program.has_loader(facts) else _ADVICE_OWN
    yield Draft(
        (evidence,),
        change,
        params,
        ceiling="medium",
        confidence="A" if measured else "B",
        advice=own,
        code="x = x.pin_memory().to('cuda', non_blocking=True)  # or make it there: device='cuda'" if own else None,
    )


def _fastest(rows: Sequence[Copy]) -> float:
    """Greatest bandwidth of the copies in GB/s; 0 if there are none."""
    return max((row.max_bandwidth_gb_per_s or 0 for row in rows), default=0)


def _claims(rows: Sequence[Copy], time: float) -> dict[str, float]:
    """Divide the time that is saved among the copies."""
    total = sum(row.time_ns for row in rows)
    return {f"copies:{row.name}": time * row.time_ns / total for row in rows}


def _place(row: Copy) -> CodePlace:
    return CodePlace("copy", row.name, value=row.time_ns, unit="ns")


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.COPY) if "HtoD" in row.name and "Pageable" in row.name]
    large = [row for row in rows if row.self_device_ns and row.self_device_ns > limits["call_ns"] * (row.calls or 1)]
    time = facts.gpu_per_step(sum(row.self_device_ns or 0 for row in large))
    share = time / facts.step_ns
    if share <= limits["copy_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.self_device_ns, unit="ns") for row in large)
    evidence = Evidence(_SUBJECT_TABLE(), share, limits["copy_share"], "share", where)
    claims = {f"copies:{row.name}": facts.gpu_per_step(row.self_device_ns or 0) for row in large}
    change = TimeSaved(_held_up(facts), (0.0, time), _BASIS_TABLE(), claims=claims)
    yield Draft(
        (evidence,), change, {"time": time, "share": share}, ceiling="medium", confidence="B", summary=_SUMMARY_TABLE
    )


def _held_up(facts: Facts) -> str:
    """The resource whose time is saved: such a copy takes time of the device and of the host; the longer one counts."""
    own = facts.resources
    return "host" if (own.host_ns or 0) + (own.loader_ns or 0) > (own.gpu_ns or 0) else "gpu"


_ADVICE_PINNED = Text(
    "h2d-pageable-advice-pinned",
    "The DataLoader already pins its batches, so these copies are of something else, or of batches that are changed "
    "on the host first. Find what is copied, then create it on the GPU, or pin it and copy with non_blocking=True.",
)
_ADVICE_OWN = Text(
    "h2d-pageable-advice-own",
    "Find what is copied, then create it on the GPU, or keep it in pinned memory that is allocated once, and copy with "
    "non_blocking=True: the copy is faster, and the host need not wait for it.",
    note="non_blocking=True is code",
)
_SUMMARY_TABLE = Text(
    "h2d-pageable-summary-table",
    "Copies to the GPU from pageable memory take {time:ns} per step ({share:share} of the profiled time).",
)

RULE = Rule(
    id="h2d-pageable",
    title=Text("h2d-pageable-title", "Copies to the GPU come from pageable memory"),
    summary=Text(
        "h2d-pageable-summary",
        "{bytes:bytes} per step are copied to the GPU from pageable memory, for {time:ns} ({share:share} of the step) "
        "while no kernel runs.",
    ),
    advice=Text(
        "h2d-pageable-advice",
        "Set pin_memory=True in the DataLoader and copy with non_blocking=True: the copy is faster, and the host "
        "need not wait for it.",
    ),
    not_when=Text(
        "h2d-pageable-not-when",
        "The tensors are small or created once: pinning memory takes time itself, and pinned memory cannot be "
        "swapped out.",
    ),
    severity="low to medium",
    confidence="A",
    tags=("input",),
    since="0.1",
    thresholds=(
        Threshold(
            "copy_share",
            0.01,
            "share",
            "copies while no kernel runs over the step; in a table, all of them",
            "own choice, because less is within noise",
        ),
        Threshold(
            "call_ns",
            20_000,
            "ns",
            "in a table: mean time from which on copies count as large",
            "64 KiB, below which the driver stages copies anyway, take 10 to 20 us at pageable bandwidths",
        ),
    ),
    code="for batch in DataLoader(dataset, pin_memory=True): batch = batch.to('cuda', non_blocking=True)",
    links=(
        "https://docs.pytorch.org/docs/stable/data.html#memory-pinning",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    ),
    trace=_trace,
    table=_table,
)
