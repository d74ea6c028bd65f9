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
UNIT = Text("headline-unit-run", "the run", note="in the genitive: 35 of the 152 ms of ...")
OF_RUN = {
    "input": Text("headline-run-input", "Waiting for data: at least {time:ns} of the run's {step:ns} ({share:share})."),
    "host": Text(
        "headline-run-host",
        "Limited by the CPU: {time:ns} of the run's {step:ns} ({share:share}), more than the GPU works.",
    ),
    "host-at-least": Text(
        "headline-run-host-at-least",
        "Limited by the CPU: at least {time:ns} of the run's {step:ns} ({share:share}).",
    ),
    "communication": Text(
        "headline-run-communication",
        "Limited by communication: collectives take {time:ns} of the GPU's time in the run ({share:share}).",
        note="share is that of the profiled time",
    ),
    "gpu-compute": Text(
        "headline-run-gpu-compute",
        "Limited by GPU compute: mostly {work}, {time:ns} of the run ({share:share}).",
        note="work is such as: matrix multiplications and attention; share is that of the profiled time",
    ),
    "gpu-memory": Text(
        "headline-run-gpu-memory",
        "Limited by GPU memory bandwidth: mostly {work}, {time:ns} of the run ({share:share}).",
        note="work is such as: elementwise kernels; share is that of the profiled time",
    ),
    UNNAMED: Text(
        "headline-run-gpu",
        "Limited by the GPU: {time:ns} of the run ({share:share}); names of kernels do not tell its work.",
        note="share is that of the profiled time",
    ),
    NOT_PRINTED: Text(
        "headline-run-gpu-not-printed",
        "Limited by the GPU: {time:ns} of the run ({share:share}), mostly in rows that are not printed.",
        note="share is that of the profiled time",
    ),
    NO_COLUMNS: Text(
        "headline-run-gpu-no-columns",
        "Limited by the GPU: {time:ns} of the run ({share:share}); the table has no columns of its times.",
        note="share is that of the profiled time",
    ),
    MIXED: Text(
        "headline-run-gpu-mixed",
        "Limited by the GPU: {time:ns} of the run ({share:share}); no kind of work takes most of it.",
        note="share is that of the profiled time",
    ),
}
"""The sentences about a table that does not show how many steps it is of."""
