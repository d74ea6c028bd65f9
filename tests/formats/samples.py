"""Reports to render: of every fixture, and of traces in which every text is hostile."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests import corpus_files
from tests.builders import A100, TraceBuilder, distributed_info
from tests.builders.malformed import MALFORMED
from tests.conftest import FULL
from tests.reading import read
from traceanalyzer.formats import language
from traceanalyzer.formats.language import Language
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report

FIXTURES = Path(__file__).parents[2] / "fixtures"
SOUND = sorted([*FIXTURES.glob("synthetic/*.json*"), *FIXTURES.glob("captured/*.json.gz")])
DAMAGED = [FIXTURES / "malformed" / file.name for file in MALFORMED if file.usable]
EVERY = [*SOUND, *DAMAGED]
TRAINING = FIXTURES / "synthetic" / "gpu_training.json.gz"
NO_GPU = [
    "cpu_only.json",
    "mtia.json",
    "npu.json",
    "hpu.json",
    "legacy_list.json",
    "plain.json.gz",
    "training_workers.json.gz",
]
"""Fixtures without a kernel, beside those that were captured, which are of a CPU."""
WITH_GPU = [path for path in SOUND if path.parent.name == "synthetic" and path.name not in NO_GPU]

in_turn = pytest.mark.parametrize("turn", range(len(language.CODES) if FULL else 1))
"""Of a test that speaks to each file in a language: once, in the full run once in each."""


def spoken(file: str, turn: int) -> Language:
    """The language of a turn: each file begins with another one, so that together they test all."""
    return language.of(language.CODES[(zlib.crc32(file.encode()) + turn) % len(language.CODES)])


HOSTILE = [
    "</details>",
    "<details>",
    "<script>alert(1)</script>",
    "<!-- traceanalyzer report",
    "-->",
    "a|b",
    "a\\|b",
    "|",
    "\\",
    "`",
    "``",
    "`" * 50,
    "` `` ```",
    "```python",
    "](javascript:x)",
    "![x](http://example.com/x.png)",
    "[x]: http://example.com",
    "**bold** _em_ ~~gone~~",
    "&lt;b&gt; &amp; &#64;",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "---",
    "===",
    "    code",
    "\tcode",
    "line\nbreak",
    "line\r\n\r\n# heading",
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://example.com\x07link\x1b]8;;\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "a\x00b",
    "a\u2028b\u2029c\x85d",
    "zero\u200bwidth\ufeff",
    "\U0001f525\U0001f525 fire",
    "核心" * 60,
    "e\u0301\u0301\u0301",
    "@everyone",
    "#1",
    "x" * 10_000,
    "[bold red]rich[/]",
    ":fire:",
    "{{ name }}{% raw %}",
    "%s %(x)s {0}",
    "$x$",
    "www.example.com https://example.com a@example.com",
]
"""Names that some format somewhere would not take for names."""

_SPECIAL = "|`\\<>&*_[](){}#~@!-+.:;=$%^\"'/ \n\r\t\x00\x07\x1b\x7f\x85\xa0\u2028\u200b\u202e\ufeff\U0001f525核\u0301"
names = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.one_of(st.sampled_from(_SPECIAL), st.characters(codec="utf-8")), min_size=1, max_size=40),
)


report_of = corpus_files.report_of
"""The report of a fixture."""


@lru_cache(200)
def marked(name: str) -> Report:
    """Steps, operators, kernels, modules, frames, a device, a category and a file of this name."""
    trace = TraceBuilder(
        devices=(replace(A100, name=name),), options=("record_shapes",), distributed=distributed_info(0, 2, name)
    )
    for number in (1, 2):
        start = number * 1000
        trace.step(number, start, 900)
        trace.annotation(name, start + 5, 800)
        trace.python_function(f"{name}(12): {name}", start + 6, 790)
        trace.module(name, start + 7, 780)
        trace.op(name, start + 10, 200, shapes=[[name], [8, 8]], types=[name])
        trace.launch_kernel(name, start + 100, 200, at=start + 20, args={"grid": [name], "block": name})
        trace.op("aten::mm", start + 400, 50, shapes=[[8, 8]])
        trace.launch_kernel("ampere_sgemm_64x64_nn", start + 500, 100, at=start + 410)
    return _report(trace, name)


@lru_cache(200)
def unmarked(name: str) -> Report:
    """Optimizer steps and loader waits of this name, without any mark of the profiler."""
    trace = TraceBuilder(options=("record_shapes",))
    for number in (1, 2, 3):
        start = number * 1000
        trace.annotation(f"enumerate(DataLoader)#{name}.__next__", start, 50)
        trace.op(name, start + 100, 300)
        trace.launch_kernel(name, start + 150, 200, at=start + 120)
        trace.annotation(f"Optimizer.step#{name}.step", start + 500, 100)
    return _report(trace, name)


def _report(trace: TraceBuilder, name: str) -> Report:
    trace.add(f"category {name}", "unknown", (3000, 5), trace.thread(None), {})
    return analyze(read(trace.to_bytes(), f"{name}.json"))
