"""Whatever reads a URL: its user, password, query and fragment are in no output, no message and no name of a file."""

from __future__ import annotations

import gzip
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import TRAINING, Run, assert_one_line, call, spawn
from traceanalyzer.inputs.opening import load_report

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

SECRETS = ("planted-user", "planted-pw", "planted-query", "planted%2Fquery", "planted/query", "planted-fragment")
QUERIES = (
    "?token=planted-query",
    "?X-Amz-Credential=planted-user&X-Amz-Signature=planted-query",
    "?sv=2026-01-01&sig=planted%2Fquery",
    "?Signature=planted-query&Key-Pair-Id=planted-user#planted-fragment",
)
FORMATS = ("x.html", "x.json", "x.md", "x.sarif", "x.xlsx", "x.txt", "x.speedscope.json", "x.collapsed")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass

    def do_HEAD(self) -> None:
        if "forbidden" in self.path:
            self.send_error(403)
        else:
            super().do_HEAD()

    def do_GET(self) -> None:
        if "forbidden" in self.path:
            self.send_error(403)
        else:
            super().do_GET()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of some traces, with its credentials as in a URL."""
    served = tmp_path_factory.mktemp("served")
    trace = TRAINING.read_bytes()
    for name in ("t.json.gz", "rank0.json.gz", "other.json.gz"):
        (served / name).write_bytes(trace)
    (served / "damaged.json.gz").write_bytes(gzip.compress(b'{"nothing": [1, 2'))
    (served / "empty.json").write_bytes(b"")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(served))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"planted-user:planted-pw@127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def assert_nothing_planted(folder: Path, run: Run) -> None:
    """In what was printed, and in names and contents of files, packed ones included."""
    found = [run.stdout, run.stderr]
    for file in folder.rglob("*"):
        found.append(str(file.relative_to(folder)).encode())
        if file.is_file():
            data = file.read_bytes()
            found.append(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as packed:
                    found += [packed.read(name) for name in packed.namelist()]
    for secret in SECRETS:
        assert not [data[:200] for data in found if secret.encode() in data], secret


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("chain", ["", "simplecache::", "filecache::"])
def test_a_report_in_all_formats(host: str, tmp_path: Path, query: str, chain: str) -> None:
    outputs = [part for name in FORMATS for part in ("-o", name)]
    url = f"{chain}http://{host}/t.json.gz{query}"
    done = call("report", url, *outputs, "--card", "card.svg", "--perfetto", "p", "--assets", "a")
    assert done.code == 0, done.err
    assert len(list(tmp_path.iterdir())) == len(FORMATS) + 3
    assert load_report(tmp_path / "x.json").source.name == "t.json.gz"
    assert_nothing_planted(tmp_path, done)


def test_on_the_screen_as_csv_and_as_a_page_named_after_it(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://{host}/t.json.gz{QUERIES[0]}"
    monkeypatch.setenv("BROWSER", "true")
    for arguments in ((), ("-o", "c", "--format", "csv"), ("--open",)):
        done = call("report", url, *arguments)
        assert done.code == 0, done.err
        assert_nothing_planted(tmp_path, done)
    assert (tmp_path / "t.html").exists()


def test_a_batch_and_running_it_again_with_another_signature(host: str, tmp_path: Path) -> None:
    names = ("t.json.gz", "rank0.json.gz", "damaged.json.gz", "empty.json")
    for query in QUERIES[:2]:
        urls = [f"http://{host}/{name}{query}" for name in names]
        done = spawn("batch", *urls, "-o", "out", "--format", "json", "--history", "h.csv", cwd=tmp_path)
        again = "" if query == QUERIES[0] else " (2 of them before)"
        assert f"2 analyzed{again}, 2 failed" in done.err
        assert_nothing_planted(tmp_path, done)
    assert (tmp_path / "out" / "t.json.gz.report.json").exists()


def test_files_that_differ_in_their_query_are_two(host: str, tmp_path: Path) -> None:
    urls = [f"http://{host}/t.json.gz?run={run}" for run in ("planted-query", "planted/query")]
    done = spawn("batch", *urls, "-o", "out", "--format", "json", cwd=tmp_path)
    assert "2 analyzed" in done.err
    assert {file.name for file in (tmp_path / "out").glob("t*")} == {
        "t.json.gz.report.json",
        "t-2.json.gz.report.json",
    }
    assert_nothing_planted(tmp_path, done)


@pytest.mark.parametrize(
    "arguments",
    [
        ("diff", "{t}", "{other}", "-o", "d.json", "-o", "d.html", "-o", "d.md"),
        ("diff", "{t}#run-3", "{other}"),
        ("whatif", "{t}", "-o", "w.json", "-o", "w.html"),
        ("whatif", "{t}", "{other}"),
        ("ranks", "{t}", "{rank0}", "-o", "r.json", "-o", "r.html"),
        ("ranks", "{none}", "{rank0}"),
        ("render", "{t}"),
        ("render", "{none}"),
        ("trim", "{t}", "-o", "cut.json", "--time", "0:10"),
        ("trim", "{t}", "-o", "{t}", "--time", "0:10"),
        ("anonymize", "{t}", "-o", "hashed.json.gz"),
        ("anonymize", "{none}", "-o", "hashed.json.gz"),
        ("report", "{t}", "{other}"),
        ("report", "{none}"),
        ("report", "{t}", "--compile-log", "{t}"),
        ("report", "{t}", "--compile-log", "{none}"),
        ("report", "{t}", "--graph-capture", "{none}"),
        ("report", "{t}", "--graph-capture", "{other}"),
        ("report", "{t}", "-o", "{t}.html"),
        ("report", "{t}", "-o", "x.md", "--assets", "{t}"),
        ("report", "{t}", "--perfetto", "{t}"),
        ("report", "{t}", "--card", "{t}.svg"),
        ("report", "{t}", "--steps", "{t}"),
        ("report", "{t}", "--lang", "{t}"),
        ("report", "{t}", "--select", "{t}"),
        ("report", "{damaged}"),
        ("report", "{empty}"),
        ("report", "{forbidden}"),
        ("report", "{folder}"),
        ("batch", "{folder}", "-o", "out"),
        ("batch", "{none}", "-o", "out"),
        ("batch", "{t}", "-o", "{t}"),
        ("batch", "{t}", "-o", "out", "--cluster", "{t}"),
        ("batch", "{t}", "-o", "out", "--history", "{t}.csv"),
        ("{t}",),
        ("reprot", "{t}"),
        ("rules", "{t}"),
    ],
    ids=" ".join,
)
def test_every_command_and_its_errors(host: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    signed, with_fragment = (_called(host, arguments, query) for query in QUERIES[-2:])
    for run in (signed, with_fragment):
        assert_nothing_planted(tmp_path, run)
    assert signed.code != 2 or len(signed.err.splitlines()) == 1, signed.err
    assert with_fragment.code != 2 or len(with_fragment.err.splitlines()) == 1, with_fragment.err


def _called(host: str, arguments: tuple[str, ...], query: str) -> Run:
    urls = {name: f"http://{host}/{name}.json.gz{query}" for name in ("t", "other", "rank0", "none", "damaged")}
    urls |= {"empty": f"http://{host}/empty.json{query}", "forbidden": f"http://{host}/forbidden.json{query}"}
    urls |= {"folder": f"http://{host}/{query}"}
    return call(*(argument.format(**urls) for argument in arguments))


UNREACHABLE = {
    "http://planted-user:planted-pw@127.0.0.1:1/t.json?token=planted-query": "Connection refused; check the address",
    "http://planted-user:planted-pw@[::1]:1/t.json?token=planted-query": "; check the address",
    "ftp://planted-user:planted-pw@127.0.0.1:1/t.json": "Connection refused; check the address",
    "http://planted-user:planted-pw@[::1": "Invalid IPv6 URL",
    "simplecache::http://planted-user:planted-pw@127.0.0.1:1/t.json?a=planted-query": "; check the address",
    "s3://planted-user:planted-pw@bucket/t.json?sig=planted%2Fquery": "bucket",
    "nowhere://planted-user:planted-pw@bucket/t.json?sig=planted%2Fquery": "Protocol not known",
    "memory://planted-user:planted-pw@bucket/t.json?sig=planted%2Fquery": "no such file or folder",
}


@pytest.mark.parametrize("command", ["report", "batch", "ranks", "diff", "trim"])
@pytest.mark.parametrize("url", UNREACHABLE)
def test_one_true_line_for_what_cannot_be_reached(url: str, command: str, tmp_path: Path) -> None:
    rest = {"batch": ("-o", "out"), "diff": (TRAINING,), "trim": ("-o", "cut.json", "--steps", "1:2")}
    done = call(command, url, *rest.get(command, ()))
    line = assert_one_line(done)
    assert UNREACHABLE[url] in line.replace("no such file\n", "no such file or folder\n")
    assert "standard output" not in line
    assert_nothing_planted(tmp_path, done)


@pytest.mark.parametrize("url", list(UNREACHABLE)[:6])
def test_one_true_line_for_a_folder_of_reports_that_cannot_be_reached(url: str, tmp_path: Path) -> None:
    done = call("batch", TRAINING, "-o", url)
    assert done.code in {1, 2}
    assert "standard output" not in done.err
    assert len(done.err.splitlines()) == 1
    assert_nothing_planted(tmp_path, done)


@pytest.mark.parametrize("url", ["http://u:p@h/x.html", "s3://bucket/x.html", "ftp://127.0.0.1/x.html", "http://[::1"])
def test_outputs_on_this_machine_are_no_urls(url: str) -> None:
    line = assert_one_line(call("report", TRAINING, "-o", url))
    assert "is a URL" in line
    assert "u:p" not in line


def test_a_server_that_refuses_says_so(host: str) -> None:
    line = assert_one_line(call("report", f"http://{host}/forbidden.json?token=planted-query"))
    assert "the server answers 403 Forbidden; check user, password or signature" in line


def test_settings_that_name_a_url(tmp_path: Path) -> None:
    (tmp_path / "traceanalyzer.toml").write_text('language = "http://planted-user:planted-pw@h/?a=planted-query"')
    assert_nothing_planted(tmp_path / "none", call("report", TRAINING))
