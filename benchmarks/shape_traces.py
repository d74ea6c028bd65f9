"""Traces of one extreme shape each, as an unusual program or an attacker might write them.

A shape is a function from a number to events in that many steps; every event is a dict as the profiler writes it.
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
"""Number of steps from which the bytes per step are estimated."""

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
"""The shapes by name, each at least as extreme as real traces."""


def write(shape: Callable[[int], Events], path: Path, megabytes: float) -> int:
    """Write a trace of this shape of about this size; returns the number of its events."""
    bytes_per_step = sum(len(json.dumps(e)) + 2 for e in shape(_PROBE)) / _PROBE
    events = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": [\n')
        for each in shape(max(1, int(megabytes * 1e6 / bytes_per_step))):
            file.write((",\n" if events else "") + json.dumps(each))
            events += 1
        file.write("\n]}\n")
    return events
