"""Libraries that make a loader themselves."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge.loader_makers import LOADER_MAKERS, maker, named


@pytest.mark.parametrize(
    ("frame", "title"),
    [
        ("transformers/pipelines/pt_utils.py(117): __next__", "transformers.pipeline"),
        ("/venv/lib/python3.11/site-packages/transformers/trainer.py(2155): train", "transformers.Trainer"),
        ("detectron2/engine/train_loop.py(149): train", "detectron2"),
        ("lightning/pytorch/loops/fit_loop.py(52): advance", None),
        ("train.py(10): main", None),
        ("my_transformers/pipelines.py(3): run", None),
    ],
)
def test_who_makes_the_loader(frame: str, title: str | None) -> None:
    found = maker(frame)
    assert (found.title if found else None) == title


def test_titles_find_their_library() -> None:
    assert [named(known.title) for known in LOADER_MAKERS] == list(LOADER_MAKERS)
    assert named(None) is None
