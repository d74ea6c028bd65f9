"""The framework of real traces, as an expert names it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests import corpus_files
from traceanalyzer.structure.recording.frameworks import main_framework

pytestmark = pytest.mark.corpus


def test_the_framework_that_an_expert_names(corpus: Path, corpus_name: str) -> None:
    expected = corpus / "expected" / "advice" / f"{corpus_name}.toml"
    wanted = tomllib.loads(expected.read_text())["framework"]
    main = main_framework(corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz"))
    assert (main.id if main else "") == wanted
