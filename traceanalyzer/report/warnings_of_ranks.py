"""Warnings of the report of several ranks: doubts about the comparison, and what is said once beside the steps."""

from __future__ import annotations

from traceanalyzer.report.message import Text

OF_RANKS = (
    Text(
        "read-merged",
        "The traces of {count:count} ranks were merged into this file, and are mixed here; the commands report and "
        "ranks tell them apart.",
    ),
    Text(
        "read-merged-counted",
        "The traces of {count:count} processes were merged into this file, and are mixed here; the commands report and "
        "ranks tell them apart.",
    ),
    Text(
        "read-merged-muddled",
        "The traces of {count:count} processes were merged into this file. What of the work on devices is whose cannot "
        "be told, so they are mixed here: give the files that were merged.",
    ),
    Text(
        "read-more-traces",
        "{count:count} traces follow one another in this file, as where files of several ranks were joined; this is "
        "the first one: give each rank's file.",
    ),
    Text(
        "read-merged-left-out",
        "{count:count} events belong to none of the processes that were merged into the file, and were left out.",
        one="{count:count} event belongs to none of the processes that were merged into the file, and was left out.",
    ),
    Text(
        "q-ranks-merged",
        "The traces of {count:count} ranks were merged into one file; they are compared as if each had its own.",
    ),
    Text(
        "q-ranks-merged-counted",
        "The traces of {count:count} ranks were merged into one file; they are compared as if each had its own. The "
        "file does not say which rank is which, so they are counted in the order of their processes, or in that of the "
        "file where these are equal.",
    ),
    Text("q-ranks-one", "This is a single rank, so there is no other rank to compare it with."),
    Text(
        "q-ranks-damaged",
        "{count:count} of {all:count} files are damaged or cut off (ranks {ranks}): events of these ranks are missing, "
        "and what is said of them and of those that wait for them may be wrong.",
        note="ranks are numbers such as 2, 5",
        one="{count:count} of {all:count} files is damaged or cut off (rank {ranks}): events of this rank are missing, "
        "and what is said of it and of those that wait for it may be wrong.",
    ),
    Text(
        "q-ranks-missing",
        "{count:count} of {world:count} ranks have no trace here ({ranks}): actual waiting may be longer, and "
        "transfer shorter, than shown.",
        note="ranks are numbers and ranges such as 2, 5-127",
        one="{count:count} of {world:count} ranks has no trace here ({ranks}): actual waiting may be longer, and "
        "transfer shorter, than shown.",
    ),
    Text(
        "q-ranks-start",
        "The trace of rank {rank} began later than others: in their first collective they wait up to {wait:ns} "
        "for it. That is in no figure per step.",
    ),
    Text(
        "q-ranks-step-allocation",
        "Step {step} is left out on all ranks: it takes {time:ns} instead of {typical:ns}, because memory is taken "
        "from the driver and given back (cudaMalloc, cudaFree).",
    ),
    Text(
        "q-ranks-step-uneven",
        "Step {step} is left out on all ranks: it takes {time:ns}, the others {typical:ns}.",
    ),
    Text(
        "q-ranks-wait-once",
        "In step {step}, which is left out, rank {rank} waits for the others once, for {wait:ns} ({operation}).",
        "operation is a code such as all_reduce",
    ),
    Text("q-ranks-world-unknown", "The traces do not record how many ranks there were, so some may be missing."),
    Text(
        "q-ranks-unmatched",
        "{count:count} of {all:count} collectives were found on only one rank, not equally often on all ranks, or at "
        "times that do not overlap: the traces may be of different steps or cut off, or groups of ranks may meet whose "
        "names are not recorded. Waiting in them is not known and counts as a rank's own time.",
        one="{count:count} of {all:count} collectives was found on only one rank, not equally often on all ranks, or "
        "at times that do not overlap: the traces may be of different steps or cut off, or groups of ranks may meet "
        "whose names are not recorded. Waiting in them is not known and counts as a rank's own time.",
    ),
    Text(
        "q-ranks-no-clock",
        "At least one trace does not record the time of its host's clock, so clocks cannot be compared.",
    ),
    Text(
        "q-ranks-left-out",
        "{count:count} collectives of later steps were left out.",
        one="{count:count} collective of later steps was left out.",
    ),
)
"""The texts, in the order in which they are said."""
