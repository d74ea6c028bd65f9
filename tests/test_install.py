"""The wheel works without the checkout: command, templates, public names. And so do the commands of `make demo`."""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path, PurePath

import pytest

from tests.installing import ROOT, SOURCES, build, build_wheel, checked, copied, programs_with, run
from traceanalyzer._version import __version__
from traceanalyzer.readers.kineto import scanning

TRAINING = ROOT / "fixtures" / "synthetic" / "gpu_training.json.gz"

pytestmark = pytest.mark.install


COMPILED = ("*/_scan*.so", "*/_scan*.pyd", "*/traceanalyzer.json", "*/rules/pages.json")
"""What the build compiles: the scan, catalogs, and pages of rules."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    return build_wheel(ROOT, SOURCES, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel in it."""
    return programs_with(wheel, tmp_path_factory.mktemp("environment"))


def test_the_wheel_holds_the_package_and_its_templates(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    packaged = {path.relative_to(ROOT).as_posix() for path in (ROOT / "traceanalyzer").rglob("*.py")}
    templates = {f"traceanalyzer/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("report_templates/**/*.j2")}
    assert templates
    assert packaged | templates | {"traceanalyzer/py.typed"} <= names
    assert {name.split("/")[0] for name in names} == {"traceanalyzer", f"torch_traceanalyzer-{__version__}.dist-info"}
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata


def test_the_wheel_holds_only_what_running_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = [Path(name) for name in archive.namelist() if name.startswith("traceanalyzer/")]
    kinds = {file.suffix for file in files}
    assert kinds <= {".py", ".json", ".so", ".j2", ".css", ".js", ".txt", ".typed", ".pyi", ".toml"}, kinds


def test_the_wheel_contains_the_scan_for_all_pythons_of_a_platform(wheel: Path) -> None:
    if scanning.scan is None:
        pytest.skip("the scan was not compiled: python hatch_build.py, with a C compiler")
    with zipfile.ZipFile(wheel) as archive:
        scans = [name for name in archive.namelist() if "_scan." in name and not name.endswith(".pyi")]
    assert scans == [f"traceanalyzer/readers/kineto/_scan{'.pyd' if os.name == 'nt' else '.abi3.so'}"]
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"torch_traceanalyzer-{__version__}-cp311-abi3-{platform}.whl"


def files_in(folder: Path) -> set[str]:
    """The files of a folder, without bytecode."""
    files = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return {file.as_posix() for file in files if "__pycache__" not in file.parts}


def compiled(names: set[str]) -> set[str]:
    """Those that the build compiled."""
    return {name for name in names if any(map(PurePath(name).match, COMPILED))}


def test_sources_hold_nothing_compiled_and_building_a_wheel_changes_nothing_in_them(tmp_path: Path) -> None:
    checkout = copied(ROOT, SOURCES, tmp_path / "checkout")
    checked([sys.executable, "hatch_build.py"], checkout)
    build(checkout, "sdist", tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    sources = tmp_path / archive.name.removesuffix(".tar.gz")
    before = files_in(sources)
    assert "traceanalyzer/readers/kineto/_scan.c" in before
    assert not compiled(before)
    build(sources, "wheel", tmp_path)
    assert files_in(sources) == before
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        names = found.namelist()
    catalogs = {name.split("/")[-3] for name in names if name.endswith("/traceanalyzer.json")}
    assert catalogs == {path.parts[-3] for path in sources.rglob("*.po")} | {"en"}
    assert [*sources.glob("traceanalyzer/rules/pages/*.md")]
    assert [name for name in names if name.startswith("traceanalyzer/rules/pages")] == [
        "traceanalyzer/rules/pages.json"
    ]
    assert len(names) == len(set(names))


def test_a_scan_of_other_source_is_not_used(tmp_path: Path) -> None:
    checkout = copied(ROOT, SOURCES, tmp_path)
    code = "from traceanalyzer.readers.kineto import scanning; print(scanning.scan is not None)"
    done = run([sys.executable, "hatch_build.py"], checkout)
    if done.stderr:
        pytest.skip("there is no C compiler")
    assert checked([sys.executable, "-c", code], checkout) == "True\n"
    with (checkout / "traceanalyzer" / "readers" / "kineto" / "_scan.c").open("a", encoding="utf-8") as source:
        source.write("/* of a later version */\n")
    assert checked([sys.executable, "-c", code], checkout) == "False\n"
    checked([sys.executable, "hatch_build.py"], checkout)
    assert checked([sys.executable, "-c", code], checkout) == "True\n"


def test_a_failed_compilation_is_no_failure_and_leaves_no_scan(tmp_path: Path) -> None:
    checkout = copied(ROOT, SOURCES, tmp_path)
    checked([sys.executable, "hatch_build.py"], checkout)
    done = run([sys.executable, "hatch_build.py"], checkout, {"CC": "false"})
    assert (done.returncode, done.stdout) == (0, "")
    assert "_scan.c was not compiled: everything works, but reading traces takes longer.\n" in done.stderr
    assert {PurePath(name).suffix for name in compiled(files_in(checkout))} == {".json"}


def test_without_a_compiler_the_wheel_is_for_all_machines_and_works(tmp_path: Path) -> None:
    wheel = build_wheel(ROOT, SOURCES, tmp_path / "wheel", {"CC": "false"})
    assert wheel.name == f"torch_traceanalyzer-{__version__}-py3-none-any.whl"
    programs = programs_with(wheel, tmp_path / "environment")
    code = "from traceanalyzer.readers.kineto import scanning; print(scanning.scan)"
    assert checked([programs / "python", "-c", code], tmp_path) == "None\n"
    arguments = ["report", TRAINING, "--format", "json"]
    assert checked([programs / "traceanalyzer", *arguments], tmp_path) == checked(
        [sys.executable, "-m", "traceanalyzer", *arguments], tmp_path
    )


def test_the_package_comes_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import traceanalyzer, msgspec; print(traceanalyzer.__file__); print(*traceanalyzer.__path__)"
    for line in checked([installed / "python", "-c", code], tmp_path).splitlines():
        assert Path(line).resolve().is_relative_to(installed.parent.resolve())
        assert not Path(line).resolve().is_relative_to(ROOT)


@pytest.mark.parametrize("program", [["traceanalyzer"], ["python", "-m", "traceanalyzer"]], ids=" ".join)
def test_the_command_works_from_another_folder(program: list[str], installed: Path, tmp_path: Path) -> None:
    command = [installed / program[0], *program[1:], "report"]
    done = run([*command, TRAINING, "-o", "r.md", "-o", "r.json"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Wrote r.md\nWrote r.json\n")
    assert "Waiting for data: 3,470 of the 7,120 us of each step." in (tmp_path / "r.md").read_text("utf-8")
    assert "\n### Kernels\n" in (tmp_path / "r.md").read_text("utf-8")
    assert "Step time" in checked([*command, TRAINING], tmp_path)


def test_the_wheel_says_the_same_as_the_checkout(installed: Path, tmp_path: Path) -> None:
    arguments = ["report", TRAINING, "--format", "json"]
    from_wheel = checked([installed / "traceanalyzer", *arguments], tmp_path)
    assert from_wheel == checked([sys.executable, "-m", "traceanalyzer", *arguments], tmp_path)


def test_the_documentation_works_from_python(installed: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    code = next(c for c in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "import traceanalyzer" in c)
    (tmp_path / "trace.json.gz").write_bytes(TRAINING.read_bytes())
    shown = checked([installed / "python", "-c", code], tmp_path)
    assert "<!-- traceanalyzer report" in shown


def demo_commands() -> list[str]:
    """The recipe of `make demo`, with its variables filled in."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (sample,) = re.findall(r"^SAMPLE := (\S+)$", makefile, re.MULTILINE)
    lines = [line.lstrip("\t@") for line in makefile.split("\ndemo:", 1)[1].splitlines()[1:]]
    return [line.replace("$(SAMPLE)", sample) for line in lines[: lines.index("")]]


def test_the_demo_installs_only_what_running_needs_and_says_how_to_open_the_page(
    installed: Path, tmp_path: Path
) -> None:
    commands = demo_commands()
    (install,) = (command for command in commands if "pip install" in command)
    assert install.endswith(" .")
    assert "--group" not in install
    assert "--open" in commands[-1]
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    (tmp_path / "demo" / ".venv").mkdir(parents=True)
    (tmp_path / "demo" / ".venv" / "bin").symlink_to(installed)
    for command in commands:
        if command.startswith("demo/.venv/bin/traceanalyzer"):
            checked(shlex.split(command), tmp_path)
    assert (tmp_path / "demo" / "report.md").read_text("utf-8").startswith("<!-- traceanalyzer report")
    assert (tmp_path / "demo" / "report.html").exists()
