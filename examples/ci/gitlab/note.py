"""Posts a file as a note of the merge request, or updates the one that an earlier job posted.

    python note.py FILE

Reads what GitLab sets in a job of a merge request, and TRACEANALYZER_TOKEN, a token with the scope api.
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


def call(method: str, url: str, body: str | None = None) -> Any:
    """One request; the answer is JSON.

    Raises:
        urllib.error.HTTPError: GitLab refuses; its message says why.
    """
    data = None if body is None else json.dumps({"body": body}).encode()
    headers = {"PRIVATE-TOKEN": os.environ["TRACEANALYZER_TOKEN"], "Content-Type": "application/json"}
    with urlopen(Request(url, data, headers, method=method), timeout=60) as answer:  # noqa: S310 - GitLab's own address
        return json.load(answer)


def main() -> None:
    """Find the note of an earlier job among the latest hundred, and write."""
    body = Path(sys.argv[1]).read_text("utf-8")
    merge_request = f"{os.environ['CI_PROJECT_ID']}/merge_requests/{os.environ['CI_MERGE_REQUEST_IID']}"
    notes = f"{os.environ['CI_API_V4_URL']}/projects/{merge_request}/notes"
    found = call("GET", f"{notes}?per_page=100&sort=desc&order_by=created_at")
    mine = [note["id"] for note in found if note["body"].startswith(MARK)]
    if mine:
        call("PUT", f"{notes}/{mine[0]}", body)
    else:
        call("POST", notes, body)


if __name__ == "__main__":
    main()
