"""Real processes of gloo that go wrong: torch's recorder writes the dumps, and the verdict is what is known."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.analyzers.hangs.test_hangs import dumps_of
from tests.capture.capturing import needs_torch
from traceanalyzer import pipeline
from traceanalyzer.analyzers.hangs import Hangs

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
RANKS = 4
_PROGRAM = Path(__file__).with_name("gloo_ranks.py")


def run(fault: str, folder: Path) -> None:
    """Start all ranks of a run, and wait until they have written their dumps."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    arguments = [[sys.executable, str(_PROGRAM), fault, str(rank), str(RANKS), str(folder)] for rank in range(RANKS)]
    processes = [subprocess.Popen(words, env=environment, stderr=subprocess.PIPE) for words in arguments]
    for process in processes:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error.decode()[-2000:]


@pytest.mark.parametrize(
    ("fault", "verdict", "ranks", "said"),
    [
        ("healthy", "none", (), "gloo records no sends and receives"),
        ("killed", "no-dump", (3,), "only ranks without a dump can be missing: 3."),
        ("sleeping", "missing", (3,), "1 rank has not called all_reduce of default_pg (0): 3;"),
        ("order", "mismatch", (1,), "1 rank called something else than the others in default_pg (0): 1."),
        ("recv", "missing", (0,), "1 rank has not called all_reduce of default_pg (0): 0; gloo records no sends"),
        ("sends", "none", (), "Nothing that was recorded waits"),
    ],
)
def test_the_verdict_is_what_is_known(
    fault: str, verdict: str, ranks: tuple[int, ...], said: str, tmp_path: Path
) -> None:
    needs_torch()
    run(fault, tmp_path)
    dumps = dumps_of(tmp_path, "comm_lib_trace_rank_*")
    report = pipeline.analyze_dumps(dumps, "run")
    found = report.result("hangs", Hangs)
    assert found is not None
    assert (found.verdict, found.ranks, found.world_size, found.hides_p2p) == (verdict, ranks, RANKS, True)
    assert said in report.headlines[0].message.text
    for finding in report.findings:
        if finding.rule == "hang-rank-missing":
            assert finding.confidence == "C"
            assert "records no sends and receives" in finding.summary.text
