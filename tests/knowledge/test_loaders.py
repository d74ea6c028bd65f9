"""Libraries that create loaders, and what worker processes cost."""

from __future__ import annotations

import pytest

from scripts.whatif_errors import LoadedSteps, slowdown, with_workers
from traceanalyzer.knowledge.loaders import LOADER_MAKERS, maker_named, maker_of


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
    found = maker_of(frame)
    assert (found.title if found else None) == title


def test_titles_find_their_library() -> None:
    assert [maker_named(known.title) for known in LOADER_MAKERS] == list(LOADER_MAKERS)
    assert maker_named(None) is None


# What workers cost: fitted on a pair of recordings, and put into another one.


ALONE = LoadedSteps(step_ns=150.0, exposed_ns=30.0, full_ns=40.0)


def test_the_rest_gets_longer_by_a_share_of_what_is_loaded() -> None:
    """120 without waiting, 126 beside workers that load for 40."""
    assert slowdown(ALONE, LoadedSteps(127.0, 1.0, 2.0)) == pytest.approx(6 / 40)
    assert with_workers(ALONE, 6 / 40, 4) == pytest.approx(126)


def test_a_rest_that_got_shorter_is_no_gain_of_workers() -> None:
    assert slowdown(ALONE, LoadedSteps(100.0, 0.0, 0.0)) == 0


def test_without_loading_nothing_is_told() -> None:
    assert slowdown(LoadedSteps(100.0, 0.0, 0.0), ALONE) == 0


def test_workers_that_cannot_keep_up_set_the_pace() -> None:
    assert with_workers(LoadedSteps(600.0, 500.0, 500.0), 0.0, 4) == 125
    assert with_workers(LoadedSteps(600.0, 500.0, 500.0), 0.0, 10) == 100
