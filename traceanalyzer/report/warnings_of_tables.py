"""Warnings of reports on printed tables."""

from __future__ import annotations

from traceanalyzer.report.message import Text

OF_TABLES = (
    Text(
        "read-form-column-unknown",
        "{count:count} columns of other tools' tables have unknown names and are left out, the first after line "
        "{line:count}.",
        one="{count:count} column of another tool's table has an unknown name and is left out, after line "
        "{line:count}.",
    ),
    Text(
        "read-form-row-unreadable",
        "{count:count} lines within other tools' tables are not rows, the first after line {line:count}.",
        one="{count:count} line within another tool's table is not a row, after line {line:count}.",
    ),
    Text(
        "read-table-quoted",
        "The text quotes totals and {count:count} rows, from line {line:count} on, but no table: that is little, and "
        "all else is unknown.",
        one="The text quotes totals and {count:count} row, in line {line:count}, but no table: that is little, and all "
        "else is unknown.",
    ),
    Text(
        "read-table-header-missing",
        "{count:count} tables have no header, the first in line {line:count}: their columns are known by the units and "
        "the order of their values.",
        one="{count:count} table has no header, in line {line:count}: its columns are known by the units and the order "
        "of their values.",
    ),
    Text(
        "read-table-mixed",
        "Lines of tables of several processes are mixed, from line {line:count} on, and nothing says which line is "
        "whose: they are not read.",
    ),
    Text(
        "read-table-empty",
        "{count:count} tables have no readable row, the first in line {line:count}.",
        one="{count:count} table has no readable row, in line {line:count}.",
    ),
    Text(
        "read-table-column-unknown",
        "{count:count} columns have unknown names, the first in the table in line {line:count}.",
        one="{count:count} column has an unknown name, in the table in line {line:count}.",
    ),
    Text(
        "read-table-row-unreadable",
        "{count:count} lines within tables are not rows, the first in the table in line {line:count}.",
        one="{count:count} line within a table is not a row, in the table in line {line:count}.",
    ),
    Text(
        "read-table-row-cut",
        "{count:count} rows end early, the first in the table in line {line:count}.",
        one="{count:count} row ends early, in the table in line {line:count}.",
    ),
    Text(
        "read-table-value-unreadable",
        "{count:count} values could not be read, the first in the table in line {line:count}.",
        one="{count:count} value could not be read, in the table in line {line:count}.",
    ),
    Text(
        "read-table-totals-missing",
        "{count:count} tables have no total below them, the first in line {line:count}: shares of it are unknown.",
        one="{count:count} table has no total below it, in line {line:count}: shares of it are unknown.",
    ),
    Text(
        "read-many-rates",
        "{count:count} more lines of the text give a rate; the first {kept:count} are listed.",
        one="{count:count} more line of the text gives a rate; the first {kept:count} are listed.",
    ),
    Text(
        "q-rate-of-samples",
        "{run}: at the printed {printed}, a step of {batch:number} samples takes {step:ns}, but the profile accounts "
        "for {profiled:ns} of it: most of the time lies outside of what was profiled, or in the profiler itself.",
        note="run is an identifier such as run-1, printed a rate as in the text, such as ~4.9 samples/sec",
    ),
    Text(
        "q-rate-of-any-batch",
        "{run}: at the printed {printed}, a step takes {step:ns} or longer, whatever the batch, but the profile "
        "accounts for {profiled:ns} of it: most of the time lies outside of what was profiled, or in the profiler "
        "itself.",
        note="run is an identifier such as run-1, printed a rate as in the text, such as ~4.9 samples/sec",
    ),
    Text(
        "q-rate-of-steps",
        "{run}: at the printed {printed}, a step takes {step:ns}, but the profile accounts for {profiled:ns} of it: "
        "most of the time lies outside of what was profiled, or in the profiler itself.",
        note="run is an identifier such as run-1, printed a rate as in the text, such as 1.5 it/s",
    ),
    Text(
        "q-table-truncated",
        "{run}: up to {share:share} of the time is in rows that are not printed (row_limit).",
        note="run is an identifier such as run-1",
    ),
    Text(
        "q-gpu-annotation-in-total",
        "{run}: the printed device total includes annotations as well as kernels (torch before 2.5) and is too high. "
        "Annotations that can be told from kernels are subtracted.",
    ),
    Text("q-no-steps-in-table", "{run}: no row shows the number of steps, so everything counts as one step."),
    Text(
        "q-device-columns-missing",
        "{run}: the totals have times of the device, but the table has no such columns. Long lines may be cut.",
        note="run is an identifier such as run-1",
    ),
    Text(
        "q-device-columns-missing-in-tables",
        "{count:count} of {all:count} tables have no columns of the device's times, although their totals have such "
        "times. Long lines may be cut.",
        note="always two or more",
    ),
    Text(
        "q-device-time-of-operators",
        "{run}: the table has no own times of the device (torch before 1.7). Those of operators that call no others "
        "are added up.",
        note="run is an identifier such as run-1",
    ),
    Text(
        "q-device-times-of-operators",
        "{count:count} of {all:count} tables have no own times of the device (torch before 1.7). Those of "
        "operators that call no others are added up.",
        note="always two or more",
    ),
    Text(
        "q-total-cannot-be",
        "{run}: the printed total of the CPU's time is negative, or less than one of its calls took, so it is unknown "
        "how long the run was and what bounds it.",
        note="run is an identifier such as run-1",
    ),
    Text(
        "q-totals-cannot-be",
        "In {count:count} of {all:count} tables, the printed total of the CPU's time is negative, or less than one "
        "call took, so it is unknown how long the runs were and what bounds them.",
        note="always two or more",
    ),
    Text(
        "q-no-self-times",
        "{run}: the table has no readable self times and no total. Times with nested operators cannot be added up, so "
        "it is unknown what bounds the run.",
        note="run is an identifier such as run-1; self times are columns such as Self CPU",
    ),
    Text(
        "q-no-self-times-in-tables",
        "{count:count} of {all:count} tables have no readable self times and no total. Times with nested operators "
        "cannot be added up, so it is unknown what bounds these runs.",
        note="always two or more; self times are columns such as Self CPU",
    ),
    Text(
        "q-event-spans-in-table",
        "{run}: the printed device times are spans between events (torch before 1.8, torch.utils.bottleneck). They "
        "include waits for the CPU, so it is unknown how long the device works.",
    ),
    Text(
        "q-event-spans-in-tables",
        "In {count:count} of {all:count} tables, the printed device times are spans between events (torch before 1.8, "
        "torch.utils.bottleneck). They include waits for the CPU, so it is unknown how long the device works.",
        note="always two or more",
    ),
    Text(
        "q-total-from-shares",
        "{run}: a total is missing below the table; it was calculated from the time and the share of a row.",
    ),
    Text(
        "q-totals-from-shares",
        "In {count:count} of {all:count} tables, a total is missing; it was calculated from the time and the share of "
        "a row.",
        note="always two or more",
    ),
    Text(
        "q-tables-truncated",
        "In {count:count} of {all:count} tables, up to {share:share} of the time is in rows that are not printed "
        "(row_limit).",
        note="always two or more",
    ),
    Text(
        "q-gpu-annotation-in-totals",
        "In {count:count} of {all:count} tables, the printed device total includes annotations as well as kernels "
        "(torch before 2.5) and is too high. Annotations that can be told from kernels are subtracted.",
        note="always two or more",
    ),
    Text(
        "q-no-steps-in-tables",
        "In {count:count} of {all:count} tables, no row shows the number of steps, so everything counts as one step.",
        note="always two or more",
    ),
    Text(
        "q-event-spans-beyond-host",
        "{run}: the printed device times are spans between events (torch before 1.8), which include waits for the "
        "CPU. Only what they have beyond the CPU's own time of the same operators counts as work of the device.",
        note="run is an identifier such as run-1",
    ),
    Text(
        "q-event-spans-beyond-hosts",
        "In {count:count} of {all:count} tables, the printed device times are spans between events (torch before 1.8), "
        "which include waits for the CPU. Only what they have beyond the CPU's own time of the same operators counts "
        "as work of the device.",
        note="always two or more",
    ),
    Text(
        "q-single-calls-in-table",
        "{run}: the rows are the longest single calls of the whole program (torch.utils.bottleneck). They are no step, "
        "and neither they nor the total below them say what bounds the program.",
        note="run is an identifier such as run-1",
    ),
    Text(
        "q-single-calls-in-tables",
        "In {count:count} of {all:count} tables, the rows are the longest single calls of a whole program "
        "(torch.utils.bottleneck). They are no step, and neither they nor the totals below them say what bounds it.",
        note="always two or more",
    ),
)
