"""Libraries that make a DataLoader themselves, so that the program has no call of `DataLoader(...)` to change."""

from __future__ import annotations

import re

import msgspec


class LoaderMaker(msgspec.Struct, frozen=True):
    """A library whose loop asks its own loader for batches."""

    title: str
    """What its users call it."""
    frames: re.Pattern[str]
    """Found in the Python frames around the waits for batches."""
    workers: str | None
    """Code that asks it for worker processes; None where it has none, or they do not help."""


LOADER_MAKERS = (
    # PipelineIterator over a DataLoader; pipelines that make several items of an input refuse more than one worker.
    LoaderMaker("transformers.pipeline", re.compile(r"(?:^|[/\\])transformers[/\\]pipelines[/\\]"), None),
    LoaderMaker(
        "transformers.Trainer",
        re.compile(r"(?:^|[/\\])transformers[/\\](?:trainer|trainer_seq2seq)\.py"),
        "TrainingArguments(output_dir, dataloader_num_workers=4, dataloader_persistent_workers=True)",
    ),
    LoaderMaker("detectron2", re.compile(r"(?:^|[/\\])detectron2[/\\]engine[/\\]"), "cfg.DATALOADER.NUM_WORKERS = 4"),
)
"""By their sources: transformers/pipelines/base.py and trainer.py, detectron2/data/build.py."""


def maker(frame: str) -> LoaderMaker | None:
    """The library that a frame, `path(line): function`, belongs to; None if it makes no loaders."""
    return next((known for known in LOADER_MAKERS if known.frames.search(frame)), None)


def named(title: str | None) -> LoaderMaker | None:
    """The library of this title."""
    return next((known for known in LOADER_MAKERS if known.title == title), None)
