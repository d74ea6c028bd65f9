"""Traces of one extreme shape each: what a program may write, and what somebody who means harm may write.

A shape is a function from a number to that many steps of events; every event is a dict as the profiler writes it.
Times are microseconds, one apart, so that a shape of N steps lasts N microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks import shape_crowds as crowds
from benchmarks import shape_nested as nested
from benchmarks.shape_events import Events

_PROBE = 1_000
"""Steps from whose length the number for a size is worked out."""

SHAPES: tuple[Callable[[int], Events], ...] = (
    nested.nested_operators,
    nested.nested_launches,
    nested.nested_copies,
    nested.staircase,
    nested.many_siblings,
    nested.same_moment,
    nested.no_length,
    nested.long_synchronizations,
    nested.synchronizations_of_threads,
    nested.nested_synchronizations,
    nested.loader_waits,
    nested.loaders,
    nested.modules,
    nested.nested_modules,
    nested.module_classes,
    nested.recursion,
    nested.recursion_with_waits,
    nested.distinct_names,
    nested.distinct_shapes,
    nested.annotations,
    nested.nested_annotations,
    nested.nested_optimizers,
    nested.gpu_annotations,
    crowds.streams,
    crowds.devices,
    crowds.threads,
    crowds.processes,
    crowds.steps,
    crowds.nested_steps,
    crowds.process_groups,
    crowds.gaps,
    crowds.overlapping_kernels,
    crowds.late_kernels,
    crowds.same_correlation,
    crowds.one_launch,
    crowds.same_external_id,
    crowds.flows,
    crowds.leaks,
    crowds.nested_memory,
    crowds.same_address,
    crowds.counters,
    crowds.categories,
    crowds.overheads,
    crowds.loops,
    crowds.one_string,
    crowds.long_names,
    crowds.deep_arguments,
    crowds.many_arguments,
)
"""Each at least as hard as what is found in the wild."""


def write(shape: Callable[[int], Events], path: Path, megabytes: float) -> int:
    """Write a trace of this shape of about this size; the number of its events."""
    bytes_per_step = sum(len(json.dumps(e)) + 2 for e in shape(_PROBE)) / _PROBE
    events = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": [\n')
        for each in shape(max(1, int(megabytes * 1e6 / bytes_per_step))):
            file.write((",\n" if events else "") + json.dumps(each))
            events += 1
        file.write("\n]}\n")
    return events
