"""Loaders of data: libraries that create them for the program, and what their worker processes cost it."""

from __future__ import annotations

import re

import msgspec

LIBRARY_WORKERS = 4
"""Number of worker processes that the code for libraries starts (own choice)."""


class LoaderMaker(msgspec.Struct, frozen=True):
    """A library whose loop creates and reads its own loader."""

    title: str
    """The name of the library for users."""
    frames: re.Pattern[str]
    """Searched in the Python frames around the waits for batches."""
    workers: str | None
    """Code that sets its number of worker processes; None if there is no setting, or workers do not help."""


LOADER_MAKERS = (
    # PipelineIterator over a DataLoader; pipelines that split an input into several items refuse more than one worker.
    LoaderMaker("transformers.pipeline", re.compile(r"(?:^|[/\\])transformers[/\\]pipelines[/\\]"), None),
    LoaderMaker(
        "transformers.Trainer",
        re.compile(r"(?:^|[/\\])transformers[/\\](?:trainer|trainer_seq2seq)\.py"),
        f"TrainingArguments(output_dir, dataloader_num_workers={LIBRARY_WORKERS}, dataloader_persistent_workers=True)",
    ),
    LoaderMaker(
        "detectron2",
        re.compile(r"(?:^|[/\\])detectron2[/\\]engine[/\\]"),
        f"cfg.DATALOADER.NUM_WORKERS = {LIBRARY_WORKERS}",
    ),
)
"""Sources: transformers/pipelines/base.py and trainer.py, detectron2/data/build.py."""


def maker_of(frame: str) -> LoaderMaker | None:
    """The library that a frame, `path(line): function`, belongs to; None if it creates no loaders."""
    return next((known for known in LOADER_MAKERS if known.frames.search(frame)), None)


def maker_named(title: str | None) -> LoaderMaker | None:
    """The library with this title, or None."""
    return next((known for known in LOADER_MAKERS if known.title == title), None)


# Estimates how much worker processes of a loader slow down the rest of the program.
#
# Workers use cores, caches and memory bandwidth, so the rest of a step gets longer while they load. docs/whatif.md has
# the errors when one pair of recordings, without and with workers, is predicted from the other one.

SLOWDOWN = (0.0, 0.31)
"""Lower and upper bound of the time that the rest of a step loses per time that workers load. From two pairs of
recordings of ResNet-50 on a V100 with 0 and 4 workers: typical steps (0.00 and 0.09), means of all (0.09 and 0.31)."""

FETCH_NS = 1_500_000
"""Time in ns to fetch a batch that a worker has ready: 0.1 to 1.5 ms in those recordings, 1.2 to 2.0 ms in the lab on
two cores. Sending it costs the worker about as much."""
