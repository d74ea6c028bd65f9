"""Libraries that create the DataLoader themselves, so that the program has no call of `DataLoader(...)` to change."""

from __future__ import annotations

import re

import msgspec


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
        "TrainingArguments(output_dir, dataloader_num_workers=4, dataloader_persistent_workers=True)",
    ),
    LoaderMaker("detectron2", re.compile(r"(?:^|[/\\])detectron2[/\\]engine[/\\]"), "cfg.DATALOADER.NUM_WORKERS = 4"),
)
"""Sources: transformers/pipelines/base.py and trainer.py, detectron2/data/build.py."""


def maker(frame: str) -> LoaderMaker | None:
    """The library that a frame, `path(line): function`, belongs to; None if it creates no loaders."""
    return next((known for known in LOADER_MAKERS if known.frames.search(frame)), None)


def named(title: str | None) -> LoaderMaker | None:
    """The library with this title, or None."""
    return next((known for known in LOADER_MAKERS if known.title == title), None)
