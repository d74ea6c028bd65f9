"""Texts about losses and repairs while a file was read (ids read-... and compile-log-...)."""

from __future__ import annotations

from traceanalyzer.report.message import Text

LOSSES = (
    Text(
        "read-truncated",
        "The file is cut off at byte {offset:count}: everything before it was read, except {bytes:bytes} of an "
        "incomplete event. The recording process was probably killed while it wrote the file.",
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
        "read-no-category",
        "{count:count} events without a category were left out.",
        one="{count:count} event without a category was left out.",
    ),
    Text(
        "read-damaged-metadata",
        "The metadata around the events is damaged; devices and options may be missing.",
    ),
    Text("read-gzip-truncated", "The gzip stream ends early: everything after that point is missing."),
    Text("read-gzip-damaged", "The gzip stream is damaged: everything after that point is missing."),
    Text("read-gzip-checksum", "The gzip checksum does not match: the content may be damaged."),
    Text(
        "read-compile-log-damaged",
        "{count:count} lines of the compile log {name} are damaged and were not read, the first of them line {line}.",
        one="{count:count} line of the compile log {name} is damaged and was not read: line {line}.",
        note="name is a file, line its line's number",
    ),
    Text("read-gzip-trailing", "Extra bytes after the gzip stream were not read."),
    Text("read-text-too-long", "Only the first {limit:bytes} of the text were searched for tables."),
    Text(
        "read-table-cut",
        "{count:count} tables end without their closing line (the first begins in line {line:count}): "
        "rows may be missing.",
        one="{count:count} table ends without its closing line (it begins in line {line:count}): rows may be missing.",
    ),
    Text(
        "read-table-header-missing",
        "{count:count} tables have no header, the first in line {line:count}: their columns are known by the units and "
        "the order of their values.",
        one="{count:count} table has no header, in line {line:count}: its columns are known by the units and the order "
        "of their values.",
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
)
