"""Recognizes what other tools print, so that a refusal can say what a text is and what to record instead."""

from __future__ import annotations

import re

from traceanalyzer.trace.document import TableDocument

_SEARCHED = 4 << 20
"""Number of characters that are searched; what a tool prints first tells which one it is."""

_TOOLS: tuple[tuple[str, str], ...] = (
    (r"cuda_gpu_kern_sum|cuda_api_sum|Time ?\(%\) +Total Time \(ns\)", "statistics of Nsight Systems (nsys stats)"),
    (r"==\d+== (?:NVPROF|Profiling result)", "output of nvprof"),
    (r"==PROF==|Section: GPU Speed Of Light", "output of Nsight Compute (ncu)"),
    (r"ROCPROFV3|\| KERNEL_DISPATCH \|", "a summary of rocprof"),
    (r"OP Type,Core Type,Count,", "statistics of the profiler of Ascend (msprof)"),
    (r"DeepSpeed Flops Profiler", "output of the FLOPs profiler of DeepSpeed"),
    (r"Mean duration \(s\)|(?:FIT|VALIDATE|TEST|PREDICT) Profiler Report", "a report of a profiler of Lightning"),
    (r"ncalls +tottime +percall +cumtime", "output of cProfile"),
    (r"Line # +Hits +Time +Per Hit", "output of line_profiler"),
    (r"Line # +Mem usage +Increment", "output of memory_profiler"),
    (r"NVIDIA-SMI [0-9]|utilization\.gpu \[", "output of nvidia-smi"),
    (r"['\"]train_runtime['\"]:|\{['\"]loss['\"]:", "a log of the Trainer of Hugging Face"),
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
    head = text[:_SEARCHED]
    if "Watchdog caught collective operation timeout" in head:
        return f"contains a timeout of NCCL's watchdog, which does not say why a rank is late. {_DUMPS}"
    for pattern, name in _TOOLS:
        if re.search(pattern, head):
            return f"contains {name}, which this program does not read. {_TRACE}"
    for pattern, name in _PARTS:
        if re.search(pattern, head):
            return f"contains {name}. {_TABLE}"
    if _LOG.search(head):
        return f"contains a log of a training, in which nothing says what takes the time. {_TRACE}"
    return None
