"""The scripts for continuous integration: one comment, which the next run updates; the job's exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CI = ROOT / "examples" / "ci"
MARKED = "<!-- traceanalyzer report 0.1.0 -->\n# Profile\n"

GH = """#!/usr/bin/env python3
import json, os, sys
with open(os.environ["GH_LOG"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if "--paginate" in sys.argv:
    print(os.environ["GH_FOUND"])
"""


@pytest.mark.parametrize(("found", "method"), [("", "POST"), ("17", "PATCH")])
def test_github_updates_its_own_comment(tmp_path: Path, found: str, method: str) -> None:
    program = tmp_path / "gh"
    program.write_text(GH)
    program.chmod(0o755)
    body = tmp_path / "x.md"
    body.write_text(MARKED)
    log = tmp_path / "log"
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GH_LOG": str(log), "GH_FOUND": found}
    environment |= {"REPOSITORY": "them/theirs", "PULL_REQUEST": "3"}
    subprocess.run(["bash", CI / "github" / "comment.sh", body], env=environment, check=True, timeout=60)
    search, write = map(json.loads, log.read_text().splitlines())
    assert 'startswith("<!-- traceanalyzer ")' in search[-1]
    assert write[write.index("--method") + 1] == method
    assert f"body=@{body}" in write
    assert write[3] == ("repos/them/theirs/issues/comments/17" if found else "repos/them/theirs/issues/3/comments")


@contextmanager
def gitlab(notes: list[dict[str, object]]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A server that answers like GitLab, and the requests that it received."""
    asked: list[tuple[str, str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked.append((self.command, self.path.partition("?")[0], self.rfile.read(length).decode()))
            assert self.headers["PRIVATE-TOKEN"] == "secret"
            data = json.dumps(notes if self.command == "GET" else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = answer  # noqa: N815 - the names of http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Do not log requests."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ([{"id": 4, "body": "Nice."}], ("POST", "/projects/1/merge_requests/2/notes")),
        ([{"id": 4, "body": "Nice."}, {"id": 5, "body": MARKED}], ("PUT", "/projects/1/merge_requests/2/notes/5")),
    ],
)
def test_gitlab_updates_its_own_note(tmp_path: Path, notes: list[dict[str, object]], expected: tuple[str, str]) -> None:
    body = tmp_path / "x.md"
    body.write_text(MARKED)
    with gitlab(notes) as (url, asked):
        environment = os.environ | {"CI_API_V4_URL": url, "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "2"}
        environment |= {"TRACEANALYZER_TOKEN": "secret"}
        subprocess.run([sys.executable, CI / "gitlab" / "note.py", body], env=environment, check=True, timeout=60)
    assert asked[-1][:2] == expected
    assert json.loads(asked[-1][2]) == {"body": MARKED}


def analyze(tmp_path: Path, **settings: str) -> int:
    """The exit code of analyze.sh in an empty folder, with the program of this environment first."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path} | settings
    return subprocess.run(
        ["bash", CI / "analyze.sh"], env=environment, cwd=tmp_path, check=False, timeout=120
    ).returncode


TRACE = str(ROOT / "fixtures" / "synthetic" / "gpu_training.json.gz")


def test_a_report_fails_the_job_if_wanted(tmp_path: Path) -> None:
    assert analyze(tmp_path, TRACE=TRACE) == 0
    assert (tmp_path / "traceanalyzer.md").read_text().startswith("<!-- traceanalyzer report")
    assert json.loads((tmp_path / "traceanalyzer.sarif").read_text())["version"] == "2.1.0"
    assert analyze(tmp_path, TRACE=TRACE, FAIL_ON="critical") == 1
    assert analyze(tmp_path, TRACE="missing.json") == 2


def test_a_difference_takes_the_place_of_the_report(tmp_path: Path) -> None:
    assert analyze(tmp_path, TRACE=TRACE, BASE=TRACE, FAIL_ON_REGRESSION="3%") == 0
    assert (tmp_path / "traceanalyzer.md").read_text().startswith("<!-- traceanalyzer diff")
