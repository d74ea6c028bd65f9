"""Real traces against the reference numbers that come with them."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import corpus_files
from tests.reading import plain
from traceanalyzer.report.model import Report

pytestmark = pytest.mark.corpus

SECTION = re.compile(r"(?P<name>\S.*?) +(?P<compared>\d+) compared  (?:ok|(?P<differ>\d+) DIFFER)")

PLUGIN = re.compile(
    "h884|s884|h1688|s1688|hmma|i8816|16816|c1688|dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1"
    "|direct_group|xmma_(implicit_gemm|sparse_conv|warp_specialized_implicit_gemm|gemm|sparse_gemm)"
)
"""Parts of names by which the TensorBoard plugin knows kernels that use tensor cores; the list ends with Turing."""

NEWER = re.compile(
    r"sm80_xmma_(f|d)(prop|grad)|sm80_xmma_wgrad"  # Ampere: cuDNN in tf32
    r"|s161616gemm|TensorOp"  # Ampere: warp-wide instructions of CUTLASS, and its types in full
    r"|flash_fwd_kernel"  # Ampere and Hopper: FlashAttention
    r"|Cijk_.*_MI\d|mfma"  # CDNA: matrix instructions in Tensile and in vLLM's attention
)


@cache
def report_of(corpus: Path, name: str) -> Report:
    return corpus_files.report_of(corpus / "corpus" / f"{name}.json.gz")


@cache
def expected(corpus: Path, name: str) -> dict[str, Any]:
    found = json.loads(gzip.decompress((corpus / "expected" / f"{name}.json.gz").read_bytes()))
    assert isinstance(found, dict)
    return found


def kernel_pairs(corpus: Path, name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Our row and the reference's row of each kernel."""
    wanted = {row["name"]: row for row in expected(corpus, name).get("kernels", [])}
    ours = {row["name"]: row for row in plain(report_of(corpus, name)).get("kernels", {"rows": []})["rows"]}
    assert ours.keys() == wanted.keys()
    return [(ours[kernel], wanted[kernel]) for kernel in wanted]


def test_every_section_agrees(corpus: Path, corpus_name: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_bytes(msgspec.json.encode(report_of(corpus, corpus_name)))
    reference = corpus / "expected" / f"{corpus_name}.json.gz"
    command = [sys.executable, str(corpus / "tools" / "compare.py"), str(report), str(reference)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    sections = {m["name"]: m for m in map(SECTION.fullmatch, run.stdout.splitlines()) if m}
    assert sections.pop("total", None), run.stdout + run.stderr
    if "memory" not in plain(report_of(corpus, corpus_name)):
        sections.pop("memory peaks", None)  # not analyzed yet
    assert sum(int(section["compared"]) for section in sections.values()) > 0
    assert not [name for name, section in sections.items() if section["differ"]], run.stdout


def test_blocks_and_occupancy_of_kernels(corpus: Path, corpus_name: str) -> None:
    """The reference takes a missing value for 0; ours is unknown then."""
    for ours, wanted in kernel_pairs(corpus, corpus_name):
        for field, reference, scale in (
            ("mean_blocks_per_sm", "mean_blocks_per_sm", 1),
            ("mean_est_achieved_occupancy", "mean_est_achieved_occupancy_pct", 100),
        ):
            value, other = ours[field], wanted[reference]
            if value is None:
                assert other == 0, wanted["name"]
            else:
                assert scale * value == pytest.approx(other, rel=1e-6, abs=1e-6), wanted["name"]


def test_means_of_kernels(corpus: Path, corpus_name: str) -> None:
    for ours, wanted in kernel_pairs(corpus, corpus_name):
        assert ours["mean_ns"] == pytest.approx(1000 * wanted["mean_us"], abs=0.01), wanted["name"]


def test_the_window_of_the_steps(corpus: Path, corpus_name: str) -> None:
    report, window = report_of(corpus, corpus_name), expected(corpus, corpus_name)["window"]
    found = plain(report)["step_breakdown"]["window"]
    length = 1000 * (window["steps_end_us"] - window["steps_start_us"])
    assert found["end_ns"] - found["start_ns"] == pytest.approx(length, abs=600)


def test_steps_start_where_the_reference_has_them(corpus: Path, corpus_name: str) -> None:
    """Relative to the first step: the reference counts time from another event."""
    ours = [step["start_ns"] for step in plain(report_of(corpus, corpus_name))["step_breakdown"]["steps"]]
    wanted = [1000 * step["start_us"] for step in expected(corpus, corpus_name)["steps"]]
    assert [start - ours[0] for start in ours] == pytest.approx([start - wanted[0] for start in wanted], abs=2)


def test_averages_as_the_plugin_shows_them(corpus: Path, corpus_name: str) -> None:
    """Rounded to microseconds, and percent with two digits.

    Communication divides the device's time differently; traces with fractions of a microsecond are shown with the
    rounding errors of the plugin's floats.
    """
    reference = expected(corpus, corpus_name)
    if not reference["integer_us"]:
        pytest.skip("nothing to compare: the plugin computed with rounding errors")
    average = plain(report_of(corpus, corpus_name))["step_breakdown"]["average"]
    loose = {"Kernel", "Memcpy", "Memset", "Communication"} if reference["communication_differs"] else set()
    assert reference["average_display"].keys() - loose
    for title, (value, percent) in reference["average_display"].items():
        if title in loose:
            continue
        field = "duration" if title == "Average Step Time" else title.lower().replace(" ", "_")
        ours = average[f"{field}_ns"]
        assert round(ours / 1000) == value, title
        assert round(100 * ours / average["duration_ns"], 2) == percent, title


def test_tensor_cores_are_found_where_the_plugin_finds_them_and_on_newer_devices(
    corpus: Path, corpus_name: str
) -> None:
    for ours, _ in kernel_pairs(corpus, corpus_name):
        if PLUGIN.search(ours["name"]):
            assert ours["tensor_cores"] is True
        elif ours["tensor_cores"]:
            assert NEWER.search(ours["name"]), ours["name"]


def test_no_use_of_tensor_cores_is_claimed_where_the_plugin_is_right(corpus: Path, corpus_name: str) -> None:
    """Its advice to use mixed precision means that no kernel used them, except on AMD, which it does not know."""
    if "use_amp_tensor_cores" not in expected(corpus, corpus_name)["recommendation_ids"]:
        pytest.skip("nothing to compare: no advice of the plugin on tensor cores")
    used = [row["name"] for row, _ in kernel_pairs(corpus, corpus_name) if row["tensor_cores"]]
    assert all(name.startswith("Cijk_") for name in used)
