"""The text of a program that repeats recorded calls: at most eighty lines that need torch alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from traceanalyzer.errors import UsageError
from traceanalyzer.report.names import clipped
from traceanalyzer.reproduction import arguments, variants
from traceanalyzer.reproduction.arguments import RecordedArguments
from traceanalyzer.reproduction.calls import RecordedCall
from traceanalyzer.reproduction.variants import Variant
from traceanalyzer.trace.model import Trace

MARK = "# traceanalyzer reproduce"
"""How a program begins."""
LINES = 80
"""Most lines of a program."""
_ARROW = " -> "
_WIDTH = 118
_SHORTER = " (its first operators)"

_HEAD = '''\
{mark}
"""{title}

{facts}
Run it: python FILE [cpu or cuda]. It has no profiler, no autograd, and as many threads as OMP_NUM_THREADS says.
"""
import sys, functools
import torch, torch.nn.functional as F
from torch.utils import benchmark

torch.set_grad_enabled(False), torch.set_flush_denormal(True)
DEVICE = sys.argv[1] if len(sys.argv) > 1 else {device}
RECORDED = {recorded}  # us

def T(shape, kind, strides=None, below=2):
    """A tensor of random values; integers are less than `below`."""
    strides, kind = strides or torch.empty(shape, device="meta").stride(), getattr(torch, kind)
    room = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else 0
    real = kind.is_floating_point or kind.is_complex
    flat = torch.randn(room, device=DEVICE) if real else torch.randint(below, (room,), device=DEVICE)
    return flat.to(kind).as_strided(shape, strides)

def is_tensor(value):
    return isinstance(value, torch.Tensor) or isinstance(value, list) and any(map(is_tensor, value))

def chosen(name, values):
    """The overload of an operator that takes these values, and the values by name; `...` is what was not recorded."""
    packet, said = getattr(torch.ops.aten, name), "no overload takes them"
    known = (getattr(packet, each) for each in packet.overloads())
    for overload in sorted(known, key=lambda each: abs(len(each._schema.arguments) - len(values))):
        slots = zip(overload._schema.arguments, values)  # what was not recorded has its default, or is None
        given = {{slot.name: (None if value is ... else value, "Tensor" in str(slot.type)) for slot, value in slots
                 if value is not ... or not slot.has_default_value()}}
        fits = all(value is None or is_tensor(value) == wants or value == [] for value, wants in given.values())
        if fits and len(values) <= len(overload._schema.arguments):
            given = {{slot: value for slot, (value, _) in given.items()}}
            try:
                return overload, given, overload(**given)
            except Exception as error:
                said = str(error).splitlines()[0]
    sys.exit(f"aten::{{name}} cannot run with the recorded inputs: {{said}}; fill in what was not recorded")

'''

_CHANGED = '''\
def changed(value, change):
    """An argument with another layout, type or size of its tensors."""
    if isinstance(value, list):
        return [changed(each, change) for each in value]
    return change(value) if isinstance(value, torch.Tensor) else value

'''

_ONE = """
def prepared(change=None):
    overload, given, _ = chosen(*CALLS[0])
    return functools.partial(overload, **{given})

"""

_SEVERAL = '''
def prepared(change=None):
    """The calls one after another; the result of one is the next one's first tensor of its shape and type."""
    steps, last = [], None
    for name, values in CALLS:
        overload, given, result = chosen(name, values)
        slot = next((n for n, v in given.items() if isinstance(v, torch.Tensor) and isinstance(last, torch.Tensor)
                     and (v.shape, v.dtype) == (last.shape, last.dtype)), None)
        steps.append((overload, {given}, slot))
        last = result
    def run(last=None):
        for overload, given, slot in steps:
            last = overload(**({{**given, slot: last}} if slot else given))
        return last
    return run

'''
_UNCHANGED, _EACH_CHANGED = "given", "{n: changed(v, change) if change else v for n, v in given.items()}"

_TIMED = '''\
def timed(label, make):
    """Print the time of one call, warmed up."""
    try:
        run = make()
        [run() for _ in range(3)]
        timer = benchmark.Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
        print(f"{label:32} {timer.blocked_autorange(min_run_time=0.5).median * 1e6:12.1f} us")
    except Exception as error:
        print(f"{label:32} not possible here: {(str(error) or repr(error)).splitlines()[0][:80]}")

for label, us in RECORDED.items():
    print(f"{label:32} {us:12.1f} us")
timed(f"reproduced on {DEVICE}", prepared)
'''


def text(trace: Trace, calls: Sequence[RecordedCall], chosen: Sequence[Variant], finding: str | None) -> str:
    """Write the program.

    Raises:
        UsageError: The calls are too many, or their inputs too long, for a program of eighty lines.
    """
    kept = list(chosen)
    written = _written(trace, calls, kept, finding)
    while written.count("\n") > LINES and kept and not kept[-1].is_advised:
        kept.pop()
        written = _written(trace, calls, kept, finding)
    if written.count("\n") > LINES and finding is not None and len(calls) > 2:
        return text(trace, calls[:-1], chosen, f"{finding.removesuffix(_SHORTER)}{_SHORTER}")
    if written.count("\n") > LINES:
        names = clipped(_ARROW.join(call.name for call in calls), 100)
        raise UsageError(f"{names}: does not fit into a program of {LINES} lines; name fewer operators")
    return written


def _written(trace: Trace, calls: Sequence[RecordedCall], chosen: Sequence[Variant], finding: str | None) -> str:
    made = [arguments.of(call.short, call.inputs) for call in calls]
    recorded = {
        "recorded on the host": _us(math.fsum(call.host_ns for call in calls)),
        "recorded on the device": _us(_sum(call.device_ns for call in calls)),
        f"roof of {_device(trace)}": _us(_sum(call.roof_ns for call in calls)),
    }
    is_on_gpu = calls[0].device_ns is not None
    title = f"{_ARROW.join(call.name for call in calls)}, as recorded in {clipped(trace.info.name, 60)}"
    head = _HEAD.format(
        mark=MARK,
        title=_quotable(clipped(title, 110)),
        facts="\n".join(_facts(calls, made, finding)),
        device='"cuda" if torch.cuda.is_available() else "cpu"' if is_on_gpu else '"cpu"',
        recorded=repr({label: us for label, us in recorded.items() if us is not None}),
    )
    pairs = zip(calls, made, strict=True)
    listed = _in_lines([f"({call.short!r}, [{', '.join(own.texts)}])," for call, own in pairs])
    is_changed = any(variant.name in variants.OF_TENSORS for variant in chosen)
    run = (_ONE if len(calls) == 1 else _SEVERAL).format(given=_EACH_CHANGED if is_changed else _UNCHANGED)
    body = f"CALLS = [\n{listed}\n]\n{run}"
    written = head + (_CHANGED if is_changed else "") + body + _TIMED + "\n".join(_lines(calls, chosen))
    return written.rstrip("\n") + "\n"


def _facts(calls: Sequence[RecordedCall], made: Sequence[RecordedArguments], finding: str | None) -> list[str]:
    count, others = calls[0].count, calls[0].others
    facts = [f"Recorded: {count} calls with these inputs, {others} with others; times are medians."]
    if finding is not None:
        facts[0] += f" Finding: {_quotable(clipped(finding, 80))}."
    unknown = dict.fromkeys(word for own in made for word in own.unknown)
    if len(calls) > 1:
        unknown["which results are inputs of which operator"] = None
    facts.append(f"Not recorded: {', '.join(unknown)}.")
    return facts


def _lines(calls: Sequence[RecordedCall], chosen: Sequence[Variant]) -> list[str]:
    """The lines that time the variants."""
    lines = []
    for variant in chosen:
        label = repr(f"{variant.name}{' (advised)' if variant.is_advised else ''}")
        if variant.name in variants.OF_TENSORS:
            lines.append(f"timed({label}, lambda: prepared({variants.OF_TENSORS[variant.name]}))")
        elif variant.name == variants.COMPILED:
            lines.append(f"timed({label}, lambda: torch.compile(prepared()))")
        elif variant.name == variants.TF32:
            lines += ['torch.set_float32_matmul_precision("high")', f"timed({label}, prepared)"]
        elif variant.name == variants.FUSED:
            lines += _fused(calls, label)
    return lines


def _fused(calls: Sequence[RecordedCall], label: str) -> list[str]:
    """Attention as one call, from the inputs of its pieces."""
    sdpa = "F.scaled_dot_product_attention"
    if len(calls) == 1:
        return [f"timed({label}, lambda: functools.partial({sdpa}, *CALLS[0][1][:3]))"]
    first = 1 if calls[0].short == "baddbmm" else 0
    return [
        f"q, k, v = CALLS[0][1][{first}], CALLS[0][1][{first + 1}].transpose(-1, -2), CALLS[2][1][1]",
        f"timed({label}, lambda: functools.partial({sdpa}, q, k, v))",
    ]


def _in_lines(words: Sequence[str]) -> str:
    """Words in indented lines, several in one where they fit."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) < _WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return "\n".join(lines)


def _quotable(words: str) -> str:
    """Words that end no docstring and escape nothing in it."""
    return words.replace('"', "'").replace("\\", "/")


def _device(trace: Trace) -> str:
    return clipped(trace.info.devices[0].name or "the device", 22) if trace.info.devices else "the device"


def _sum(times: Iterable[float | None]) -> float | None:
    every = list(times)
    known = [time for time in every if time is not None]
    return math.fsum(known) if len(known) == len(every) else None


def _us(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1000, 2)
