"""Warnings of a report: losses while reading, and doubts about the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import ReportWarning
from traceanalyzer.report.warnings_of_ranks import OF_RANKS
from traceanalyzer.report.warnings_of_tables import OF_TABLES

TEXTS = (
    # Losses and repairs while a file was read.
    Text(
        "read-truncated",
        "The file is cut off at byte {offset:count}: everything before it was read, except {bytes:bytes} of an "
        "incomplete event. The recording process was probably killed while it wrote the file.",
    ),
    Text(
        "read-legacy-list",
        "This is a list of the legacy profiler (torch.autograd.profiler): operators on the CPU and, if measured, "
        "on the GPU, where waiting for the CPU counts, too. To have launches, kernels and copies, use torch.profiler.",
    ),
    Text(
        "read-lost-event",
        "{count:count} damaged events were lost, the first at byte {offset:count}.",
        one="{count:count} damaged event was lost, at byte {offset:count}.",
    ),
    Text(
        "read-repaired-event",
        "{count:count} events were not valid JSON and were repaired, the first at byte {offset:count}.",
        one="{count:count} event was not valid JSON and was repaired, at byte {offset:count}.",
    ),
    Text(
        "read-not-an-event",
        "{count:count} elements of the event list are not events, the first at byte {offset:count}.",
        one="{count:count} element of the event list is not an event, at byte {offset:count}.",
    ),
    Text(
        "read-no-time",
        "{count:count} events without a usable time were left out.",
        one="{count:count} event without a usable time was left out.",
    ),
    Text(
        "read-no-duration",
        "{count:count} events without a usable duration are counted with a duration of 0.",
        one="{count:count} event without a usable duration is counted with a duration of 0.",
    ),
    Text(
        "read-negative-duration",
        "{count:count} events with a negative duration are counted with a duration of 0.",
        one="{count:count} event with a negative duration is counted with a duration of 0.",
    ),
    Text(
        "read-no-return",
        "{count:count} calls of Python functions have no recorded return: they end where their caller ends, or where "
        "it calls another function.",
        one="{count:count} call of a Python function has no recorded return: it ends where its caller ends, or where "
        "it calls another function.",
    ),
    Text(
        "read-absurd-time",
        "{count:count} events more than a day away from the rest, or longer than a day, were left out.",
        one="{count:count} event more than a day away from the rest, or longer than a day, was left out.",
    ),
    Text(
        "read-many-devices",
        "{count:count} events are on devices other than the {kept:count} busiest. No machine has so many devices, so "
        "the device of these events counts as unknown.",
        one="{count:count} event is on a device other than the {kept:count} busiest. No machine has so many devices, "
        "so the device of this event counts as unknown.",
    ),
    Text(
        "read-many-streams",
        "{count:count} events are on streams other than the {kept:count} busiest; their stream counts as unknown.",
        one="{count:count} event is on a stream other than the {kept:count} busiest; its stream counts as unknown.",
    ),
    Text(
        "read-unsupported",
        "{count:count} events of the category {category} are not supported and were left out.",
        one="{count:count} event of the category {category} is not supported and was left out.",
    ),
    Text(
        "read-many-categories",
        "{count:count} events of {categories:count} other unsupported categories were left out; only the "
        "{kept:count} largest unsupported categories are listed one by one.",
        one="{count:count} event of other unsupported categories ({categories:count}) was left out; only the "
        "{kept:count} largest unsupported categories are listed one by one.",
    ),
    Text(
        "read-other-phase",
        "{count:count} events with unsupported phases (B, E and the like) were left out.",
        one="{count:count} event with an unsupported phase (B, E and the like) was left out.",
    ),
    Text(
        "read-phase",
        "{count:count} events of the category {category} have the phase {phase}, which is not supported there, and "
        "were left out.",
        one="{count:count} event of the category {category} has the phase {phase}, which is not supported there, and "
        "was left out.",
        note="category and phase are codes of the trace format, such as cpu_op and B",
    ),
    Text(
        "read-no-category",
        "{count:count} events without a category were left out.",
        one="{count:count} event without a category was left out.",
    ),
    Text("read-damaged-metadata", "The metadata around the events is damaged; devices and options may be missing."),
    Text("read-gzip-truncated", "The gzip stream ends early: everything after that point is missing."),
    Text("read-gzip-damaged", "The gzip stream is damaged: everything after that point is missing."),
    Text("read-gzip-checksum", "The gzip checksum does not match: the content may be damaged."),
    Text(
        "read-flight-damaged",
        "{count:count} entries of {name} are damaged and were left out.",
        one="{count:count} entry of {name} is damaged and was left out.",
    ),
    Text(
        "read-memory-damaged",
        "{count:count} entries of {name} are damaged and were left out.",
        one="{count:count} entry of {name} is damaged and was left out.",
    ),
    Text(
        "read-flight-state",
        "{name}: {count:count} fields of communicators are not known and were left out.",
        one="{name}: {count:count} field of communicators is not known and was left out.",
    ),
    Text(
        "read-flight-version",
        "{name} is of version {version} of the flight recorder, which was never seen; it was read by its keys.",
    ),
    Text(
        "read-hang-beside",
        "The text also has lines of the watchdog of a hang; give them without the tables to see who holds up the run.",
    ),
    Text(
        "read-compile-log-damaged",
        "{count:count} lines of the compile log {name} are damaged and were not read, the first of them line {line}.",
        one="{count:count} line of the compile log {name} is damaged and was not read: line {line}.",
        note="name is a file, line its line's number",
    ),
    Text(
        "read-compile-log-unfinished", "Compilations without an end in the log {name}, which may be cut: {count:count}."
    ),
    Text(
        "read-compile-log-lines",
        "Graph breaks of which the log {name} names other lines than those where functions continue: {count:count}.",
    ),
    Text("read-gzip-trailing", "Extra bytes after the gzip stream were not read."),
    Text("read-text-too-long", "Only the first {limit:bytes} of the text were searched for tables."),
    Text(
        "read-table-cut",
        "{count:count} tables end without their closing line (the first begins in line {line:count}): "
        "rows may be missing.",
        one="{count:count} table ends without its closing line (it begins in line {line:count}): rows may be missing.",
    ),
    # What makes the figures of a report less certain.
    Text(
        "q-no-steps",
        "The trace has no ProfilerStep marks, so all of it counts as one. Pass a schedule to the profiler, which marks "
        "no steps without one, and call prof.step() after each iteration.",
    ),
    Text(
        "q-one-step",
        "Nothing marks steps in the trace: all of it counts as one.",
    ),
    Text(
        "q-steps-inferred",
        "The profiler marked no steps: the {count:count} steps are taken from {mark}.",
        one="The profiler marked no steps: the only step is taken from {mark}.",
        note="mark is the name of an event or a framework",
    ),
    Text(
        "q-unrecorded-work",
        "At the start, the GPU most likely ran work that was launched before the trace, for {time:ns}. It was "
        "busy in this time, so the program is not to blame for the apparent idle time.",
    ),
    Text(
        "q-removed-events",
        "Events were removed from the trace: for {time:ns} it contains nothing, although calls were counted.",
    ),
    Text(
        "q-steps-left-out",
        "{count:count} of {total:count} steps are unlike the others and are left out of the typical step "
        "({reasons}). With them the mean step would be {mean:ns} instead of {typical:ns}.",
        one="{count:count} of {total:count} steps is unlike the others and is left out of the typical step "
        "({reasons}). With it the mean step would be {mean:ns} instead of {typical:ns}.",
        note="reasons is a list such as: loading of code, end of the recording",
    ),
    Text(
        "q-unlike-steps-count",
        "{count:count} of {total:count} steps differ from the others by more than 20 %, or lie at an edge of the "
        "recording, but too few are left without them: all steps count.",
        one="{count:count} of {total:count} steps differs from the others by more than 20 %, or lies at an edge of the "
        "recording, but too few are left without it: all steps count.",
    ),
    Text(
        "q-hardware-counters",
        "The trace contains hardware counters of the range profiler, which runs kernels one at a time and often "
        "repeatedly: the times describe the collection of counters, not the program.",
    ),
    Text(
        "q-overlapping-slices",
        "{count:count} CPU events start inside another event and end after it; they are counted up to its end.",
        one="{count:count} CPU event starts inside another event and ends after it; it is counted up to its end.",
    ),
    Text(
        "q-unattributed",
        "{count:count} kernels ({time:ns}, {share:share} of kernel time) belong to no operator: their launch was "
        "not recorded, or lies outside every operator.",
        one="{count:count} kernel ({time:ns}, {share:share} of kernel time) belongs to no operator: its launch was "
        "not recorded, or lies outside every operator.",
    ),
    Text(
        "q-only-device-recorded",
        "Only the GPU was recorded, no operators: add ProfilerActivity.CPU to see which operator or line launches each "
        "of the {count:count} kernels.",
        one="Only the GPU was recorded, no operators: add ProfilerActivity.CPU to see which operator or line launches "
        "the {count:count} kernel.",
    ),
    Text("q-truncated-file", "The file is incomplete: all figures describe only the part that could be read."),
    Text(
        "q-repaired-json",
        "{count:count} parts of the file were damaged; the figures may lack what was lost.",
        one="{count:count} part of the file was damaged; the figures may lack what was lost.",
    ),
    Text(
        "q-single-rank-of-many",
        "This is one rank of {world_size:count}: waiting for other ranks is counted as communication.",
    ),
    Text(
        "q-few-steps",
        "Only {count:count} steps are marked, too few for reliable means. Record at least 3 after the warm-up.",
        one="Only {count:count} step is marked, too few for reliable means. Record at least 3 after the warm-up.",
    ),
    Text(
        "q-last-step-cut",
        "{count:count} steps were cut off by the end of the trace and left out.",
        one="{count:count} step was cut off by the end of the trace and left out.",
    ),
    Text(
        "q-warmup-included",
        "The first step takes {first:ns}, the others {median:ns} in the median: it is still warming up. "
        "Use schedule(wait=..., warmup=...), or --skip-warmup 1.",
    ),
    Text(
        "q-no-gpu-events",
        "GPU activity was not recorded: the trace has {count:count} kernel launches but no kernels. Add "
        "ProfilerActivity.CUDA, and check that the profiler may use CUPTI or roctracer.",
        one="GPU activity was not recorded: the trace has {count:count} kernel launch but no kernels. Add "
        "ProfilerActivity.CUDA, and check that the profiler may use CUPTI or roctracer.",
    ),
    Text(
        "q-gpu-not-recorded",
        "{sign} shows that the program runs on a GPU, but the trace has no GPU calls and no GPU events: record "
        "with ProfilerActivity.CUDA (or XPU), and without a filter.",
        note="sign is the name of an event, or a device",
    ),
    Text(
        "q-mac-not-recorded",
        "{sign} shows work on the GPU of a Mac (MPS), which torch.profiler does not record; Instruments does.",
    ),
    Text(
        "q-mac-waits",
        "The CPU is in {names} for {time:ns} of a step ({share:share}): copies and reads wait for the GPU of the Mac.",
    ),
    Text("q-shapes-missing", "Input shapes were not recorded: use profile(record_shapes=True) for costs by shape."),
    Text(
        "q-stack-overhead",
        "Recorded with {options}, which slows the CPU down: CPU times are too high, and the GPU looks more idle "
        "than it is without the profiler.",
    ),
    Text(
        "q-profiler-work",
        "The profiler itself works for {time:ns} of a step ({share:share}), by its own events: {names}. Without it the "
        "CPU is that much faster.",
        "names are names of events, such as Activity Buffer Request",
    ),
    Text(
        "q-many-loaders",
        "The trace names {count:count} loaders; only the {described:count} with the longest waits are described.",
    ),
    Text(
        "q-nested-steps",
        "{count:count} marked steps start inside {around:count} or more other steps and were left out.",
        one="{count:count} marked step starts inside {around:count} or more other steps and was left out.",
    ),
    Text(
        "q-deep-waits",
        "{count:count} waits are nested in more than {told_apart:count} operators; only the innermost operators "
        "distinguish them.",
        one="{count:count} wait is nested in more than {told_apart:count} operators; only the innermost operators "
        "distinguish it.",
    ),
    Text(
        "q-graph-opaque",
        "{count:count} kernels ({share:share}) were launched by graphs: they are counted for the graph launch, not "
        "for operators.",
        one="{count:count} kernel ({share:share}) was launched by a graph: it is counted for the graph launch, not "
        "for operators.",
    ),
    Text(
        "q-graph-joined",
        "{count:count} kernels, copies and fills of graphs ({share:share} of their time) were joined with the "
        "operators of {names}. Tables marked as joined hold them; other tables count them for the graph launch.",
        "names are names of files",
        one="{count:count} kernel, copy or fill of graphs ({share:share} of their time) was joined with the "
        "operators of {names}. Tables marked as joined hold it; other tables count it for the graph launch.",
    ),
    Text(
        "q-compilation-failed",
        "{count:count} compilations failed: their code runs without compilation, or not at all. The first is that of "
        "{function}: {error}",
        "function is a name, error a message of torch",
        one="The compilation of {function} failed: its code runs without compilation, or not at all. {error}",
    ),
    Text("q-compile-log-unmatched", "No name in the trace shows whether the compile log is of the same program."),
    Text("q-capture-refused", "{name} was not joined with the graphs of the trace: {reason}.", "reason is a clause"),
    Text(
        "q-clock-anomaly",
        "{count:count} kernels start before the call that launched them: the clocks of CPU and device disagree.",
        one="{count:count} kernel starts before the call that launched it: the clocks of CPU and device disagree.",
    ),
    *OF_RANKS,
    *OF_TABLES,
)
"""The text of every warning."""
_BY_ID = {text.id: text for text in TEXTS}

STEP_REASONS = {
    "earlier-work": Text("step-reason-earlier-work", "work from before the trace", "why a step is unlike others"),
    "recording-end": Text("step-reason-recording-end", "the end of the trace", "why a step is unlike others"),
    "loading": Text("step-reason-loading", "loading or compilation of code", "why a step is unlike others"),
    "allocation": Text("step-reason-allocation", "allocation of memory", "why a step is unlike others"),
    "loader": Text("step-reason-loader", "a long wait for the DataLoader", "why a step is unlike others"),
    "other-phase": Text(
        "step-reason-other-phase", "another phase than most steps", "why a step is unlike others; prefill, decode"
    ),
    "communication": Text("step-reason-communication", "collectives that took longer", "why a step is unlike others"),
    "unknown": Text("step-reason-unknown", "an unknown cause", "why a step is unlike others"),
}
"""Texts for the reasons of the analysis `recording` why a step is not typical."""
OUTSIDE_KINDS = {
    "before": Text("outside-before", "before the first step"),
    "between": Text("outside-between", "between two steps"),
    "after": Text("outside-after", "after the last step"),
    "left-out-step": Text("outside-left-out-step", "in a step unlike the others"),
}
"""Texts for the kinds of times that lie outside of the typical steps."""


def warning(id: str, count: int, params: Mapping[str, Any]) -> ReportWarning:  # noqa: A002 - the contract's word
    """The warning with an id, filled in with the facts."""
    if "reasons" in params:
        params = {**params, "reasons": tuple(STEP_REASONS[reason]() for reason in params["reasons"])}
    return ReportWarning(id, count, _BY_ID[id](count=count, **params))
