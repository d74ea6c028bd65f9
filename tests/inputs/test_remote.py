"""Inputs and reports in an object store: moto's server speaks S3 over loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.batching.making import TABLE, Counted, batch, population, trace, tree, write
from tests.cli.running import environment, spawn
from traceanalyzer.batching import ReportOptions, Request
from traceanalyzer.batching.run import run
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.inputs.opening import load

pytest.importorskip("fsspec", reason="fsspec is not installed")

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
"""Runs until its input ends."""


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """The variables that lead to an empty store."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    pytest.importorskip("moto", reason="moto is not installed")
    pytest.importorskip("flask_cors", reason="moto's server needs flask and flask-cors")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = next(int(line) for line in server.stdout if line.strip().isdigit())  # after a greeting
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        server.stdin.close()


@pytest.fixture
def bucket(store: dict[str, str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    name = request.node.name.replace("_", "-").lower()[:60]
    files().mkdir(name)
    return name


def files() -> Any:
    return import_module("s3fs").S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"], skip_instance_cache=True)


def objects(prefix: str) -> dict[str, bytes]:
    fs = files()
    return {path.removeprefix(f"{prefix}/"): fs.cat_file(path) for path in fs.find(prefix)}


@pytest.mark.filterwarnings("ignore")
def test_from_store_to_store(tmp_path: Path, bucket: str, store: dict[str, str]) -> None:
    source = population(tmp_path / "in", 12, 4)
    write(source / "run.log", TABLE.encode())
    files().put(str(source), f"{bucket}/run7", recursive=True)
    url, target = f"s3://{bucket}/run7", f"s3://{bucket}/reports"

    first = spawn("batch", url, "-o", target, "--format", "json", env=store)
    assert first.code == 1, first.err
    assert "13 analyzed, 4 failed" in first.err
    written = objects(f"{bucket}/reports")

    batch(source, tmp_path / "here")
    here = tree(tmp_path / "here", state=False)
    assert {name: data for name, data in written.items() if name.endswith(".report.json")} == {
        name: data for name, data in here.items() if name.endswith(".report.json")
    }
    assert written["index.md"] == here["index.md"]

    files().rm(f"{bucket}/reports/run.log.report.json")
    files().pipe_file(f"{bucket}/run7/part_1/step_00001.json", trace(88))
    again = spawn("batch", url, "-o", target, "--format", "json", env=store)
    assert "13 analyzed (11 of them before), 4 failed" in again.err
    assert set(objects(f"{bucket}/reports")) == set(written)


@pytest.mark.filterwarnings("ignore")
def test_patterns_and_folders_of_this_machine(tmp_path: Path, bucket: str, store: dict[str, str]) -> None:
    fs = files()
    for rank in range(3):
        fs.pipe_file(f"{bucket}/a/rank{rank}.json", trace(20, rank=rank, world=3))
    fs.pipe_file(f"{bucket}/a/other.json", trace())
    done = spawn("batch", f"s3://{bucket}/a/rank*.json", "-o", tmp_path / "out", "--format", "json", env=store)
    assert done.code == 0, done.err
    assert "3 of 3" in (tmp_path / "out" / "index.md").read_text("utf-8")


@pytest.mark.filterwarnings("ignore")
def test_nothing_there(tmp_path: Path, bucket: str, store: dict[str, str]) -> None:
    done = spawn("batch", f"s3://{bucket}/missing/", "-o", tmp_path / "out", env=store)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "missing" in done.err


def test_a_file_system_that_is_no_object_store(tmp_path: Path) -> None:
    """Files are moved into their places; `local` is fsspec's own name for the files of this machine."""
    source = population(tmp_path / "in", 5, 1)
    far = Request((f"local://{source}",), f"local://{tmp_path / 'far'}", ReportOptions(formats=("json",)))
    first, told = run(far, Counted()), Counted()
    assert (first.counts.done, first.counts.failed) == (5, 1)
    second = run(far, told)
    assert (second.counts.recalled, told.total) == (5, (0, 0))
    batch(source, tmp_path / "here")
    assert tree(tmp_path / "far", state=False) == tree(tmp_path / "here", state=False)
    assert not list(tmp_path.rglob(".traceanalyzer-*"))


def test_a_report_of_somebody_else(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 1, 0)
    taken = write(tmp_path / "out" / "part_0" / "step_00000.json.gz.report.json", b"mine")
    told = Counted()
    asked = Request((str(source),), f"local://{tmp_path / 'out'}", ReportOptions(formats=("json",)))
    assert run(asked, told).counts.failed == 1
    assert "--force" in told.failures["part_0/step_00000.json.gz"]
    assert taken.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://host/a.json?key=secret", "'fsspec[http]' may be missing"),
        ("ftp://host/a.json", "fsspec may be missing"),
        ("s3://bucket/a.json", "pip install 'torch-traceanalyzer[s3]'"),
        ("gs://bucket/a.json", "pip install 'torch-traceanalyzer[gs]'"),
        ("http://[::1", "Invalid IPv6 URL; check how it is written"),
    ],
)
def test_without_fsspec_one_line_says_what_to_install(url: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(TraceAnalyzerError) as error:
        load(url)
    assert str(error.value).endswith(told)
    assert "secret" not in str(error.value)
