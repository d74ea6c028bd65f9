"""User-visible texts of the index of a batch."""

from __future__ import annotations

from traceanalyzer.report.message import Text

TITLE = Text("batch-title", "All runs, sorted by wasted GPU time")
SUMMARY = Text("batch-summary", "Summary", "heading above the totals of all files")

RUNS = Text("batch-runs", "Runs")
ANALYZED = Text("batch-analyzed", "Files analyzed")
FAILED = Text("batch-failed", "Files that could not be analyzed")
LEFT_OUT = Text("batch-left-out", "Files left out because they are not traces")
GPU_TIME = Text(
    "batch-gpu-time", "GPU time in steps", "the length of the profiled steps times the GPUs, over all files"
)
WASTED = Text("batch-wasted", "Wasted GPU time")
WASTED_SHARE = Text("batch-wasted-share", "Share of GPU time that is wasted")
HOLLOW = Text(
    "batch-no-usual-work",
    "Files with hardly any GPU work or without a typical step (not included in these sums)",
    "less than 1 ms of work on the GPUs, a single kernel, start-up, or the capture of graphs",
)
WASTED_MEANS = Text(
    "batch-wasted-means",
    "Wasted is GPU time from the first to the last profiled step in which the GPU runs nothing, or only collectives. "
    "It is unknown for traces without a GPU or without steps.",
)

FAILURES_TITLE = Text("batch-failures-title", "Files that failed")
FAILURES_NOTE = Text("batch-failures-note", "These files have no report and are not counted anywhere else.")
LEFT_OUT_TITLE = Text("batch-left-out-title", "Files left out")
LEFT_OUT_NOTE = Text(
    "batch-left-out-note", "These files contain neither a trace nor a profiler table. At most 20 of them are listed."
)
BOTTLENECKS_TITLE = Text("batch-bottlenecks-title", "What bounds the steps")
BOTTLENECKS_NOTE = Text("batch-bottlenecks-note", "Most frequent first.")
RULES_TITLE = Text("batch-rules-title", "What the files have in common")
RULES_NOTE = Text(
    "batch-rules-note",
    "Advice for all files, most valuable first. Savings are wall time over all profiled steps, added up over the "
    "files. Savings of different rules overlap, so do not add them up.",
)
RUNS_TITLE = Text("batch-runs-title", "Runs by wasted GPU time")
RUNS_NOTE = Text("batch-runs-note", "Times and shares are means over the ranks; wasted time is their sum.")
FILES_TITLE = Text("batch-files-title", "Files")
FILES_NOTE = Text("batch-files-note", "Sorted by name.")
MORE = Text(
    "batch-more",
    "{shown:count} of {total:count} rows; all files are in {file}.",
    "file is the name of a file",
)

FILE = Text("batch-column-file", "File")
REASON = Text("batch-column-reason", "Reason")
RUN = Text("batch-column-run", "Run")
RANK = Text("batch-column-rank", "Rank")
RANKS = Text("batch-column-ranks", "Ranks", "how many ranks have a file, of how many")
GPU = Text("batch-column-gpu", "GPU", "name of a device")
GPUS = Text("batch-column-gpus", "GPUs", "number of devices")
STEP = Text("batch-column-step", "Mean step", "mean duration of a step")
BUSY = Text("batch-column-busy", "GPU busy", "share of time")
BOUND = Text("batch-column-bound", "Bound by", "what limits the speed of a step")
ADVICE = Text("batch-column-advice", "Top advice")
RULE = Text("batch-column-rule", "Advice")
FILES = Text("batch-column-files", "Files", "number of files")
RUN_COUNT = Text("batch-column-run-count", "Runs", "number of runs")
AT_LEAST = Text("batch-column-at-least", "Saves at least")
AT_MOST = Text("batch-column-at-most", "Saves at most")
REPORTS = Text("batch-column-reports", "Reports")

OF_WORLD = Text("batch-of-world", "{files:count} of {world:count}", "how many ranks have a file, of how many")
MISSING = Text(
    "batch-missing", "{files:count} of {world:count}, missing: {missing}", "missing is a list of numbers: 2, 5-127"
)

BOUNDS = {
    "input": Text("batch-bound-input", "input"),
    "host": Text("batch-bound-host", "host"),
    "gpu-compute": Text("batch-bound-gpu-compute", "GPU compute"),
    "gpu-memory": Text("batch-bound-gpu-memory", "GPU memory"),
    "gpu": Text("batch-bound-gpu", "GPU"),
    "communication": Text("batch-bound-communication", "communication"),
    "start-up": Text("batch-bound-start-up", "start-up"),
    "capture": Text("batch-bound-capture", "capture of a graph"),
    "none": Text("batch-bound-none", "nothing in particular"),
}
"""What bounds a step, by the value of `report.model.Headline.bound`."""
