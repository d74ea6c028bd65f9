"""Posts a file as a comment of a pull request, or updates the one that an earlier run posted.

    python comment.py FILE

GH_TOKEN        a token that may write comments of pull requests
REPOSITORY      owner/name
PULL_REQUEST    its number
GITHUB_API_URL  address of the interface, which GitHub sets in every job
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

MARK = "<!-- traceanalyzer "
"""How every Markdown file of traceanalyzer begins."""
PAGE = 100
"""Most comments in one answer."""


def call(method: str, path: str, body: str | None = None) -> Any:
    """One request; the answer is JSON.

    Raises:
        urllib.error.HTTPError: GitHub refuses; its message says why.
    """
    url = f"{os.environ.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{os.environ['REPOSITORY']}/issues/{path}"
    data = None if body is None else json.dumps({"body": body}).encode()
    headers = {"Authorization": f"Bearer {os.environ['GH_TOKEN']}", "Accept": "application/vnd.github+json"}
    with urlopen(Request(url, data, headers, method=method), timeout=60) as answer:  # noqa: S310 - GitHub's own address
        return json.load(answer)


def earlier(comments: str) -> int | None:
    """The comment that an earlier run posted; None if there is none."""
    page = 1
    while found := call("GET", f"{comments}?per_page={PAGE}&page={page}"):
        mine = [each["id"] for each in found if (each["body"] or "").startswith(MARK)]
        if mine or len(found) < PAGE:
            return mine[0] if mine else None
        page += 1
    return None


def main() -> None:
    """Find the comment of an earlier run, and write."""
    body = Path(sys.argv[1]).read_text("utf-8")
    comments = f"{os.environ['PULL_REQUEST']}/comments"
    mine = earlier(comments)
    if mine is None:
        call("POST", comments, body)
    else:
        call("PATCH", f"comments/{mine}", body)


if __name__ == "__main__":
    main()
