"""The sentences about a printed table that does not show how many steps it is of: its sums are those of the run."""

from __future__ import annotations

from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.headlines.kind_of_work import UNNAMED

MIXED = "gpu-mixed"
"""What bounds a table whose names show that no kind of work takes most of the GPU's time."""
NOT_PRINTED = "gpu-not-printed"
"""What bounds a table that does not print most of what the GPU does."""
NO_COLUMNS = "gpu-no-columns"
"""What bounds a table without columns of the GPU's times, of which only the total is printed."""
OF_RUN = {
    "input": Text(
        "headline-run-input",
        "Bound by input: at least {share:share} of the profiled time ({time:ns} of {step:ns} in this run) is waiting "
        "for the DataLoader that other work cannot hide.",
    ),
    "host": Text(
        "headline-run-host",
        "Bound by the host: {share:share} of the profiled time ({time:ns} of {step:ns} in this run) is CPU work, and "
        "the GPU works for less.",
    ),
    "host-at-least": Text(
        "headline-run-host-at-least",
        "Bound by the host: at least {share:share} of the profiled time ({time:ns} of {step:ns} in this run) is CPU "
        "work, and the GPU works for less. Rows that are not printed may be waits for the GPU.",
    ),
    "communication": Text(
        "headline-run-communication",
        "Bound by communication: collectives take {time:ns} of the GPU's time in this run, {share:share} of the "
        "profiled time.",
    ),
    "gpu-compute": Text(
        "headline-run-gpu-compute",
        "Bound by GPU compute: the GPU works for {time:ns} in this run, {share:share} of the profiled time, mostly on "
        "{work}.",
        note="work is such as: matrix products and attention",
    ),
    "gpu-memory": Text(
        "headline-run-gpu-memory",
        "Bound by GPU memory: the GPU works for {time:ns} in this run, {share:share} of the profiled time, mostly on "
        "operations that move data.",
    ),
    UNNAMED: Text(
        "headline-run-gpu",
        "Bound by the GPU: it works for {time:ns} in this run, {share:share} of the profiled time. The names of its "
        "kernels do not show what most of this time is spent on.",
    ),
    NOT_PRINTED: Text(
        "headline-run-gpu-not-printed",
        "Bound by the GPU: it works for {time:ns} in this run, {share:share} of the profiled time. Most of what it "
        "does is in rows that are not printed. Sort by its time (sort_by='self_cuda_time_total') and print more rows.",
        note="sort_by='self_cuda_time_total' is code",
    ),
    NO_COLUMNS: Text(
        "headline-run-gpu-no-columns",
        "Bound by the GPU: it works for {time:ns} in this run, {share:share} of the profiled time. What it does is "
        "unknown, because the table has no columns of its times: copy whole lines.",
    ),
    MIXED: Text(
        "headline-run-gpu-mixed",
        "Bound by the GPU: it works for {time:ns} in this run, {share:share} of the profiled time. No kind of work "
        "takes most of it.",
    ),
}
"""The same sentences about a table that does not show how many steps it is of."""
WITHOUT_GPU = {
    "input": Text(
        "headline-run-cpu-input",
        "Bound by input: {part:part} of this run is waiting for the DataLoader. No GPU was recorded.",
    ),
    "host": Text(
        "headline-run-cpu-host",
        "Bound by the CPU: {part:part} of this run pass in the program itself. No GPU was recorded.",
    ),
}
"""Those about a table without times of a device that does not show its steps."""
