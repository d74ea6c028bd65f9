"""Which names the planted cause: the report in brief, or the printed table of the same trace? Scored by rule.

python -m scripts.named_causes          both tables of docs/agents.md (minutes)
python -m scripts.named_causes clones   one program

The programs are those of the lab (docs/lab.md) that a rule is about, on one rank, whose small traces are kept. No model
judges anything:

* The brief names the cause if one of the findings that it tells with evidence is of a rule that the lab's catalogue
  expects.
* The table of `key_averages()` names it if a row has a name of a fixed list (`WORDS`): operators, kernels and marks
  that the fault adds or that people would look for. It is generous: a row of the loader counts, whatever it takes.
* Both are asked about the program after the fix, too; what is still named there does not tell one from the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.lab import keeping
from examples.lab.catalogue import FAULTS, Fault
from traceanalyzer.analyzers.operators import key_averages
from traceanalyzer.formats import brief, torch_table
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.structure.context import Context

TOP = 10
"""Rows of the sorted table, as in torch's own examples."""
ALL = 100
"""Rows that `table()` prints where nobody says how many."""
SIZE = "small"
RUNS = {"eighth": ("an H200", "self_device_time_total"), "second": ("a CPU", "self_cpu_time_total")}
"""Kept runs of the lab: where they ran, and by what people sort the table there."""

_LOADER = ("*dataloader*",)
_WORKERS = ("*multiprocessingdataloaderiter*",)
_VALUES = ("aten::item", "aten::_local_scalar_dense")
WORDS: dict[str, tuple[str, ...]] = {
    "slow-dataset-compute": _LOADER,
    "slow-dataset-sleep": _LOADER,
    "slow-dataset-io": _LOADER,
    "slow-batch": _LOADER,
    "no-workers": _LOADER,
    "too-many-workers": _WORKERS,
    "workers-restarted": _WORKERS,
    "preprocessing-in-step": ("aten::std", "aten::mean", "aten::unbind", "aten::stack"),
    "optimizer-single-tensor": ("aten::addcdiv_", "aten::lerp_"),
    "zero-grad-fill": ("*zero_grad*", "aten::zero_"),
    "redundant-forward": (),
    "redundant-passes": (),
    "autograd-in-inference": ("*backward*",),
    "clones": ("aten::clone",),
    "repeat-and-contiguous": ("aten::repeat", "aten::contiguous", "aten::clone"),
    "loop-over-elements": ("aten::select", "aten::unbind"),
    "dtype-round-trips": ("aten::to", "aten::_to_copy", "*bfloat16*"),
    "fp64": ("*f64*", "*double*", "*dgemm*"),
    "item-logging": _VALUES,
    "metrics-in-python": _VALUES,
    "sleep-and-logging": ("*sleep*", "*log*flush*", "*print*"),
    "graph-breaks": ("torch-compiled region*", "*compiledfxgraph*"),
    "recompilation": ("*dynamo*", "*compile*"),
    "oversubscribed-threads": ("*thread*",),
    "anomaly-mode": ("aten::ne", "aten::any", "aten::isnan", "*anomaly*"),
    "attention-unfused": ("aten::softmax", "aten::_softmax", "aten::bmm"),
    "convolution-layout": ("*nchwtonhwc*", "*nhwctonchw*", "aten::contiguous", "aten::clone"),
    "broadcast-blow-up": ("aten::expand", "aten::mul"),
    "bias-before-norm": ("*bias*",),
    "checkpointing": ("*checkpoint*",),
    "pageable-copies": ("*pageable*",),
    "tensors-from-cpu": ("memcpy htod*", "aten::to", "aten::_to_copy"),
    "float32-products": ("*sgemm*", "*simt*", "*f32f32*"),
    "data-parallel": ("*dataparallel*", "scatter*", "gather*"),
    "growing-memory": (),
    "device-wide-sync": ("cudadevicesynchronize",),
    "kernels-one-by-one": ("cudalaunchkernel*",),
}
"""Names of rows, in small letters, by which a reader of the table could name a fault; empty where no row shows it."""


@dataclass(frozen=True)
class Named:
    """What is said of one trace."""

    place: int | None
    """Position in the brief of the first finding of an expected rule, from 1; None if none is told."""
    is_mentioned: bool
    """Whether none is told, but one has a line without evidence."""
    top: bool
    """Whether one of the first rows of the sorted table has a word."""
    all: bool
    """Whether a row of `table()` has one."""
    characters: tuple[int, int]
    """Length of the brief, and of the sorted table."""


def asked(run: str) -> Iterator[Fault]:
    """Programs of a run that are scored: a rule is about their fault, and their trace is one."""
    for fault in FAULTS:
        if fault.rules and fault.ranks == 1 and _trace(fault, "before", run).exists():
            yield fault


def _trace(fault: Fault, side: str, run: str) -> Path:
    return keeping.kept(fault.name, SIZE, side, keeping.KEPT[run])


def named(fault: Fault, side: str, run: str) -> Named:
    """What the brief and the table of one trace name."""
    trace = load(_trace(fault, side, run))
    text = brief.render(analyze(trace))
    written = json.loads(text)
    rules, rest = ([f["id"].partition("#")[0] for f in written[key]] for key in ("findings", "more_findings"))
    averages = key_averages.analyze(Context(trace), False)
    top, whole = (
        torch_table.render(averages, sort_by=key, row_limit=rows, name_width=None)
        for key, rows in ((RUNS[run][1], TOP), (None, ALL))
    )
    place = next((n for n, rule in enumerate(rules, 1) if rule in fault.rules), None)
    sizes = len(text), len(torch_table.render(averages, sort_by=RUNS[run][1], row_limit=TOP))
    is_mentioned = place is None and not {*fault.rules}.isdisjoint(rest)
    words = WORDS[fault.name]
    return Named(place, is_mentioned, has_word(top, words), has_word(whole, words), sizes)


def has_word(table: str, words: Sequence[str]) -> bool:
    """Whether a row of a printed table has one of these names."""
    rows = [line.strip().partition("  ")[0].lower() for line in table.splitlines()[3:] if line.strip()]
    return any(fnmatchcase(row, word) for row in rows for word in words)


def row(fault: Fault, before: Named, after: Named) -> str:
    """The row of a program in docs/agents.md."""

    def told(is_before: bool, is_after: bool) -> str:
        return ("yes, and after the fix" if is_after else "yes") if is_before else "-"

    place = "one line" if before.is_mentioned else "-"
    if before.place is not None:
        place = f"{before.place}" + (", and after the fix" if after.place else "")
    return (
        f"| `{fault.name}` | {fault.fault} | {place} | {told(before.top, after.top)} | {told(before.all, after.all)} |"
    )


def counts(pairs: Sequence[tuple[Named, Named]]) -> str:
    """How often each names the cause, and how often that tells the fault from its fix."""
    ways = (("place", "the brief"), ("top", f"the first {TOP} rows"), ("all", f"{ALL} rows"))
    found = []
    for field, name in ways:
        before = [pair for pair in pairs if getattr(pair[0], field)]
        told = [pair for pair in before if not getattr(pair[1], field)]
        found.append(f"{name}: {len(before)} of {len(pairs)}, of which {len(told)} no longer after the fix")
    first = sum(before.place == 1 for before, _ in pairs)
    sizes = [max(before.characters[n] for before, _ in pairs) for n in (0, 1)]
    return f"{'; '.join(found)}. First in the brief: {first}. Most characters: {sizes[0]} and {sizes[1]}."


def main(names: Sequence[str]) -> int:
    """Print the table of each run."""
    for run, (where, _) in RUNS.items():
        print(f"\nOn {where}:\n")
        print(f"| program | fault | brief: finding | table: first {TOP} rows | table: {ALL} rows |")
        print("|---|---|--:|---|---|")
        pairs = []
        for fault in asked(run):
            if not names or fault.name in names:
                pairs.append((named(fault, "before", run), named(fault, "after", run)))
                print(row(fault, *pairs[-1]), flush=True)
        if pairs:
            print(f"\n{counts(pairs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
