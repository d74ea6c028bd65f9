"""`traceanalyzer diff` on the command line: exit codes, formats, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.cli.running import TRAINING, assert_one_line, call

QUIET = (100_000, 100_200, 99_900, 100_100, 99_800, 100_050)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of six steps: base, one fifth slower, one fifth faster, noisy, and short."""
    folder = tmp_path_factory.mktemp("traces")
    steps = {
        "base": QUIET,
        "slower": [round(1.2 * us) for us in QUIET],
        "faster": [round(0.8 * us) for us in QUIET],
        "noisy": (60_000, 140_000, 90_000, 120_000, 75_000, 131_000),
        "short": QUIET[:3],
    }
    for name, durations in steps.items():
        trace = TraceBuilder()
        start = 0
        for number, length in enumerate(durations, 1):
            trace.step(number, start, length)
            trace.op("aten::mm", start + 10, length - 30_000)
            trace.launch_kernel("ampere_sgemm_128x64_nn", start + 50, 20_000, at=start + 20)
            start += length
        trace.write(folder / f"{name}.json")
    return folder


@pytest.mark.parametrize(
    ("head", "limit", "code"),
    [
        ("slower", "3%", 1),
        ("slower", "0.03", 1),
        ("slower", "50%", 0),
        ("faster", "3%", 0),
        ("base", "0%", 0),
        ("noisy", "3%", 3),
        ("short", "3%", 3),
        ("slower", None, 0),
        ("noisy", None, 0),
    ],
)
def test_exit_codes(traces: Path, head: str, limit: str | None, code: int) -> None:
    options = [] if limit is None else ["--fail-on-regression", limit]
    run = call("diff", traces / "base.json", traces / f"{head}.json", *options)
    assert run.code == code
    assert run.out.startswith(f"base.json -> {head}.json\n")


@pytest.mark.parametrize("limit", ["3", "x", "-1%", "3%%", ""])
def test_a_limit_that_is_no_share_is_a_usage_error(traces: Path, limit: str) -> None:
    assert_one_line(call("diff", traces / "base.json", traces / "base.json", "--fail-on-regression", limit))


def test_the_answer_comes_first(traces: Path) -> None:
    lines = call("diff", traces / "base.json", traces / "slower.json").out.splitlines()
    assert lines[2] == "Slower"
    assert "100 \u2192 120 ms per step (+20 %)" in lines[3]


def test_a_comment_names_the_commits_and_links_to_the_page(traces: Path) -> None:
    both = ("diff", traces / "base.json", traces / "slower.json", "--format", "markdown")
    url = "https://example.org/diff.html"
    run = call(*both, "--base-commit", "0123456789" * 4, "--head-commit", "feature/x", "--page-url", url)
    assert run.code == 0
    assert "`base.json` (`01234567`) \u2192 `slower.json` (`feature/x`) \u00b7 " in run.out
    assert f" \u00b7 [Whole report]({url})" in run.out
    assert call(*both, "--head-commit", "").out == call(*both).out, "a variable of a job may be empty"
    assert_one_line(call(*both, "--head-commit", "a b"))


def test_files_by_suffix(traces: Path, tmp_path: Path) -> None:
    targets = tmp_path / "diff.md", tmp_path / "diff.json"
    arguments = ("diff", traces / "base.json", traces / "slower.json", "-o", targets[0], "-o", targets[1])
    run = call(*arguments)
    assert (run.code, run.out) == (0, "")
    assert run.err.splitlines() == [f"Wrote {target}" for target in targets]
    assert targets[0].read_text("utf-8").startswith("<!-- traceanalyzer diff ")
    assert json.loads(targets[1].read_bytes())["verdict"]["outcome"] == "slower"
    assert call(*arguments).code == 0, "our own files are overwritten"
    targets[0].write_text("# My notes\n")
    assert "--force" in assert_one_line(call(*arguments))
    assert call(*arguments, "--force").code == 0


def test_a_regression_still_writes_its_file(traces: Path, tmp_path: Path) -> None:
    target = tmp_path / "diff.md"
    run = call("diff", traces / "base.json", traces / "slower.json", "-o", target, "--fail-on-regression", "3%")
    assert run.code == 1
    said = "A regression beyond the limit of 3.00 %: 20.00 % in the typical step, and 20.00 % in the mean"
    assert said in target.read_text("utf-8").replace("\u00a0", " ")


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_standard_output(traces: Path, form: str) -> None:
    run = call("diff", traces / "base.json", traces / "slower.json", "--format", form, "-o", "-")
    assert (run.code, run.err) == (0, "")
    assert run.out == call("diff", traces / "base.json", traces / "slower.json", "--format", form).out
    assert "slower.json" in run.out


def test_a_page_a_card_and_a_story(traces: Path, tmp_path: Path) -> None:
    sides = (traces / "base.json", traces / "slower.json")
    run = call("diff", *sides, "-o", tmp_path / "d.html", "-o", tmp_path / "d.json", "--card", tmp_path / "d.svg")
    assert (run.code, run.out) == (0, "")
    assert (tmp_path / "d.svg").read_text("utf-8").startswith("<!-- traceanalyzer card")
    again = call("render", tmp_path / "d.json", "-o", tmp_path / "again.html", "--card", tmp_path / "again.svg")
    assert again.code == 0
    for suffix in (".html", ".svg"):
        assert (tmp_path / f"again{suffix}").read_bytes() == (tmp_path / f"d{suffix}").read_bytes()
    story = call("diff", *sides, "--story", "--format", "markdown").out
    assert "After the change a step takes 1.2 times as long" in story


def test_a_card_of_another_format_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    line = assert_one_line(call("diff", tmp_path / "none.json", tmp_path / "none.json", "--card", tmp_path / "d.jpg"))
    assert "is neither .svg nor .png" in line


@pytest.mark.parametrize("name", ["x.sarif", "x.csv", "x.txt", "x"])
def test_suffixes_without_a_format_are_usage_errors(traces: Path, tmp_path: Path, name: str) -> None:
    assert_one_line(call("diff", traces / "base.json", traces / "slower.json", "-o", tmp_path / name))
    assert not list(tmp_path.iterdir())


def test_standard_output_has_no_suffix(traces: Path) -> None:
    assert "--format" in assert_one_line(call("diff", traces / "base.json", traces / "base.json", "-o", "-"))


def test_saved_reports_are_compared(traces: Path, tmp_path: Path) -> None:
    for name in ("base", "slower"):
        assert call("report", traces / f"{name}.json", "-o", tmp_path / f"{name}.json").code == 0
    run = call("diff", tmp_path / "base.json", tmp_path / "slower.json", "--fail-on-regression", "3%")
    assert run.code == 1


def test_steps_can_be_left_out(traces: Path) -> None:
    run = call("diff", traces / "base.json", traces / "base.json", "--skip-warmup", "2", "--format", "json")
    assert json.loads(run.out)["base"]["steps"] == 4
    run = call("diff", traces / "base.json", traces / "base.json", "--steps", "2:6", "--format", "json")
    assert json.loads(run.out)["base"]["steps"] == 5


@pytest.mark.parametrize("arguments", [("no.json", TRAINING), (TRAINING, "no.json"), (TRAINING,), (TRAINING, "/")])
def test_unusable_inputs_are_one_line(arguments: tuple[Path, ...]) -> None:
    if arguments[-1] == "/":
        arguments = (arguments[0], Path(__file__).parent)
    assert_one_line(call("diff", *arguments))


def test_other_languages_are_usage_errors(traces: Path) -> None:
    assert "xx" in assert_one_line(call("diff", traces / "base.json", traces / "base.json", "--lang", "xx"))


def test_noise_is_kept_in_the_difference_and_taken_from_it(traces: Path, tmp_path: Path) -> None:
    """A folder with recordings of an unchanged program, then the difference that was written with it."""
    for name in ("base", "slower", "faster"):
        (tmp_path / "same" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "same" / f"{name}.json").write_bytes((traces / f"{name}.json").read_bytes())
    sides = (traces / "base.json", traces / "slower.json", "--fail-on-regression", "3%")
    assert call("diff", *sides, "--noise", tmp_path / "same", "-o", tmp_path / "d.json").code == 3
    kept = json.loads((tmp_path / "d.json").read_bytes())
    assert (kept["noise"]["recordings"], kept["noise"]["freedom"], kept["gate"]["noise_from"]) == (3, 2, "machine")
    again = call("diff", *sides, "--noise", tmp_path / "d.json", "--format", "json")
    assert again.code == 3
    assert json.loads(again.out)["gate"] == kept["gate"]
    assert call("verify", *sides[:2], "--noise", tmp_path / "d.json").code in (0, 3, 5)


def test_noise_that_is_none_is_one_line(traces: Path, tmp_path: Path) -> None:
    sides = (traces / "base.json", traces / "slower.json")
    assert "holds no noise" in assert_one_line(call("diff", *sides, "--noise", traces / "base.json"))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "base.json").write_bytes((traces / "base.json").read_bytes())
    assert "several times" in assert_one_line(call("diff", *sides, "--noise", tmp_path / "one"))
