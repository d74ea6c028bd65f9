"""Settings of a project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer import config, formats
from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.batching import ReportOptions
from traceanalyzer.cli import delivery
from traceanalyzer.config import Config
from traceanalyzer.errors import UsageError
from traceanalyzer.pipeline import analyze
from traceanalyzer.rules.engine import selection


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    assert config.load(tmp_path) == Config()


def test_both_files_are_read_and_the_own_one_goes_first(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.traceanalyzer.gpu]\nbandwidth = 1000\n")
    assert config.load(tmp_path).gpu == {"bandwidth": 1000}
    (tmp_path / "traceanalyzer.toml").write_text('[gpu]\nname = "mine"\nfp32 = 1.5\n')
    assert config.load(tmp_path).gpu == {"name": "mine", "fp32": 1.5}


def test_a_project_without_settings_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert config.load(tmp_path) == Config()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[gpu]\nbandwith = 1\n", "did you mean bandwidth"),
        ("[gpus]\nfp32 = 1\n", "did you mean gpu"),
        ("[zzz]\n", "known are gpu"),
        ("[gpu]\nfp32 = -1\n", "a number from 1e-06 to 1e\\+09 is needed"),
        ("[gpu]\nfp32 = true\n", "a number from 1e-06"),
        ("[gpu]\nname = 3\n", "text is needed"),
        ("gpu = 3\n", "not a table; write \\[gpu\\]"),
        ('format = "htlm"\n', "did you mean html"),
        ('format = ["json", 3]\n', "list of them, is needed"),
        ("[gpu\n", "not valid TOML"),
        ("top = " + 100_000 * "[", "nested too deep"),
        ("top = " + 100_000 * "{a=", "nested too deep"),
        ("top = " + 5000 * "1", "not valid TOML"),
        ("top = nan", "a whole number"),
        ("top = inf", "a whole number"),
        ("[gpu]\nbandwidth = inf\n", "a number from 1e-06"),
        ("[gpu]\nbandwidth = nan\n", "a number from 1e-06"),
        ("[gpu]\nbandwidth = 1e308\n", "a number from 1e-06"),
        ("[gpu]\nbandwidth = 1e-308\n", "a number from 1e-06"),
        ("[gpu]\nbandwidth = " + 400 * "1", "a number from 1e-06"),
        ("[rules.dataloader-bound]\nready_ns = nan\n", "ready_ns = nan: a number from 0 to 1e\\+18 is needed"),
        ("[rules.dataloader-bound]\nready_ns = inf\n", "a number from 0"),
        ("[rules.dataloader-bound]\nready_ns = -1\n", "a number from 0"),
        ("[rules.dataloader-bound]\nready_ns = " + 400 * "1", "a number from 0"),
    ],
)
def test_a_wrong_setting_is_one_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "traceanalyzer.toml").write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        config.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[gpu]\nbandwith = 1\n", "gpu.bandwith: no such key"),
        ("[gpu]\nfp32 = -1\n", "gpu.fp32 = -1"),
        ("langage = 1\n", "langage: no such key"),
        ("language = 1\n", "language = 1"),
        ('format = "htlm"\n', "format = 'htlm'"),
        ("top = 0\n", "top = 0"),
        ('fail-on = "bad"\n', "fail-on = 'bad'"),
        ("select = 3\n", "select is not a list"),
        ("[rules.x]\ny = -1\n", "rules.x.y = -1"),
        ("rules = 3\n", "rules is not a table of tables; write [tool.traceanalyzer.rules."),
        ("gpu = 3\n", "gpu is not a table; write [tool.traceanalyzer.gpu]"),
    ],
)
def test_an_error_names_file_and_key(text: str, key: str, tmp_path: Path) -> None:
    """The settings also work in pyproject.toml, where keys are in a table of the program."""
    in_project = (
        re.sub(r"^\[", "[tool.traceanalyzer.", text) if text.startswith("[") else f"[tool.traceanalyzer]\n{text}"
    )
    (tmp_path / "pyproject.toml").write_text(in_project)
    with pytest.raises(UsageError) as caught:
        config.load(tmp_path)
    assert str(caught.value).startswith(f"pyproject.toml: tool.traceanalyzer.{key}")
    (tmp_path / "traceanalyzer.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        config.load(tmp_path)
    assert str(caught.value).startswith(f"traceanalyzer.toml: {key.replace('tool.traceanalyzer.', '')}")


def test_names_that_later_turn_out_wrong_are_told_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.traceanalyzer]\nselect = ["nope"]\nlanguage = "xx"\n')
    found = config.load(tmp_path)
    with pytest.raises(UsageError, match=r"^pyproject.toml: tool.traceanalyzer.select: unknown rule nope"):
        selection.choose(found)
    with pytest.raises(UsageError, match=r"^pyproject.toml: tool.traceanalyzer.language: xx: no such language"):
        delivery.chosen_language(None, found)
    with pytest.raises(UsageError, match=r"^--lang yy: no such language"):
        delivery.chosen_language("yy", found)
    with pytest.raises(UsageError, match=r"^select: unknown rule nope"):
        selection.choose(Config(select=("nope",)))


def test_where_settings_stand_does_not_matter_to_a_batch(tmp_path: Path) -> None:
    (tmp_path / "traceanalyzer.toml").write_text("top = 3\n")
    from_file = ReportOptions(config=config.load(tmp_path))
    assert from_file.fingerprint("a", 1, "v") == ReportOptions(config=Config(top=3)).fingerprint("a", 1, "v")
    assert from_file.fingerprint("a", 1, "v") != ReportOptions(config=Config(top=4)).fingerprint("a", 1, "v")


def test_formats_are_those_of_reports() -> None:
    assert (*formats.FORMATS, *formats.BINARY) == config.FORMATS


def test_configured_peaks_replace_those_of_the_table() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.op("aten::relu", 0, 50, shapes=[[1_000_000]], types=["float"])
    trace.launch_kernel("relu", 10, 10, at=5)
    found = read_built(trace)

    def bandwidth_of(settings: Config) -> float | None:
        roofline = analyze(found, config=settings).result("roofline", Roofline)
        assert roofline is not None
        assert roofline.roof is not None
        return roofline.rows[0].bandwidth_share

    slow = bandwidth_of(Config({"bandwidth": 1600.0}))
    assert slow == pytest.approx(0.5)  # 8 MB in 10 us are 800 GB/s
    assert bandwidth_of(Config()) != slow


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), -0.5, 10**400])
def test_a_share_is_at_most_one_also_for_programs(value: float) -> None:
    settings = Config(rules={"dataloader-bound": {"exposed_share": value}}, origin="x.toml: ")
    with pytest.raises(UsageError, match=r"x.toml: rules.dataloader-bound.exposed_share = .*: a share from 0 to 1 "):
        selection.choose(settings)
    assert selection.choose(Config(rules={"dataloader-bound": {"exposed_share": 1}}))
