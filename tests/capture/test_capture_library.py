"""`profile`, `ThroughputMeter` and `annotate` in code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.capture.capturing import PATIENCE_S, PROGRAMS, facts, needs_torch, step_names, text, traces
from tests.cli.running import spawn
from traceanalyzer.capture import profile
from traceanalyzer.errors import OutputError, UsageError


@pytest.mark.torch
def test_the_library_records_measures_and_annotates(tmp_path: Path) -> None:
    needs_torch()
    program = (sys.executable, str(PROGRAMS / "measured.py"))
    run = spawn(
        str(tmp_path), program=program, patience_s=PATIENCE_S, env={"PYTHONPATH": str(Path(__file__).parents[2])}
    )
    assert (run.code, run.err) == (0, "")
    marked, at_once, trained, broken, unmarked, counts = run.out.splitlines()
    assert trained == "trained"
    assert len(traces(tmp_path)) == 5, "one for each block and one for the decorated function"
    found = facts(Path(marked))
    assert (found.steps_from, found.steps, found.ended) == ("prof.step", 3, "complete")
    assert len(step_names(Path(marked))) == 3
    assert text(Path(marked)).count('"forward"') == 3
    assert text(Path(marked)).count('"one step"') == 3
    assert Path(marked.replace(".json.gz", ".key_averages.txt")).exists()
    assert facts(Path(at_once)).steps == 2
    assert (facts(Path(broken)).steps, facts(Path(broken)).ended) == (2, "exception")
    assert facts(Path(unmarked)).steps_from is None
    (decorated,) = set(traces(tmp_path)) - {Path(line) for line in (marked, at_once, broken, unmarked)}
    assert (facts(decorated).steps_from, facts(decorated).steps) == ("optimizer", 2)
    plain, profiled, samples = map(int, counts.split())
    assert plain >= 6
    assert profiled >= 3
    assert samples == 4 * plain


@pytest.mark.parametrize("numbers", [{"steps": 0}, {"warmup": -1}, {"wait": -1}])
def test_numbers_of_steps_that_make_no_sense_are_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="record at least one step"):
        profile("traces", **numbers)  # type: ignore[arg-type]


def test_a_step_outside_the_block_is_refused() -> None:
    with pytest.raises(UsageError, match="inside"):
        profile("traces").step()


@pytest.mark.torch
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    needs_torch()
    (tmp_path / "file").write_text("")
    code = f"from traceanalyzer.capture import profile\nwith profile({str(tmp_path / 'file')!r}): pass"
    run = spawn(program=(sys.executable, "-c", code), env={"PYTHONPATH": str(Path(__file__).parents[2])})
    assert run.code == 1
    assert run.err.splitlines()[-1].startswith(f"{OutputError.__module__}.OutputError: ")


def test_without_torch_the_install_command_is_shown() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from traceanalyzer.capture import ThroughputMeter, annotate, profile\n"
        "for use in (ThroughputMeter, profile('x').__enter__, annotate('x').__enter__):\n"
        "    try: use()\n"
        "    except Exception as error: print(error)\n"
    )
    run = spawn(program=(sys.executable, "-c", code), env={"PYTHONPATH": str(Path(__file__).parents[2])})
    assert run.code == 0, run.err
    assert run.out.splitlines() == ["torch is not installed: pip install 'torch-traceanalyzer[capture]'"] * 3


def test_importing_and_constructing_import_no_torch() -> None:
    code = (
        "import sys\nfrom traceanalyzer.capture import ThroughputMeter, annotate, profile\nprofile('x', steps=2)\n"
        "print(sorted({'torch', 'numpy', 'rich', 'click'} & set(sys.modules)))"
    )
    run = spawn(program=(sys.executable, "-c", code), env={"PYTHONPATH": str(Path(__file__).parents[2])})
    assert (run.code, run.out) == (0, "[]\n"), run.err
