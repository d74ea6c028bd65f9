"""Every install command that we publish gets this package, although the index has another project of its name.

`traceanalyzer` on the package index analyzes traces of the network simulator ns-2, and installs one file,
`traceanalyzer.py`. The index of these tests offers a project of that name, too, in a version that pip would prefer, and
empty stand-ins for all libraries, so that each command runs as a reader would type it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installing import ROOT, SOURCES, build_wheel, checked, run
from traceanalyzer._version import __version__

DISTRIBUTION = "torch-traceanalyzer"
OTHER = "traceanalyzer"
RULE_PACKAGE = ROOT / "examples" / "rule_package"

_WORD = r"""'[^']*'|"[^"]*"|[^\s'"`#;,)]+"""
_INSTALL = re.compile(rf"(?:python3? -m )?pip install (?:(?:{_WORD}) )*(?:{_WORD})")
_PUBLISHED = (
    "README*.md",
    "docs/**/*.md",
    "examples/**/*",
    "traceanalyzer/**/*.py",
    "traceanalyzer/**/*.md",
    "report_templates/**/*",
)


def _published() -> Iterator[tuple[str, str]]:
    """The place of each install command, and the command."""
    for place, text in _texts():
        if "pip install" in text:  # the pattern alone takes long
            yield from ((place, found) for found in _INSTALL.findall(text))


def _texts() -> Iterator[tuple[str, str]]:
    """What readers may copy a command from."""
    for pattern in _PUBLISHED:
        for file in sorted(ROOT.glob(pattern)):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(ROOT).as_posix(), file.read_text("utf-8")


def _commands() -> list[str]:
    """Every command that is published, once, with the values that its place gives its variables."""
    return sorted({filled for _, command in _published() for filled in _filled(command)})


def _filled(command: str) -> tuple[str, ...]:
    """The commands into which a command with a variable expands."""
    if "$PACKAGE" in command:
        action = (ROOT / "examples/ci/github/action.yml").read_text("utf-8")
        version = action.split("\n  version:\n", 1)[1].split("\n  token:\n", 1)[0]
        (default,) = re.findall(r"default: (\S+)", version)
        return (command.replace('"$PACKAGE"', default),)
    if "{extra}" in command:  # of the error message; extras are those of the project
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        some = list(extras) if os.environ.get("TRACEANALYZER_FULL") == "1" else ["capture"]  # seconds for each
        return tuple(command.replace("{extra}", extra) for extra in some)
    return (command,)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The project's wheel, that of the example, and that of the other project."""
    folder = tmp_path_factory.mktemp("wheels")
    example = build_wheel(RULE_PACKAGE, ("pyproject.toml", "src", "README.md"), folder / "example")
    return {
        DISTRIBUTION: build_wheel(ROOT, SOURCES, folder / "ours"),
        "team-rules": example,
        OTHER: _stand_in(folder, OTHER, "99.0", {"traceanalyzer.py": "raise SystemExit('the other project')\n"}),
    }


def _stand_in(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """A wheel with these files."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    kind = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content = files | {f"{stem}.dist-info/METADATA": metadata, f"{stem}.dist-info/WHEEL": kind}
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in content.items())
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
        archive.writestr(f"{stem}.dist-info/RECORD", f"{record}{stem}.dist-info/RECORD,,\n")
    return wheel


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def index(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a package index that has both projects, and a stand-in for each library that ours names."""
    folder = tmp_path_factory.mktemp("index")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + [name for extra in project["optional-dependencies"].values() for name in extra]
    libraries = sorted({re.split(r"[<>=!~\[ ]", requirement)[0] for requirement in wanted})
    offered = wheels | {name: _stand_in(folder, name, "9999.0", {}) for name in libraries}
    for name, wheel in offered.items():
        page = folder / "simple" / name
        page.mkdir(parents=True)
        (page / "index.html").write_text(f'<!doctype html><a href="{wheel.as_uri()}">{wheel.name}</a>')
    return (folder / "simple").as_uri()


class Environment:
    """A fresh environment in which `pip` and `python` are those that a reader would call."""

    def __init__(self, folder: Path, index: str) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=False, symlinks=os.name != "nt")
        self.programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        pip = f'exec "{sys.executable}" -m pip --python "{self.programs}/python" --disable-pip-version-check'
        shims = folder / "shims"
        shims.mkdir()
        for name, text in {
            "pip": f'{pip} "$@"\n',
            "python": f'[ "$1 $2" = "-m pip" ] && {{ shift 2; {pip} "$@"; }}\nexec "{self.programs}/python" "$@"\n',
        }.items():
            (shims / name).write_text(f"#!/usr/bin/env bash\n{text}")
            (shims / name).chmod(0o755)
        self._env = {
            "PATH": f"{shims}:{self.programs}:{os.environ['PATH']}",
            "PIP_INDEX_URL": index,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            "PIP_NO_COMPILE": "1",  # a module or two are imported of hundreds
        }

    def shell(self, command: str) -> str:
        """What a command prints; it must not fail."""
        return checked(["bash", "-c", command], self.folder, self._env)

    def python(self, code: str) -> str:
        """What a program prints; it must not fail."""
        return checked([self.programs / "python", "-c", code], self.folder).strip()

    def installed(self) -> dict[str, str]:
        """Versions by the name of the installed distribution."""
        code = "import importlib.metadata as m; print(*((d.name, d.version) for d in m.distributions()), sep=chr(10))"
        return dict(re.findall(r"\('(.+)', '(.+)'\)", self.python(code)))


@pytest.fixture
def environment(tmp_path: Path, index: str) -> Environment:
    return Environment(tmp_path, index)


def _with_wheels(command: str, wheels: dict[str, Path]) -> str:
    """The command with wheels in place of folders of the checkout, which pip could only build with a network."""
    words = []
    for word in shlex.split(command):
        path, bracket, extras = word.partition("[")
        local = {".": DISTRIBUTION, "./examples/rule_package": "team-rules"}.get(path)
        words.append(word if local is None else f"{wheels[local]}{bracket}{extras}")
    return shlex.join(words)


def test_the_commands_are_found() -> None:
    """Places where commands are known to be, because a pattern without matches would test nothing."""
    places = {place for place, _ in _published()}
    expected = {"README.md", "README.ru.md", "README.zh.md", "docs/install.md", "docs/capture.md"}
    expected |= {"traceanalyzer/errors.py"}
    expected |= {"examples/ci/github/action.yml", "examples/ci/gitlab/traceanalyzer.gitlab-ci.yml"}
    assert expected | {"examples/rule_package/README.md"} <= places
    assert {f"pip install {DISTRIBUTION}", f"pip install '{DISTRIBUTION}[capture]'"} <= set(_commands())


def test_nothing_asks_for_the_other_project() -> None:
    """Not in a command that the pattern above does not know, either."""
    asking = re.compile(
        rf"""(?:(?<!un)install|add|uvx|pipx run)\b[^\n]*[ \t'"=](?<!-){OTHER}(?:\[|==|>=|['"`\s]|$)""", re.M
    )
    assert not [(place, match[0]) for place, text in _texts() for match in asking.finditer(text)]


@pytest.mark.install
@pytest.mark.parametrize("command", _commands())
def test_a_published_command_installs_this_package(
    command: str, environment: Environment, wheels: dict[str, Path]
) -> None:
    environment.shell(_with_wheels(command, wheels))
    installed = environment.installed()
    assert installed.get(DISTRIBUTION) == __version__
    assert OTHER not in installed
    assert environment.python("import traceanalyzer; print(traceanalyzer.__version__)") == __version__
    assert environment.shell("traceanalyzer --version") == f"traceanalyzer {__version__}\n"


@pytest.mark.install
def test_the_index_offers_the_other_project(environment: Environment) -> None:
    """Else the tests above would pass whatever the commands name."""
    environment.shell("pip install traceanalyzer")
    assert environment.installed() == {OTHER: "99.0"}


@pytest.mark.install
def test_both_projects_in_one_environment_are_told(environment: Environment) -> None:
    environment.shell(f"pip install {DISTRIBUTION} traceanalyzer")
    done = run([environment.programs / "traceanalyzer", "--version"], environment.folder)
    assert (done.returncode, done.stdout) == (0, f"traceanalyzer {__version__}\n")
    (line,) = done.stderr.splitlines()
    assert "pip uninstall traceanalyzer" in line
    environment.shell("pip uninstall --yes traceanalyzer")
    done = run([environment.programs / "traceanalyzer", "--version"], environment.folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"traceanalyzer {__version__}\n", "")
