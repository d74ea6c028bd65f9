"""What users install works where they use it: in a clone, and beside files that have the names of modules.

Such a folder is searched for modules by every Python that is started with `-c` or `-m`, as multiprocessing starts its
processes. Each file there tells if it is imported.

`make test` tries the commands that start processes, in an environment that borrows the libraries of this one.
`make installed` tries every command that the READMEs and docs/ show, in a fresh environment
(TRACEANALYZER_INSTALLED, the folder of its programs) with a wheel, what this depends on, torch, and nothing else.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.capture.capturing import needs_torch
from tests.documented_commands import RUN, WITH_TORCH, answers, words_of, write_files
from tests.installing import ROOT, SOURCES, build_wheel, checked, copied, programs_with, run

pytestmark = pytest.mark.install

FRESH = os.environ.get("TRACEANALYZER_INSTALLED")
PROCESSES = [
    "traceanalyzer batch fixtures/synthetic -o out/",
    "traceanalyzer batch traces/ -o out/ --jobs 2",
    "traceanalyzer report trace.json.gz --jobs 2",
    "traceanalyzer ranks traces/ --jobs 2",
]
"""Commands that start processes, beside those that the documentation shows."""
AS_MODULES = [f"python -m {command}" for command in PROCESSES if "fixtures/" not in command]
"""The same in a folder without a clone: what `python -m` names is looked for in the current folder by Python itself."""
_EXTRAS = (".parquet", "traceanalyzer mcp", "traceanalyzer query ")
"""What only works with an extra that the fresh environment has not."""
_DOCUMENTED = [
    command
    for command in RUN
    if command.startswith("traceanalyzer ") and not any(extra in command for extra in _EXTRAS)
]
_TRAP = """
with open({log!r}, "a") as log:
    log.write(__file__ + "\\n")
raise ImportError(__file__ + " is no module that anybody asked for")
"""


@dataclass(frozen=True)
class Places:
    """Two folders with traces in which every module is a trap, one of them a clone; and what was imported there."""

    programs: Path
    clone: Path
    traces: Path
    imported: Path


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """The programs of the installed package, and the folders."""
    folder = tmp_path_factory.mktemp("installed")
    programs = Path(FRESH).absolute() if FRESH else _lent(folder)
    found = Places(programs, folder / "clone", folder / "traces", folder / "imported.txt")
    found.clone.mkdir()
    write_files(found.clone)
    shutil.copytree(found.clone, found.traces)
    for place in (found.clone, found.traces):
        for name in _module_names():
            (place / f"{name}.py").write_text(_TRAP.format(log=str(found.imported)), "utf-8")
    for name in checked([programs / "python", "-c", "import runpy, sys; print(*sys.modules)"], folder).split():
        (found.traces / f"{name}.py").unlink(missing_ok=True)  # Python itself imports it for `-m`, before the package
    copied(ROOT, (*SOURCES, "fixtures", "examples"), found.clone)
    init = found.clone / "traceanalyzer" / "__init__.py"
    init.write_text(_TRAP.format(log=str(found.imported)) + init.read_text("utf-8"), "utf-8")
    return found


def _lent(folder: Path) -> Path:
    """The programs of an environment with a wheel and the libraries of this one."""
    (folder / "wheel").mkdir()
    return programs_with(build_wheel(ROOT, SOURCES, folder / "wheel"), folder / "environment")


def _module_names() -> set[str]:
    """Modules that the package could import: of the standard library, and of all that is installed here."""
    names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    return {name for name in names if name.isidentifier()} - {"traceanalyzer"}


@pytest.fixture
def untouched(places: Places, tmp_path: Path) -> Iterator[Places]:
    """Copies of the places for one command; afterwards nothing of them has been imported."""
    places.imported.unlink(missing_ok=True)
    clone, traces = (
        shutil.copytree(of, tmp_path / of.name, copy_function=os.link) for of in (places.clone, places.traces)
    )
    yield Places(places.programs, clone, traces, places.imported)
    assert not places.imported.exists(), "imported: " + places.imported.read_text("utf-8")


def _works(command: str, folder: Path, places: Places) -> None:
    program, *arguments = words_of(command, folder)
    path = os.pathsep.join([str(places.programs), os.environ["PATH"]])
    done = run([places.programs / program, *arguments], folder, {"BROWSER": "true %s", "PATH": path})
    assert done.returncode in answers(arguments), f"{command}: {done.stderr}"


@pytest.mark.parametrize("command", [*PROCESSES, *(_DOCUMENTED if FRESH else [])])
def test_a_command_works_in_a_clone(command: str, untouched: Places) -> None:
    _works(command, untouched.clone, untouched)


@pytest.mark.parametrize("command", AS_MODULES)
def test_the_package_runs_as_a_module_beside_files_that_have_the_names_of_modules(
    command: str, untouched: Places
) -> None:
    _works(command, untouched.traces, untouched)


def test_workers_import_what_a_program_imported_from_elsewhere(untouched: Places, tmp_path: Path) -> None:
    """A copy of the package that only `sys.path` of the program names, as it is in a notebook beside it."""
    package = checked([untouched.programs / "python", "-c", "import traceanalyzer as t; print(*t.__path__)"], tmp_path)
    shutil.copytree(package.strip(), tmp_path / "elsewhere" / "traceanalyzer")
    code = f"""
import sys
sys.path.insert(1, {str(tmp_path / "elsewhere")!r})
import traceanalyzer, traceanalyzer.batching.processing as processing
assert traceanalyzer.__file__.startswith({str(tmp_path)!r})
open(processing.__file__, "a").write("import pathlib; pathlib.Path({str(tmp_path / "worker")!r}).touch()")
done = traceanalyzer.batch("traces", {str(tmp_path / "out")!r})
"""
    program = tmp_path / "program.py"
    program.write_text(code, "utf-8")
    checked([untouched.programs / "python", program], untouched.traces)
    assert (tmp_path / "worker").exists(), "the workers read the changed file"


@pytest.mark.torch
@pytest.mark.parametrize("command", WITH_TORCH)
def test_a_program_is_captured_from_a_clone(command: str, untouched: Places, tmp_path: Path) -> None:
    """Beside the program only modules lie that it does not import, or it would not run without a capture, either."""
    if not FRESH:
        needs_torch()
    folder = tmp_path / "program"
    shutil.copytree(untouched.clone / "traceanalyzer", folder / "traceanalyzer")
    shutil.copyfile(untouched.clone / "train.py", folder / "train.py")
    for name in ("msgspec", "click", "rich", "matplotlib", "xlsxwriter"):
        shutil.copyfile(untouched.clone / f"{name}.py", folder / f"{name}.py")
    _works(command, folder, untouched)
    recorded = list(folder.rglob("trace_rank0_*.json.gz"))
    assert bool(recorded) is ("--light" not in command), "no device to be recorded alone is here"


def test_what_is_installed_is_no_checkout(places: Places, tmp_path: Path) -> None:
    where = checked([places.programs / "python", "-c", "import traceanalyzer as t; print(*t.__path__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(places.programs.parent)
    if FRESH:
        listed = checked([places.programs / "python", "-m", "pip", "list", "--format", "freeze"], tmp_path)
        assert not re.search("^(pytest|hatchling|babel)==", listed, re.MULTILINE), "a fresh environment"
        assert re.search("^torch==", listed, re.MULTILINE)
