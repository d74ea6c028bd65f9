"""The scripts for continuous integration: one comment, which the next run updates; the job's exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
CI = ROOT / "examples" / "ci"
MARKED = "<!-- traceanalyzer report 0.1.0 -->\n# Profile\n"


@contextmanager
def forge(
    answers: Callable[[str, str], object], header: tuple[str, str]
) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A server that answers like a forge, and the requests that it received; each must have the header."""
    asked: list[tuple[str, str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked.append((self.command, self.path.partition("?")[0], self.rfile.read(length).decode()))
            assert self.headers[header[0]] == header[1]
            data = json.dumps(answers(self.command, self.path)).encode()
            self.send_response(201 if self.command == "POST" else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = answer  # noqa: N815 - the names of http.server

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


OTHERS = [{"id": number, "body": f"Comment {number}"} for number in range(100, 230)]
OURS = {"id": 17, "body": MARKED}


@pytest.mark.parametrize(
    ("comments", "expected"),
    [
        ([], ("POST", "/repos/them/theirs/issues/3/comments")),
        ([{"id": 1, "body": None}, *OTHERS], ("POST", "/repos/them/theirs/issues/3/comments")),
        ([*OTHERS, OURS], ("PATCH", "/repos/them/theirs/issues/comments/17")),
        ([OURS, *OTHERS[:99]], ("PATCH", "/repos/them/theirs/issues/comments/17")),
    ],
)
def test_github_updates_its_own_comment(tmp_path: Path, comments: list[object], expected: tuple[str, str]) -> None:
    def answers(command: str, path: str) -> object:
        asked = parse_qs(urlsplit(path).query)
        size, page = int(asked["per_page"][0]) if asked else 0, int(asked["page"][0]) if asked else 0
        return comments[(page - 1) * size : page * size] if command == "GET" else {"id": 17}

    body = tmp_path / "x.md"
    body.write_text(MARKED)
    with forge(answers, ("Authorization", "Bearer secret")) as (url, asked):
        environment = os.environ | {"GITHUB_API_URL": url, "GH_TOKEN": "secret"}
        environment |= {"REPOSITORY": "them/theirs", "PULL_REQUEST": "3"}
        for _ in range(2):
            subprocess.run(
                [sys.executable, CI / "github" / "comment.py", body], env=environment, check=True, timeout=60
            )
            comments = [*comments, *([OURS] if OURS not in comments else [])]
    written = [request for request in asked if request[0] != "GET"]
    assert written[0][:2] == expected
    assert written[1][:2] == ("PATCH", "/repos/them/theirs/issues/comments/17"), "the next push adds no other comment"
    assert all(json.loads(request[2]) == {"body": MARKED} for request in written)


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
    with forge(lambda command, _: notes if command == "GET" else {}, ("PRIVATE-TOKEN", "secret")) as (url, asked):
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
    commits = {"BASE_COMMIT": "main", "HEAD_COMMIT": "topic", "PAGE_URL": "https://example.org/x.html"}
    assert analyze(tmp_path, TRACE=TRACE, BASE=TRACE, FAIL_ON_REGRESSION="3%", **commits) == 0
    text = (tmp_path / "traceanalyzer.md").read_text()
    assert "(`main`)" in text
    assert "(`topic`)" in text
    assert "](https://example.org/x.html)" in text
    assert (tmp_path / "traceanalyzer.md").read_text().startswith("<!-- traceanalyzer diff")
