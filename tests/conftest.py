"""What all tests share: how hard hypothesis tries, where the corpus lies, and that no test leaves a mark."""

from __future__ import annotations

import gc
import locale
import os
import signal
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import traceanalyzer
from traceanalyzer.cli import ONE_THREAD

settings.register_profile(
    "ci", max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "full", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
FULL = os.environ.get("TRACEANALYZER_FULL") == "1"
settings.load_profile("full" if FULL else "ci")

# What the command line sets for itself must be no change; programs that tests start inherit it, and start faster.
os.environ.setdefault(*ONE_THREAD)

# Background jobs of a shell ignore the one, nohup's the other; programs that tests interrupt would inherit that.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

_NO_CORPUS = "TRACEANALYZER_CORPUS is not set"
_RECORDED = frozenset({".gz", ".json", ".txt", ".md"})
_RULES = {page.stem for page in Path(traceanalyzer.__file__).parent.glob("rules/pages/*.md")}


def _global_state() -> Mapping[str, Any]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
    return {
        "working directory": Path.cwd(),
        "environment": environment,
        "locale": locale.setlocale(locale.LC_ALL),
    }


@pytest.fixture(autouse=True)
def no_state_leaks() -> Iterator[None]:
    """Every test leaves working directory, environment and locale as it found them."""
    before = _global_state()
    yield
    after = _global_state()
    leaked = {what: (before[what], after[what]) for what in before if before[what] != after[what]}
    assert not leaked


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder with corpus/, expected/, documents/ and tools/."""
    folder = os.environ.get("TRACEANALYZER_CORPUS")
    if not folder:
        pytest.skip(_NO_CORPUS)
    path = Path(folder)
    assert (path / "corpus").is_dir(), f"TRACEANALYZER_CORPUS: no folder corpus/ in {path}"
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one recording, and of one rule, come one after another, so that they share what is kept of it.

    What the package's own fixtures reach is covered; measuring the rest, too, costs minutes and says no more.
    """
    for item in items:
        if "corpus" in getattr(item, "fixturenames", ()) or item.get_closest_marker("browser"):
            item.add_marker("no_cover")
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[int, str]:
    """Where in the order of tests one is run: by its recording, or of all recordings, by its rule, or wherever it is.

    Tests that share a fixture with others of their module stay beside these.
    """
    definitions = getattr(item, "_fixtureinfo", None)
    scopes = {one.scope for found in (definitions.name2fixturedefs.values() if definitions else ()) for one in found}
    if scopes & {"module", "class"}:
        return 3, ""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    files = [value.name for value in parameters.values() if isinstance(value, Path) and value.suffix in _RECORDED]
    if "corpus_name" in parameters or files:
        return 0, f"{parameters['corpus_name']}.json.gz" if "corpus_name" in parameters else files[0]
    if "corpus" in getattr(item, "fixturenames", ()):
        return 1, ""
    rule = parameters.get("rule", item.path.stem.removeprefix("test_").replace("_", "-"))
    name = str(getattr(rule, "id", rule))
    return (2, name) if name in _RULES else (3, "")


def pytest_collection_finish() -> None:
    """No later search for unreachable objects looks at what was collected: thousands of tests, which all stay.

    And such searches are rarer: tests keep traces and reports for each other, and to go through them at the usual
    pace takes a seventh of the time of all tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `corpus_name` runs for each trace of the corpus; marked with `some`, usually for a third."""
    if "corpus_name" not in metafunc.fixturenames:
        return
    folder = os.environ.get("TRACEANALYZER_CORPUS")
    files = sorted(Path(folder, "corpus").glob("*.json.gz")) if folder else []
    skipped = pytest.param("", id="no corpus", marks=pytest.mark.skip(reason=_NO_CORPUS))
    names: list[Any] = [file.name.removesuffix(".json.gz") for file in files]
    if metafunc.definition.get_closest_marker("some") and not FULL:
        names = names[zlib.crc32(metafunc.definition.name.encode()) % 3 :: 3]  # each test another third
    metafunc.parametrize("corpus_name", names or [skipped])
