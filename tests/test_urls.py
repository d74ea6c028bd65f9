"""What is a URL, and how one is shown: without user, password, query and fragment, wherever it stands."""

from __future__ import annotations

import pytest

from traceanalyzer.errors import UsageError
from traceanalyzer.urls import has_wildcard, is_url, path_of, shown, was_url, without_secrets, without_secrets_of

SHOWN = {
    "http://user:PW@host:8/a/t.json?token=SECRET": "http://host:8/a/t.json",
    "https://bucket.s3.amazonaws.com/t.json?X-Amz-Credential=A%2F&X-Amz-Signature=S": "https://bucket.s3.amazonaws.com/t.json",
    "https://acct.blob.core.windows.net/c/t.json?sv=1&sig=a%2Fb/c": "https://acct.blob.core.windows.net/c/t.json",
    "https://storage.googleapis.com/b/t.json?Signature=S#FRAGMENT": "https://storage.googleapis.com/b/t.json",
    "http://user@host/t.json#FRAGMENT": "http://host/t.json",
    "http://host?token=SECRET": "http://host",
    "http://user:p/w@host/t.json": "http://host/t.json",
    "http://user:a::b@host/t.json": "http://host/t.json",
    "http://user:a b@host/t.json": "http://host/t.json",
    "http://host/a@b.json": "http://host/a@b.json",
    "http://[::1]:80/t.json?a=b": "http://[::1]:80/t.json",
    "simplecache::http://user:PW@host/t.json?token=SECRET": "simplecache::http://host/t.json",
    "filecache::s3://KEY:PW@bucket/t.json": "filecache::s3://bucket/t.json",
    "zip://t.json::http://user:PW@host/a.zip?sig=S": "zip://t.json::http://host/a.zip",
    "s3://KEY:PW@bucket/t.json?versionId=V": "s3://bucket/t.json",
    "gs://KEY:PW@bucket/t.json#token=V": "gs://bucket/t.json",
    "s3://bucket/rank?.json": "s3://bucket/rank?.json",
    "s3://bucket/run#1/t.json": "s3://bucket/run#1/t.json",
    "abfs://container@account.dfs.core.windows.net/t.json": "abfs://container@account.dfs.core.windows.net/t.json",
    "abfs://user:PW@account.dfs.core.windows.net/t.json": "abfs://account.dfs.core.windows.net/t.json",
    "ftp://user:PW@host/t.json": "ftp://host/t.json",
    "file:///tmp/t.json?token=SECRET": "file:///tmp/t.json",
    "/tmp/a?b=c#d": "/tmp/a?b=c#d",
    "notes.md#run-1": "notes.md#run-1",
    "C:\\traces\\a@b": "C:\\traces\\a@b",
}


@pytest.mark.parametrize(("url", "expected"), SHOWN.items())
def test_shown(url: str, expected: str) -> None:
    assert shown(url) == expected
    assert shown(expected) == expected


@pytest.mark.parametrize(("url", "expected"), [(url, text) for url, text in SHOWN.items() if " " not in url])
def test_in_a_sentence(url: str, expected: str) -> None:
    assert without_secrets(f"cannot open URL('{url}'): no") == f"cannot open URL('{expected}'): no"
    assert str(UsageError(f"{url}: no")) == f"{expected}: no"


def test_of_a_library_that_writes_parts() -> None:
    url = "s3://KEY:P%2FW@bucket/t.json?sig=SEC%2FRET"
    told = without_secrets_of(url, 'no bucket "KEY:P%2FW@bucket", P/W, KEY, t.json?sig=SEC%2FRET, SEC/RET')
    assert not [part for part in ("KEY", "P/W", "P%2FW", "SEC", "RET") if part in told]
    assert "t.json" in told


def test_a_url_that_went_through_a_path() -> None:
    assert without_secrets("no folder http:/user:PW@host/x?a=b") == "no folder http://host/x"
    assert was_url("http:/host/x.html")
    assert was_url("memory://x.html")
    assert not was_url("reports/x.html")
    assert not was_url("C:/x.html")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/t.json?token=*[", False),
        ("http://[::1]/t.json", False),
        ("http://h/*.json", True),
        ("s3://b/rank?.json", True),
        ("s3://b/t.json", False),
        ("rank?.json", True),
    ],
)
def test_wildcards(url: str, expected: bool) -> None:
    assert has_wildcard(url) is expected


def test_is_url() -> None:
    assert is_url("simplecache::http://h/t.json")
    assert is_url("s3://b")
    assert not is_url("file:///tmp")
    assert not is_url("/tmp/x")
    assert path_of("simplecache::http://u:p@h/a/t.json?x=1") == "h/a/t.json"
