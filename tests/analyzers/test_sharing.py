"""Analyses that several processes share: the same results in the same order, and no process left."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.builders.situations import SITUATIONS
from tests.reading import read
from traceanalyzer import analyzers, processes
from traceanalyzer.pipeline import ANALYSES
from traceanalyzer.processes import can_fork
from traceanalyzer.structure.context import Context

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not forked on this system")


def test_every_number_is_computed_once() -> None:
    for jobs in (1, 2, 3):
        assert processes.shared(300, lambda number: number * number, jobs) == [number**2 for number in range(300)]
    assert processes.shared(0, abs, 2) == []
    assert multiprocessing.active_children() == []


def test_what_a_child_cannot_do_is_done_here() -> None:
    here = os.getpid()

    def only_here(number: int) -> int:
        if os.getpid() != here:
            raise MemoryError
        return number

    def deadly(number: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert processes.shared(50, only_here, 3) == list(range(50))
    assert processes.shared(50, deadly, 3) == list(range(50))
    assert multiprocessing.active_children() == []


def test_forked_processes_look_for_no_module_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `-c` program or a notebook has the folder first on its path; traces of other people may lie there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "not_asked_for.py").touch()
    for first in ("", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [first, *sys.path])
        assert find_spec("not_asked_for") is not None
        assert processes.contained(lambda: find_spec("not_asked_for") is None, 30)
        child = processes.Child(lambda connection: connection.send(find_spec("not_asked_for") is None), (), ())
        assert child.connection.recv()
        child.stop()


def test_an_error_is_raised_here() -> None:
    def fails(number: int) -> int:
        return 1 // (number - 7)

    with pytest.raises(ZeroDivisionError):
        processes.shared(20, fails, 2)
    assert multiprocessing.active_children() == []


def test_results_do_not_depend_on_who_computes_them() -> None:
    assert len(SITUATIONS) > 4
    for situation in SITUATIONS[::4]:
        trace = read(situation.build().to_bytes(situation.layout))
        results, skipped = analyzers.run(Context(trace), ANALYSES)
        shared, left_out = analyzers.run(Context(trace), ANALYSES, jobs=2, worthwhile=0)
        assert shared == results == pickle.loads(pickle.dumps(results)), situation.name
        assert (list(shared), list(left_out.items())) == (list(results), list(skipped.items())), situation.name
