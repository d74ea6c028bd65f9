"""Recognizes what other tools print, so that a refusal can say what a text is and what to record instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

from traceanalyzer.readers import small_texts
from traceanalyzer.trace.document import TableDocument

_SEARCHED = 4 << 20
"""Number of characters that are searched; what a tool prints first tells which one it is."""

_READ: tuple[tuple[str, str, str], ...] = (
    (
        r"cuda_gpu_kern_sum|cuda_api_sum|Time ?\(%\) +Total Time \(ns\)",
        "statistics of Nsight Systems (nsys stats)",
        "a table with its head and its rows, as nsys stats prints it",
    ),
    (r"==\d+== (?:NVPROF|Profiling result)", "output of nvprof", "its table, from the line with Time(%) on"),
    (r"OP Type,Core Type,Count,", "statistics of the profiler of Ascend (msprof)", "its rows"),
    (
        r"DeepSpeed Flops Profiler|(?:% Params|% MACs), .*% (?:time|latency)",
        "output of the FLOPs profiler of DeepSpeed",
        "its lines 'fwd latency:', 'bwd latency:' and 'step latency:'",
    ),
    (
        r"Mean duration \(s\)|(?:FIT|VALIDATE|TEST|PREDICT) Profiler Report|(?m:^\|? *\[Callback\]\S.*\| +\d)",
        "a report of a profiler of Lightning",
        "its head (Action, Mean duration, Num calls, Total time) and its first rows, which take longest",
    ),
    (r"ncalls +tottime +percall +cumtime", "output of cProfile", "its rows"),
    (
        r"Line # +Hits +Time +Per Hit",
        "output of line_profiler",
        "its lines 'Timer unit:' and 'Total time:', without which the unit of its times is unknown",
    ),
    (r"NVIDIA-SMI [0-9]|utilization\.gpu \[", "output of nvidia-smi", "its rows with figures"),
    (r"['\"]train_runtime['\"]:|\{['\"]loss['\"]:", "a log of the Trainer of Hugging Face", "its figures of time"),
)
"""What each tool prints that is read, what it is called, and what is missing where nothing could be read."""

_TOOLS: tuple[tuple[str, str], ...] = (
    (
        r"(?m:^[0-9.]+m?s +[0-9.]+[mun]?s +(?:\(\d+ \d+ \d+\)|-) .*(?:\[CUDA mem(?:cpy|set)|\[\d+\]$))",
        "single events of nvprof (--print-gpu-trace)",
    ),
    (r"Module +\| Self CPU total \| CPU total", "a table of torchprof"),
    (r"==PROF==|Section: GPU Speed Of Light", "output of Nsight Compute (ncu)"),
    (r"ROCPROFV3|\| KERNEL_DISPATCH \|", "a summary of rocprof"),
    (r"=== (?:API|Device) Timing Summary ===|== L0 Backend ==", "output of unitrace"),
    (r"Line # +Mem usage +Increment", "output of memory_profiler"),
)
"""What each tool prints, and what it is called; the first one that is found counts."""

_TRACE = (
    "It shows neither operators nor what waits for what. Record a trace of the same program: traceanalyzer capture "
    "-- python train.py, or torch.profiler.profile with prof.export_chrome_trace('trace.json')"
)
_DUMPS = (
    "Set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, and give the folder of the dumps that all "
    "ranks write then (nccl_trace_rank_0 and so on)"
)
_TABLE = (
    "Paste all of what print(prof.key_averages().table()) prints, with its header, its rows and the totals below; "
    "prof.export_chrome_trace('trace.json') keeps more"
)

_PARTS: tuple[tuple[str, str], ...] = (
    (r"<FunctionEvent(?:Avg)? ", "events of the profiler as Python represents them, but no table"),
    (
        r"(?<![\w.'\"])self_(?:cpu|cuda|device)_time_total(?![\w'\"])",
        "figures of the profiler in a form of its own, but no table",
    ),
    (r"Self \w+ time total: ", "totals of a profiler table, but no rows with its header"),
    (
        r"(?m)^[^\w\n]{0,80}(?:\d{1,3}[^\w\n]{1,5})?(?:aten|nccl|c10d)::?\w.{0,250}\d ?[nuµμm]?s\b",
        "operators with times, but no profiler table with a header",
    ),
)
"""What is left of a profiler's output in many texts."""
_LOG = re.compile(
    r"\b(?:step|iter|iteration|epoch)\b[\s:=\[/]{0,4}\d[^\n]{0,200}\bloss\b|\bloss\b[^\n]{0,200}\b(?:step|iter|epoch)\b"
    r"|\|\s?\d{1,9}/\d{1,9} \[[\d:]{4,9}<",
    re.IGNORECASE,
)
"""Lines of a trainer, or a bar of tqdm."""


_LOST = {
    "read-table-empty": f"contains a profiler table in line {{line}}, but none of its rows can be read. {_TABLE}",
    "read-table-mixed": "contains lines of tables of several processes, mixed, from line {line} on, and nothing says "
    "which line is whose. Print the table on one rank, or let the launcher label or separate their output (torchrun "
    "--redirects 3 --log-dir logs)",
}
"""Why a text with tables has none that can be read, by what was lost; `line` is where it begins."""


def described(text: str, document: TableDocument) -> str | None:
    """What a text without readable tables is, and what to record or to paste instead; None if it is unknown.

    Args:
        text: The whole text.
        document: What was read from it; it has no tables.
    """
    for loss in document.losses:
        if loss.id in _LOST:
            return _LOST[loss.id].format(line=loss.params["line"])
    return next(_recognized(text[:_SEARCHED]), None)


def _recognized(head: str) -> Iterator[str]:
    """What the text may be, the surest first."""
    if "Watchdog caught collective operation timeout" in head:
        yield f"contains a timeout of NCCL's watchdog, which does not say why a rank is late. {_DUMPS}"
    if (standing := small_texts.stacks(head)) is not None:
        yield f"contains stacks of py-spy dump: {standing}. A stack does not say what others wait for. {_DUMPS}"
    if (compared := small_texts.compared(head)) is not None:
        yield (
            f"contains a comparison of torch.utils.benchmark, which measures single statements ({compared}), not what "
            f"a program does with its time. {_TRACE}"
        )
    for pattern, name in _TOOLS:
        if re.search(pattern, head):
            yield f"contains {name}, which this program does not read. {_TRACE}"
    for pattern, name, missing in _READ:
        if re.search(pattern, head):
            yield f"contains {name}, but what is needed of it is not there: {missing}. {_TRACE}"
    for pattern, name in _PARTS:
        if re.search(pattern, head):
            yield f"contains {name}. {_TABLE}"
    if _LOG.search(head):
        yield f"contains a log of a training, in which nothing says what takes the time. {_TRACE}"
