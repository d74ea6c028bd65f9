"""What a machine has, what a container leaves of it, and how much a file takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceanalyzer.batching import machine
from traceanalyzer.batching.machine import PROCESS_BYTES, parse_size, peak_bytes
from traceanalyzer.errors import UsageError
from traceanalyzer.inputs.sniffing import FileKind, Peek

GIB = 1 << 30


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n")
    return file


def test_available(meminfo: Path, tmp_path: Path) -> None:
    assert machine.available_memory(meminfo, tmp_path / "no cgroups") == 16 * GIB


def test_a_container_may_use_less(meminfo: Path, tmp_path: Path) -> None:
    """Used memory counts, but not memory that is only cache."""
    (tmp_path / "memory.max").write_text(f"{4 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{2 * GIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {GIB}\n")
    assert machine.available_memory(meminfo, tmp_path) == 3 * GIB


def test_a_container_without_a_limit(meminfo: Path, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1\n")
    assert machine.available_memory(meminfo, tmp_path) == 16 * GIB


def test_the_first_version_of_cgroups(meminfo: Path, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{2 * GIB}\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text(f"{GIB}\n")
    assert machine.available_memory(meminfo, tmp_path) == GIB


def test_cores() -> None:
    assert machine.cores() >= 1


@pytest.mark.parametrize(
    ("text", "size"),
    [("8G", 8 * GIB), ("512M", GIB // 2), ("1.5 GiB", 3 * GIB // 2), ("4096", 4096), ("2gb", 2 * GIB), ("50%", GIB)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, 2 * GIB) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "0", "8X", "lots", "0%", "1e9"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match=r"^memory limit .*8G"):
        parse_size(text, 2 * GIB)


def test_estimates_follow_size_and_density() -> None:
    light = peak_bytes(Peek(FileKind.TRACE, 100 << 20, 1 / 500))
    dense = peak_bytes(Peek(FileKind.TRACE, 100 << 20, 1 / 100))
    assert PROCESS_BYTES < light < dense
    assert peak_bytes(Peek(FileKind.TRACE, 0)) == PROCESS_BYTES
    assert peak_bytes(Peek(FileKind.DOCUMENT, 1 << 40)) < 4 * GIB, "of a text no more is read than the reader reads"


def test_one_file_is_for_as_many_processes_as_cores_and_memory_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for cores, free in ((1, 64 * GIB), (4, 64 * GIB), (64, 64 * GIB), (64, None), (4, GIB), (4, 0)):
        monkeypatch.setattr(machine, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(machine, "available_memory", lambda free=free: free)
        found.append(machine.processes_of_a_file())
    assert found == [1, 4, 8, 8, 2, 1]
